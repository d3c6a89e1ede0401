"""scripts/test-in-ci, what action.yml runs: tests of others with our fixtures, on one commit or on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # up to three programs, one after the other, on a machine that may be busy

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/test-in-ci"
TEST = """
def test_own(mrc_experiment):
    assert mrc_experiment("incast.yaml").experiment.name == "incast"
def test_again(mrc_fabric):
    assert mrc_fabric.fabric.planes == 2
"""
# The plugin is loaded by name, whether the environment that runs these tests has its entry point or not.
PLUGIN = "-q -p no:mrc -p mrc_lab.pytest_plugin.fixtures -p no:cacheprovider"


class Project:
    """A repository of a team, with tests below tests/ of its folder `radio control`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.folder = self.root / "radio control"
        (self.folder / "tests").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.email", "team@example.com")
        self.git("config", "user.name", "Team")
        text = (ROOT / "examples/incast.yaml").read_text()
        (self.folder / "tests/incast.yaml").write_text(text)
        (self.folder / "tests/plugins.py").write_text((ROOT / "examples/plugins.py").read_text())
        (self.folder / "tests/test_own.py").write_text(TEST)
        self.commit()

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def test(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, "results"],
            cwd=self.folder,
            env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "OPTIONS": PLUGIN, **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_tests_of_one_commit_leave_results_and_junit(project: Project) -> None:
    done = project.test(TESTS="tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert (project.folder / "results/junit.xml").is_file()
    assert (project.folder / "results/incast/latest/report.html").is_file()


def test_two_commits_are_compared_and_the_later_one_decides(project: Project) -> None:
    before = project.git("rev-parse", "HEAD")
    file = project.folder / "tests/incast.yaml"
    file.write_text(file.read_text().replace("aimd", "none"))
    (project.folder / "tests/test_own.py").write_text(TEST + "def test_wrong(): assert False\n")
    project.commit()
    done = project.test(TESTS="tests", COMPARE_WITH=before, OPTIONS=PLUGIN.removeprefix("-q "))
    assert done.returncode == 1, done.stdout + done.stderr
    roots = [line for line in done.stdout.splitlines() if line.startswith("rootdir: ")]
    assert [Path(line).name for line in roots] == ["radio control"] * 2  # not what it has in common with the results
    assert "2 passed" in done.stdout
    assert "1 failed, 2 passed" in done.stdout
    page = (project.folder / "results/compare-incast.html").read_text("utf-8")
    assert "transport: congestion" in page
    assert project.git("worktree", "list").count("\n") == 0
    assert project.git("stash", "list") == ""


def test_failures_of_the_earlier_commit_do_not_fail(project: Project) -> None:
    (project.folder / "tests/test_own.py").write_text(TEST + "def test_wrong(): assert False\n")
    before = project.commit()
    (project.folder / "tests/test_own.py").write_text(TEST)
    project.commit()
    done = project.test(TESTS="tests", COMPARE_WITH=before)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"The tests do not pass on {before}" in done.stdout


def test_inputs_are_words_and_not_commands(project: Project) -> None:
    done = project.test(TESTS="'tests' $(touch pwned)", OPTIONS=f"{PLUGIN} -k 'again or `touch pwned`'")
    assert done.returncode != 0
    assert not list(project.root.rglob("pwned"))
    done = project.test(TESTS="tests", OPTIONS=f'{PLUGIN} -k "again or nothing"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 deselected" in done.stdout


def test_the_environment_that_it_makes_is_deleted_also_when_it_cannot_be_filled(
    project: Project, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    # pip, in the environment, has nothing to build the testbed with.
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    done = project.test(TESTS="tests", PYTHON="", RUNNER_TEMP=str(made), **nothing)
    assert done.returncode != 0
    assert "No matching distribution found for setuptools" in done.stderr
    assert list(made.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TESTS": ""}, "say in TESTS which files and folders have the tests"),
        ({"TESTS": "tests", "BACKEND": "mininet"}, "BACKEND is sim or emulation, not mininet"),
        ({"TESTS": "tests", "COMPARE_WITH": "v9"}, "There is no commit v9 here: check out with fetch-depth 0"),
        ({"TESTS": "tests", "COMPARE_WITH": "--all"}, "There is no commit --all here"),
    ],
)  # fmt: skip
def test_wrong_inputs_end_with_one_sentence(project: Project, environment: dict[str, str], message: str) -> None:
    done = project.test(**environment)
    assert done.returncode != 0
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
