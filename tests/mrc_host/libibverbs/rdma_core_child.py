"""Run rdma-core's tests, a script that imports nothing of this project: their package is called ``tests`` as well.

``rdma_core_child.py FOLDER SOCKET SOCKET [NAME...]``: FOLDER has their ``tests``, the sockets are those of two NICs. It
prints a line of JSON for each test (all, or those named): its name, outcome and reason.

The tests connect queue pairs of one device to each other, which a NIC with nothing but links to switches cannot. So
the contexts of a test's two players, which it opens in turn, are on different NICs, and each is given the other one's
address for the remote end.
"""

import itertools
import json
import os
import sys
import unittest
from collections.abc import Iterator
from typing import Any


class Report(unittest.TestResult):
    """Prints each outcome when it is known; before each test the next players begin with the first NIC again."""

    def __init__(self, output: Any, sockets: list[str]) -> None:
        super().__init__()
        self._output = output
        self._sockets = sockets
        self.ends: Iterator[str]

    def startTest(self, test: Any) -> None:  # noqa: N802 (unittest's name)
        os.environ["MRC_AGENT"] = self._sockets[0]
        self.ends = itertools.cycle(self._sockets)

    def _print(self, test: Any, outcome: str, reason: str = "") -> None:
        row = {"test": test.id().removeprefix("tests."), "outcome": outcome, "reason": reason}
        print(json.dumps(row), file=self._output, flush=True)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self._print(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._print(test, "skipped", reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._print(test, "failed", str(err[1]))

    addFailure = addError  # noqa: N815


def put_players_on_two_nics(report: Report, sockets: list[str]) -> None:
    """Replace the class with which their base module opens the device for a player."""
    from pyverbs.device import Context

    import tests.base  # type: ignore[import-not-found]  # rdma-core's

    class PlayersContext(Context):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            os.environ["MRC_AGENT"] = self.socket = next(report.ends)
            super().__init__(**options)

        def query_gid(self, port_num: int, index: int) -> Any:
            os.environ["MRC_AGENT"] = next(socket for socket in sockets if socket != self.socket)
            with Context(name="mrc0") as other:
                return other.query_gid(port_num, index)

    tests.base.Context = PlayersContext


def main() -> None:
    folder, *sockets = sys.argv[1:4]
    names = sys.argv[4:]
    del sys.argv[1:]
    sys.path[:1] = [os.path.join(folder, "tests"), folder]
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print
    report = Report(output, sockets)
    from args_parser import parser  # type: ignore[import-not-found]  # rdma-core's

    parser.parse_args()
    put_players_on_two_nics(report, sockets)
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames([f"tests.{name}" for name in names])
    else:
        suite = loader.loadTestsFromName("tests")
    suite.run(report)


if __name__ == "__main__":
    main()
