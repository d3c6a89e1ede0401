"""Published numbers and curves in a file: one's own, those of the list, and what is wrong with them."""

import pytest

from mrc_lab.experiments.files import FileError, load_text
from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.files.published import cases_by_size

HEAD = """\
fabric: {hosts: 4, planes: 2, t0: 2, t1: 2, rate: 100G}
workload: {kind: write_bw, pairs: [h1>h3, h2>h4], message: 64K}
duration: 100us
"""
SIZES = """\
fabric: {hosts: 4, t0: 2, t1: 2}
workload: {kind: collective, operation: all_reduce, bytes: 1M}
duration: 1ms
variants:
  - {name: mrc-a, workload: {bytes: 1M}}
  - {name: mrc-b, workload: {bytes: 2M}}
  - {name: roce-a, workload: {bytes: 4M}, transport: {type: rc}}
"""


def published(text, head=HEAD):
    return load_text(f"{head}published:\n  {text}\n").published


def numbers(text, head=HEAD):
    (found,) = published(f"numbers: [{text}]", head).numbers
    return found.numbers


def curve(text, head=HEAD):
    (found,) = published(f"curves: [{text}]", head).curves
    return found.curve


def test_published_values_can_be_given_in_the_file():
    (one,) = numbers("{title: total, metric: throughput, value: 131G, certainty: C, bound: at_least}")
    assert (one.what, one.value, one.unit, one.certainty, one.bound) == ("total", 131e9, "rate", "C", "at_least")


def test_values_per_flow_and_per_size_are_read():
    found = numbers("{title: flow, metric: throughput, flows: [50G, 60G]}")
    assert [(one.place, one.value) for one in found] == [(1, 50e9), (2, 60e9)]
    found = numbers("{metric: busbw, sizes: [1M, 2M], values: [5G, 6G], of: {variant: 'mrc-*'}}", SIZES)
    assert [(one.size, one.value) for one in found] == [(1 << 20, 5e9), (2 << 20, 6e9)]


def test_an_entry_of_the_list_supplies_its_numbers():
    found = numbers("{id: fig18a.flow, metric: throughput}")
    assert len(found) == 7
    assert found[0].value == 50.9e9


def test_sizes_match_the_variants_and_steps_have_one_size():
    cases = load_text(SIZES).cases
    assert {size: case.name for size, case in cases_by_size(cases, Selection(variant="mrc-*"), None).items()} == {
        1 << 20: "mrc-a",
        2 << 20: "mrc-b",
    }
    assert set(cases_by_size(cases, Selection(), 64)) == {16 << 20, 32 << 20, 64 << 20}  # 4 ranks here


def test_curves_over_time_and_size_are_read():
    found = curve("{metric: throughput, points: [[0s, 10G], [1.5s, 20G]], certainty: D}")
    assert found.points == ((0, 10e9), (1.5e9, 20e9))
    found = curve("{metric: busbw, over: size, points: [[1M, 10G], [2M, 20G]], of: {variant: 'mrc-*'}}", SIZES)
    assert found.points == ((1 << 20, 10e9), (2 << 20, 20e9))
    assert curve("{metric: throughput, id: fig11}").points[0][1] > 1e12


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("numbers: [{metric: throughput}]", "needs one of id, value, flows, or sizes"),
        ("numbers: [{metric: throughput, value: 1G, id: fig11.worst}]", "needs one of id"),
        ("numbers: [{metric: throughput, id: fig11.wurst}]", "there is no published number fig11.wurst; did you mean"),
        ("numbers: [{metric: outage, id: fig11.worst}]", "is a rate, but what it is compared with is a time"),
        ("numbers: [{metric: throughput, sizes: [1M, 2M], values: [1G]}]", "there are 2 sizes and 1 values"),
        ("numbers: [{metric: outage, flows: [1us]}]", "values of flows are compared with throughput"),
        ("numbers: [{metric: throughput, value: 1us}]", "has the unit 'us'"),
        ("numbers: [{metric: throughput, value: 1G, of: {variant: x}}]", "there is no variant x"),
        ("curves: [{metric: throughput}]", "needs either id or points"),
        ("curves: [{metric: throughput, id: fig99}]", "there is no published curve fig99"),
        ("curves: [{metric: throughput, points: [[0s, 1G, 2G]]}]", "must be a pair, but has 3"),
        ("curves: [{metric: throughput, points: [[1s, 1G], [0s, 1G]]}]", "in the order of their times"),
        ("curves: [{metric: throughput, points: [[1, 1G]]}]", "has no unit"),
        ("curves: [{metric: fairness, points: [[1s, 1]]}]", "fairness cannot be drawn over time"),
        ("curves: [{metric: throughput, id: fig11, moments: [[2s, 1us], [1s, 2us]]}]", "moments must increase"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_line(text, problem):
    with pytest.raises(FileError, match="line 5") as caught:
        published(text)
    assert problem in str(caught.value)
