"""Events to subscribers: one that is too slow loses the newest, and learns how many.

A subscriber has a queue of its own with room for so many events; publishing never waits for anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from controller.errors import BusyError
from controller.values import Event, EventKind
from topologies.faults.record import FaultRecord

ROOM = 1024  # events that wait for one subscriber
MAX_SUBSCRIBERS = 64


class Subscription:
    """The events of one subscriber that it has not taken yet."""

    def __init__(self, first: Event, room: int) -> None:
        self.dropped = 0
        self._waiting = deque([first])
        self._room = room
        self._there = asyncio.Event()
        self._there.set()

    def offer(self, event: Event) -> None:
        """One more, if there is room."""
        if len(self._waiting) >= self._room:
            self.dropped += 1
            return
        self._waiting.append(event)
        self._there.set()

    async def next(self) -> Event:
        """The oldest event, waiting for one; with the number of those dropped until now."""
        while not self._waiting:
            self._there.clear()
            await self._there.wait()
        return replace(self._waiting.popleft(), dropped=self.dropped)


class Events:
    """All subscribers of a controller."""

    def __init__(self, *, room: int = ROOM, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._room = room
        self._clock = clock
        self._number = 0
        self._subscriptions: dict[int, Subscription] = {}

    def publish(self, kind: EventKind, name: str, detail: str = "", fault: FaultRecord | None = None) -> None:
        """Notify every subscriber."""
        self._number += 1
        event = Event(self._number, self._clock(), kind, name, detail, fault)
        for subscription in self._subscriptions.values():
            subscription.offer(event)

    def subscribe(self) -> Subscription:
        """From now on; the first event says so. BusyError when there are too many."""
        if len(self._subscriptions) >= MAX_SUBSCRIBERS:
            raise BusyError(f"There are {MAX_SUBSCRIBERS} subscribers of events already: end one of them.")
        first = Event(self._number, self._clock(), EventKind.SUBSCRIBED)
        subscription = Subscription(first, self._room)
        self._subscriptions[id(subscription)] = subscription
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more events for this one."""
        self._subscriptions.pop(id(subscription), None)
