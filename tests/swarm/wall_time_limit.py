"""A limit to the wall time of one run, so that a device that goes round in circles is a finding and no hanging soak."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

LONGEST_S = 300.0  # of a run; the longest take some seconds


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """RunTooLongError in what runs inside for longer than that, in a main thread; elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:
        where = f" in {frame.f_code.co_qualname}" if frame is not None and hasattr(frame.f_code, "co_qualname") else ""
        raise RunTooLongError(f"the run did not end within {seconds:g} s of wall time{where}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 30.0)  # again, if a NIC has taken it for an error of its own
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class RunTooLongError(Exception):
    """A run that does not end. It is no TimeoutError, which has a meaning inside of runs."""
