"""The C compiler as a child that cannot take more than it is given, nor see more than it needs.

Whoever may push a program decides what is compiled, so a run has bounds on processor time, elapsed time, memory and the
size of what it writes, and is killed with all that it started when it goes beyond, or when the process that wants it
ends, however that ends. It runs in the folder of its build, with an environment of four variables: what CPATH, TMPDIR
or a language says elsewhere does not matter.
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
from p4runtime_shim.errors import BuildError, ResourceExhausted

# Standard input is a pipe whose other end we hold. It ends with us, be it by SIGKILL: then the whole group is killed.
_BOUNDED = """
exec 3<&0 </dev/null
(read _ <&3; kill -KILL 0) &
ulimit -c 0; ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; shift 3; exec "$@" 3<&-
"""
_MESSAGES = 1 << 16  # bytes of the compiler's messages that are looked at
_EXHAUSTED = re.compile(
    r"signal terminated program|out of memory|memory exhausted|annot allocate memory|[Ff]ile size limit"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one compilation."""

    cpu_seconds: int = 60  # of each process that the compiler starts
    seconds: float = 180.0  # from start to end
    memory: int = 2 << 30  # bytes of address space of each process
    output: int = 64 << 20  # bytes of a file that is written
    source: int = 16 << 20  # bytes of generated C


class _Running:
    """The compilers that run now, so that a process that ends can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[int, int] = {}  # -> our end of the pipe that its processes live by
        self._stopped = False

    def start(self, command: list[str], folder: Path, messages: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise BuildError("the switch is ending; no program is compiled any more")
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
            if child.poll() is None:  # not reaped yet, so the number is still its own
                os.killpg(child.pid, signal.SIGKILL)
            os.close(self._groups.pop(child.pid))
        child.wait()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(group, signal.SIGKILL)


_running = _Running()


def stop_compilers() -> None:
    """Kill the compilers that run, and refuse further ones: for a process that ends. Safe in any thread."""
    _running.stop()


atexit.register(stop_compilers)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(folder)}


def run(compiler: str, arguments: list[str], folder: Path, what: str, limits: Limits) -> None:
    """Run the compiler in a folder that it may fill; `what` is built, for messages.

    Raises BuildError when it refuses, ResourceExhausted when it needs more than the limits.
    """
    bounds = [str(limits.cpu_seconds), str(limits.memory >> 10), str(limits.output >> 9)]
    command = ["/bin/sh", "-c", _BOUNDED, "sh", *bounds, *shlex.split(compiler), *arguments]
    log = folder / "messages"
    with log.open("wb") as messages:
        child = _running.start(command, folder, messages.fileno())
        try:
            status = child.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            raise ResourceExhausted(f"compiling {what} took longer than {limits.seconds:g} s and was stopped") from None
        finally:
            _running.end(child)
    if not status:
        return
    with log.open("rb") as file:
        text = file.read(_MESSAGES).decode(errors="replace")
    if not 0 < status < 128 or _EXHAUSTED.search(text):
        raise ResourceExhausted(
            f"compiling {what} needs more than a compilation may take ({limits.cpu_seconds} s of processor time,"
            f" {limits.memory >> 20} MB of memory, a file of {limits.output >> 20} MB) and was stopped"
        )
    first = next((line for line in text.splitlines() if "error" in line), text[:300])
    raise BuildError(f"the C compiler refused {what}: {first.strip()}")


@functools.cache
def version(compiler: str) -> str:
    """First line of `cc --version`; BuildError when there is no compiler."""
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
        raise BuildError(
            f"the embedded switch needs a C compiler and {compiler!r} does not run; try: apt install gcc"
        ) from None
    return str(done.stdout).partition("\n")[0]
