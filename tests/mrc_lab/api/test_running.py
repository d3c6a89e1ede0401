"""Runs and sweeps from Python give what the commands give, in a running event loop, too."""

from __future__ import annotations

import asyncio
import csv
import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mrc_lab.api import Results, run, sweep
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report

FILE = """\
name: lossy
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4}
workload: {kind: write_bw, pairs: h1>h3, message: 16K, total: 128K}
duration: 300us
faults:
  - {name: noise, kind: loss, at: 0us, link: h1@p0, probability: 20%}
variants: [{name: one}, {name: two, transport: {qps: 2}}]
report: [{metric: completion_time}]
expect: [{metric: throughput, relation: at_least, value: 1G, of: {variant: one}}]
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["plain", "in a loop"])
def loop(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Call something, also as a cell of a notebook would."""

    def call(function):  # type: ignore[no-untyped-def]
        if request.param == "plain":
            return function()

        async def cell():  # type: ignore[no-untyped-def]
            found = function()
            await asyncio.sleep(0)
            return found

        return asyncio.run(cell())

    return call


def test_one_seed_is_what_the_command_gives(loop, tmp_path: Path):  # type: ignore[no-untyped-def]
    result: Results = loop(lambda: run(FILE, seed=3))
    alone = run_and_report(load_text(FILE), "sim", 3, tmp_path / "alone").summary
    assert result.summaries[3] == alone
    assert (result.name, result.seeds, result.cases, result.passed) == ("lossy", (3,), ("one", "two"), True)
    assert result.folder.parent == Path("results", "lossy")
    assert result.report.is_file()
    assert result.value("completion time", "two") == alone["reported"][0]["values"]["two"]


def test_several_seeds_have_means_and_a_table(loop):  # type: ignore[no-untyped-def]
    result: Results = loop(lambda: run(FILE, seeds=[2, 4], jobs=1))
    own = [result.summaries[seed]["reported"][0]["values"]["one"] for seed in (2, 4)]
    assert result.value("completion time", "one") == pytest.approx(sum(own) / 2)
    rows = [row for row in result.table if (row["metric"], row["case"]) == ("completion time", "one")]
    assert [(row["seed"], row["value"], row["unit"]) for row in rows] == [(2, own[0], "ns"), (4, own[1], "ns")]
    (interval,) = (row for row in result.intervals if (row["metric"], row["case"]) == ("completion time", "one"))
    assert (interval["min"], interval["max"], interval["count"]) == (min(own), max(own), 2)
    saved = list(csv.DictReader((result.folder / "metrics.csv").open()))
    assert [row["metric"] for row in saved] == [row["metric"] for row in result.table]
    assert repr(result) == f"<Results lossy: pass, 2 seeds, {result.folder}>"
    page = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>")
    assert [cell.text for cell in page.iter("th")][:3] == ["metric", "case", "mean"]


def test_names_that_do_not_exist_are_named_with_the_nearest():
    result = run(FILE)
    with pytest.raises(ExperimentError, match="did you mean completion time"):
        result.value("completion tim", "one")
    with pytest.raises(ExperimentError, match="several cases: give one of one, two"):
        result.value("completion time")
    with pytest.raises(ExperimentError, match="no case 'three'"):
        result.value("completion time", "three")
    with pytest.raises(ExperimentError, match="must be sim or emulation"):
        run(FILE, backend="simulation")


def test_an_expectation_that_is_not_met_is_in_the_result():
    result = run(FILE.replace("value: 1G", "value: 900G"))
    assert (result.verdict, result.passed) == ("fail", False)


def test_names_of_others_are_text_in_a_notebook():
    result = run(FILE.replace("{metric: completion_time}", "{metric: completion_time, title: <script>x</script>}"))
    assert "<script>" not in result._repr_html_()


def test_a_sweep_has_a_row_for_each_point_seed_and_metric(loop, tmp_path: Path):  # type: ignore[no-untyped-def]
    settings = {"faults.noise.probability": ["10%", "30%"], "workload.outstanding": [1]}
    points = loop(lambda: sweep(FILE, settings, seeds=2, jobs=1))
    assert points.folder == Path("results", "sweep", "lossy")
    assert points.passed
    rows = [row for row in points.table if (row["metric"], row["case"]) == ("completion time", "one")]
    assert [(row["set.faults.noise.probability"], row["set.workload.outstanding"], row["seed"]) for row in rows] == [
        ("10%", 1, 1), ("10%", 1, 2), ("30%", 1, 1), ("30%", 1, 2),
    ]  # fmt: skip
    table = [json.loads(line) for line in (points.folder / "table.jsonl").read_text().splitlines()]
    of_table = {(row["set.faults.noise.probability"], row["seed"]): row["report.completion time"]
                for row in table if row["case"] == "one"}  # fmt: skip
    assert {(row["set.faults.noise.probability"], row["seed"]): row["value"] for row in rows} == of_table
    assert ElementTree.fromstring(points.plot("completion time")._repr_svg_()).tag.endswith("svg")
    assert "faults.noise.probability" in points._repr_html_()
    again = sweep(FILE, settings, seeds=2, jobs=1)
    assert again.table == points.table


def test_a_sweep_of_text_finds_files_in_the_current_folder():
    Path("lab.yaml").write_text("name: lab\nplanes: 2\nt0: 2\nt1: 2\nhosts: 4\nrate: 100G\n")
    text = FILE.replace("{planes: 2, t0: 2, t1: 2, hosts: 4}", "{file: lab.yaml}")
    points = sweep(text, {"workload.message": ["16K"]}, output="elsewhere", jobs=1)
    assert points.passed
    assert sorted(os.listdir("elsewhere")) == ["intervals.csv", "metrics.csv", "runs", "sweep.json", "table.jsonl"]


def test_a_sweep_that_cannot_be_is_refused():
    with pytest.raises(ExperimentError, match="unknown key"):
        sweep(FILE, {"no.key": [1]})
    with pytest.raises(ExperimentError, match="at least one"):
        sweep([], {})
    points = sweep(FILE, {}, jobs=1)
    with pytest.raises(ExperimentError, match="0 keys vary"):
        points.plot("completion time")
    with pytest.raises(ExperimentError, match="no metric"):
        points.plot("nothing")
