"""Whole sweeps: the table, resuming, and that runs do not depend on how they are spread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.sweeps import sweep_folder as folders
from mrc_lab.sweeps.grid import Grid, SweepRun, make_grid
from mrc_lab.sweeps.local_processes import over_processes
from mrc_lab.sweeps.run_one import SweepOutcome, execute
from mrc_lab.sweeps.run_sweep import Tally, sweep
from mrc_lab.sweeps.table import write_table
from tests.mrc_lab.experiments.files.texts import SMALL, VARIANTS

Spread = Callable[[Sequence[SweepRun]], Iterator[SweepOutcome]]


def here(runs: Sequence[SweepRun]) -> Iterator[SweepOutcome]:
    """One by one in this process."""
    return map(execute, runs)


def one_lost(runs: Sequence[SweepRun]) -> Iterator[SweepOutcome]:
    yield SweepOutcome(runs[0], None, "its worker was killed by signal 9")
    yield from here(runs[1:])


def none_wanted(runs: Sequence[SweepRun]) -> Iterator[SweepOutcome]:
    raise AssertionError(f"{len(runs)} runs are done again")
    yield


def grid_of(folder: Path, *settings: str, seeds: Sequence[int] = (1, 2), text: str = SMALL) -> Grid:
    file = folder / "small.yaml"
    file.write_text(text)
    return make_grid([file], settings, seeds)


def carry_out(grid: Grid, folder: Path, spread: Spread = here) -> tuple[Tally, list[dict[str, Any]]]:
    tally = sweep(grid, folder, spread, lambda tally, outcome: None)
    assert tally.table is not None
    return tally, [json.loads(line) for line in tally.table.read_text("utf-8").splitlines()]


def test_the_table_has_parameters_metrics_and_verdicts(tmp_path: Path):
    tally, rows = carry_out(grid_of(tmp_path, "fabric.planes=2,4", seeds=(1,)), tmp_path / "sweep")
    assert tally.done == tally.total == len(rows) == 2
    assert [(row["set.fabric.planes"], row["fabric.planes"], row["seed"], row["case"]) for row in rows] == [
        (2, 2, 1, "only"), (4, 4, 1, "only"),
    ]  # fmt: skip
    assert [row["verdict"] for row in rows] == ["pass", "fail"], "the file expects the rate of two planes"
    assert [row["expect.median throughput.verdict"] for row in rows] == ["pass", "fail"]
    assert rows[0]["expect.median throughput.ours"] == pytest.approx(383e9, rel=0.05)
    for row in rows:
        assert row["packets.received"] > 100
        assert row["flows.h1>h3.median_bps"] > 1e9
        assert row["wrong_bytes"] == row["errors"] == 0
        assert row["faults"] == 1
        assert row["wall_s"] > 0


def test_each_variant_is_a_row(tmp_path: Path):
    _, rows = carry_out(grid_of(tmp_path, seeds=(1,), text=VARIANTS), tmp_path / "sweep")
    assert [(row["case"], row["transport.type"]) for row in rows] == [("one", "rc"), ("three", "mrc"), ("two", "rc")]


def test_reported_metrics_are_columns(tmp_path: Path):
    asked = "report: [{metric: completion_time}, {metric: lost, title: gone}, {metric: errors, title: gone}]\n"
    _, rows = carry_out(grid_of(tmp_path, seeds=(1,), text=VARIANTS + asked), tmp_path / "sweep")
    assert len(rows) == 3
    for row in rows:
        assert row["report.completion time"] == row["completion_time_ns.median"]
        assert row["report.gone"] == row["packets.lost"]
        assert row["report.gone (2)"] == 0


def test_a_second_call_runs_only_lost_and_new_runs(tmp_path: Path):
    folder = tmp_path / "sweep"
    tally, rows = carry_out(grid_of(tmp_path, seeds=(1, 2)), folder, one_lost)
    assert (tally.done, len(tally.lost), [row["seed"] for row in rows]) == (1, 1, [2])

    done: list[int] = []

    def noting(runs: Sequence[SweepRun]) -> Iterator[SweepOutcome]:
        done.extend(run.seed for run in runs)
        return here(runs)

    tally, rows = carry_out(grid_of(tmp_path, seeds=(1, 2, 3)), folder, noting)
    assert (tally.before, tally.done, done) == (1, 3, [1, 3])
    assert [row["seed"] for row in rows] == [1, 2, 3]
    tally, rows = carry_out(grid_of(tmp_path, seeds=(1, 2, 3)), folder, none_wanted)
    assert (tally.before, len(rows)) == (3, 3)


def test_a_truncated_record_is_run_again(tmp_path: Path):
    folder, grid = tmp_path / "sweep", grid_of(tmp_path, seeds=(1,))
    carry_out(grid, folder)
    (place,) = (folder / "runs").glob("*.json")
    place.write_text(place.read_text()[:100])
    tally, rows = carry_out(grid, folder)
    assert (tally.before, len(rows)) == (0, 1)


def test_results_do_not_depend_on_the_distribution_of_runs(tmp_path: Path):
    grid = grid_of(tmp_path, "fabric.planes=2,4")
    carry_out(grid, tmp_path / "here")
    carry_out(grid, tmp_path / "spread", lambda runs: over_processes(runs, 2))
    for run in grid.runs:
        first, second = (
            json.loads((tmp_path / name / "runs" / f"{run.id}.json").read_text()) for name in ("here", "spread")
        )
        assert first["summary"] == second["summary"]


def test_a_folder_of_another_sweep_is_refused(tmp_path: Path):
    folder = tmp_path / "sweep"
    carry_out(grid_of(tmp_path, seeds=(1,)), folder)
    with pytest.raises(ExperimentError, match="holds another sweep"):
        carry_out(grid_of(tmp_path, "fabric.planes=2", seeds=(1,)), folder)
    with pytest.raises(ExperimentError, match="holds another sweep"):
        carry_out(grid_of(tmp_path, seeds=(1,), text=SMALL.replace("120us", "110us")), folder)


@pytest.mark.parametrize("full", ["write_json", "write_table"])
def test_a_full_disk_is_reported_and_earlier_results_stay(full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "sweep"
    carry_out(grid_of(tmp_path, seeds=(1,)), folder)
    before = (folder / "table.jsonl").read_bytes()

    def fail(place: Path, *_arguments: object) -> None:
        place.write_text("{")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, full, fail)
        with pytest.raises(ExperimentError, match="cannot be written: No space left on device"):
            carry_out(grid_of(tmp_path, seeds=(1, 2)), folder)
    assert not [*folder.rglob("*.new")]
    assert full == "write_json" or (folder / "table.jsonl").read_bytes() == before
    tally, rows = carry_out(grid_of(tmp_path, seeds=(1, 2)), folder)
    assert [row["seed"] for row in rows] == [1, 2]
    assert tally.before == (1 if full == "write_json" else 2)


def test_concurrent_sweeps_cannot_share_a_folder(tmp_path: Path):
    grid = grid_of(tmp_path)
    with (
        folders.opened(tmp_path / "sweep", grid),
        pytest.raises(ExperimentError, match="is being filled by another sweep"),
        folders.opened(tmp_path / "sweep", grid),
    ):
        pass


def test_a_deterministic_error_is_recorded_as_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments: object) -> None:
        raise ExperimentError("nothing comes of it")

    monkeypatch.setattr("mrc_lab.sweeps.run_one.run_experiment", fail)
    tally, rows = carry_out(grid_of(tmp_path, seeds=(1,)), tmp_path / "sweep")
    assert tally.verdicts == {"error": 1}
    assert [(row["verdict"], row["error"]) for row in rows] == [("error", "nothing comes of it")]


def test_an_external_error_loses_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mrc_lab.sweeps.run_one.run_experiment", fail)
    outcome = execute(grid_of(tmp_path).runs[0])
    assert outcome.record is None
    assert "No space left" in outcome.lost


def test_a_column_of_the_table_has_one_type(tmp_path: Path):
    """As a reader of tables needs it: every row has all columns, null where there is nothing, and it is strict JSON."""
    records = [
        {"experiment": "x", "settings": {"a": text}, "seed": seed, "summary": {"cases": {"only": figures}}}
        for seed, (text, figures) in enumerate(
            [
                ("1", {"whole": 1, "mixed": 1, "flag": True, "odd": float("nan")}),
                ("many", {"whole": 2.5, "mixed": "one", "flag": False}),
                ("7", {"more": 3}),
            ]
        )
    ]
    assert write_table(tmp_path / "table.jsonl", records) == 3
    lines = (tmp_path / "table.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert len({tuple(row) for row in rows}) == 1
    rows.sort(key=lambda row: row["seed"])
    columns = {name: [row[name] for row in rows] for name in ("set.a", "whole", "mixed", "flag", "odd", "more")}
    assert columns == {
        "set.a": ["1", "many", "7"],
        "whole": [1.0, 2.5, None],
        "mixed": ["1", "one", None],
        "flag": [True, False, None],
        "odd": [None, None, None],
        "more": [None, None, 3],
    }
    assert '"whole": 1.0' in lines[0]
