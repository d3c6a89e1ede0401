"""What random flows, and metrics of flows, may say together."""

import pytest

from mrc_lab.experiments.files import FileError
from tests.mrc_lab.experiments.running.cases import case_of

LOAD = "{kind: flows, load: 50%, sizes: 64K}"


def flows(keys, duration="10ms", **parts):
    return case_of(f"{{kind: flows, load: 50%, sizes: 64K, {keys}}}", duration, **parts)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("until: 11ms", "until is 11 ms, but the run lasts 10 ms"),
        ("start: 2ms, until: 1ms", "until is 1 ms, but the workload begins at 2 ms: no flow would begin"),
        ("hosts: h1", "needs two hosts or more, but has 1"),
        ("hosts: h9", "h9"),
        ("hosts: [h1, h2], pattern: inter_rack", "inter_rack needs hosts in two racks or more"),
        ("pattern: inter_rak", r"workload\.pattern: 'inter_rak' is unknown; did you mean inter_rack\?"),
        ("count: 200001", "count is 200,001, but 200,000 are the most"),
        ("count: 0", "count"),
        ("connections: pool", r"'pool' is unknown; known are own, shared"),
        ("total: 1M", r"workload\.total: unknown key"),
        ("message: 2000M", r"workload\.message"),
    ],
)
def test_what_cannot_be_is_refused(keys, message):
    with pytest.raises(FileError, match=message):
        flows(keys)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("{kind: flows, sizes: 64K}", "load is missing"),
        ("{kind: flows, load: 50%}", "sizes is missing"),
        ("{kind: flows, load: 50, sizes: 64K}", r"workload\.load: is 50, .*write 50%"),
        ("{kind: flows, load: 0, sizes: 64K}", r"workload\.load: is 0, but must be above"),
        ("{kind: flows, load: 50%, sizes: 1}", "flows would begin, but 200,000 are the most: give count"),
        ("{kind: flows, load: 0.001%, sizes: data_mining}", "flows are to be expected by 10 ms: give more load"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(load, message):
    with pytest.raises(FileError, match=message):
        case_of(load, "10ms")


def test_paths_are_not_coordinated_for_flows_that_come_and_go():
    with pytest.raises(FileError, match="not for other types, kinds flows and htsim"):
        case_of(LOAD, "10ms", transport="{ev_choice: coordinated, paths: 2}")


def reported(metric, workload=LOAD, **of):
    selection = ", ".join(f"{name}: {value}" for name, value in of.items())
    return case_of(workload, "10ms", report=f"[{{metric: {metric}, of: {{{selection}}}}}]")


@pytest.mark.parametrize("sizes", ["0..100K", "100K..10M", "10M..", "..1M", "0 .. 64K"])
def test_flows_are_selected_by_size(sizes):
    assert reported("slowdown", sizes=f'"{sizes}"', statistic="p999")


@pytest.mark.parametrize(
    ("metric", "of", "message"),
    [
        ("slowdown", {"sizes": "100K"}, "must be a range of sizes such as 0..100K or 10M.."),
        ("slowdown", {"sizes": ".."}, "must be a range of sizes"),
        ("slowdown", {"sizes": "1M..1K"}, "which has no size: the first must be less"),
        ("slowdown", {"sizes": "1X..1K"}, "size"),
        ("slowdown", {"sizes": "-5..1K"}, "no size is less than 0"),
        ("throughput", {"sizes": "0..1K"}, "sizes belongs to fct and slowdown"),
        ("fct", {"statistic": "p9999"}, "'p9999' is unknown"),
        ("fct", {"link": "h1@p0"}, "link belongs to"),
        ("slowdon", {}, "did you mean slowdown"),
    ],
)
def test_a_selection_that_does_not_fit_is_refused(metric, of, message):
    with pytest.raises(FileError, match=message):
        reported(metric, **of)


def test_flows_without_a_total_have_no_completion_time():
    endless = "{kind: write_bw, pairs: h1>h3}"
    with pytest.raises(FileError, match=r"fct is of flows that have a size: give .* or htsim, or give flows a total"):
        reported("fct", endless)
    assert reported("fct", "{kind: write_bw, pairs: h1>h3, total: 1M}")
    assert reported("fct", "{kind: write_bw, pairs: [{pair: h1>h3, total: 1M}]}")
    assert reported("slowdown", "{kind: incast, target: h1, sources: [h3], victim: {pair: h2>h4, total: 1M}}")
