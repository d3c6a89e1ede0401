"""The folder keeps what is done, forgets what is damaged, and refuses other settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs.train_faults.cases import load
from mrc_lab.torch_jobs.train_faults.results import opened
from tests.mrc_lab.torch_jobs.train_faults import runs

SETTINGS = {"hosts": 4}


def test_a_run_that_is_kept_is_there_the_next_time_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    with opened(tmp_path / "a", SETTINGS) as results:
        results.keep(runs.undisturbed())
        results.keep(runs.recovered())
    (tmp_path / "a" / "runs" / "cut-port.gloo.json").write_text('{"case": "cut-port", "stack"')
    (tmp_path / "a" / "runs" / "cut-port.rc.json").write_text('{"case": "cut-port", "stack": "rc", "events": []}')
    with opened(tmp_path / "a", SETTINGS) as results:
        assert list(results.done(load())) == [("cut-port", "mrc")]
        assert results.done(load().only(["healthy"])) == {}


def test_a_record_under_another_name_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path, SETTINGS) as results:
        results.keep(runs.undisturbed())
        (tmp_path / "runs" / "cut-port.mrc.json").rename(tmp_path / "runs" / "cut-port.rc.json")
        assert results.done(load()) == {}


def test_other_settings_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, SETTINGS) as results:
        results.keep(runs.undisturbed())
    with pytest.raises(ExperimentError, match="holds runs with other settings"), opened(tmp_path, {"hosts": 8}):
        pass
    with opened(tmp_path, SETTINGS) as results:
        assert len(results.done(load())) == 1


def test_a_folder_with_runs_whose_settings_are_lost_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, SETTINGS) as results:
        results.keep(runs.undisturbed())
    (tmp_path / "train-faults.json").write_text("")
    with pytest.raises(ExperimentError, match="other settings"), opened(tmp_path, SETTINGS):
        pass
