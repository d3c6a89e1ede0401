"""Completion queues that never lose an entry.

A signaled request reserves its place when it is posted, so its completion always fits. A receiver asks ``room``
before it completes a peer's WRITE_WITH_IMM; without room it leaves the message unacknowledged, notes itself in
``blocked`` and is called back when the application has polled. Only failures of unsignaled requests may go beyond the
capacity, and those are bounded by the depth of the send queues.

A queue announces entries in two ways: `ready` gets its number with every entry, `notified` when it was armed for one
like it (``notify``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from mypy_extensions import trait

from mrc_host.notify import Notification
from mrc_host.values import Completion


@trait
class Receiver(ABC):
    """Somebody who waits for room in a completion queue."""

    __slots__ = ()

    @abstractmethod
    def room_again(self) -> None:
        """The queue was polled; try again."""


class CompletionQueue:
    """One completion queue; `ready` and `notified` are the sets in which it announces that it got entries."""

    __slots__ = (
        "_blocked",
        "_capacity",
        "_entries",
        "_notified",
        "_ready",
        "_reserved",
        "notification",
        "number",
        "trace",
        "users",
    )

    def __init__(self, number: int, capacity: int, ready: set[int], notified: set[int]) -> None:
        self.number = number
        self.users = 0
        self.trace: Callable[[Completion], None] | None = None  # told of every new entry
        self._capacity = capacity
        self._entries: deque[Completion] = deque()
        self._reserved = 0
        self._blocked: dict[Receiver, None] = {}
        self._ready = ready
        self._notified = notified
        self.notification = Notification()

    def reserve(self) -> bool:
        """Keep a place for one entry; False when there is none."""
        if len(self._entries) + self._reserved >= self._capacity:
            return False
        self._reserved += 1
        return True

    def push_reserved(self, entry: Completion) -> None:
        """Add an entry whose place was reserved."""
        self._reserved -= 1
        self.push(entry)

    def room(self, receiver: Receiver) -> bool:
        """Whether an entry fits now; if not, `receiver` is called after the next poll."""
        if len(self._entries) + self._reserved < self._capacity:
            return True
        self._blocked[receiver] = None
        return False

    def push(self, entry: Completion) -> None:
        """Add an entry."""
        self._entries.append(entry)
        self._ready.add(self.number)
        if self.notification.armed and self.notification.due(entry):
            self._notified.add(self.number)
        if self.trace is not None:
            self.trace(entry)

    def forget(self, receiver: Receiver) -> None:
        """The receiver is gone."""
        self._blocked.pop(receiver, None)

    def poll(self, limit: int) -> list[Completion]:
        """Take up to `limit` entries, oldest first."""
        entries = self._entries
        taken = [entries.popleft() for _ in range(min(limit, len(entries)))]
        if taken and self._blocked:
            waiting, self._blocked = self._blocked, {}
            for receiver in waiting:
                receiver.room_again()
        return taken
