"""Property tests of every room take what time they need; only an option has them try more examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mrc_common import children

ROOT = Path(__file__).parents[2]


def test_no_profile_sets_a_deadline_for_examples() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


@pytest.mark.parametrize(("options", "examples"), [((), 50), (("--hypothesis-profile=ci",), 1_000)])
def test_the_number_of_examples_does_not_depend_on_the_environment(
    tmp_path: Path, options: tuple[str, ...], examples: int
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        f"from hypothesis import settings\ndef test_it():\n    assert settings().max_examples == {examples}\n"
    )
    command = children.python("pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.hypothesis_profiles", *options)
    done = children.run(
        [*command, str(file)],
        cwd=ROOT,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
