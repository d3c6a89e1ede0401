"""The newest state of a fabric and the latest events, and what each browser has yet to be sent of them.

A viewer has an outbox of bounded size: one pending change for each value, newer ones replacing older, so many events,
the oldest of which are dropped and counted, and so many steps of training, none of which replaces another. So
publishing never waits, and a browser that is slow or stopped costs the memory of one state and nothing else. Everything
here belongs to one asyncio loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.history import MAX_STEPS, History, TrainingStep, steps_record
from mrc_lab.web.records import (
    Changes,
    FabricLayout,
    Happening,
    State,
    StateSection,
    Value,
    difference,
    event_record,
    layout_record,
    merge,
    state_record,
)

MAX_VIEWERS = 32
MAX_EVENTS = 200  # kept for those who join, and waiting for one viewer
HISTORY_PERIOD_S = 0.5


def unix_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Outbox:
    """What one viewer has not been sent yet; it begins with everything there is."""

    def __init__(self, first: list[str]) -> None:
        self._first = first
        self._changes: Changes = {}
        self._events: deque[Happening] = deque()
        self._steps: deque[TrainingStep] = deque(maxlen=MAX_STEPS)
        self.events_dropped = 0
        self._there = asyncio.Event()
        self._there.set()

    def offer_changes(self, changes: Changes) -> None:
        """Changes of the state; they replace pending ones of the same values."""
        merge(self._changes, changes)
        self._there.set()

    def offer_event(self, happening: Happening) -> None:
        """An event; the oldest that waits is dropped when there are too many."""
        if len(self._events) >= MAX_EVENTS:
            self._events.popleft()
            self.events_dropped += 1
        self._events.append(happening)
        self._there.set()

    def offer_step(self, step: TrainingStep) -> None:
        """A step of training: the one that stood still may be followed by others at once."""
        self._steps.append(step)
        self._there.set()

    async def take(self) -> None:
        """Wait until there is something to send."""
        await self._there.wait()

    def records(self, at_ms: int) -> list[str]:
        """All that waits, as records; none of it waits any more."""
        self._there.clear()
        found, self._first = self._first, []
        if self._steps:  # before the state, which has the last of them too
            found.append(steps_record(self._steps, at_ms))
            self._steps.clear()
        if self._changes:
            found.append(state_record(self._changes, at_ms))
            self._changes = {}
        if self.events_dropped:
            text = f"{self.events_dropped} events were left out: this browser did not keep up."
            found.append(event_record(Happening(at_ms, "dropped", "", text)))
            self.events_dropped = 0
        found += map(event_record, self._events)
        self._events.clear()
        return found


class Feed:
    """What samplers publish, and who views it; `clock` gives ms since the epoch."""

    def __init__(self, layout: FabricLayout, clock: Callable[[], int] = unix_ms) -> None:
        self.layout = layout
        self._clock = clock
        self._state: State = {section: {} for section in StateSection}
        self._events: deque[Happening] = deque(maxlen=MAX_EVENTS)
        self._viewers: set[Outbox] = set()
        self._watched = asyncio.Event()
        self._history = History(layout.fabric)

    # ---- samplers ---------------------------------------------------------------------------------------------------

    def section(self, section: StateSection) -> Mapping[str, Value]:
        """The newest values of a section."""
        return self._state[section]

    def replace(self, section: StateSection, values: Mapping[str, Value]) -> None:
        """A whole section as it is now."""
        self._publish(section, difference(self._state[section], values))

    def put(self, section: StateSection, name: str, value: Value | None) -> None:
        """One value as it is now; None: there is none any more."""
        if self._state[section].get(name) != value:
            self._publish(section, {name: value})

    def event(self, kind: str, name: str, text: str, at_ms: int | None = None) -> None:
        """Something has happened."""
        happening = Happening(self._clock() if at_ms is None else at_ms, kind, name, text)
        self._events.append(happening)
        for viewer in self._viewers:
            viewer.offer_event(happening)

    async def keep_history(self) -> None:
        """Note the sums that curves show, twice a second while somebody watches; does not return."""
        while True:
            await self.watched()
            await asyncio.sleep(HISTORY_PERIOD_S)
            if self._viewers:
                self._history.point(self._clock(), self._state)

    async def watched(self) -> None:
        """Wait until there is a viewer: nobody reads a fabric that nobody looks at."""
        await self._watched.wait()

    def _publish(self, section: StateSection, changes: dict[str, Value | None]) -> None:
        if not changes:
            return
        state = self._state[section]
        for name, value in changes.items():
            if value is None:
                state.pop(name, None)
            else:
                state[name] = value
                if isinstance(value, TrainingState):
                    self._step(TrainingStep(self._clock(), name, value))
        for viewer in self._viewers:
            viewer.offer_changes({section: changes})

    def _step(self, step: TrainingStep) -> None:
        self._history.step(step)
        for viewer in self._viewers:
            viewer.offer_step(step)

    # ---- viewers ----------------------------------------------------------------------------------------------------

    def join(self) -> Outbox:
        """One more viewer; ExperimentError when there are too many."""
        if len(self._viewers) >= MAX_VIEWERS:
            raise ExperimentError(f"{MAX_VIEWERS} browsers watch already: close a tab.")
        now = self._clock()
        whole: Changes = {section: dict(values) for section, values in self._state.items()}
        first = [layout_record(self.layout, now), state_record(whole, now, whole=True)]
        past = self._history.record(now)
        outbox = Outbox([*first, *filter(None, [past]), *map(event_record, self._events)])
        self._viewers.add(outbox)
        self._watched.set()
        return outbox

    def leave(self, outbox: Outbox) -> None:
        """A viewer is gone."""
        self._viewers.discard(outbox)
        if not self._viewers:
            self._watched.clear()

    @property
    def viewers(self) -> int:
        """How many watch."""
        return len(self._viewers)

    def now_ms(self) -> int:
        """The time for records."""
        return self._clock()
