"""One result for all tests that only read it, or that change a copy."""

from pathlib import Path

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.experiments.files.texts import SMALL


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of SMALL's result in the simulated world, with seed 1."""
    return run_and_report(load_text(SMALL, name="small"), "sim", 1, tmp_path_factory.mktemp("result")).folder
