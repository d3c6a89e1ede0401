"""Start one rank of a torch program in each of several hosts: what ``mrc train`` does.

Importing PyTorch takes ranks a while, in which they print nothing: the launcher says so until the first one does.

Every rank gets what torchrun would give it (RANK, WORLD_SIZE, MASTER_ADDR, ...), so that ``init_process_group("mrc")``
needs nothing more; the master is rank 0, reached over the management network. What ranks print comes out line by line
behind the name of their host. The first that fails ends the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mrc_common import children
from mrc_lab.torch_jobs.outputs import Outputs
from topologies.emulation import host_environment, namespaces
from topologies.emulation.processes import pdeathsig
from topologies.emulation.run_directory import RunDirectory

MASTER_PORT = 29500  # torchrun's own default
_GRACE_S = 10.0  # between asking a rank to end and killing it
_SILENCE_S = 20.0  # between notes that no rank has printed anything yet


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank runs: the host and the process whose namespaces are the host's."""

    host: str
    shell: int


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The first rank that failed: its host, its exit status (128 and more: of a signal), and both in words."""

    host: str
    status: int
    words: str


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
    note: Callable[[str], object] = sys.stderr.write,
) -> RankFailure | None:
    """Run `command` once for each rank and wait for all; returns which one failed first, or None.

    Each line that a rank prints goes to `write` behind ``[HOST]``, and a last one about a failure; `note` is told what
    is being waited for, as long as no rank has printed anything. `more` is added to every environment. An interrupt
    ends all ranks before it goes on.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        with Outputs(write) as outputs:
            for number, rank in enumerate(ranks):
                started.append(start(run, rank, command, {**variables(ranks, number, port), **(more or {})}))
                outputs.follow(rank.host, started[-1])
            note(f"{len(ranks)} ranks started; they print nothing before they have imported their modules\n")
            return _follow(outputs, note)
    finally:
        end(started)


def start(run: RunDirectory, rank: Rank, command: Sequence[str], more: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Run `command` in a host, with `more` in its environment; it dies with this process."""
    return children.popen(
        pdeathsig([*namespaces.enter_host(rank.shell), *command]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        bufsize=0,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **host_environment.variables(run, rank.host), **more, "PYTHONUNBUFFERED": "1"},
    )


def failed(host: str, status: int) -> RankFailure:
    """What the status of a process that has failed says."""
    words = f"ended with status {status}" if status > 0 else f"was killed by {signal.Signals(-status).name}"
    return RankFailure(host, status if status > 0 else 128 - status, words)


def _follow(outputs: Outputs, note: Callable[[str], object]) -> RankFailure | None:
    """Print what the ranks say until all have ended, or one has failed."""
    began = time.monotonic()
    while outputs.running:
        ended = outputs.wait(_SILENCE_S if outputs.silent else None)
        if outputs.silent:
            note(f"no rank has printed anything in {time.monotonic() - began:.0f} s; {outputs.running} run\n")
        for output in ended:
            if status := output.process.wait():
                failure = failed(output.name, status)
                outputs.write(f"[{output.name}] {failure.words}; the other ranks are ended.\n")
                return failure
    return None


def end(started: Sequence[subprocess.Popen[bytes]]) -> None:
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
