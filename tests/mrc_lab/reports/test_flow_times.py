"""Completion times and slowdowns of flows, also of runs that ended before some flows did."""

import math
from dataclasses import replace

import pytest

from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.files.size_range import SizeRange
from mrc_lab.experiments.running.recording import FlowRecord, TenantRecord
from mrc_lab.reports import flow_plots, flow_times
from mrc_lab.reports.metrics import compute
from tests.mrc_lab.reports.recordings import experiment, recording

TENANTS = (TenantRecord("", 0, None, 0, (), 0, 0),)


def flow(number, took, size=1000, began=20_000, ideal=1000):
    return FlowRecord(number % 2, number, size, began, None if took is None else began + took, ideal, 0)


def figure(metric, records, **selection):
    made = recording(flow_records=tuple(records), tenants=TENANTS)
    return compute(metric, experiment().cases[0], made, Selection(**selection))


TEN = [flow(n, 1000 * (n + 1)) for n in range(10)]  # 1 to 10 us


def test_statistics_of_flows_that_have_ended():
    assert figure("fct", TEN) == 5500
    assert figure("fct", TEN, statistic="mean") == 5500
    assert figure("fct", TEN, statistic="max") == 10_000
    assert figure("slowdown", TEN, statistic="min") == 1
    assert figure("slowdown", TEN, statistic="p90") == pytest.approx(9.1)
    thousand = [flow(n, n + 1) for n in range(1001)]
    assert figure("fct", thousand, statistic="p999") == pytest.approx(1000)
    assert figure("fct", thousand, statistic="p99") == pytest.approx(991)


def test_slowdown_is_of_each_flow_and_its_own_ideal():
    records = [flow(0, 3000, ideal=1000), flow(1, 8000, ideal=8000)]
    assert figure("slowdown", records, statistic="mean") == 2


def test_flows_are_selected_by_name_size_and_beginning():
    records = [flow(0, 1000, size=100), flow(1, 2000, size=1024), flow(2, 3000, size=1025), flow(3, 4000, began=50_000)]
    assert figure("fct", records, flows="h1>*", statistic="max") == 3000
    assert figure("fct", records, sizes=SizeRange(0, 1024), statistic="mean") == pytest.approx(7000 / 3)
    assert figure("fct", records, sizes=SizeRange(1024, None)) == 3000
    assert figure("fct", records, start=40_000) == 4000
    assert figure("fct", records, end=40_000, statistic="max") == 3000
    assert figure("fct", records, sizes=SizeRange(1 << 20, None)) is None
    assert figure("fct", []) is None


def test_the_warm_up_does_not_count():
    assert figure("fct", [flow(0, 1000, began=5_000), flow(1, 3000)]) == 3000


def test_what_depends_on_flows_that_have_not_ended_is_not_given():
    """Ten flows, of which the last has lasted 80 us when the run ends at 100: longer than any other."""
    records = [*TEN[:9], flow(9, None)]
    assert figure("fct", records, statistic="mean") is None
    assert figure("fct", records, statistic="max") is None
    assert figure("fct", records, statistic="p99") is None
    assert figure("fct", records, statistic="median") == 5500, "the fifth and the sixth, whatever the last takes"
    assert figure("fct", records, statistic="min") == 1000
    assert figure("slowdown", records, statistic="mean") is None


def test_a_flow_that_began_late_may_still_be_a_short_one():
    records = [*TEN[:9], flow(9, None, began=99_500)]  # it has lasted 0.5 us: anything from there on
    assert figure("fct", records, statistic="median") is None
    assert figure("fct", records, statistic="min") is None
    assert figure("fct", records, statistic="median", end=90_000) == 5000, "of the nine that began before"


def test_unfinished_flows_are_counted_and_said():
    made = recording(flow_records=(*TEN[:9], flow(9, None)), tenants=TENANTS)
    (sentence,) = flow_times.flow_warnings(made)
    assert sentence.startswith("1 of 10 flows had not ended when the run did")
    assert list(flow_times.flow_warnings(recording(flow_records=tuple(TEN), tenants=TENANTS))) == []
    summary = flow_times.summary(made, made.flow_records)["flow_completion"]
    assert (summary["flows"], summary["unfinished"], summary["bytes"]) == (10, 1, 10_000)
    assert summary["fct_ns"] == {"mean": None, "median": 5500, "p99": None, "p999": None}
    assert flow_times.summary(made, ()) == {}


def test_emulation_says_what_its_slowdowns_are_not():
    made = recording(flow_records=tuple(TEN), tenants=TENANTS, rate_scale=0.001, time_scale=1000.0)
    assert any("say little in emulation" in sentence for sentence in flow_times.flow_warnings(made))


def test_the_table_has_a_row_for_each_size_and_for_all():
    records = [flow(0, 1000, size=10 << 10), flow(1, 2000, size=(10 << 10) + 1), flow(2, None, size=50 << 20)]
    table = flow_times.table(records, 100_000)
    assert [row[:3] for row in table["rows"]] == [
        ("up to 10K", "1", "0"),
        ("10K to 100K", "1", "0"),
        ("above 10M", "1", "1"),
        ("all", "3", "1"),
    ]
    assert table["rows"][0][3:] == ("1 us", "1 us", "1 us", "1", "1", "1", "1")
    assert table["rows"][2][3:] == ("-",) * 7
    assert all(len(row) == len(table["head"]) for row in table["rows"])
    assert flow_times.table([], 1) is None


def test_buckets_cover_every_size_once():
    for size in (1, 10 << 10, (10 << 10) + 1, 100 << 10, 1 << 20, 10 << 20, (10 << 20) + 1, 1 << 40):
        assert sum(size in sizes for sizes in flow_times.SIZE_BUCKETS) == 1


def test_plots_are_drawn_where_there_is_something():
    (case,) = experiment().cases
    records = tuple(flow(n, 1000 * (n + 1), size=1000 * 3**n) for n in range(10))
    made = recording(flow_records=records, tenants=TENANTS)
    alone = {"only": made}, {"only": case}
    assert flow_plots.distributions(*alone).startswith("<?xml") or "<svg" in flow_plots.distributions(*alone)
    assert "<svg" in flow_plots.by_size(*alone)
    nothing = {"only": recording()}, {"only": case}
    assert flow_plots.distributions(*nothing) == ""
    assert flow_plots.by_size(*nothing) == ""
    unended = {"only": replace(made, flow_records=tuple(flow(n, None) for n in range(10)))}, {"only": case}
    assert flow_plots.distributions(*unended) == ""
    both = {"a": made, "b": made}, {"a": case, "b": case}
    assert "<svg" in flow_plots.distributions(*both)
    assert "<svg" in flow_plots.by_size(*both)
    assert not math.isnan(records[0].slowdown)
