"""Memory that one case has freed is there for the next.

The arrays of collectives are large. By default glibc gives each back to the kernel as soon as it is freed, and the next
is made of pages that the kernel must clear first, which took a quarter of the time of Fig 16 from 128 MB on. The
setting is one for the process, so experiments that run at once, in several threads, share it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # malloc.h
_MAPPINGS = 65536  # how many glibc makes by itself
_LARGE = 32 << 20  # the largest size from which on glibc maps blocks by itself, once such a one was freed

_lock = threading.Lock()
_users: list[None] = []  # one for each experiment that runs


@contextmanager
def kept_memory() -> Iterator[None]:
    """Meanwhile the process keeps what it frees. Without glibc nothing changes."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    with _lock:
        _users.append(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                libc.mallopt(_MMAP_MAX, _MAPPINGS)
                libc.mallopt(_MMAP_THRESHOLD, _LARGE)
                libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGE)
                libc.malloc_trim(0)
