"""`sizes`: one file, a run for each message size, and metrics as functions of the size."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.experiments.files import FileError, load_text
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.sweeps.grid import make_grid

HEAD = "fabric: {hosts: 4, planes: 2, t0: 2, t1: 2}\nduration: 200us\nmeasure: {warmup: 20us}\n"
WRITES = f"{HEAD}workload: {{kind: write_bw, pairs: h1>h3, outstanding: 1}}\nsizes: [4K, 65536, 1000]\n"
VARIANTS = """\
variants:
  - {name: mrc}
  - {name: ring, workload: {kind: collective, operation: all_reduce, bytes: 8K}}
"""


def test_every_size_is_a_case_of_every_variant():
    assert [(case.name, case.point, case.workload.message) for case in load_text(WRITES).cases] == [
        ("4K", "4K", 4096), ("64K", "64K", 65536), ("1000", "1000", 1000),
    ]  # fmt: skip
    cases = load_text(WRITES.replace("1000", "2M") + VARIANTS).cases
    assert [case.name for case in cases] == ["mrc.4K", "mrc.64K", "mrc.2M", "ring.4K", "ring.64K", "ring.2M"]
    assert [case.workload.bytes for case in cases[3:]] == [4 << 10, 64 << 10, 2 << 20]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("65536", "4096", "line 5: sizes[1]: the size 4K is given twice"),
        ("65536", "64X", "line 5: sizes[1]: must be a size such as 64K or 1M, but '64X' has the unit 'X'"),
        ("65536", "0", "line 5: sizes[1]: is 0, but must be"),
        ("65536", "2G", "line 5: sizes[1]: is 2G, but must be 1 B to 1 GiB"),
        ("sizes", "axis: [{name: a}]\nsizes", "line 6: sizes: is an axis too: give axis or sizes"),
        ("kind: write_bw, pairs: h1>h3, outstanding: 1", "kind: training, steps: 1, gradients: 4K", "training has no"),
        ("workload: {kind", "workloads: [{name: a, kind", "sizes are of one workload: with several, give axis"),
    ],
)
def test_invalid_sizes_are_refused(old, new, problem):
    text = WRITES.replace(old, new, 1)
    if "workloads" in new:
        text = text.replace("outstanding: 1}", "outstanding: 1}]")
    with pytest.raises(FileError) as found:
        load_text(text)
    assert problem in str(found.value)


def test_a_sweep_cannot_set_values_given_by_sizes(tmp_path: Path):
    file = tmp_path / "sizes.yaml"
    file.write_text(WRITES)
    with pytest.raises(FileError, match=r"line 5: sizes: sets workload\.message itself"):
        make_grid([file], ["workload.message=4K,8K"], [1])
    assert len(make_grid([file], ["workload.outstanding=1,2"], [1]).runs) == 2


def test_a_result_has_every_metric_as_a_function_of_the_size(tmp_path: Path):
    asked = "report: [{metric: throughput}, {metric: completion_time, of: {statistic: min}}]\n"
    summary = run_and_report(load_text(WRITES + asked, name="sizes"), "sim", 1, tmp_path).summary
    throughput, time = summary["reported"]
    assert throughput["sizes"] == {"4K": 4096, "64K": 65536, "1000": 1000}
    curve = sorted((size, throughput["values"][case]) for case, size in throughput["sizes"].items())
    assert [rate for _, rate in curve] == sorted(rate for _, rate in curve), "one write at a time: larger is faster"
    assert time["values"]["1000"] < time["values"]["4K"] < time["values"]["64K"]
    assert {name: case["size_bytes"] for name, case in summary["cases"].items()} == throughput["sizes"]
