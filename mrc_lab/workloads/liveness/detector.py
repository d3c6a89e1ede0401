"""Detector of peers that no longer answer: which heartbeats are unanswered, and for how long.

It has no clock and sends nothing. Only time in which this process ran counts: a process that was stopped, or waited for
a processor, has not looked for answers meanwhile, so of the time between two calls of :meth:`advance` no more counts
than `longest`. The caller takes what has arrived before it asks who is silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

MAX_UNANSWERED = 32  # heartbeats to one peer; no more are sent until it answers


class SilenceDetector:
    """Watches `peers` from `now` on. `timeout` and `longest` in ns."""

    def __init__(self, peers: Iterable[int], timeout: int, longest: int, now: int) -> None:
        self._timeout = timeout
        self._longest = longest
        self._last = now
        self._watched = 0  # time that counts
        self._unanswered: dict[int, deque[int]] = {peer: deque() for peer in peers}  # when sent, in order
        self._answered = dict.fromkeys(self._unanswered, 0)  # when last

    @property
    def peers(self) -> list[int]:
        """Those that are watched."""
        return list(self._unanswered)

    def advance(self, now: int) -> None:
        """The time is `now`."""
        self._watched += min(now - self._last, self._longest)
        self._last = now

    def may_send(self, peer: int) -> bool:
        """Whether the peer may get another heartbeat."""
        return self.unanswered(peer) < MAX_UNANSWERED

    def sent(self, peer: int) -> None:
        """A heartbeat, or a notice, was sent."""
        if peer in self._unanswered:
            self._unanswered[peer].append(self._watched)

    def answered(self, peer: int) -> None:
        """The oldest unanswered heartbeat or notice was answered."""
        unanswered = self._unanswered.get(peer)
        if unanswered:
            unanswered.popleft()
            self._answered[peer] = self._watched

    def unanswered(self, peer: int) -> int:
        """How many heartbeats and notices the peer has not answered."""
        return len(self._unanswered.get(peer, ()))

    def excuse(self) -> None:
        """What is unanswered counts as sent now."""
        for peer, unanswered in self._unanswered.items():
            self._unanswered[peer] = deque([self._watched] * len(unanswered))

    def forget(self, peer: int) -> None:
        """Watch a peer no longer."""
        self._unanswered.pop(peer, None)

    def silence(self, peer: int) -> int:
        """Nanoseconds since the last answer of a peer, watched or not; since the beginning if there was none."""
        return self._watched - self._answered[peer]

    def silent(self) -> list[int]:
        """Peers that have left a heartbeat unanswered for the timeout."""
        before = self._watched - self._timeout
        return [peer for peer, sent in self._unanswered.items() if sent and sent[0] <= before]
