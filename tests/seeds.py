"""Seeds of tests that draw at random: the same in every run of the tests, others in ``make soak``.

So ``make test`` fails for a change, never for its luck. ``make soak`` draws seeds for as long as it is given and has
the tests that use :data:`SEED` run with each; those that need root are left out. It prints how to repeat a failure:

    MRC_TEST_SEED=17 python -m pytest FILES
    python -m tests.seeds --seconds 60

A test still prints its seed, and may derive more of it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Final

from mrc_common import children

VARIABLE: Final = "MRC_TEST_SEED"
SEED: Final = int(os.environ.get(VARIABLE) or 1)
ROOT: Final = Path(__file__).resolve().parents[1]
_NONE_SELECTED: Final = 5  # pytest's status


def users() -> list[str]:
    """Files with tests that use :data:`SEED`."""
    pattern = re.compile(r"^from tests\.seeds import SEED$", re.MULTILINE)
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if pattern.search(file.read_text())]


def run(seed: int, files: list[str]) -> int:
    """Run the tests in `files` with a seed; the status of pytest."""
    command = children.python("pytest", "-q", "-p", "no:cacheprovider", "-m", "not root", *files)
    return children.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(seed)}, check=False).returncode


def main() -> int:
    """Draw seeds until the time is over, or one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeds", description="Run random tests with other seeds.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time after which no other seed is drawn")
    seconds = parser.parse_args().seconds
    files = users()
    end = time.monotonic() + seconds
    while True:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"{VARIABLE}={seed}", flush=True)
        status = run(seed, files)
        if status not in (0, _NONE_SELECTED):
            print(f"Repeat with {VARIABLE}={seed} and the file of the test that failed.", file=sys.stderr)
            return status
        if time.monotonic() >= end:
            return 0


if __name__ == "__main__":
    sys.exit(main())
