"""Keeps the time of another process's tests, and ends those that hang; ``tests/time_limit.py`` says how.

``python -m tests.time_limit_keeper PID MARK GRACE_S``, with a line of standard input for each test that begins or ends.

Time is what the machine has for a test: where four times as many processes want to run as there are processors, a
second counts as a quarter. So what is slow because the machine is busy does not count as hanging; nor does what
somebody has suspended at a terminal (Ctrl-Z).

The stacks of a Python process come from its faulthandler (``mrc_common/run_module.py`` enables it), on SIGABRT: the
keeper reads what that writes from wherever the process's standard error goes, a pipe or a file. All children stop
before the first is asked, so none shows what it does because another one is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ENDING: Final = "The end of pytest"  # in place of a test
MARK: Final = "MRC_TESTS_PROCESS"  # a variable of the environment: whose tests have started a process
STACKS_SIGNAL: Final = signal.SIGRTMIN + 9  # prints the stacks of the process that runs the tests
FAIL_SIGNAL: Final = signal.SIGRTMIN + 10  # has its test fail

_STACKS_S = 3.0  # that a process may take to print its stacks
_MOST = 100_000  # bytes of stacks of a process
_LOOK_S = 2.0  # between two looks at how busy the machine is
_TICK_S = 0.001  # so that what is left is over when it is looked at
_LEAST = 0.05  # of a second that a second counts as: what hangs ends on the busiest machine
_ROUNDS = 20  # of killing what killed processes have started just before


def processes() -> dict[int, int]:
    """All processes, each with its parent."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
    return parents


def children_of(process: int, mark: str) -> list[int]:
    """The children of a process, theirs, and what has `mark` in its environment; those without children first."""
    parents = processes()
    wanted = f"{MARK}={mark}".encode()
    found = {pid for pid in parents if wanted in _read(pid, "environ").split(b"\0")}
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent == process or parent in found}
    found -= {process, os.getpid()}

    def depth(pid: int) -> int:
        return depth(parents[pid]) + 1 if pid in found else 0

    return sorted(found, key=depth, reverse=True)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it is gone, or another user's
        return b""


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def describe(pid: int) -> str:
    """A line about a process: what it is, and what it waits for in the kernel."""
    command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return f"process {pid}, in {_read(pid, 'wchan').decode() or '?'}: {command[:300]}"


def has_faulthandler(pid: int) -> bool:
    """Whether a process does something on SIGABRT."""
    for line in _read(pid, "status").decode(errors="replace").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGABRT - 1) & 1)
    return False


def stacks(pid: int) -> str:
    """What a stopped process's faulthandler prints when it is aborted, and what waits in that pipe already."""
    try:
        errors = os.open(f"/proc/{pid}/fd/2", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        kind = os.fstat(errors).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            return ""
        if stat.S_ISREG(kind):
            os.lseek(errors, 0, os.SEEK_END)
        _abort(pid)
        with contextlib.suppress(BlockingIOError):
            return os.read(errors, _MOST).decode(errors="replace")
        return ""
    finally:
        os.close(errors)


def _abort(pid: int) -> None:
    """Abort a stopped process, and wait for its end."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        _send((pid,), signal.SIGABRT)
        _send((pid,), signal.SIGCONT)
        select.select((process,), (), (), _STACKS_S)
        os.close(process)


def end_children(process: int, mark: str) -> Iterator[str]:
    """Kill all of them; what there is to say about each."""
    pids = children_of(process, mark)
    described = [describe(pid) for pid in pids]
    _send(pids, signal.SIGSTOP)
    for pid, line in zip(pids, described, strict=True):
        yield line
        if has_faulthandler(pid):
            yield stacks(pid)
    for _ in range(_ROUNDS):
        if not pids:
            return
        _send(pids, signal.SIGKILL)
        pids = children_of(process, mark)


def share() -> float:
    """What a process has of a processor, when all that want to run share them evenly."""
    wanting = os.getloadavg()[0]  # of the last minute
    return max(_LEAST, min(1.0, len(os.sched_getaffinity(0)) / max(wanting, 1e-9)))


def is_suspended(pid: int) -> bool:
    """Whether a process is stopped, and belongs to a terminal, from which somebody may let it go on."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return len(fields) > 4 and fields[0] == b"T" and fields[4] != b"0"  # the process's state, and tty_nr


class Keeper:
    """Watches one process that runs tests."""

    def __init__(self, process: int, mark: str, grace_s: float) -> None:
        self._process = process
        self._mark = mark
        self._grace_s = grace_s
        self._pidfd = os.pidfd_open(process)
        self._test = ""
        self._left_s: float | None = None  # for what runs
        self._times = 0  # the present test was to end
        self._ending = False  # pytest is

    def run(self) -> None:
        """Until the process is gone."""
        inputs = [self._pidfd, 0]
        rest = b""
        while True:
            began, counted, suspended = time.monotonic(), share(), is_suspended(self._process)
            wait = None if self._left_s is None else min(_LOOK_S, self._left_s / counted + _TICK_S)
            ready, _, _ = select.select(inputs, (), (), _LOOK_S if suspended else wait)
            suspended = suspended or is_suspended(self._process)
            if self._left_s is not None and not suspended:
                self._left_s = max(0.0, self._left_s - (time.monotonic() - began) * counted)
            if 0 in ready:
                read = os.read(0, 1 << 16)
                if not read:  # it has closed it, or is gone
                    inputs.remove(0)
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self._note(*json.loads(line))
            if self._pidfd in ready:
                if not self._ending or self._times:
                    self._print(end_children(self._process, self._mark))
                return
            if self._left_s == 0.0:
                self._over()

    def _note(self, test: str, limit_s: float | None) -> None:
        self._ending = self._ending or test == ENDING
        self._test, self._times = test, 0
        self._left_s = limit_s

    def _over(self) -> None:
        """The time of what runs is over, for the first time or again."""
        self._times += 1
        self._left_s = self._grace_s
        self._print((f"\n{self._test} hangs. Stacks of the process that runs it ({self._process}):",))
        self._ask(STACKS_SIGNAL)
        self._print(("Its children, which are killed:", *end_children(self._process, self._mark)))
        if self._times < 3:
            self._ask(FAIL_SIGNAL)
        else:
            self._print((f"Killing process {self._process}, which does not end.",))
            _send((self._process,), signal.SIGKILL)

    def _ask(self, number: int) -> None:
        """Send the process a signal, and wait until it has it."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, number)
        pending = 1 << (number - 1)
        end = time.monotonic() + _STACKS_S
        while time.monotonic() < end and self._pending() & pending:
            time.sleep(0.01)

    def _pending(self) -> int:
        masks = [line.split()[1] for line in _read(self._process, "status").splitlines() if line[3:7] == b"Pnd:"]
        return int(masks[-1], 16) | int(masks[0], 16) if masks else 0

    @staticmethod
    def _print(lines: Iterable[str]) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                os.write(2, f"{line}\n".encode(errors="replace"))


def main() -> None:
    """The command line; what started it waits until this process has become nobody's child."""
    process, mark, grace_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    keeper = Keeper(process, mark, grace_s)
    if os.fork():
        os._exit(0)
    keeper.run()


if __name__ == "__main__":
    main()
