"""The C compiler as a child process with limited resources and a minimal environment.

Clients of a switch that may push a program decide what is compiled, so each run is limited in processor time, elapsed
time, memory and output size. It is killed with all its children when it exceeds a limit, or when the calling process
ends, for whatever reason. It runs in its build folder with an environment of four variables, so that CPATH, TMPDIR or a
language setting cannot influence it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shlex
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children
from mrc_common.c_build.errors import CBuildError, CBuildLimitError

# Standard input is a pipe whose other end we hold. When we end, even by SIGKILL, it closes and the group is killed.
_BOUNDED = """
exec 3<&0 </dev/null
(read _ <&3; kill -KILL 0) &
ulimit -c 0; ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; shift 3; exec "$@" 3<&-
"""
_MESSAGES = 1 << 16  # bytes of the compiler's messages that are read
_EXHAUSTED = re.compile(
    r"signal terminated program|out of memory|memory exhausted|annot allocate memory|[Ff]ile size limit"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one compilation."""

    cpu_seconds: int = 60  # per process that the compiler starts
    seconds: float = 180.0  # from start to end
    memory: int = 2 << 30  # bytes of address space per process
    output: int = 64 << 20  # bytes per output file
    source: int = 16 << 20  # bytes of generated C


class _Running:
    """The compilers that are running, so that they can be killed when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[int, int] = {}  # -> our end of the pipe that keeps its processes alive
        self._stopped = threading.Event()

    def refuse_if_stopped(self, wait_s: float = 0.0) -> None:
        if self._stopped.wait(wait_s):
            raise CBuildError("this process is shutting down and compiles nothing more")

    def start(self, command: list[str], folder: Path, messages: int) -> subprocess.Popen[bytes]:
        with self._lock:
            self.refuse_if_stopped()
            theirs, ours = os.pipe()
            try:
                child = children.popen(
                    command,
                    cwd=folder,
                    env=_environment(folder),
                    stdin=theirs,
                    stdout=messages,
                    stderr=messages,
                    start_new_session=True,
                )
            except BaseException:
                os.close(ours)
                raise
            finally:
                os.close(theirs)
            self._groups[child.pid] = ours
            return child

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill what is left of the child's group, and reap it."""
        with self._lock:
            if child.poll() is None:  # not reaped yet, so the pid is still its own
                os.killpg(child.pid, signal.SIGKILL)
            os.close(self._groups.pop(child.pid))
        child.wait()

    def stop(self) -> None:
        with self._lock:
            self._stopped.set()
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):  # it has just exited
                    os.killpg(group, signal.SIGKILL)


_running = _Running()


def stop_compilers() -> None:
    """Kill running compilers and refuse to start more: for a process that is ending. Thread-safe."""
    _running.stop()


def pause(seconds: float) -> None:
    """Wait for another process that compiles; raises CBuildError as soon as this one is ending."""
    _running.refuse_if_stopped(seconds)


atexit.register(stop_compilers)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(folder)}


def run(compiler: str, arguments: list[str], folder: Path, what: str, limits: Limits) -> None:
    """Run the compiler in a folder that it may write to; `what` names the output in messages.

    Raises CBuildError if compilation fails, CBuildLimitError if it exceeds the limits.
    """
    bounds = [str(limits.cpu_seconds), str(limits.memory >> 10), str(limits.output >> 9)]
    command = ["/bin/sh", "-c", _BOUNDED, "sh", *bounds, *shlex.split(compiler), *arguments]
    log = folder / "messages"
    with log.open("wb") as messages:
        child = _running.start(command, folder, messages.fileno())
        try:
            status = child.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            raise CBuildLimitError(f"compiling {what} took longer than {limits.seconds:g} s and was stopped") from None
        finally:
            _running.end(child)
    if not status:
        return
    with log.open("rb") as file:
        text = file.read(_MESSAGES).decode(errors="replace")
    if not 0 < status < 128 or _EXHAUSTED.search(text):
        raise CBuildLimitError(
            f"compiling {what} exceeds the limits of a compilation ({limits.cpu_seconds} s of processor time,"
            f" {limits.memory >> 20} MB of memory, a file of {limits.output >> 20} MB) and was stopped"
        )
    first = next((line for line in text.splitlines() if "error" in line), text[:300])
    raise CBuildError(f"the C compiler refused {what}: {first.strip()}")


@functools.cache
def version(compiler: str) -> str:
    """First line of `cc --version`; raises CBuildError if there is no compiler."""
    try:
        done = children.run(
            [*shlex.split(compiler), "--version"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env=_environment(Path("/")),
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        raise CBuildError(f"a C compiler is needed, and {compiler!r} does not run; try: apt install gcc") from None
    return str(done.stdout).partition("\n")[0]
