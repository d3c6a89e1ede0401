"""The soak runs the swarm, the fuzzers and the property tests, reports on all, and fails when one of them does."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from tests import soak
from tests.fuzz import harness

GOOD, BAD = [sys.executable, "-c", "pass"], [sys.executable, "-c", "raise SystemExit(3)"]


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Result, dict[str, list[str]]]:
    """What a command line comes to, and which commands it would run."""
    ran: dict[str, list[str]] = {}

    def note(commands: dict[str, list[str]]) -> int:
        ran.update(commands)
        return 0

    monkeypatch.setattr(soak, "soak", note)
    return CliRunner().invoke(soak.main, arguments), ran


def test_the_second_part_runs_even_if_the_first_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.soak({"swarm": BAD, "properties": GOOD}) == 1
    summary = capfd.readouterr().out.partition("== soak")[2]
    assert "swarm       FAILED with status 3" in summary
    assert "properties  passed" in summary
    assert soak.soak({"swarm": GOOD, "properties": BAD}) == 1
    assert soak.soak({"swarm": GOOD, "properties": GOOD}) == 0


def test_exit_status_distinguishes_usage_errors_and_interrupts(capfd: pytest.CaptureFixture[str]) -> None:
    for status in (2, 130):
        end = [sys.executable, "-c", f"raise SystemExit({status})"]
        assert soak.soak({"swarm": end, "properties": GOOD}) == status
        assert "properties  " not in capfd.readouterr().out.partition("== soak")[2]


def test_options_reach_the_swarm_and_jobs_reach_both(monkeypatch: pytest.MonkeyPatch) -> None:
    result, ran = invoke(monkeypatch, "--seconds", "3600", "--jobs", "2", "--no-shrink")
    assert result.exit_code == 0, result.output
    assert ran["swarm"][3:] == ["tests.swarm", "--jobs", "2", "--seconds", "3600", "--no-shrink"]
    assert ran["engine"][3:] == ["tests.fuzz", "engine", "--seconds", "3600"]
    assert ran["seeds"][3:] == ["tests.seeds", "--seconds", "3600"]
    assert ran["properties"][-2:] == ["--numprocesses", "2"]
    _, ran = invoke(monkeypatch)
    assert list(ran) == ["swarm", "congestion", "scale", "ranks", *harness.NAMES, "seeds", "properties"]
    assert "--numprocesses" not in ran["properties"]


def test_one_part_or_one_seed_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(invoke(monkeypatch, "--only", "properties")[1]) == ["properties"]
    assert list(invoke(monkeypatch, "--only", "fuzz")[1]) == harness.NAMES
    assert list(invoke(monkeypatch, "--only", "nic")[1]) == ["nic"]
    _, ran = invoke(monkeypatch, "--seed", "17", "--faults", "1")
    assert list(ran) == ["swarm"]
    assert ran["swarm"][-4:] == ["--seed", "17", "--faults", "1"]
    for part in ("properties", "fuzz", "nic"):
        assert invoke(monkeypatch, "--seed", "17", "--only", part)[0].exit_code == 2


def test_a_fuzzer_reports_what_it_tried(capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.soak({"nic": soak.fuzzer("nic", 0)}) == 0
    summary = capfd.readouterr().out.partition("== soak")[2]
    assert re.search(r"nic +passed after \d+ s: 0 cases of seed \d+, 0 crashes, the longest case 0 ms", summary)


def test_the_swarm_accepts_the_options_it_is_passed() -> None:
    assert soak.soak({"swarm": soak.swarm(["--runs", "2", "--no-shrink"], 1)}) == 0
    assert soak.soak({"swarm": soak.swarm(["--walks", "2"], 1)}) == 2


def test_every_property_test_is_selected() -> None:
    command = [*soak.properties(1), "--collect-only"]
    listed = subprocess.run(command, cwd=soak.ROOT, capture_output=True, text=True, check=True).stdout
    files = {path for path in (soak.ROOT / "tests").rglob("test_*.py") if "\n@given(" in path.read_text()}
    names = {str(path.relative_to(soak.ROOT)) for path in files}
    assert len(names) > 10
    assert names == {line.partition("::")[0] for line in listed.splitlines() if "::" in line}
    assert "--hypothesis-profile=soak" in listed
