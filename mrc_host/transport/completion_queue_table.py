"""The completion queues of one NIC, by number, and which of them have new entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.verbs_types import Completion

MAX_CAPACITY: Final = 65536  # entries


class CompletionQueueTable:
    """`ready` has the numbers of queues with new entries, `notified` of those that got an entry they were armed for."""

    __slots__ = ("_by_number", "_name", "_next", "_trace", "notified", "ready")

    def __init__(self, name: str) -> None:
        """`name` is the NIC's, for messages."""
        self._name = name
        self._by_number: dict[int, NicCompletionQueue] = {}
        self._next = 1
        self._trace: Callable[[Completion], None] | None = None
        self.ready: set[int] = set()
        self.notified: set[int] = set()

    def __len__(self) -> int:
        return len(self._by_number)

    def create(self, capacity: int) -> int:
        """A new one; its number. InvalidArgumentError for a capacity out of range."""
        if not 1 <= capacity <= MAX_CAPACITY:
            raise InvalidArgumentError(f"A completion queue has 1 to {MAX_CAPACITY} entries, not {capacity}.")
        number = self._next
        self._next += 1
        queue = self._by_number[number] = NicCompletionQueue(number, capacity, self.ready, self.notified)
        queue.trace = self._trace
        return number

    def destroy(self, number: int) -> None:
        """Remove one. StateError while a queue pair uses it."""
        if self.get(number).users:
            raise StateError(f"Completion queue {number} is still used by a queue pair; destroy that first.")
        del self._by_number[number]
        self.ready.discard(number)
        self.notified.discard(number)

    def get(self, number: int) -> NicCompletionQueue:
        """The queue with this number; NotFoundError."""
        queue = self._by_number.get(number)
        if queue is None:
            raise NotFoundError(f"NIC {self._name} has no completion queue {number}.")
        return queue

    def check_room(self, queue: NicCompletionQueue) -> None:
        """ResourceExhaustedError while a queue is full of failures that were not polled: no more queue pairs for it."""
        if queue.unpolled_failures() >= MAX_CAPACITY:
            raise ResourceExhaustedError(f"Completion queue {queue.number} is full of failures: poll it first.")

    def trace(self, trace: Callable[[Completion], None] | None) -> None:
        """Call `trace` with every new entry of all queues from now on; None ends that."""
        self._trace = trace
        for queue in self._by_number.values():
            queue.trace = trace


def take(numbers: set[int]) -> set[int]:
    """What is in the set, which is empty then."""
    taken = set(numbers)
    numbers.clear()
    return taken
