"""libmrc against an agent that goes away: an errno from every function, and neither a crash nor a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mrc_host.libibverbs.build_program import MRC_PROGRAM, build_program, needs_libraries
from tests.mrc_host.libibverbs.fake_agent import agent, run

pytestmark = needs_libraries


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory, MRC_PROGRAM)


def test_an_agent_that_goes_away_is_an_error_everywhere(program: Path, tmp_path: Path) -> None:
    with agent(tmp_path, lambda sock: False) as fake:
        said = run(program, "lost", fake)
    assert f"the agent at {fake.path} is gone" in said


def test_an_agent_that_leaves_its_controller_is_an_error_everywhere(program: Path, tmp_path: Path) -> None:
    with agent(tmp_path, lambda sock: True, ends_at="probe") as fake:
        said = run(program, "control_lost", fake)
    assert f"the agent at {fake.path} is gone" in said
