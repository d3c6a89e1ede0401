"""Points of a sweep: tables and plots of means over seeds."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.sweeps.points import by_metric, magnitude, points_of, table, write_points
from mrc_lab.sweeps.sweep_plots import write_plots


def record(seed: int, value: float, **settings: str) -> dict[str, Any]:
    return {
        "experiment": "trial",
        "settings": {key.replace("_", "."): text for key, text in settings.items()},
        "seed": seed,
        "summary": {
            "expectations": [],
            "reported": [{"title": "lost", "unit": "count", "values": {"only": value}}],
            "published": {"numbers": []},
            "cases": {"only": {}},
        },
    }


RECORDS = [
    record(seed, base + seed, workload_message=message)
    for message, base in (("1M", 30.0), ("64K", 10.0))
    for seed in (2, 1)
] + [{"experiment": "trial", "settings": {"workload.message": "2M"}, "seed": 1, "error": "no room"}]


def test_points_are_in_the_order_of_their_values_and_seeds():
    points = points_of(RECORDS)
    assert [point.settings["workload.message"] for point in points] == ["64K", "1M"]
    assert [dict(point.metrics[0].values) for point in points] == [{1: 11.0, 2: 12.0}, {1: 31.0, 2: 32.0}]


def test_the_table_of_a_metric_has_a_row_for_each_point():
    (metric,) = by_metric(points_of(RECORDS))
    head, rows = table(metric)
    assert head == ("workload.message", "mean", "95 % interval", "min", "max", "seeds")
    assert [(row[0], row[1], row[-1]) for row in rows] == [("64K", "11.5", "2"), ("1M", "31.5", "2")]


def test_the_tidy_table_has_a_row_for_each_point_seed_and_metric(tmp_path: Path):
    write_points(tmp_path, points_of(RECORDS))
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    assert [(row["set.workload.message"], row["seed"], float(row["value"])) for row in rows] == [
        ("64K", "1", 11.0), ("64K", "2", 12.0), ("1M", "1", 31.0), ("1M", "2", 32.0),
    ]  # fmt: skip
    intervals = list(csv.DictReader((tmp_path / "intervals.csv").open()))
    assert [(row["mean"], row["min"], row["max"], row["count"]) for row in intervals] == [
        ("11.5", "11.0", "12.0", "2"), ("31.5", "31.0", "32.0", "2"),
    ]  # fmt: skip
    half = 12.7062047 * 0.5**0.5 / 2**0.5  # t with one degree of freedom, from tables
    assert float(intervals[0]["low_95"]) == pytest.approx(11.5 - half, rel=1e-6)


def plots_of(folder: Path, *records: dict[str, Any]) -> list[Path]:
    return write_plots(folder / "plots", by_metric(points_of(records)))


def test_a_plot_has_a_line_for_each_value_of_the_second_key(tmp_path: Path):
    records = [
        record(1, float(planes * paths), fabric_planes=str(planes), transport_paths=str(paths))
        for planes in (1, 2, 4)
        for paths in (2, 8)
    ]
    (place,) = plots_of(tmp_path, *records)
    assert place.name == "trial-lost.svg"
    comments = re.findall(r"<!-- (.*?) -->", place.read_text())
    assert {"transport.paths=2", "transport.paths=8", "fabric.planes"} <= set(comments)


def test_nothing_is_plotted_over_no_key_or_three(tmp_path: Path):
    assert plots_of(tmp_path, record(1, 1.0), record(2, 2.0)) == []
    records = [record(1, 1.0, a=a, b=b, c=c) for a in "12" for b in "12" for c in "12"]
    assert plots_of(tmp_path, *records) == []


def test_a_metric_without_values_has_no_plot(tmp_path: Path):
    empty = [record(1, None, a=a) for a in "12"]  # type: ignore[arg-type]
    assert plots_of(tmp_path, *empty) == []


def test_titles_of_others_do_not_leave_the_folder(tmp_path: Path):
    records = [record(1, 1.0, a=a) for a in "12"]
    for one in records:
        one["summary"]["reported"][0]["title"] = "../../<b>$x$"
    (place,) = plots_of(tmp_path, *records)
    assert place.parent == tmp_path / "plots"


@pytest.mark.parametrize(
    ("smaller", "larger"), [("8", "64"), ("64K", "1M"), ("900us", "2ms"), ("5%", "10%"), ("900M", "1G")]
)
def test_values_are_compared_by_their_units(smaller: str, larger: str):
    low, high = magnitude(smaller), magnitude(larger)
    assert low is not None
    assert high is not None
    assert low < high


def test_words_have_no_magnitude():
    assert magnitude("reactive") is None
