"""The runs of a sweep: every combination of settings and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.loader import load_text
from mrc_lab.sweeps.grid import Grid, make_grid
from tests.mrc_lab.experiments.files.texts import SMALL, VARIANTS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def grid(file: Path, *settings: str, seeds: Sequence[int] = (1,)) -> Grid:
    return make_grid([file], settings, seeds)


def test_every_combination_with_every_seed_is_a_run(small: Path):
    found = grid(small, "workload.message=64K,1M", "fabric.planes=1,2,4", seeds=range(1, 21))
    assert len(found.runs) == 2 * 3 * 20
    assert len({run.id for run in found.runs}) == len(found.runs)
    run = next(run for run in found.runs if dict(run.settings) == {"workload.message": "1M", "fabric.planes": "4"})
    (case,) = load_text(run.text).cases
    assert (case.workload.message, case.fabric.planes) == (1 << 20, 4)  # type: ignore[union-attr]
    assert str(run) == "small workload.message=1M fabric.planes=4 seed 1"


def test_the_grid_is_deterministic(small: Path):
    first, second = (grid(small, "fabric.planes=1,2", seeds=(3, 4)) for _ in range(2))
    assert first == second
    assert {run.id for run in grid(small, "fabric.planes=2", seeds=(4,)).runs} < {run.id for run in first.runs}


def test_a_file_without_settings_is_one_run(small: Path):
    (run,) = grid(small).runs
    assert run.text == SMALL


def test_an_element_of_a_list_can_be_set(small: Path):
    (run,) = grid(small, "faults.0.until=90us").runs
    assert load_text(run.text).cases[0].faults[0].until == 90_000


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["workload.sise=1"], "line 4: workload.sise: unknown key"),
        (["workload.message=big"], r"line 4: workload.message: must be a size.*\(with workload.message=big\)"),
        (["fabric.planes=2,1", "faults.0.link=h9@p0"], "h9"),
        (["titel=x"], "unknown key"),
        (["expect=[]"], "unknown key"),
        (["fabric.planes=1", "fabric.planes=2"], "given twice"),
        (["fabric.planes"], "write a key and its values"),
    ],
)
def test_an_error_in_any_combination_is_reported(small: Path, settings: list[str], problem: str):
    with pytest.raises(ExperimentError, match=problem):
        make_grid([small], settings, [1])


def test_values_given_by_a_variant_cannot_be_set(tmp_path: Path):
    file = tmp_path / "variants.yaml"
    file.write_text(VARIANTS)
    with pytest.raises(ExperimentError, match=r"variants\[1\]: sets workload.message itself"):
        grid(file, "workload.message=1K,2K")
    with pytest.raises(ExperimentError, match=r"variants\[2\]: sets workload.shift itself"):
        grid(file, "workload.shift=1,3")  # its workload is of another kind and replaces the whole
    assert len(grid(file, "duration=50us,60us").runs) == 2


def test_duplicate_experiment_names_and_too_many_runs_are_refused(small: Path):
    with pytest.raises(ExperimentError, match="two experiments small"):
        make_grid([small, small], [], [1])
    with pytest.raises(ExperimentError, match="200,000 runs"):
        make_grid([small], ["fabric.planes=1,2"], range(100_000))
