"""Metrics over seeds, by hand: means, Student's t intervals, seeds without a value, verdicts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.reports import over_seeds
from mrc_lab.reports.over_seeds import MetricKind, MetricOverSeeds


def summary(
    reported: dict[str, float | None] | None = None, ours: float | None = None, verdict: str = "pass"
) -> dict[str, Any]:
    expectation = {
        "title": "rate", "metric": "throughput", "unit": "rate", "relation": "at_least", "expected": 1e9,
        "tolerance": 0.0, "ours": ours, "verdict": verdict,
    }  # fmt: skip
    return {
        "expectations": [] if ours is None else [expectation],
        "reported": [] if reported is None else [{"title": "lost", "unit": "count", "values": reported}],
        "published": {"numbers": []},
        "cases": {"only": {"throughput_bps": 5e9, "completion_time_ns": {"median": 70.0, "p99": 90.0}}},
    }


def test_the_interval_is_student_s():
    """Of 1 to 5: the mean is 3, the deviation sqrt(2.5), and t with 4 degrees is 2.776445 in tables."""
    (one,) = over_seeds.over_seeds({seed: summary({"only": float(seed)}) for seed in range(1, 6)})
    half = 2.776445 * 2.5**0.5 / 5**0.5
    mean, low, high, least, most, count = one.statistics
    assert (mean, least, most, count) == (3.0, 1.0, 5.0, 5)
    assert (low, high) == (pytest.approx(3 - half, rel=1e-6), pytest.approx(3 + half, rel=1e-6))


def test_one_seed_has_no_interval():
    (one,) = over_seeds.over_seeds({7: summary({"only": 4.0})})
    assert one.statistics == (4.0, None, None, 4.0, 4.0, 1)
    assert one.cells == ("4", "-", "4", "4", "1")


def test_a_seed_without_a_value_counts_in_no_number():
    values = {1: 2.0, 2: None, 3: 4.0}
    (one,) = over_seeds.over_seeds({seed: summary({"only": value}) for seed, value in values.items()})
    assert (one.statistics[0], one.statistics[3:]) == (3.0, (2.0, 4.0, 2))
    assert one.values == values
    (none,) = over_seeds.over_seeds({seed: summary({"only": None}) for seed in (1, 2)})
    assert none.statistics == (None, None, None, None, None, 0)
    assert none.cells == ("none", "-", "none", "none", "0")


def test_expectations_say_how_many_seeds_met_them():
    runs = {1: summary(ours=2e9), 2: summary(ours=0.5e9, verdict="fail"), 3: summary(ours=3e9)}
    expected = over_seeds.over_seeds(runs)[0]
    assert expected.kind is MetricKind.EXPECTED
    assert expected.outcome == "at least 1 Gb/s: fail 1, pass 2"


def test_a_file_that_reports_nothing_has_throughput_and_completion_time():
    found = {one.title: one.values[1] for one in over_seeds.over_seeds({1: summary()})}
    assert found == {"throughput": 5e9, "median completion time": 70.0}


def test_metrics_of_one_title_stay_apart(tmp_path: Path):
    run = summary({"one": 1.0, "two": 2.0})
    run["reported"] *= 2
    found = over_seeds.over_seeds({1: run})
    assert [(one.title, one.case) for one in found] == [
        ("lost", "one"), ("lost", "two"), ("lost (2)", "one"), ("lost (2)", "two"),
    ]  # fmt: skip
    place = tmp_path / "metrics.csv"
    over_seeds.write_csv(place, over_seeds.TIDY_HEAD, (row for one in found for row in over_seeds.tidy_rows(one)))
    rows = list(csv.DictReader(place.open()))
    assert len({(row["case"], row["metric"], row["seed"]) for row in rows}) == len(rows) == 4
    assert [float(row["value"]) for row in rows] == [1.0, 2.0, 1.0, 2.0]


def test_only_failures_are_remarkable_where_nothing_failed():
    good = MetricOverSeeds(MetricKind.EXPECTED, "failed", "", "errors", "count", {1: 0.0, 2: 0.0})
    bad = MetricOverSeeds(MetricKind.EXPECTED, "failed", "", "errors", "count", {1: 0.0, 2: 1.0})
    assert good.unremarkable
    assert not bad.unremarkable
