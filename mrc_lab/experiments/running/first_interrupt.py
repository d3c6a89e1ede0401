"""Ctrl-C that ends a run at a safe point, so that a report of what there is can be written.

The first SIGINT is only noted, and the run asks for it; the second means what it always means. Signals reach Python's
main thread only; in any other thread nothing is changed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """While in this context, the first SIGINT makes what it yields return True, and is not raised."""
    noted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield noted.is_set  # somebody else decides when to stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
