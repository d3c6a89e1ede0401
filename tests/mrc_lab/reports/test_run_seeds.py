"""Runs of several seeds: each is what a run with that seed alone is, and together they have means."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.reports import run_seeds as module
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.run_seeds import SeedRun, run_seeds

LOSSY = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4}
workload: {kind: write_bw, pairs: h1>h3, message: 16K, total: 256K}
duration: 300us
faults:
  - {kind: loss, at: 0us, link: h1@p0, probability: 20%}
report:
  - {metric: completion_time}
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_seed_is_as_it_is_alone(jobs: int, tmp_path: Path):
    experiment = load_text(LOSSY, name="lossy")
    found = run_seeds(experiment, "sim", (3, 5), tmp_path / "seeds", jobs=jobs)
    assert found.folder.name == (found.folder.parent / "latest").readlink().name
    for seed in (3, 5):
        alone = run_and_report(experiment, "sim", seed, tmp_path / "alone")
        assert json.loads((found.folder / f"seed-{seed}" / "summary.json").read_text()) == read_summary(alone.folder)
        assert (found.folder / f"seed-{seed}" / "report.html").is_file()
    assert not [*found.folder.glob("*.unfinished"), *found.folder.glob("latest")]


def test_the_summary_and_the_table_have_all_seeds(tmp_path: Path):
    found = run_seeds(load_text(LOSSY, name="lossy"), "sim", (1, 2, 3), tmp_path)
    summary = json.loads((found.folder / "summary.json").read_text())
    assert (summary["seeds"], summary["verdict"]) == ([1, 2, 3], "pass")
    (reported,) = (one for one in summary["metrics"] if one["kind"] == "reported")
    own = [read_summary(found.folder / f"seed-{seed}")["reported"][0]["values"]["only"] for seed in (1, 2, 3)]
    assert len(set(own)) > 1, "loss by chance differs from seed to seed"
    assert reported["mean"] == pytest.approx(sum(own) / 3)
    assert (reported["min"], reported["max"], reported["count"]) == (min(own), max(own), 3)
    rows = [row for row in csv.DictReader((found.folder / "metrics.csv").open()) if row["kind"] == "reported"]
    assert [(int(row["seed"]), float(row["value"])) for row in rows] == list(zip((1, 2, 3), own, strict=True))
    page = (found.folder / "report.html").read_text()
    assert "Student" in page
    assert 'href="seed-2/report.html"' in page


def test_a_seed_that_cannot_be_run_is_named_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = module.run_and_report

    def fail(experiment, backend, seed, *arguments, **options):  # type: ignore[no-untyped-def]
        if seed == 2:
            raise ExperimentError("no room")
        return whole(experiment, backend, seed, *arguments, **options)

    monkeypatch.setattr(module, "run_and_report", fail)
    found = run_seeds(load_text(LOSSY, name="lossy"), "sim", (1, 2), tmp_path)
    assert [(run.seed, run.verdict) for run in found.runs] == [(1, "pass"), (2, "error")]
    assert found.verdict == "error"
    assert json.loads((found.folder / "summary.json").read_text())["problems"] == {"2": "no room"}
    with pytest.raises(ExperimentError, match="no room"):
        run_seeds(load_text(LOSSY, name="lossy"), "sim", (2,), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_interrupted_run_keeps_the_seeds_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = module.run_and_report

    def interrupt(experiment, backend, seed, results, *, place, **options):  # type: ignore[no-untyped-def]
        if seed == 2:
            place.with_name(f"{place.name}.unfinished").mkdir()
            raise KeyboardInterrupt
        return whole(experiment, backend, seed, results, place=place, **options)

    monkeypatch.setattr(module, "run_and_report", interrupt)
    experiment = load_text(LOSSY, name="lossy")
    with pytest.raises(KeyboardInterrupt):
        run_seeds(experiment, "sim", (1, 2), tmp_path)
    (folder,) = (tmp_path / "lossy").iterdir()
    assert folder.suffix == ".unfinished"
    assert [place.name for place in folder.iterdir()] == ["seed-1"]
    with pytest.raises(KeyboardInterrupt):
        run_seeds(experiment, "sim", (2, 1), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_worst_seed_is_the_verdict(tmp_path: Path):
    def verdict(*found: str) -> str:
        runs = tuple(SeedRun(seed, {"verdict": one}) for seed, one in enumerate(found))
        return module.FinishedSeeds(load_text(LOSSY), "sim", tmp_path, runs).verdict

    assert verdict("pass", "pass") == "pass"
    assert verdict("pass", "untrusted") == "untrusted"
    assert verdict("untrusted", "fail", "pass") == "fail"


def test_a_folder_of_seeds_says_what_to_give_instead(tmp_path: Path):
    found = run_seeds(load_text(LOSSY, name="lossy"), "sim", (1, 2), tmp_path)
    with pytest.raises(ExperimentError, match="several seeds") as error:
        read_summary(found.folder)
    assert "seed-1" in error.value.hint
