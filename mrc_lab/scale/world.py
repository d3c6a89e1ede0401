"""The order of events: faults, probes, streams that begin and end, and rates that hold between two of them.

Time is ns from the beginning of the run. Between events every active stream sends at its rate; whatever changes a rate
is an event, after which all rates are computed anew, once for all events of one time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from mrc_host.config import TransportSettings
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.network import Floats, Integers, Network
from mrc_lab.scale.path_states import PathStates
from mrc_lab.scale.rates import Rates
from mrc_lab.scale.round_trips import TierRoundTrips
from mrc_lab.scale.single_paths import SinglePaths
from mrc_lab.scale.streams import Streams
from topologies.faults.engine import FaultChange, FaultEngine

_WHOLE: Final = 0.5  # bytes: less than that is nothing left

Call = Callable[[int], None]


class ScaleWorld:
    """A network with streams and faults.

    `ended` is called with streams that have sent all they had, and the time. `seed` is that of what is random.
    `retries` are the policies of queue pairs of RC by the tier where paths
    turn; `failed` is called with a stream that has no retries left. `active_paths` are those that a queue pair of MRC
    uses at a time, over all planes; None: all.
    """

    def __init__(
        self,
        network: Network,
        streams: Streams,
        settings: TransportSettings,
        faults: FaultEngine,
        ended: Callable[[Integers, int], None],
        seed: int,
        trips: TierRoundTrips,
        retries: Sequence[RetryPolicy],
        failed: Callable[[int, int], None],
        active_paths: int | None = None,
    ) -> None:
        self.network, self.streams = network, streams
        self.now = 0
        self._ended = ended
        self._faults = faults
        self._events: list[tuple[int, int, Call]] = []
        self._serial = itertools.count()
        self._awaited: int | None = None  # when the fault engine is due
        self.states = LinkStates.of(network, ())
        self._rates = Rates(network, streams)
        self._stale = False
        self._remap = settings.port_remap
        self._silent: dict[int, int] = {}  # NICs that send nothing (docs/protocol.md, R3.17), and until when
        self._fresh: list[Integers] = []  # streams that have begun since rates were computed
        self.paths = PathStates(
            network, streams, settings, trips, self.states, self.at, self.rates_changed, seed, active_paths
        )
        self.single = SinglePaths(network, streams, retries, trips, self.at, self.rates_changed, self._fail)
        self._failed = failed

    # ---- events -----------------------------------------------------------------------------------------------------

    def at(self, time: int, call: Call) -> None:
        """Have `call` called at `time`, or now if that is over."""
        heapq.heappush(self._events, (max(time, self.now), next(self._serial), call))

    def rates_changed(self) -> None:
        """Rates have to be computed anew before time goes on."""
        self._stale = True

    def faults_changed(self) -> None:
        """Make links be as the engine says, and come back when it is due."""
        while (done := self._faults.tick(self.now)) is not None:
            change, fault_id = done
            if change is FaultChange.END:
                self._faults.clear([fault_id], self.now)
        states = LinkStates.of(self.network, self._faults.in_force())
        if (states.access_rate != self.states.access_rate).any() or (
            states.uplink_rate != self.states.uplink_rate
        ).any():
            self.rates_changed()
        if self._remap:
            self._fall_silent(np.flatnonzero((self.states.carrier & ~states.carrier).any(axis=1)))
        if (states.carrier & ~self.states.carrier).any():
            self._fresh.append(np.empty(0, dtype=np.int64))  # whoever has a plane back meets what died there meanwhile
        self.states = states
        self.paths.links_changed(states, self.now)
        self.single.links_changed(states, self.now)
        due = self._faults.wakeup()
        if due is not None and due != self._awaited:
            self._awaited = due
            self.at(due, lambda _: self.faults_changed())

    def _fall_silent(self, nics: Integers) -> None:
        """NICs are about to leave a port, and neither send nor answer until they have."""
        until = self.now + self._remap
        self._silent.update(dict.fromkeys(nics.tolist(), until))
        if len(nics):
            self.at(until, self._end_silences)
            self.rates_changed()

    def _end_silences(self, now: int) -> None:
        self._silent = {nic: until for nic, until in self._silent.items() if until > now}
        self.rates_changed()

    # ---- streams ----------------------------------------------------------------------------------------------------

    def begin(self, which: Iterable[int] | Integers, size: float = np.inf) -> None:
        """Streams begin to send `size` bytes of payload each."""
        chosen = np.asarray(which, dtype=np.int64)
        self.streams.left[chosen] = size
        self.streams.active[chosen] = True
        self._fresh.append(chosen)
        self.single.began(chosen.tolist(), self.now)
        self.rates_changed()

    def _fail(self, stream: int, now: int) -> None:
        """A queue pair has failed, and sends nothing any more."""
        self.streams.active[stream] = False
        self.rates_changed()
        self._failed(stream, now)

    def _compute(self) -> None:
        self._stale = False
        self.paths.refresh()
        states = self.states.without_nics(list(self._silent)) if self._silent else self.states
        self.streams.rate = self._rates.compute(states, self.paths.usable, self.single.waiting)
        if self._fresh:
            fresh, self._fresh = np.concatenate(self._fresh), []
            self.paths.began(fresh, self.now)
        self.paths.lossy.rates_changed(self.now)

    # ---- time -------------------------------------------------------------------------------------------------------

    def run(
        self,
        until: int,
        advanced: Callable[[Floats, int, int], None] = lambda before, since, now: None,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let time go on to `until`, with all that is due then, or until all is `over`.

        `advanced` is called whenever time has gone on, with what each stream had through before, and both times.
        """
        while True:
            if self._stale:
                self._compute()
            next_end = self._next_end()
            due = self._events[0][0] if self._events else None
            when = min(time for time in (due, next_end, until) if time is not None)
            before, since = self.streams.arrived.copy(), self.now
            self._advance(when)
            if when > since:
                advanced(before, since, when)
            if when == next_end:
                self._end_streams()
            while self._events and self._events[0][0] <= when:
                heapq.heappop(self._events)[2](when)
            if over() or (when >= until and not self._stale):
                return

    def _next_end(self) -> int | None:
        streams = self.streams
        sending = streams.active & (streams.rate > 0) & np.isfinite(streams.left)
        if not sending.any():
            return None
        soonest = float((streams.left[sending] * 8e9 / streams.rate[sending]).min())
        return self.now + max(0, int(np.ceil(soonest)))

    def _advance(self, to: int) -> None:
        """Every stream sends at its rate."""
        passed, self.now = to - self.now, to
        if passed <= 0:
            return
        streams = self.streams
        got = streams.rate * (passed / 8e9)
        streams.arrived += got
        streams.sent += got / streams.packet
        streams.left -= got

    def _end_streams(self) -> None:
        """Streams that have nothing left have ended."""
        streams = self.streams
        over = np.flatnonzero(streams.active & (streams.left <= _WHOLE + streams.rate * 1e-9))
        if len(over):
            streams.active[over] = False
            streams.arrived[over] += streams.left[over]
            streams.left[over] = 0.0
            self.paths.ended(over)
            self.rates_changed()
            self._ended(over, self.now)
