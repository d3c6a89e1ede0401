"""Start one rank of a torch program in each of several hosts: what ``mrc train`` does.

Importing PyTorch takes ranks a while, in which they print nothing: the launcher says so until the first one does.

Every rank gets what torchrun would give it (RANK, WORLD_SIZE, MASTER_ADDR, ...), so that ``init_process_group("mrc")``
needs nothing more; the master is rank 0, reached over the management network. What ranks print comes out line by line
behind the name of their host. The first that fails ends the others.
"""

from __future__ import annotations

import contextlib
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
        note(f"{len(ranks)} ranks started; they print nothing before they have imported their modules\n")
        return _follow([rank.host for rank in ranks], started, write, note)
    finally:
        _end(started)


def _follow(
    hosts: Sequence[str],
    started: Sequence[subprocess.Popen[bytes]],
    write: Callable[[str], object],
    note: Callable[[str], object],
) -> RankFailure | None:
    """Print what the ranks say until all have ended, or one has failed.

    A rank has ended when its process has, even if a process that it has left behind keeps its output open.
    """
    outputs = [_Output(host, process, write) for host, process in zip(hosts, started, strict=True)]
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        for output in outputs:
            exited = os.pidfd_open(output.process.pid)
            opened.callback(os.close, exited)
            selector.register(exited, selectors.EVENT_READ, output)
            selector.register(output.descriptor, selectors.EVENT_READ, output)
        running, began, silent = len(outputs), time.monotonic(), True
        while running:
            ready = selector.select(_SILENCE_S if silent else None)
            if not ready:
                note(f"no rank has printed anything in {time.monotonic() - began:.0f} s; {running} run\n")
            silent = silent and not ready
            for key, _ in ready:
                output = key.data
                if key.fd == output.descriptor:
                    if not output.read():
                        selector.unregister(key.fd)
                    continue
                selector.unregister(key.fd)
                running -= 1
                output.read_rest()
                status: int = output.process.wait()
                if status:
                    write(f"[{output.host}] {_ended(status)}; the other ranks are ended.\n")
                    return RankFailure(output.host, status if status > 0 else 128 - status, _ended(status))
    return None


class _Output:
    """What one rank prints, line by line."""

    def __init__(self, host: str, process: subprocess.Popen[bytes], write: Callable[[str], object]) -> None:
        assert process.stdout is not None
        self.host, self.process = host, process
        self.descriptor = process.stdout.fileno()
        os.set_blocking(self.descriptor, False)
        self._write = write
        self._line = b""

    def read(self) -> bool:
        """Pass on what is there; False when there is nothing, now or any more."""
        try:
            data = os.read(self.descriptor, _LONGEST_LINE)
        except BlockingIOError:
            return False
        *lines, self._line = (self._line + data).split(b"\n")
        if (not data and self._line) or len(self._line) >= _LONGEST_LINE:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._write(f"[{self.host}] {line.decode(errors='replace')}\n")
        return bool(data)

    def read_rest(self) -> None:
        """Pass on what the rank has left behind."""
        while self.read():
            pass
        if self._line:
            self._write(f"[{self.host}] {self._line.decode(errors='replace')}\n")


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
