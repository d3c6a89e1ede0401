"""Tests of other projects in a child, which prints a line of JSON for each: name, outcome and reason.

The child is a module of ours that is run with a folder and the names of tests; without names it lists all. What the
tests print goes to a log, whose end is shown if the child fails.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from mrc_common import children
from tests.outcomes import Outcome


def outcomes(child: str, folder: Path, tests: Sequence[str]) -> Iterator[Outcome]:
    """Outcomes of `tests` as they come; the module `child` runs them, with its files in `folder`."""
    for line in _lines(child, folder, tests):
        yield Outcome(**json.loads(line))


def names(child: str, folder: Path) -> list[str]:
    """Names of all tests that `child` knows."""
    return [line.strip() for line in _lines(child, folder, ())]


def _lines(child: str, folder: Path, tests: Sequence[str]) -> Iterator[str]:
    variables = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = children.python(child, str(folder), *tests)
    with (
        open(folder / "log", "w") as log,
        children.popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables) as process,
    ):
        yield from process.stdout
    assert process.returncode == 0, (folder / "log").read_text()[-2000:]


def output_of_child() -> TextIO:
    """Where the child prints its lines; what others print goes to the log from now on."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr)
    return output


class Report(unittest.TestResult):
    """Prints the outcome of the test `name` to `output` when it is known."""

    def __init__(self, output: TextIO, name: str) -> None:
        super().__init__()
        self._output, self._name = output, name

    def _print(self, outcome: str, reason: str = "") -> None:
        row = {"test": self._name, "outcome": outcome, "reason": reason}
        print(json.dumps(row), file=self._output, flush=True)

    def addSuccess(self, test: Any) -> None:  # noqa: N802 (unittest's name)
        self._print("passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._print("skipped", reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._print("failed", str(err[1]))

    addFailure = addError  # noqa: N815
