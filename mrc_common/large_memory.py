"""Memory of a megabyte and more, in pages of 64 KiB where this machine lets programs have them.

A page is made when it is first used, which takes some microseconds, and each that is in use takes an entry of the
processor's address cache (TLB). So sixteen times larger ones cost less of both. Linux has them since version 6.8
(Documentation/admin-guide/mm/transhuge.rst), for memory that is marked (``madvise``), if the administrator says so:
``mrc doctor --fix`` does. Pages of 2 MiB, which the same mark may bring, are kept out: to find and clear them can take
longer than they save (docs/performance.md). None fits where each stretch of a MiB ends with a page that is not marked.

Marked stretches count as mappings, of which a process may have 65,530 (``vm.max_map_count``), so their number is
limited.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from functools import cache
from pathlib import Path

LEAST = 1 << 20  # bytes from which memory has a mapping of its own
SETTING = Path("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled")
_FOR_ALL = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_STRETCH = 1 << 20
_MOST_STRETCHES = 20_000  # each with the page behind it two mappings
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_stretches = 0  # marked now


def zeroed(length: int) -> memoryview:
    """`length` (at least 1) bytes of zeros, writable; their pages are taken when they are first used."""
    if length < LEAST:
        return memoryview(bytearray(length))
    memory = mmap.mmap(-1, length, flags=_PRIVATE)
    if _marking():
        _mark(memory, length)
    return memoryview(memory)


def allowed() -> bool | None:
    """Whether this machine gives programs pages of 64 KiB; None if its kernel has none."""
    with contextlib.suppress(OSError):
        chosen = _chosen(SETTING)
        return (_chosen(_FOR_ALL) if chosen == "inherit" else chosen) != "never"
    return None


def allow() -> None:
    """Have this machine give them to programs that mark memory, until it is restarted. OSError if it does not."""
    SETTING.write_text("madvise\n")


def _chosen(setting: Path) -> str:
    """Of a line like ``always inherit [madvise] never``."""
    return setting.read_text().partition("[")[2].partition("]")[0]


@cache
def _marking() -> bool:
    """Looked up once, when there is large memory for the first time."""
    return bool(allowed())


def _mark(memory: mmap.mmap, length: int) -> None:
    global _stretches
    count = -(-length // _STRETCH)
    if _stretches + count > _MOST_STRETCHES:
        return
    _stretches += count
    weakref.finalize(memory, _unmarked, count).atexit = False
    with contextlib.suppress(OSError):  # a kernel without such pages
        for start in range(0, length, _STRETCH):
            memory.madvise(mmap.MADV_HUGEPAGE, start, min(_STRETCH - mmap.PAGESIZE, length - start))


def _unmarked(count: int) -> None:
    global _stretches
    _stretches -= count
