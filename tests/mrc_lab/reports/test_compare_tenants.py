"""Tenants in a comparison of two results: a row for each metric of each that both have, in the units of the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.reports import compare
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.reports.run_and_report import run_and_report

FILE = """\
name: shared
fabric: {hosts: 4, planes: 2, t0: 2, t1: 2}
duration: 100us
workloads:
  - {name: web, kind: write_bw, pairs: [h1>h3], message: 16K}
  - {name: bulk, kind: write_bw, pairs: [h2>h4], message: 64K, transport: {type: rc}}
"""
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_and_report(load_text(FILE, name="shared"), "sim", 1, tmp_path_factory.mktemp("results")).folder


def changed(result: Path, place: Path, change: Change) -> Path:
    """A copy of the result with another summary of its case."""
    shutil.copytree(result, place)
    summary = json.loads((place / "summary.json").read_text())
    change(summary["cases"]["only"])
    (place / "summary.json").write_text(json.dumps(summary))
    return place


def rows(shown: list[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, *values in shown}


def compared(monkeypatch: pytest.MonkeyPatch, first: Path, second: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """The tables that the page is made of."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(compare, "render", lambda page, **parts: made.update(parts) or page)
    compare.compare(first, second)
    return {name: rows(made[name]) for name in ("differences", "metrics")}


def test_each_tenants_metrics_are_compared(result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def halve(case: dict[str, Any]) -> None:
        case["tenants"]["bulk"]["throughput_bps"] /= 2
        case["tenants"]["bulk"]["packets"]["retransmitted"] = 12
        case["tenants"]["bulk"]["completion_time_ns"]["p99"] *= 4

    shown = compared(monkeypatch, result, changed(result, tmp_path / "b", halve))["metrics"]
    assert shown["bulk: mean throughput"][2] == "0.500"
    assert shown["web: mean throughput"][2] == "1.000"
    assert shown["bulk: packets retransmitted"][1] == "12"
    assert shown["bulk: completion time, p99"][2] == "4.000"
    found = read_summary(result)["cases"]["only"]["tenants"]
    assert shown["web: moved"][0] == compare.show(found["web"]["bytes"], "size")


def test_tenants_of_scaled_results_are_compared_in_the_units_of_the_file(
    result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scale(case: dict[str, Any]) -> None:
        case["rate_scale"], case["time_scale"] = 1e-3, 1e3
        for tenant in case["tenants"].values():
            tenant["throughput_bps"] *= 1e-3
            tenant["completion_time_ns"] = {name: time * 1e3 for name, time in tenant["completion_time_ns"].items()}

    shown = compared(monkeypatch, result, changed(result, tmp_path / "b", scale))["metrics"]
    for name in ("bulk: mean throughput", "bulk: completion time, median", "web: completion time, p99"):
        assert shown[name][0] == shown[name][1]
        assert shown[name][2] == "1.000"


def test_tenants_that_only_one_result_has_are_a_difference(
    result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(case: dict[str, Any]) -> None:
        case["tenants"] = {"web": case["tenants"]["web"], "other": case["tenants"]["bulk"]}
        case["tenants"]["web"]["transport"]["qps"] = 7

    shown = compared(monkeypatch, result, changed(result, tmp_path / "b", rename))
    assert shown["differences"]["tenants"] == ("web, bulk", "web, other")
    assert shown["differences"]["web: qps"] == ("1", "7")
    assert not [name for name in shown["metrics"] if name.startswith(("bulk: ", "other: "))]


def test_a_result_without_tenants_compares_with_one_that_has_some(
    result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(case: dict[str, Any]) -> None:
        del case["tenants"]

    other = changed(result, tmp_path / "b", remove)
    assert compared(monkeypatch, result, other)["differences"]["tenants"] == ("web, bulk", "")
    assert compared(monkeypatch, other, result)["differences"]["tenants"] == ("", "web, bulk")


def test_a_difference_of_all_cases_is_listed_once_and_one_of_some_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
name: several
fabric: {hosts: %d, planes: 1, t0: 2, t1: 2}
workload: {kind: write_bw, pairs: h1>h3, total: 4K}
duration: 100us
variants: [{name: a}, {name: b, transport: {qps: %d}}, {name: a+b}]
"""
    folders = [
        run_and_report(load_text(text % values, name="several"), "sim", 1, tmp_path / str(number)).folder
        for number, values in enumerate(((4, 2), (8, 3)))
    ]
    made: dict[str, Any] = {}
    monkeypatch.setattr(compare, "render", lambda page, **parts: made.update(parts) or page)
    compare.compare(*folders)
    names = [row[0] for row in made["differences"]]
    assert names.count("fabric: hosts") == 1
    assert "b: transport: qps" in names
