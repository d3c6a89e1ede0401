"""The event queue (`simulation/core/event_queue.h`) as a list that is searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count


@dataclass(eq=False)
class Event:
    when: int
    serial: int
    run: Callable[[], None]


class ModelClock:
    """Earlier time first, and at the same time whatever was scheduled first. An event's `when` may be changed."""

    def __init__(self) -> None:
        self.now = self.events = 0
        self.queue: list[Event] = []
        self._serial = count()

    def at(self, when: int, run: Callable[[], None]) -> Event:
        event = Event(when, next(self._serial), run)
        self.queue.append(event)
        return event

    def run(self, until: int | None = None) -> None:
        while self.queue:
            first = min(self.queue, key=lambda event: (event.when, event.serial))
            if until is not None and first.when > until:
                break
            self.queue.remove(first)
            self.now = first.when
            self.events += 1
            first.run()
        self.now = max(self.now, until or 0)
