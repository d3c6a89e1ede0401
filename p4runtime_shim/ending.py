"""The end of a switch process: within two seconds of SIGTERM or SIGINT, whatever its threads do at that time.

The event loop ends in good order what it can. Behind it stands a timer in C (engine/deadline.c), which asks neither the
interpreter nor any thread. While the engine is still being compiled there is neither; then there is nothing to put in
order, and the process ends at once. Children go with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import FrameType

from p4runtime_shim.native import Native

GRACE_MS = 1500
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def at_once() -> None:
    """From now on SIGTERM and SIGINT end the process and its children at once."""
    for number in SIGNALS:
        signal.signal(number, _end)


def in_order(native: Native) -> None:
    """From now on the handlers that Python has for the two have `GRACE_MS` to end the process."""
    error = native.library.sw_end_within(GRACE_MS)
    if error:
        raise OSError(-error, os.strerror(-error))


def _end(number: int, frame: FrameType | None) -> None:
    _kill_children("self")
    os._exit(128 + number)


def _kill_children(process: str) -> None:
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                os.kill(int(child), signal.SIGSTOP)  # so that it starts no more while we look
                _kill_children(child)
                os.kill(int(child), signal.SIGKILL)
