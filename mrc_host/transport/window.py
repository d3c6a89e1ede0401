"""A congestion window that several queue pairs share: who uses it, and who waits for room.

A queue pair that finds the window shut leaves the port's line and waits here. Whoever gives bytes back, or moves the
window, lets as many of the waiting stand in line again as there is room for, in the order of their coming.

Whose bytes fill the window may not have heard of them for long, and by then asks seldom. Who has just come to wait need
not be as patient: it has them ask in its own time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import trait

from mrc_host.transport.congestion import CongestionControl


@trait
class WindowUser(ABC):
    """A queue pair, as the window sees it."""

    __slots__ = ()

    @abstractmethod
    def window_opened(self) -> bool:
        """There may be room: stand in line if there is data; False when there is none to send."""

    @abstractmethod
    def ask_for_others(self, patience: int, now: int) -> bool:
        """Others wait for its bytes: ask, unless it did within `patience` ns; False when it is heard again, or gone."""


class SharedWindow:
    """One controller towards one destination. `active` is how many queue pairs have bytes on the way.

    In `silent` are those whose ACK timeout has passed, perhaps some that were heard since.
    """

    __slots__ = ("_hurried", "active", "cc", "silent", "users", "waiting")

    def __init__(self, cc: CongestionControl) -> None:
        self.cc = cc
        self.active = 0
        self.users: dict[WindowUser, None] = {}
        self.waiting: dict[WindowUser, None] = {}
        self.silent: dict[WindowUser, None] = {}
        self._hurried = 0  # when the silent ones were last made to ask

    def open(self, size: int) -> None:
        """If there is room, let those that wait stand in line again, each for a packet of `size` bytes."""
        cc, waiting = self.cc, self.waiting
        room = cc.cwnd - cc.inflight
        for _ in range(len(waiting)):  # who comes back at once is not asked again
            if room <= 0:
                break
            user = next(iter(waiting))
            del waiting[user]
            if user.window_opened():
                room -= size

    def hurry(self, patience: int, now: int) -> bool:
        """Somebody has waited for `patience` ns: have the silent ones ask, however many wait; False for none."""
        if now >= self._hurried + patience:
            self._hurried = now
            for user in list(self.silent):
                if not user.ask_for_others(patience, now):
                    del self.silent[user]
        return bool(self.silent)
