"""Run PyTorch's own tests of process groups on the backend mrc, each with three ranks on NICs in memory.

They are in PyTorch's wheel (`torch.testing._internal.distributed.distributed_test`).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import socket
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.mrc_lab.torch.foreign_suite import ForkedRanks, Suite, serve

BY_NAME = re.compile(
    "to be one of|only.*(mpi|gloo)|gloo.*cpu", re.IGNORECASE
)  # skipped since the backend has another name


def missing() -> str | None:
    """What it takes to run them and is not here."""
    absent = any(importlib.util.find_spec(name) is None for name in ("torch", "expecttest"))
    return "PyTorch or expecttest is not installed: pip install '.[torch]' expecttest" if absent else None


SUITE = Suite("tests.mrc_lab.torch.pytorch_tests", 3, "pytorch.md", missing, prefix="test_")


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """PyTorch's function without its check of the backend's name: it calls the group's method."""
    import torch.distributed as dist

    if dist.get_rank(group) >= 0:
        limit = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
        (group or dist.group.WORLD).monitored_barrier(limit, wait_all_ranks)


def cases(folder: Path) -> dict[str, Any]:
    """All tests by name. PyTorch skips tests by the names of the backends that it knows.

    What it skips or refuses for that reason alone is run.
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

    class OnMrc(ForkedRanks, TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        nics = folder

        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()

    return {name: functools.partial(OnMrc, name) for name in unittest.TestLoader().getTestCaseNames(OnMrc)}


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


if __name__ == "__main__":
    os.environ.update(BACKEND="mrc", WORLD_SIZE=str(SUITE.nics), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    serve(cases)
