"""Suites of other projects' unit tests, with our process group in place of theirs, each in a child.

The child is a module of ours, run with a folder and the names of tests; it prints a line of JSON for each: name,
outcome and reason. Without names it lists all. What the tests print goes to a log, whose end is shown if the child
fails. A table beside the module, with its name, says how each test is expected to end.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from mrc_common import children
from tests.mrc_host.nics_in_memory import nics_in_memory
from tests.outcomes import Outcome, read_table


@dataclass(frozen=True)
class Suite:
    """Tests that the module `child` runs on NICs h1 to h<`nics`> in memory.

    The `page` of docs/ has the table's totals. `missing` says what it takes to run the tests and is not here, None if
    all is. Names begin with `prefix`, which the table leaves out.
    """

    child: str
    nics: int
    page: str
    missing: Callable[[], str | None]
    prefix: str = ""

    def expected(self) -> dict[str, Outcome]:
        """What the table says, by the test's whole name."""
        table = Path(__file__).with_name(self.child.rpartition(".")[2] + ".yaml")
        named = [replace(outcome, test=self.prefix + name) for name, outcome in read_table(table).items()]
        return {outcome.test: outcome for outcome in named}

    def run(self, folder: Path, tests: Sequence[str]) -> Iterator[Outcome]:
        """Outcomes of `tests` as they come; NICs and files are in `folder`."""
        with nics_in_memory(folder, self.nics):
            for line in _lines(self.child, folder, tests):
                yield Outcome(**json.loads(line))

    def names(self, folder: Path) -> list[str]:
        """Names of all tests there are."""
        return [line.strip() for line in _lines(self.child, folder, ())]


def serve(cases: Callable[[Path], Mapping[str, Callable[[], unittest.TestCase]]]) -> None:
    """The child: `cases` makes the tests of a folder, by name."""
    folder, *wanted = sys.argv[1:]
    output = _output_of_child()
    made = cases(Path(folder))
    if not wanted:
        print("\n".join(made), file=output, flush=True)
    for name in wanted:
        unittest.TestSuite([made[name]()]).run(_Report(output, name))


class ForkedRanks:
    """For PyTorch's MultiProcessTestCase: rank r is on the NIC h<r+1> of the folder `nics`.

    Ranks are forked, which takes a tenth of the time that PyTorch's own way of starting them does: it imports torch for
    each of them.
    """

    nics: Path

    def _spawn_processes(self) -> None:
        self._start_processes(multiprocessing.get_context("fork").Process)  # type: ignore[attr-defined]

    @classmethod
    def _run(cls, rank: int, *arguments: Any, **options: Any) -> None:
        os.environ["MRC_AGENT"] = str(cls.nics / f"h{rank + 1}.sock")
        super()._run(rank, *arguments, **options)  # type: ignore[misc]


def _lines(child: str, folder: Path, tests: Sequence[str]) -> Iterator[str]:
    variables = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = children.python(child, str(folder), *tests)
    with (
        open(folder / "log", "w") as log,
        children.popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables) as process,
    ):
        yield from process.stdout
    assert process.returncode == 0, (folder / "log").read_text()[-2000:]


def _output_of_child() -> TextIO:
    """Where the child prints its lines; what others print goes to the log from now on."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr)
    return output


class _Report(unittest.TestResult):
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
