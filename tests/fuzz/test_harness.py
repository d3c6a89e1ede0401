"""The harness finds planted crashes, says how to repeat them, and the fuzzers themselves run."""

from __future__ import annotations

import json
import random
import re
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc_common import children
from mrc_host.libibverbs import build
from tests.fuzz import harness
from tests.mrc_host.captures import tshark
from tests.seeds import SEED


class Planted:
    """Crashes on one number in about five."""

    made = closed = 0

    def __init__(self) -> None:
        type(self).made += 1

    def case(self, chance: random.Random) -> None:
        if chance.randrange(5) == 0:
            raise ValueError("planted")

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planted, "made", 0)
    monkeypatch.setattr(Planted, "closed", 0)


def crashing(seed: int, count: int = 100) -> list[int]:
    """Numbers of the cases that crash."""
    return [n for n in range(count) if random.Random(f"{seed}/{n}").randrange(5) == 0]


def test_crashes_are_counted_and_reproducible_by_case_number(capsys: pytest.CaptureFixture[str]) -> None:
    bad = crashing(7)
    result = harness.run("planted", Planted, 7, most=bad[1] + 1)
    assert (result.cases, result.crashes) == (bad[1] + 1, 2)
    assert f"again: python -m tests.fuzz planted --seed 7 [--case {bad[1]}]" in capsys.readouterr().err
    assert harness.run("planted", Planted, 7, first=bad[1], most=1).crashes == 1
    assert Planted.made == Planted.closed


def test_a_run_ends_after_a_few_crashes() -> None:
    result = harness.run("planted", Planted, 7, most=10_000)
    assert result.crashes == harness.MAX_CRASHES
    assert result.cases == crashing(7)[harness.MAX_CRASHES - 1] + 1


def test_with_zero_seconds_no_case_runs() -> None:
    result = harness.run("planted", Planted, 7, seconds=0)
    assert json.loads(result.json()) == {
        "name": "planted", "seed": 7, "cases": 0, "crashes": 0, "longest_case_ms": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("name", harness.NAMES)
def test_every_fuzzer_runs(name: str) -> None:
    if name == "dissector" and tshark.TSHARK is None:
        pytest.skip("tshark is not installed")
    if name == "pages" and build.missing() is not None:
        pytest.skip(build.missing() or "")
    if name == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
    seed = SEED
    print(f"seed {seed}")
    result = harness.run(name, harness.load(name), seed, most=3)
    assert (result.cases, result.crashes) == (3, 0)


def test_the_command_repeats_a_seed() -> None:
    """As SECURITY.md has it, but for the time."""
    words = children.python("tests.fuzz", "agent", "--seed", "17", "--case", "0")
    done = children.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first == "agent: seed 17"
    assert json.loads(last)["seed"] == 17


def test_without_the_packages_that_tests_need_the_command_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is after `make install` alone."""
    monkeypatch.delitem(sys.modules, "tests.fuzz.fuzz_agent", raising=False)
    monkeypatch.setitem(sys.modules, "pytest", None)
    for name in [name for name in sys.modules if name.startswith("tests.mrc_host")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", ["fuzz", "agent"])
    main = runpy.run_module("tests.fuzz.__main__", run_name="fuzz")["main"]
    result = CliRunner().invoke(main, ["agent", "--seconds", "0"])
    assert result.exit_code == 1
    assert result.output.endswith(
        "Error: The fuzzer agent needs pytest, which is not installed: run 'scripts/install dev'.\n"
    )


def test_security_names_commands_that_install_what_they_need() -> None:
    """Whoever reports a defect has run `make install` at most."""
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    before, _, _ = page.partition("-m tests.fuzz")
    assert "make soak" in before
    named = re.findall(r"--only (\w+)|tests\.fuzz (\w+)", page)
    assert {name for pair in named for name in pair if name} <= set(harness.NAMES)
