"""The ranking from the table of a sweep: shares of the ideal, what is unfinished, and which rows come first."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from mrc_lab.rank.comparison import Comparison, case_of, load
from mrc_lab.rank.ideal import Capacity, ideal
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


WHOLE = Capacity()


def ideal_time(workload: str, capacity: Capacity = WHOLE, condition: str = "healthy") -> float:
    (transport,) = load().only(["mrc"]).transports
    return ideal(case_of(load().experiments(transport)[workload, condition]), capacity).time


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


def test_what_stands_beside_is_shown_and_not_ranked() -> None:
    comparison = load().only(["mrc", "uet", "mrc-1-plane", "incast-8", "healthy"])
    (row,) = rows(comparison, **{"mrc": [run(end=3 * MS)], "uet": [run(end=4 * MS)], "mrc-1-plane": [run(end=2 * MS)]})
    assert (row.best, row.behind) == (("mrc",), False)
    assert list(row.results) == ["mrc", "uet", "mrc-1-plane"]
    text = markdown(comparison, [row], [1])
    assert "MRC is behind in 0 of 1 rows" in text
    share = row.results["mrc-1-plane"].share.mean
    assert f" {share:.3f} |" in text
    assert f"**{share:.3f}**" not in text


def test_a_row_of_what_is_not_ranked_has_no_best() -> None:
    comparison = load().only(["mrc-1-plane", "incast-8", "healthy"])
    (row,) = rows(comparison, **{"mrc-1-plane": [run()]})
    assert (row.best, row.behind) == ((), False)
    assert "incast-8" in markdown(comparison, [row], [1])


def test_what_a_fault_takes_from_the_network_is_no_fault_of_the_transport_once_it_is_there() -> None:
    (row,) = rows(mrc=[run("incast-8.dark-plane", end=2 * MS)])
    dark_at = 30_000
    best = dark_at + (ideal_time("incast-8") - dark_at) / 0.875
    assert row.results["mrc"].share.mean == pytest.approx(best / (2 * MS))


def test_computing_is_no_slower_in_a_dark_plane() -> None:
    assert ideal_time("training", Capacity(0.5)) == pytest.approx(2 * ideal_time("training") - 2 * 100_000)
    assert Capacity(0.5, since=1000).time(800) == 800, "done before the fault"
    assert Capacity(0.5, since=1000).time(800, start=600) == 400 + 2 * 400


@pytest.mark.parametrize(
    ("workload", "longer"),
    [
        ("permutation", 2.0),
        ("all-to-all", 2 * 56 / 63),  # a host sends to 56 of 63 peers over the uplinks
        ("incast-8", 1.0),
        ("incast-63", 1.0),
        ("all-reduce", 1.0),
        ("training", 1.0),
    ],
)
def test_half_the_uplinks_only_slow_down_what_needs_them(workload: str, longer: float) -> None:
    healthy, halved = (ideal_time(workload, condition=name) for name in ("healthy", "oversubscribed"))
    assert 0.9 * longer < halved / healthy < 1.01 * longer, "but for the round trip, which is as long as before"


def test_a_run_with_failed_requests_is_unfinished_however_early_it_ended() -> None:
    (row,) = rows(mrc=[run(end=MS // 2, **{"report.failed": 1.0, "report.throughput": 0.1 * 8 * LINE})])
    result = row.results["mrc"]
    assert (result.unfinished, result.p100, result.failed) == (1, None, 1)
    assert result.share.mean < 0.12


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
