"""The ranking from the table of a sweep: shares of the ideal, what is unfinished, and which rows come first."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from mrc_lab.rank.comparison import Comparison, case_of, load
from mrc_lab.rank.ideal import ideal
from mrc_lab.rank.ranking import Row, ranking
from mrc_lab.rank.table import markdown, tidy

SOME = load().only(["mrc", "uet", "incast-8", "healthy", "dark-plane"])
MS = 1_000_000
LINE = 100e9  # bytes a second of a host


def run(experiment: str = "incast-8.healthy", end: int = MS, p100: float | None = 100.0, **more: Any) -> dict[str, Any]:
    return {
        "experiment": experiment, "end_ns": end, "report.throughput": 0.0, "report.p99": 90.0, "report.p100": p100,
        "report.stall": 5.0, "report.retransmitted": 3.0, "report.failed": 0.0, **more,
    }  # fmt: skip


def rows(comparison: Comparison = SOME, **runs: list[dict[str, Any]]) -> list[Row]:
    return ranking(comparison, runs)


def ideal_time(workload: str) -> float:
    (transport,) = load().only(["mrc"]).transports
    return ideal(case_of(load().experiments(transport)[workload, "healthy"])).time


@pytest.mark.parametrize(
    ("workload", "size"),
    [
        ("permutation", 8 << 20),
        ("incast-8", 8 * (2 << 20)),
        ("incast-63", 63 * (256 << 10)),
        ("all-to-all", (4 << 20) * 63 // 64),
        ("all-reduce", 2 * (4 << 20) * 63 // 64),
    ],
)
def test_the_ideal_is_what_the_busiest_host_needs_for_its_bytes(workload: str, size: int) -> None:
    """Headers take 2 to 6 % of the line, and the round trip is below 20 us."""
    least = size / LINE * 1e9
    assert 1.02 * least < ideal_time(workload) < 1.06 * least + 20_000


def test_a_training_step_computes_and_then_reduces_its_last_gradients() -> None:
    rest = 2 * (1 << 20) * 63 // 64 / LINE * 1e9
    assert 2 * (100_000 + 1.02 * rest) < ideal_time("training") < 2 * (100_000 + 1.06 * rest + 20_000)


def test_the_share_is_that_of_the_ideal_time() -> None:
    (row,) = rows(mrc=[run(end=2 * MS)])
    result = row.results["mrc"]
    assert result.share.mean == pytest.approx(ideal_time("incast-8") / (2 * MS))
    assert (result.p99, result.p100, result.stall, result.unfinished) == (90.0, 100.0, 5.0, 0)


def test_what_a_condition_takes_from_the_network_is_no_fault_of_the_transport() -> None:
    (row,) = rows(mrc=[run("incast-8.dark-plane", end=2 * MS)])
    assert row.results["mrc"].share.mean == pytest.approx(ideal_time("incast-8") / (2 * MS) / 0.875)


@pytest.mark.parametrize("change", [{"p100": None}, {"end": 20 * MS}])
def test_an_unfinished_run_counts_by_what_it_delivered_and_has_no_completion_time(change: dict[str, Any]) -> None:
    late = run(**change, **{"report.throughput": 0.1 * 8 * LINE})
    (row,) = rows(mrc=[run(), late])
    result = row.results["mrc"]
    assert (result.p99, result.p100, result.unfinished) == (None, None, 1)
    assert result.share.count == 2
    assert result.share.mean < (ideal_time("incast-8") / MS + 0.12) / 2
    assert "*1 of 2*" in markdown(SOME, [row], [1, 2])


def test_rows_where_mrc_is_behind_come_first() -> None:
    found = rows(
        mrc=[run(end=MS), run("incast-8.dark-plane", end=2 * MS)],
        uet=[run(end=MS + 1000), run("incast-8.dark-plane", end=MS)],
    )
    assert [(row.condition, row.behind, row.best) for row in found] == [
        ("dark-plane", True, ("uet",)),
        ("healthy", False, ("mrc", "uet")),
    ]
    text = markdown(SOME, found, [1])
    assert text.startswith("MRC is behind in 1 of 2 rows")
    assert text.index("dark-plane") < text.index("healthy")


def test_wide_intervals_excuse_nobody() -> None:
    (row,) = rows(mrc=[run(end=MS), run(end=9 * MS)], uet=[run(end=MS), run(end=MS)])
    assert row.behind


def test_the_tidy_table_has_a_row_for_each_transport() -> None:
    found = rows(mrc=[run()], uet=[run(p100=None)])
    read = list(csv.DictReader(io.StringIO(tidy(found))))
    assert [(one["transport"], one["p100_ns"]) for one in read] == [("mrc", "100.0"), ("uet", "")]


def test_nothing_done_gives_no_row() -> None:
    assert rows(mrc=[]) == []
    assert markdown(SOME, [], [1]).startswith("MRC is behind in 0 of 0 rows")
