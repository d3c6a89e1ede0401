"""Routes of acknowledgements and other answers to one peer: the plane and path that each takes.

They rotate over the planes suited for them, in a new order each time, so that a dead plane does not lose several in a
row; each takes one of its plane's reverse paths (``reverse_paths``). If no plane is suited, they rotate over all planes
with a path that is not denied; if there is none, they wait. While SACKs are sent, reverse paths are probed. Answers to
the peer's endpoint requests may take other planes (``endpoint_answers``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from mrc_host.transport.endpoint_answers import EndpointAnswers
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_probes import PathProbes
from mrc_host.transport.peer_frames import PeerFrames
from mrc_host.transport.peer_paths import PeerPaths
from mrc_host.transport.peer_planes import PeerPlanes
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, PeerSource
from mrc_host.transport.reverse_paths import ReversePaths
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.verbs_types import ALL_PLANES

_SEARCHING: Final = 8  # probes per reverse_probe_interval while searching for paths


class AnswerRoutes(AnswerPaths):
    """The reverse paths to one peer, with the probes that look for them; `round_trips` of data are by plane."""

    __slots__ = (
        "_frames", "_interval", "_nic", "_paths", "_planes", "_probe_at", "_probes", "_rng", "_round_trips", "_source",
        "_unanswered", "_used", "endpoint", "reverse",
    )  # fmt: skip

    def __init__(
        self,
        nic: NicContext,
        paths: PeerPaths,
        planes: PeerPlanes,
        probes: PathProbes,
        frames: PeerFrames,
        round_trips: Sequence[RoundTrip],
        source: PeerSource,
        interval: int,
    ) -> None:
        """While answers are sent a reverse path is probed every `interval` ns."""
        self._nic = nic
        self._rng: random.Random = nic.rng
        self._paths = paths
        self._planes = planes
        self._probes = probes
        self._frames = frames
        self._round_trips = round_trips
        self._source = source
        self._interval = interval
        self._unanswered = 0  # planes that have not had their turn yet
        self._probe_at = 0  # when a reverse path is probed next; 0 for never
        self._used = False  # whether a SACK was sent since one was probed
        self.reverse = ReversePaths(nic.rng, paths.members, interval)
        self.endpoint = EndpointAnswers(nic.settings)

    # ---- choosing -----------------------------------------------------------------------------------------------

    def port(self, anywhere: bool = False, among: int = ALL_PLANES) -> int:
        """Mask of the one port that should carry the next answer, of those in `among`; 0 when no plane can carry any.

        `anywhere`: it is one of many that carry the same information, and may try planes that lost earlier ones.
        """
        answerable, probes = self._planes.answerable & among, self._probes
        planes = self.reverse.planes(answerable, probes.all_bad() if probes.bad else 0, anywhere)
        planes = planes or answerable
        if planes & (planes - 1) == 0:
            return planes
        left = self._unanswered & planes or planes
        others = left
        for _ in range(int(self._rng.random() * left.bit_count())):
            others &= others - 1
        chosen = others & -others
        self._unanswered = left ^ chosen
        return chosen

    def reverse_path(self, plane: int, now: int) -> int:
        """Path for an answer on `plane`; -1 when all are denied."""
        return self.reverse.choose(plane, self._probes.bad, self._paths.denied, now)

    def random_path(self, plane: int) -> int:
        """A random path for an answer on `plane`, in case confirmed ones have failed; -1 when all are denied."""
        return self.reverse.random_path(plane, self._probes.bad, self._paths.denied)

    def any_path(self, plane: int) -> int:
        """Any path of `plane`, whatever is known of it; -1 when all are denied."""
        return self.reverse.any_path(plane, self._paths.denied)

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """A whole frame without payload."""
        return self._frames.frame(index, kind, body)

    # ---- what is known ------------------------------------------------------------------------------------------

    def works(self, index: int, now: int) -> None:
        """A packet on path `index` is known to have arrived: a good reverse path, or the best one of a bad plane."""
        self.endpoint.confirmed()
        plane = self._paths.plane_of[index]
        bad = index in self._probes.bad
        if index not in self._paths.denied and not (bad and not self._probes.all_bad() >> plane & 1):
            self.reverse.confirm(index, plane, now, bad)

    def deny(self, index: int, denied: bool) -> None:
        """A path was denied, or is allowed again."""
        if denied:
            self.reverse.forget(index)
        else:
            self.reverse.allow(index, self._paths.plane_of[index])

    def acknowledging(self, now: int) -> None:
        """A SACK was sent: keep probing reverse paths while this goes on."""
        self._used = True
        if not self._probe_at:
            self._probe_at = now + self._interval
            self._source.arm(self._probe_at)

    def doubt_reverse_paths(self, probed: bool = False) -> None:
        """The peer repeats packets or, with `probed`, probes for what was acknowledged: our SACKs may be lost."""
        now, bad, denied = self._nic.now, self._probes.bad, self._paths.denied
        self._expire(now)
        trip = max((trip.smoothed for trip in self._round_trips if not trip.doubtful), default=0)
        for index in self.reverse.doubt(self._planes.answerable, bad, denied, now, probed, trip):
            self._probe(index, now)
        self._search_soon(now)

    # ---- probes -------------------------------------------------------------------------------------------------

    def on_timer(self, now: int) -> None:
        """Once per interval while we acknowledge: probe a reverse path."""
        if not self._probe_at or self._probe_at > now:
            return
        self._probe_at = 0
        self._expire(now)
        if self._used or self.reverse.searching:
            index = self.reverse.next_probe(self._planes.answerable, self._probes.bad, self._paths.denied)
            if index >= 0:
                self._probe(index, now)
        if self._used:
            self.acknowledging(now)
            self._used = False
        self._search_soon(now)

    def next_time(self) -> int:
        """When to call ``on_timer``; 0 for never."""
        return self._probe_at

    def _search_soon(self, now: int) -> None:
        """With no reverse path left, probe the next one soon, whether or not anything arrives."""
        soon = now + max(1, self._interval // _SEARCHING)
        if self.reverse.searching and (not self._probe_at or self._probe_at > soon):
            self._probe_at = soon
            self._source.arm(soon)

    def _expire(self, now: int) -> None:
        for request_id in self.reverse.expire(now):
            self._probes.cancel(request_id)

    def _probe(self, index: int, now: int) -> None:
        self.reverse.probe_sent(self._probes.send(index), index, self._paths.plane_of[index], now)
