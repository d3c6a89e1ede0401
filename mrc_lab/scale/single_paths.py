"""Queue pairs of RC: one path there, one back for the acknowledgements, and nothing but waiting where either is dead.

As `mrc_host/transport/roce/requester.py` does it: when nothing is acknowledged the sender goes back after each ACK
timeout, and goes on with the first that finds both paths working. `mrc_host/transport/retry_policy.py` says when the
timeout doubles, and when the queue pair has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mrc_host.transport.retry_policy import RetryPolicy
from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.network import DOWN, UP, Booleans, Network
from mrc_lab.scale.round_trips import TierRoundTrips
from mrc_lab.scale.streams import Streams

At = Callable[[int, Callable[[int], None]], None]


class SinglePaths:
    """Which queue pairs of RC wait. `policies` are by the tier where paths turn.

    `failed` is called with one that has no retries left, and the time.
    """

    def __init__(
        self,
        network: Network,
        streams: Streams,
        policies: Sequence[RetryPolicy],
        trips: TierRoundTrips,
        at: At,
        changed: Callable[[], None],
        failed: Callable[[int, int], None],
    ) -> None:
        self._network, self._streams = network, streams
        self._at, self._changed, self._failed = at, changed, failed
        self._policies = policies
        self._single = streams.plane >= 0
        self._near, self._far = network.rack[streams.source], network.rack[streams.destination]
        self._tier = network.turning_tier(self._near, self._far)
        self._trip = trips.times[self._tier]
        self._dead = np.zeros(len(streams), dtype=bool)
        self._carrier = np.ones(len(streams), dtype=bool)  # of the port that each sends on
        self._turn = [0] * len(streams)
        self.waiting = np.zeros(len(streams), dtype=bool)

    def links_changed(self, states: LinkStates, now: int) -> None:
        """Faults have changed what links do."""
        if not self._single.any():
            return
        streams = self._streams
        self._dead = self._lost(states)
        carrier = states.carrier[streams.source, streams.plane]
        back, self._carrier = np.flatnonzero(carrier & ~self._carrier & self.waiting), carrier
        for stream in back.tolist():  # a NIC knows of its own ports, and need not wait for a timeout
            self._go_on(stream)
        for stream in np.flatnonzero(self._dead & self._streams.active & ~self.waiting).tolist():
            self._wait(stream, now + int(self._trip[stream]))

    def began(self, which: Sequence[int], now: int) -> None:
        """Queue pairs have something to send, and wait if their paths are dead."""
        for stream in which:
            if self._dead[stream] and not self.waiting[stream]:
                self._wait(stream, now)

    def _lost(self, states: LinkStates) -> Booleans:
        """Queue pairs of which a path loses everything."""
        streams, found = self._streams, np.zeros(len(self._streams), dtype=bool)
        silent = states.access_loss >= 1
        access = silent[UP] | silent[DOWN]  # data and acknowledgements pass a port in both directions
        found |= access[streams.source, streams.plane] | access[streams.destination, streams.plane]
        for turn, near, far in ((streams.turn, self._near, self._far), (streams.back_turn, self._far, self._near)):
            between = turn >= 0
            crossed = self._network.crossed(near[between], far[between], streams.plane[between], turn[between])
            found[between] |= (states.uplink_loss[crossed] >= 1).any(axis=1)
        return found & self._single

    def _wait(self, stream: int, since: int) -> None:
        self.waiting[stream] = True
        self._changed()
        self._turn[stream] += 1
        turn = self._turn[stream]
        self._await_timeout(stream, turn, 0, since)

    def _await_timeout(self, stream: int, turn: int, retries: int, since: int) -> None:
        """An ACK timeout begins, after so many retries."""
        due = since + self._policy(stream).timeout_after(retries)
        self._at(due, lambda now: self._retry(stream, turn, retries + 1, now))

    def _go_on(self, stream: int) -> None:
        """The sender goes back, if that is of any use."""
        if not self._dead[stream]:
            self.waiting[stream] = False
            self._changed()

    def _retry(self, stream: int, turn: int, retries: int, now: int) -> None:
        """An ACK timeout has passed; `retries` counts the one that is due."""
        if turn != self._turn[stream] or not self.waiting[stream]:
            return
        if not self._policy(stream).allows(retries):
            self._failed(stream, now)
            return
        self._go_on(stream)
        if self.waiting[stream]:
            self._await_timeout(stream, turn, retries, now)

    def _policy(self, stream: int) -> RetryPolicy:
        return self._policies[int(self._tier[stream])]
