"""Rare garbage collection while a world is built or runs.

It looks after so many allocations, whatever the number of objects that there are to look at. Those of a large world are
many, and almost none is garbage: with Python's own setting that takes a sixth of the time. The setting is one for the
process, so worlds that run at once, in several threads, share it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 100_000  # some 20 MB

_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []  # what it was before, once for each world that runs


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Meanwhile Python looks for garbage seldom, or not at all if somebody has turned that off."""
    with _lock:
        before = _usual[0] if _usual else gc.get_threshold()
        _usual.append(before)
        if before[0]:
            gc.set_threshold(max(before[0], _ALLOCATIONS), *before[1:])
    try:
        yield
    finally:
        with _lock:
            _usual.pop()
            if not _usual:
                gc.set_threshold(*before)
