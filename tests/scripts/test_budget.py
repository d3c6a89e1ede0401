"""What the tests of each room cost: measured in whichever process they run, added up, and compared with the budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import budget
from tests.budget import BUDGET_MIN, COLLECTING, Cost, read, table

ROOT = Path(__file__).parents[2]
BURNING = """
import time
def burn():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
if __name__ == "__main__":
    burn()
"""
ROOMS = {
    "test": """
from burning import burn
def test_here():
    burn()
""",
    "child": """
import burning, subprocess, sys
def test_child():
    subprocess.run([sys.executable, burning.__file__], check=True)
""",
    "teardown": """
import pytest
from burning import burn
@pytest.fixture(scope="module")
def late():
    yield
    burn()
def test_one(late):
    pass
def test_fails(late):
    assert False
""",
    "waits": """
import threading
def test_waits():
    threading.Event().wait(0.6)
""",
}


def test_cpu_time_of_tests_fixtures_and_children_is_counted_but_not_waiting(tmp_path: Path) -> None:
    (tmp_path / "burning.py").write_text(BURNING)
    for name, text in ROOMS.items():
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(text)
    costs = tmp_path / "costs"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.budget", "-p", "xdist", f"--costs={costs}"]
    command += ["--rootdir", str(tmp_path), str(tmp_path / "tests")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for runs, workers in enumerate(((), ("--numprocesses", "2")), 1):  # in this process, and in others
        done = subprocess.run(
            [*command, *workers], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
        rooms, elapsed_s = read(costs.read_text().splitlines())
        assert {name: cost.tests for name, cost in rooms.items()} == {
            COLLECTING: 0, "test": runs, "child": runs, "teardown": 2 * runs, "waits": runs,
        }  # fmt: skip
        for name in ("test", "child", "teardown"):
            assert rooms[name].cpu_s >= 0.3 * runs, name
        assert rooms["waits"].cpu_s < 0.3 * runs
        assert rooms["waits"].elapsed_s >= 0.6 * runs
        assert rooms[COLLECTING].cpu_s > 0
        assert elapsed_s >= 0.6 * runs


def test_parallel_runs_take_as_long_as_the_longest() -> None:
    cost = {"tests": 1, "cpu_s": 2.0, "elapsed_s": 3.0}
    runs = [
        {"began": 100.0, "ended": 400.0, "rooms": {"simulation": cost}},
        {"began": 101.0, "ended": 350.0, "rooms": {"simulation": cost, "integration": cost}},
    ]
    rooms, elapsed_s = read(map(json.dumps, runs))
    assert elapsed_s == 300.0
    assert rooms == {"integration": Cost(1, 2.0, 3.0), "simulation": Cost(2, 4.0, 6.0)}
    assert read([]) == ({}, 0.0)


def test_a_room_over_its_budget_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BUDGET_MIN", {"mrc_host": (2.0, 9.0), "simulation": (1.0, 9.0)})
    monkeypatch.setattr(budget, "ELAPSED_MIN", 8.0)
    rooms = {"mrc_host": Cost(70, 90.0, 300.0), "simulation": Cost(3, 61.0, 61.0)}
    lines = table(rooms, 310.0, 1)
    assert lines[1].split() == ["mrc_host", "70", "5.00", "1.50", "2.00"]
    assert lines[3].split() == ["all", "73", "5.17", "2.52", "3.00"]
    assert lines[4:] == ["WARNING: simulation is over its budget: 1.02 CPU minutes, 1.00 are allowed."]
    assert table(rooms, 310.0, 2)[4:] == []
    rooms["simulation"].cpu_s = 59.0
    assert not [line for line in table(rooms, 310.0, 1) if "WARNING" in line]
    assert "it should take 8 minutes" in table(rooms, 481.0, 1)[4]
    assert table({"new": Cost(1, 0.1, 0.1)}, 1.0, 1)[3] == "WARNING: new has no budget: give it one in tests/budget.py."


def test_rooms_and_budgets_match() -> None:
    rooms = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert BUDGET_MIN.keys() - {COLLECTING} == rooms
