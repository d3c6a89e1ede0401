"""Run PyTorch's own tests of process groups on the backend mrc, each with three ranks on NICs in memory.

They are in PyTorch's wheel (`torch.testing._internal.distributed.distributed_test`). ``pytorch_tests FOLDER NAME...``,
a child (`unittest_child`), runs those named; without names it lists all.
Ranks are forked from it, which takes a tenth of the time that PyTorch's own way of starting them does: it imports torch
for each of them. The table ``pytorch_tests.yaml`` says what is expected of each.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import sys
import unittest
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.mrc_host.nics_in_memory import nics_in_memory
from tests.mrc_lab.torch.unittest_child import Report, names, outcomes, output_of_child
from tests.outcomes import Outcome, read_table

WORLD = 3
BY_NAME = re.compile(
    "to be one of|only.*(mpi|gloo)|gloo.*cpu", re.IGNORECASE
)  # skipped since the backend has another name
TABLE = Path(__file__).with_suffix(".yaml")


def expected() -> dict[str, Outcome]:
    """What the table says, by the test's whole name."""
    named = (replace(outcome, test=f"test_{name}") for name, outcome in read_table(TABLE).items())
    return {outcome.test: outcome for outcome in named}


def run(folder: Path, tests: Sequence[str]) -> Iterator[Outcome]:
    """Outcomes of `tests` as they come; NICs and files are in `folder`."""
    with nics_in_memory(folder, WORLD):
        yield from outcomes(__name__, folder, tests)


def cases_of_wheel(folder: Path) -> list[str]:
    """Names of all tests there are."""
    return names(__name__, folder)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """PyTorch's function without its check of the backend's name: it calls the group's method."""
    import torch.distributed as dist

    if dist.get_rank(group) >= 0:
        limit = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
        (group or dist.group.WORLD).monitored_barrier(limit, wait_all_ranks)


def cases(folder: Path) -> Any:
    """The test case class: PyTorch's, whose ranks find their NICs.

    PyTorch skips tests by the names of the backends that it knows; what it skips or refuses for that reason alone is
    run.
    """
    import torch.distributed as dist
    from torch.testing._internal import common_distributed

    dist.monitored_barrier = monitored_barrier

    for feature in ("cuda", "ddp", "gpu", "plugin", "subgroup"):
        common_distributed.DistTestCases.backend_feature[feature].add("mrc")
    common_distributed.skip_if_small_worldsize = lambda test: test  # groups of two out of three will do
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    for test in vars(DistributedTest._DistTestBase).values():
        if BY_NAME.search(getattr(test, "__unittest_skip_why__", "")):
            test.__unittest_skip__ = False

    class OnMrc(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank: int, *arguments: Any, **options: Any) -> None:
            os.environ["MRC_AGENT"] = str(folder / f"h{rank + 1}.sock")
            super()._run(rank, *arguments, **options)

    return OnMrc


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main() -> None:
    """The child."""
    folder, *wanted = sys.argv[1:]
    os.environ.update(BACKEND="mrc", WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    output = output_of_child()
    made = cases(Path(folder))
    if not wanted:
        print("\n".join(unittest.TestLoader().getTestCaseNames(made)), file=output, flush=True)
    for name in wanted:
        made(name).run(Report(output, name))


if __name__ == "__main__":
    main()
