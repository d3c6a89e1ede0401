"""Idle timeouts of table entries (P4Runtime spec, "Idle-timeout"): how long each was not hit, and which have expired.

The engine knows when packets hit an entry, in the clock of the switch's verbs. Times are arguments in ns of that clock:
the owner calls `expired` at the time given by `due`. An entry that expires starts again, and expires once per timeout.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from mrc_common.p4_match import Match
from p4runtime_shim.server.p4info import TableInfo
from p4runtime_shim.server.switch_interface import ControlPlaneInterface

SHORTEST_NS = 500_000_000  # shorter timeouts count as this, as in BMv2's server

Key = tuple[int, tuple[Match, ...], int]
"""Table id, match, priority."""


@dataclass(slots=True)
class _Timer:
    """An entry's timeout: it expires at `due` unless it was hit after `since`."""

    table: TableInfo
    timeout: int
    since: int
    due: int


class IdleTimeouts:
    """The entries of one switch in tables with idle timeouts; `now` is when the switch started with them."""

    def __init__(self, control_plane: ControlPlaneInterface, now: int) -> None:
        self._control_plane = control_plane
        self._started = now
        self._inserted: dict[Key, int] = {}
        self._timers: dict[Key, _Timer] = {}
        self._waiting: list[tuple[int, int, Key]] = []  # a heap by due time; outdated items are skipped
        self._number = count()

    def insert(self, table: TableInfo, key: Key, timeout: int, now: int) -> None:
        """An entry is new; a timeout of 0 never expires."""
        self._inserted[key] = now
        self._start(table, key, timeout, now)

    def modify(self, table: TableInfo, key: Key, timeout: int, now: int) -> None:
        """An entry may have another timeout, which counts from when it was last hit."""
        timer = self._timers.get(key)
        if (timer.timeout if timer else 0) != timeout:
            last = now - self.idle(table, [key], now)[0]
            self._start(table, key, timeout, max(last, timer.since) if timer else last)

    def delete(self, key: Key) -> None:
        """An entry is gone."""
        self._inserted.pop(key, None)
        self._timers.pop(key, None)

    def undo(self, table: TableInfo, key: Key, now: int) -> Callable[[], None]:
        """What makes an entry, when it is there again, what it is now: hit last then, and as long before it expires."""
        last, timer = now - self.idle(table, [key], now)[0], self._timers.get(key)

        def restore() -> None:
            self._inserted[key] = last
            self._start(table, key, timer.timeout if timer else 0, max(last, timer.since) if timer else last)

        return restore

    def idle(self, table: TableInfo, keys: Sequence[Key], now: int) -> list[int]:
        """For how long entries of a table have not been hit; since their insertion if they never were."""
        hits = self._control_plane.table(table.name).last_hits([key[1:] for key in keys])
        starts = [self._inserted.get(key, self._started) for key in keys]
        return [max(now - (start if hit is None else hit), 0) for start, hit in zip(starts, hits, strict=True)]

    def due(self) -> int | None:
        """The time at which an entry may expire; None if none can."""
        while self._waiting:
            when, _, key = self._waiting[0]
            timer = self._timers.get(key)
            if timer is not None and timer.due == when:
                return when
            heapq.heappop(self._waiting)
        return None

    def expired(self, now: int, most: int) -> Iterator[Key]:
        """Entries that were not hit for their timeout; at most `most` timers are looked at."""
        for _ in range(most):
            due = self.due()
            if due is None or due > now:
                return
            _, _, key = heapq.heappop(self._waiting)
            timer = self._timers[key]
            last = now - self.idle(timer.table, [key], now)[0]
            if last > timer.since:
                self._start(timer.table, key, timer.timeout, last)
            if now < self._timers[key].due:
                continue
            self._start(timer.table, key, timer.timeout, now)
            yield key

    def _start(self, table: TableInfo, key: Key, timeout: int, since: int) -> None:
        self._timers.pop(key, None)
        if not timeout:
            return
        due = since + max(timeout, SHORTEST_NS)
        self._timers[key] = _Timer(table, timeout, since, due)
        heapq.heappush(self._waiting, (due, next(self._number), key))
        if len(self._waiting) > 2 * len(self._timers) + 64:  # a client that writes often leaves outdated items
            self._waiting = [(timer.due, next(self._number), key) for key, timer in self._timers.items()]
            heapq.heapify(self._waiting)
