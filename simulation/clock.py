"""Virtual time: an integer count of nanoseconds and the queue of what is to happen.

An event is a tuple ``(when, serial, handler, a, b)`` in one heap; when its turn comes the clock shows `when` and
``handler(a, b)`` runs. The order is documented and total: earlier time first, and at the same time whatever was
scheduled first. Since handlers schedule further events only from what they are given, a run is a function of its seed.

Hot code (the channels) pushes its tuples itself, with :attr:`Clock.heap` and :attr:`Clock.serial`; nothing else is ever
allocated for an event. There is no cancelling: a handler whose reason has gone does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from simulation.errors import SimulationError

Handler = Callable[[Any, Any], None]
Event = tuple[int, int, Handler, Any, Any]
END_OF_TIME = 1 << 62
"""No clock shows this many ns, 146 years (MAX_TIME in core/event_queue.h)."""


class Clock:
    """The time of one world, in nanoseconds since its beginning."""

    __slots__ = ("_stopped", "events", "heap", "now", "running", "serial")

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[Event] = []
        self.serial = count().__next__
        self.events = 0  # handled so far
        self.running = False
        self._stopped = False

    def at(self, when: int, handler: Handler, a: object = None, b: object = None) -> None:
        """Call ``handler(a, b)`` when the clock shows `when` (ns, not before now)."""
        if when < self.now:
            raise SimulationError(f"It is {self.now} ns already; nothing can be scheduled for {when} ns.")
        heappush(self.heap, (when, self.serial(), handler, a, b))

    def stop(self) -> None:
        """Make :meth:`run` return after the event that is being handled."""
        self._stopped = True

    def run(self, until: int | None = None) -> bool:
        """Handle events up to and including time `until` (None: until none is left), or until somebody calls stop.

        True when stopped. Otherwise the clock then shows `until`, or the time of the last event.
        """
        if self.running:
            raise SimulationError("The world is running already: wait inside it with a coroutine, or run it later.")
        self.running = True
        self._stopped = False
        heap = self.heap
        limit = END_OF_TIME if until is None else until
        handled = 0
        try:
            while heap and heap[0][0] <= limit:
                self.now, _, handler, a, b = heappop(heap)
                handled += 1
                handler(a, b)
                if self._stopped:
                    return True
        finally:
            self.running = False
            self.events += handled
        if until is not None and until > self.now:
            self.now = until
        return False
