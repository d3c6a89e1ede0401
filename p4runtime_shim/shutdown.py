"""Shutdown of a switch process: within two seconds of SIGTERM or SIGINT, whatever its threads are doing.

The event loop shuts down in order. A timer in C (engine/device/shutdown_timer.c) enforces the deadline without needing
the interpreter or any thread. While the engine is still being compiled there is neither loop nor timer; then there is
nothing to clean up and the process exits immediately. Its children are killed in each case.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import FrameType

from p4runtime_shim.ctypes_bindings import Engine

GRACE_MS = 1500
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def exit_immediately() -> None:
    """From now on, SIGTERM and SIGINT end the process and its children immediately."""
    for number in SIGNALS:
        signal.signal(number, _exit)


def exit_within_grace(native: Engine) -> None:
    """From now on, Python's handlers of the two signals have `GRACE_MS` to end the process."""
    error = native.library.sw_exit_within(GRACE_MS)
    if error:
        raise OSError(-error, os.strerror(-error))


def _exit(number: int, frame: FrameType | None) -> None:
    _kill_children("self")
    os._exit(128 + number)


def _kill_children(process: str) -> None:
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                os.kill(int(child), signal.SIGSTOP)  # so that it starts no more children meanwhile
                _kill_children(child)
                os.kill(int(child), signal.SIGKILL)
