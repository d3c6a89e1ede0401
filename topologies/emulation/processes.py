"""Child processes of a fabric: they die with their parent, are recorded, and say when they are ready.

A command is started through ``setpriv --pdeathsig KILL`` (util-linux), which asks the kernel (prctl(2),
PR_SET_PDEATHSIG) to kill it when the thread that started it ends, and for a host's processes then through
``nsenter`` and Mininet's ``mnexec -a PID``, which enter the host's namespaces. All exec in place, so that the process
id stays the same and no Python code runs between fork and exec. Children have a session of their own: Ctrl-C at the
prompt is not for them.

Readiness is an event: a child is given the number of a pipe (``--ready-fd N``) and writes a line to it. If the pipe
closes without one, the child has failed, and the end of its log is in the error.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mrc_common import children
from topologies.emulation import limits, namespaces
from topologies.emulation.errors import EmulationError, ProcessError
from topologies.emulation.run_directory import RunDirectory

READY_FD = "{ready-fd}"
READY_SECONDS = 60.0
"""How long a process may take to get ready; a first start compiles the P4 program. See :func:`ready_seconds`."""
READY_VARIABLE = "MRC_READY_SECONDS"
_STOP_SECONDS = 3.0
_MOST_READY_SECONDS = 86_400
_LOG_LINES = 5


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start. The word ``{ready-fd}`` in `argv` is replaced by the descriptor to report on.

    `namespace_pid` is a process whose namespaces to enter. Without ``{ready-fd}`` the process counts as ready when
    `ready_socket`, a UNIX socket, takes connections. `inherits` are descriptors that the process is given.
    """

    name: str
    argv: tuple[str, ...]
    namespace_pid: int | None = None
    ready_socket: str | None = None
    inherits: tuple[int, ...] = ()


def ready_seconds(usual: float = READY_SECONDS) -> float:
    """How long processes may take to get ready: as usual, or what a slow machine's environment says."""
    text = os.environ.get(READY_VARIABLE, "")
    if not text:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= _MOST_READY_SECONDS:
        raise EmulationError(f"{READY_VARIABLE} is {text!r}, but must be 1 to {_MOST_READY_SECONDS} seconds.")
    return seconds


class Child:
    """A started command."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes], ready_fd: int | None, log: str) -> None:
        self.command = command
        self.process = process
        self.ready_fd = ready_fd
        self.log = log

    @property
    def name(self) -> str:
        """Name of the process within the fabric."""
        return self.command.name

    def failure(self) -> ProcessError:
        """Why the child is not ready, from its exit status and the end of its log."""
        status = self.process.poll()
        state = "is not ready" if status is None else f"ended with status {status}"
        advice = f". If this machine is slow or busy, set {READY_VARIABLE}=600 (seconds)" if status is None else ""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as stream:
                lines = [line.strip() for line in stream if line.strip()]
        except OSError:
            lines = []
        few = limits.out_of_descriptors("\n".join(lines))
        lines = [few] if few else lines[-_LOG_LINES:]
        return ProcessError(f"Process {self.name} {state}: {' | '.join(lines) or 'it printed nothing'}{advice}")


def pdeathsig(argv: Iterable[str], number: str = "KILL") -> list[str]:
    """The same command, to be killed when its parent exits."""
    return ["setpriv", "--pdeathsig", number, *argv]


def start(run: RunDirectory, command: Command) -> Child:
    """Start a command and record it in the run directory."""
    log = run.log_file(command.name)
    ready_read = ready_write = None
    argv = list(command.argv)
    if READY_FD in argv:
        ready_read, ready_write = os.pipe()
        argv = [str(ready_write) if word == READY_FD else word for word in argv]
    wrapped = argv if command.namespace_pid is None else [*namespaces.enter_host(command.namespace_pid), *argv]
    try:
        with log.open("ab") as output:
            process = children.popen(
                pdeathsig(wrapped),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=command.inherits if ready_write is None else (*command.inherits, ready_write),
                start_new_session=True,
            )
    finally:
        if ready_write is not None:
            os.close(ready_write)
    with contextlib.suppress(OSError):  # it may have exited already; waiting for it will show
        run.record(command.name, process.pid, argv)
    return Child(command, process, ready_read, str(log))


def wait_ready(children: Iterable[Child], *, timeout_s: float, check: Callable[[], None]) -> None:
    """Wait until every child is ready; :class:`ProcessError` names the first that fails or is late.

    `check` is called often, and may raise to give up.
    """
    deadline = time.monotonic() + timeout_s
    children = tuple(children)
    waiting = {child.ready_fd: child for child in children if child.ready_fd is not None}
    probing = [child for child in children if child.ready_fd is None and child.command.ready_socket]
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting or probing:
        check()
        left = deadline - time.monotonic()
        if left <= 0:
            raise next(iter((*waiting.values(), *probing))).failure()
        for descriptor, _ in poll.poll(min(left, 0.02 if probing else 0.2) * 1000):
            poll.unregister(descriptor)
            child = waiting.pop(descriptor)
            child.ready_fd = None
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                if not stream.read(1):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.process.wait(0.5)
                    raise child.failure()
        probing = [child for child in probing if not _listens(child)]


def _listens(child: Child) -> bool:
    if child.process.poll() is not None:
        raise child.failure()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(child.command.ready_socket))
        except OSError:
            return False
    return True


def stop(children: Iterable[Child]) -> None:
    """End children: ask them all, wait a little, kill the rest. Returns when all are gone."""
    children = tuple(children)
    for child in children:
        if child.ready_fd is not None:
            os.close(child.ready_fd)
            child.ready_fd = None
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, deadline - time.monotonic()))
        child.process.kill()  # does nothing to one that has ended
        child.process.wait()
