"""Start one rank of a torch program in each of several hosts: what ``mrc train`` does.

Every rank gets what torchrun would give it (RANK, WORLD_SIZE, MASTER_ADDR, ...), so that ``init_process_group("mrc")``
needs nothing more; the master is rank 0, reached over the management network. What ranks print comes out line by line
behind the name of their host. The first that fails ends the others.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mrc_common import children
from topologies.emulation import host_environment, namespaces
from topologies.emulation.processes import pdeathsig
from topologies.emulation.run_directory import RunDirectory

MASTER_PORT = 29500  # torchrun's own default
_GRACE_S = 10.0  # between asking a rank to end and killing it
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank runs: the host and the process whose namespaces are the host's."""

    host: str
    shell: int


def variables(ranks: Sequence[Rank], number: int, port: int) -> dict[str, str]:
    """What torch.distributed looks up in a rank's environment (torchrun's names)."""
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(len(ranks)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(number),
        "MASTER_ADDR": ranks[0].host,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def launch(
    run: RunDirectory,
    ranks: Sequence[Rank],
    command: Sequence[str],
    *,
    more: Mapping[str, str] | None = None,
    port: int = MASTER_PORT,
    write: Callable[[str], object] = sys.stdout.write,
) -> int:
    """Run `command` once for each rank and wait for all; returns the exit status of the first that failed, or 0.

    `more` is added to every environment. An interrupt ends all ranks before it goes on.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, rank in enumerate(ranks):
            started.append(
                children.popen(
                    pdeathsig([*namespaces.enter_host(rank.shell), *command]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={
                        **os.environ,
                        **host_environment.variables(run, rank.host),
                        **variables(ranks, number, port),
                        **(more or {}),
                        "PYTHONUNBUFFERED": "1",
                    },
                )
            )
        return _follow([rank.host for rank in ranks], started, write)
    finally:
        _end(started)


def _follow(hosts: Sequence[str], started: Sequence[subprocess.Popen[bytes]], write: Callable[[str], object]) -> int:
    """Print what the ranks say until all have ended, or one has failed."""
    rest = dict.fromkeys(range(len(started)), b"")
    with selectors.DefaultSelector() as selector:
        for number, process in enumerate(started):
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select():
                number = key.data
                data = os.read(key.fd, _LONGEST_LINE)
                *lines, rest[number] = (rest[number] + data).split(b"\n")
                if (not data and rest[number]) or len(rest[number]) >= _LONGEST_LINE:
                    lines.append(rest[number])
                    rest[number] = b""
                for line in lines:
                    write(f"[{hosts[number]}] {line.decode(errors='replace')}\n")
                if not data:
                    selector.unregister(key.fileobj)
                    status: int = started[number].wait()
                    if status:
                        write(f"[{hosts[number]}] {_ended(status)}; the other ranks are ended.\n")
                        return status if status > 0 else 128 - status
    return 0


def _ended(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by {signal.Signals(-status).name}"


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask those that still run to end, then kill them; nobody is left."""
    for process in started:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE_S
    for process in started:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
