"""A congestion window that several queue pairs share: which use it, and which wait for room.

A queue pair that finds the window full leaves the ports' queues and waits here. When bytes are acknowledged or the
window moves, as many waiting queue pairs as there is room for return to the ports' queues, first come, first served.

The queue pairs whose bytes fill the window may not have been answered for long, and have backed off. A queue pair that
has just started to wait has no reason to back off yet, so it makes the others probe at its own intervals. It also
probes for itself, and counts a retry when that is not answered, so that all fail at about the same time where the peer
is gone. One that times out waits after all others, or it would keep the only packet of a small window until it fails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict

from mypy_extensions import trait

from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl, LinkParameters


@trait
class WindowUser(ABC):
    """A queue pair, as the window sees it."""

    __slots__ = ()

    @abstractmethod
    def window_opened(self) -> bool:
        """There may be room: queue at the ports if there is data; False when there is none to send."""

    @abstractmethod
    def probe_for_others(self, interval: int, now: int) -> bool:
        """Others wait for this one's bytes: probe, unless it did within `interval` ns; False once answered or gone."""

    @abstractmethod
    def others_timed_out(self, now: int) -> None:
        """It waits, and one of those that fill the window is the first to time out."""


class SharedWindow:
    """One controller for one destination, and its `key` there.

    `active` is the number of queue pairs with bytes in flight.

    `timed_out` holds the queue pairs for which a retransmission timeout has passed since they were last answered. What
    they send may occupy the window until their next timeout. So they wait for room in `waiting_last`, are let in after
    all those in `waiting`, and leave room for one packet of others, if there are any: probes show whether they are
    answered, too.
    """

    __slots__ = ("_last_probed", "active", "cc", "key", "timed_out", "users", "waiting", "waiting_last")

    def __init__(self, cc: CongestionControl, key: tuple[str, int] = ("", 0)) -> None:
        self.key = key
        self.cc = cc
        self.active = 0
        self.users: dict[WindowUser, None] = {}
        self.waiting: OrderedDict[WindowUser, None] = OrderedDict()
        self.waiting_last: OrderedDict[WindowUser, None] = OrderedDict()
        self.timed_out: dict[WindowUser, None] = {}
        self._last_probed = 0  # when those that timed out were last made to probe

    def wait(self, user: WindowUser) -> None:
        """`user` waits for room from now on, unless it does already."""
        queue = self.waiting_last if self.timed_out and user in self.timed_out else self.waiting
        queue[user] = None

    def waits(self, user: WindowUser) -> bool:
        """Whether `user` waits for room."""
        return user in self.waiting or user in self.waiting_last

    def crowded(self) -> bool:
        """Whether anybody waits for room."""
        return bool(self.waiting) or bool(self.waiting_last)

    def leaves_room(self) -> bool:
        """Whether those that timed out have to leave room for others."""
        return 0 < len(self.timed_out) < len(self.users)

    def reserve(self, size: int) -> int:
        """Bytes that those that timed out leave to others: a packet of `size` counts for more, with its headers."""
        return 2 * size if self.leaves_room() else 0

    def time_out(self, user: WindowUser, now: int) -> None:
        """A retransmission timeout of `user` has passed without an answer."""
        if not self.timed_out:
            for waiting in self.waiting:
                if waiting is not user:
                    waiting.others_timed_out(now)
        self.timed_out[user] = None
        if user in self.waiting:
            del self.waiting[user]
            self.waiting_last[user] = None

    def answered(self, user: WindowUser) -> None:
        """The peer has answered `user`, or it owes nothing any more."""
        if user in self.timed_out:
            del self.timed_out[user]
            if user in self.waiting_last:
                del self.waiting_last[user]
                self.waiting[user] = None

    def open(self, size: int) -> None:
        """While there is room, let waiting queue pairs queue again, each for a packet of `size` bytes."""
        room = self._let_in(self.waiting, self.cc.cwnd - self.cc.inflight, size)
        if self.waiting_last:
            self._let_in(self.waiting_last, room - self.reserve(size), size)

    def _let_in(self, waiting: OrderedDict[WindowUser, None], room: int, size: int) -> int:
        """As many as there is `room` for; what is left of it."""
        for _ in range(len(waiting)):  # one that returns to waiting at once gets no second turn
            if room <= 0 or not waiting:
                break
            user, _ = waiting.popitem(last=False)
            if user.window_opened():
                room -= size
        return room

    def probe_timed_out(self, interval: int, now: int) -> bool:
        """Make those that timed out probe, once per `interval` ns however many wait; False when there are none."""
        if now >= self._last_probed + interval:
            self._last_probed = now
            for user in list(self.timed_out):
                if not user.probe_for_others(interval, now):
                    self.answered(user)
        return bool(self.timed_out)


class SharedWindows:
    """The shared windows to one destination, by the name of their congestion control and a mask of planes."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, int], SharedWindow] = {}

    def join(
        self, user: WindowUser, name: str, planes: int, algorithm: Algorithm, link: LinkParameters
    ) -> SharedWindow:
        """The window of all users of congestion control `name` on `planes`; the first one's `link` sets it up."""
        key = (name, planes)
        window = self.by_key.get(key)
        if window is None:
            window = self.by_key[key] = SharedWindow(algorithm.make(link), key)
        window.users[user] = None
        return window

    def leave(self, user: WindowUser, window: SharedWindow) -> None:
        """`user` has given back its bytes and sends no more; a window without users is dropped."""
        window.users.pop(user, None)
        window.waiting.pop(user, None)
        window.waiting_last.pop(user, None)
        window.timed_out.pop(user, None)
        if not window.users and self.by_key.get(window.key) is window:
            del self.by_key[window.key]
