"""Gradual release of what ended clients had on the NIC, so that a client with much delays no other.

The agent has one thread: while it releases objects it sends no frame and acknowledges none. So each turn of its loop
releases a limited number of objects, and no more once they have taken half a millisecond: a queue pair with thousands
of posted receives takes longer than an idle one. The rest waits for the next turns, and stays on the NIC until then, as
the objects of a killed process do while a kernel cleans up. A client with few objects loses all of them at once.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mrc_host.agent.holdings import Holdings
from mrc_host.errors import MrcError

if TYPE_CHECKING:
    from mrc_host.nic import Nic

OBJECTS_PER_TURN = 16  # as many as a client can create in a turn (session.MESSAGES_PER_TURN): releasing keeps up
TURN_NS = 500_000


class Releases:
    """Releases what clients of `nic` had; `owners` are those of completion queues, and lose theirs."""

    def __init__(self, nic: Nic, clock: Callable[[], int], owners: dict[int, Any]) -> None:
        self._nic = nic
        self._clock = clock
        self._owners = owners
        self._left: deque[Iterator[None]] = deque()
        self._budget = OBJECTS_PER_TURN  # objects that may still be released before the next turn

    def add(self, holdings: Holdings) -> None:
        """Release these, in the order of their dependencies, after what other clients had."""
        self._left.append(self._release(holdings))
        self._run()

    def turn(self) -> bool:
        """Release some more; whether there is more to release."""
        self._budget = OBJECTS_PER_TURN
        self._run()
        return bool(self._left)

    def finish(self) -> None:
        """Release everything now: the agent exits."""
        while self.turn():
            pass

    def _run(self) -> None:
        if not self._left:
            return
        until = self._clock() + TURN_NS
        while self._left and self._budget:
            self._budget -= 1
            if next(self._left[0], self) is self:  # it has ended
                self._left.popleft()
                self._budget += 1
            elif self._clock() >= until:
                self._budget = 0

    def _release(self, holdings: Holdings) -> Iterator[None]:
        """Release one object after each other."""
        for qpn in holdings.pairs:
            with contextlib.suppress(MrcError):
                self._nic.destroy_qp(qpn, self._clock())
            yield
        for cq in holdings.queues:
            self._owners.pop(cq, None)
            with contextlib.suppress(MrcError):
                self._nic.destroy_cq(cq)
            yield
        for lkey, region in holdings.regions.items():
            with contextlib.suppress(MrcError):
                self._nic.deregister_memory(lkey)
            region.close()
            yield
