"""Completion queues that never lose an entry, and never make two ends wait for each other.

A queue of capacity N has four separate budgets. An entry uses one of them until it is polled:

- *requests*: N. A signaled request reserves an entry when it is posted and holds it until its completion is polled, so
  its completion always fits.
- *arrivals*: N. A receiver checks ``room`` before it completes a peer's WRITE_WITH_IMM; without room it leaves the
  message unacknowledged and is called back when the application has polled.
- *failures* of unsignaled requests, which are always reported. They keep their place in the send queue until they are
  polled (``failures``), so there can be no more of them than the send queues are deep.
- *flushed receives*, likewise as many as the receive queues are deep (``flushed_receives``).

Arrivals have a budget of their own because requests may hold theirs for as long as the peer takes: with a common
budget, two ends that post until their queues are full would each wait for the acknowledgement of a message that the
other has no room to complete.

A queue announces entries in two ways: `ready` gets its number with every entry, `notified` only for an entry that it
was armed for (``notify``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import trait

from mrc_host.notify import Notification
from mrc_host.verbs_types import Completion


@trait
class WaitingReceiver(ABC):
    """A receiver that waits for room in a completion queue."""

    __slots__ = ()

    @abstractmethod
    def on_cq_room(self) -> None:
        """The queue was polled; try again."""


_REQUEST: Final = 0
_ARRIVAL: Final = 1
_FAILURE: Final = 2
_RECEIVE: Final = 3


class NicCompletionQueue:
    """One completion queue; `ready` and `notified` are the sets in which it announces new entries.

    `failures` and `flushed_receives`: by QPN, how many of unsignaled requests, or of receives, were not polled yet.
    """

    __slots__ = (
        "_accounts",
        "_arrivals",
        "_blocked",
        "_capacity",
        "_entries",
        "_notified",
        "_ready",
        "_requests",
        "_unpolled",
        "failures",
        "flushed_receives",
        "notification",
        "number",
        "trace",
        "users",
    )

    def __init__(self, number: int, capacity: int, ready: set[int], notified: set[int]) -> None:
        self.number = number
        self.users = 0
        self.trace: Callable[[Completion], None] | None = None  # called with every new entry
        self.failures: dict[int, int] = {}
        self.flushed_receives: dict[int, int] = {}
        self._unpolled = 0  # of both together
        self._capacity = capacity
        self._entries: deque[Completion] = deque()
        self._accounts: deque[int] = deque()  # the budget of each entry, in the same order
        self._requests = 0  # signaled requests whose completion was not polled, whether or not it has arrived
        self._arrivals = 0  # entries of arrivals
        self._blocked: OrderedDict[WaitingReceiver, None] = OrderedDict()
        self._ready = ready
        self._notified = notified
        self.notification = Notification()

    def reserve(self) -> bool:
        """Reserve an entry for the completion of a request; False when none is left."""
        if self._requests >= self._capacity:
            return False
        self._requests += 1
        return True

    def push_reserved(self, entry: Completion) -> None:
        """Add the completion of a request for which an entry was reserved."""
        self._add(entry, _REQUEST)

    def room(self, receiver: WaitingReceiver) -> bool:
        """Whether an arrival fits now; if not, `receiver` is called once the application has polled."""
        if self._arrivals < self._capacity:
            return True
        self._blocked[receiver] = None
        return False

    def blocks(self) -> bool:
        """Whether receivers wait for room."""
        return bool(self._blocked)

    def push(self, entry: Completion) -> None:
        """Add an arrival, for which there is room."""
        self._arrivals += 1
        self._add(entry, _ARRIVAL)

    def push_failure(self, entry: Completion) -> None:
        """Add the failure of an unsignaled request."""
        self.failures[entry.qpn] = self.failures.get(entry.qpn, 0) + 1
        self._unpolled += 1
        self._add(entry, _FAILURE)

    def push_flushed_receive(self, entry: Completion) -> None:
        """Add the completion of a posted receive that was flushed."""
        self.flushed_receives[entry.qpn] = self.flushed_receives.get(entry.qpn, 0) + 1
        self._unpolled += 1
        self._add(entry, _RECEIVE)

    def unpolled_failures(self) -> int:
        """How many failures of unsignaled requests and flushed receives there are."""
        return self._unpolled

    def _add(self, entry: Completion, account: int) -> None:
        self._entries.append(entry)
        self._accounts.append(account)
        self._ready.add(self.number)
        if self.notification.armed and self.notification.due(entry):
            self._notified.add(self.number)
        if self.trace is not None:
            self.trace(entry)

    def forget(self, receiver: WaitingReceiver) -> None:
        """The receiver no longer waits."""
        self._blocked.pop(receiver, None)

    def poll(self, limit: int) -> list[Completion]:
        """Take up to `limit` entries, oldest first."""
        entries, accounts = self._entries, self._accounts
        taken: list[Completion] = []
        while entries and len(taken) < limit:
            entry = entries.popleft()
            account = accounts.popleft()
            if account == _REQUEST:
                self._requests -= 1
            elif account == _ARRIVAL:
                self._arrivals -= 1
            else:
                _taken(self.failures if account == _FAILURE else self.flushed_receives, entry.qpn)
                self._unpolled -= 1
            taken.append(entry)
        if taken and self._blocked:
            self._wake_blocked()
        return taken

    def peek(self, first: int) -> list[Completion]:
        """Entries but the oldest `first`, which stay."""
        return list(self._entries)[first:] if first < len(self._entries) else []

    def _wake_blocked(self) -> None:
        """Give the new room to waiting receivers, in turn: one that fills it goes to the back of the queue."""
        blocked = self._blocked
        for _ in range(len(blocked)):
            if self._arrivals >= self._capacity or not blocked:
                return
            receiver, _ = blocked.popitem(last=False)
            receiver.on_cq_room()


def _taken(counts: dict[int, int], qpn: int) -> None:
    """One less of a queue pair's."""
    left = counts[qpn] - 1
    if left:
        counts[qpn] = left
    else:
        del counts[qpn]
