"""Hosted CI does nothing of its own: each step of a workflow calls a target or script that is here, with their options.

So whatever CI does can be done, and is tested, on any machine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mrc_common.run_module import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / "action.yml"]
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# In a container there is nothing to call before the checkout, and no git for that.
BEFORE_CHECKOUT = "apt-get update && apt-get install -y --no-install-recommends ca-certificates git make"


def document(file: Path) -> dict[Any, Any]:
    found = yaml.safe_load(file.read_text())
    assert isinstance(found, dict)
    return found


def steps(file: Path) -> Iterator[dict[str, Any]]:
    """The steps of all jobs, or of an action."""
    content = document(file)
    parts = content["jobs"].values() if "jobs" in content else [content["runs"]]
    for part in parts:
        yield from part["steps"]


def problem(line: str) -> str | None:
    """Why a line of a step is none that it may have; None if it may."""
    if line == BEFORE_CHECKOUT:
        return None
    words = shlex.split(line.replace("$GITHUB_ACTION_PATH/", "").replace("$PWD", "."))
    if words[0] == "sudo":
        words = words[1:]
    if words[0] == "make":
        wrong = [word for word in words[1:] if not word.startswith("ARGS=") and word not in TARGETS]
        return f"the Makefile has no {wrong[0]}" if wrong else None
    if words[:2] == ["python3", "-m"]:
        module = words[2].replace(".", "/") + ".py"
        there = words[2].partition(".")[0] in PACKAGES and (ROOT / module).is_file()
        return None if there else f"there is no module {words[2]}"
    script = ROOT / words[0]
    if not script.is_file():
        return f"there is no script {words[0]}"
    return None if script.stat().st_mode & 0o111 else f"{words[0]} is not executable"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_steps_call_targets_and_scripts_that_exist(file: Path) -> None:
    lines = [line for step in steps(file) for line in step.get("run", "").splitlines()]
    assert lines
    assert not [f"{line}: {why}" for line in lines if (why := problem(line))]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("make units", "the Makefile has no units"),
        ("sudo make lint tests", "the Makefile has no tests"),
        ("python3 -m scripts.missing", "there is no module scripts.missing"),
        ("scripts/missing", "there is no script scripts/missing"),
        ("sudo scripts/listings_page.py", "scripts/listings_page.py is not executable"),
        ("pip install pytest", "there is no script pip"),
    ],
)
def test_a_line_that_calls_anything_else_is_found(line: str, why: str) -> None:
    assert problem(line) == why


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_steps_put_no_expression_into_a_shell(file: Path) -> None:
    """What others may have written, such as an input or a branch's name, comes by the environment."""
    assert not [step["run"] for step in steps(file) if "${{" in step.get("run", "")]


def test_the_site_is_built_where_the_testbed_is_installed() -> None:
    """Its gallery takes runs of the testbed, and only root may install that."""
    for file in WORKFLOWS:
        for job in document(file)["jobs"].values():
            lines = [line for step in job.get("steps", ()) for line in step.get("run", "").splitlines()]
            assert "make docs" not in lines or "sudo make install" in lines[: lines.index("make docs")]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_jobs_have_a_time_limit_and_read_only_permissions_by_default(file: Path) -> None:
    content = document(file)
    assert content["permissions"]["contents"] == "read"
    assert all(job["timeout-minutes"] <= 240 for job in content["jobs"].values())


def test_every_supported_python_is_tested() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    python_of = {
        "ubuntu:22.04": "3.10",
        "debian:12": "3.11",
        "ubuntu:24.04": "3.12",
        "debian:13": "3.13",
        "ubuntu:26.04": "3.14",
    }
    matrix = document(ROOT / ".github/workflows/test.yml")["jobs"]["unit"]["strategy"]["matrix"]
    assert [python_of[system] for system in matrix["system"]] == classifiers
    assert [extra["runner"] for extra in matrix["include"]] == ["ubuntu-24.04-arm"]
    (built,) = re.findall(r"^build = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert re.findall(r"cp3(\d+)-", built) == [version.partition(".")[2] for version in classifiers]
