"""Agents in a process of their own, so that descriptors which run out there run out for nobody else.

The child, ``agent_process FOLDER MORE``, serves two agents on fake NICs until its input is closed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mrc_common import children
from tests.mrc_host.agent.conftest import Agents


@contextlib.contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """This process may have so many more descriptors than it has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def agents_with(folder: Path, more: int) -> Iterator[list[Path]]:
    """Sockets of two agents whose process may have `more` descriptors than it starts with; they end well, too."""
    command = children.python(__name__, str(folder), str(more))
    with children.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield [folder / f"h{number}.sock" for number in (1, 2)]
        finally:
            process.communicate()
    assert process.returncode == 0


def main() -> None:
    folder, more = sys.argv[1:]
    agents = Agents(Path(folder), split=True)
    with few_descriptors(int(more)):
        print("ready", flush=True)
        sys.stdin.read()
    agents.stop()


if __name__ == "__main__":
    main()
