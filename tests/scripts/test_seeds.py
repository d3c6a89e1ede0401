"""Seeds are fixed, but for the soak's; tests of every module that draws its own are found by it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import seeds

ROOT = Path(__file__).parents[2]
FRESH = re.compile(
    r"SystemRandom\(\)|random\.Random\(\)|\brandom\.(randrange|randint|getrandbits|random)\(|int\.from_bytes\(os\.urandom"
    r"|default_rng\(\)"
)
DRAWING = {"tests/hypothesis_profiles.py", "tests/seeds.py", "tests/scripts/test_seeds.py"}


def test_no_test_draws_a_seed_of_its_own() -> None:
    """It would fail by its luck, and another test than the one that was changed."""
    found = {
        f"{name}:{number}"
        for file in ROOT.glob("tests/**/*.py")
        if (name := str(file.relative_to(ROOT))) not in DRAWING
        and file.name != "__main__.py"  # a command, for the soak
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if FRESH.search(re.sub(r"\w+\.random\.", "", line))
    }
    assert found == set(), "take SEED of tests/seeds.py"


def test_the_soak_repeats_tests_with_the_seed_it_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(
        "from tests.seeds import SEED\ndef test_it():\n    assert SEED == 1, f'with {SEED}'\n"
    )
    monkeypatch.setattr(seeds, "ROOT", tmp_path)
    assert seeds.users() == ["tests/test_it.py"]
    monkeypatch.setattr(sys, "argv", ["seeds", "--seconds", "60"])
    assert seeds.main() == 1
    printed = capfd.readouterr()
    drawn = re.search(r"MRC_TEST_SEED=(\d+)", printed.out)
    assert drawn
    assert f"with {drawn[1]}" in printed.out
    assert drawn[0] in printed.err
    assert seeds.run(1, seeds.users()) == 0


def test_the_variable_gives_the_seed() -> None:
    code = "from tests.seeds import SEED; print(SEED)"
    for given, seed in (("", "1"), ("17", "17")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={seeds.VARIABLE: given},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == seed
