"""The bytes of a request whose local memory is in several pieces (verbs: a gather list).

Packets are cut across the pieces when they are built, so a message is never copied as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class GatherList:
    """Pieces of memory, not all empty, read as if they lay one behind the other."""

    __slots__ = ("_starts", "_views")

    def __init__(self, views: Sequence[memoryview]) -> None:
        self._views = [view for view in views if len(view)]
        self._starts: list[int] = []  # of each piece
        start = 0
        for view in self._views:
            self._starts.append(start)
            start += len(view)

    def cut(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` on, all of which exist: a view if they lie in one piece, else a copy."""
        at = bisect_right(self._starts, offset) - 1
        first = offset - self._starts[at]
        if first + size <= len(self._views[at]):
            return self._views[at][first : first + size]
        parts: list[memoryview] = []
        while size:
            part = self._views[at][first : first + size]
            parts.append(part)
            size -= len(part)
            at, first = at + 1, 0
        return memoryview(b"".join(parts))
