"""The reliability probes of one queue pair: on which planes one is due, on which path, and which are in flight.

A probe makes the peer report what has arrived. The SACK that answers it carries the probe's number, which identifies
when and where the probe was sent (docs/protocol.md §2).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mrc_host.transport.rotation import next_plane
from mrc_host.wire import headers

_MAX_UNANSWERED: Final = 32


class SentProbe(NamedTuple):
    """Plane, path and sending time (ns) of a probe."""

    plane: int
    path: int
    sent: int


class ReliabilityProbes:
    """Probes that are due (`mask`, of planes) or in flight."""

    __slots__ = ("_last_id", "_last_plane", "_paths", "_proven", "_unanswered", "mask")

    def __init__(self) -> None:
        self.mask = 0
        self._last_id = 0
        self._paths: dict[int, int] = {}  # by plane: the path of the next probe, where that matters
        self._last_plane = 0  # plane of the last probe requested while nothing was in flight, as a mask
        self._unanswered: dict[int, SentProbe] = {}
        self._proven: SentProbe | None = None  # the one sent last of those that were answered

    @property
    def unanswered(self) -> int:
        """How many are in flight, of those remembered."""
        return len(self._unanswered)

    def request(self, planes: int, usable: int, again: bool) -> None:
        """Request a probe on each of `planes`; if none of these is usable, on the next of the usable planes, in turn.

        In that case a probe that was not answered is repeated (`again`) on all planes: each may meet a failed path, in
        either direction. On one of them it takes the path on which a probe was answered last. So does one more probe
        where packets are in flight: those of their own planes may be lost like them.
        """
        planes &= usable
        if planes:
            planes |= self._proven_plane(usable)
        elif again:
            self._proven_plane(usable)
            planes = usable
        else:
            planes = self._last_plane = next_plane(usable, self._last_plane)
        self.mask |= planes

    def _proven_plane(self, usable: int) -> int:
        """The plane of the path on which a probe was answered last, as a mask: its next probe is to take this path."""
        proven = self._proven
        if proven is None or not usable >> proven.plane & 1:
            return 0
        if proven.path >= 0:
            self._paths.setdefault(proven.plane, proven.path)  # a path that has just opened is better news
        return 1 << proven.plane

    def forget_proven_path(self) -> None:
        """The path on which a probe was answered last may have failed since: its plane is still tried, on any path."""
        if self._proven is not None:
            self._proven = self._proven._replace(path=-1)

    def unanswered_since(self, plane: int) -> int:
        """When the latest probe of `plane` that is in flight was sent; 0 if none is."""
        return max([probe.sent for probe in self._unanswered.values() if probe.plane == plane], default=0)

    def prefer(self, plane: int, path: int) -> None:
        """The next probe of `plane` is to go on `path`."""
        self._paths[plane] = path

    def take(self, plane: int) -> int:
        """The probe due on `plane` is about to be sent: its path, -1 for any."""
        self.mask &= ~(1 << plane)
        return self._paths.pop(plane, -1)

    def sent(self, plane: int, path: int, now: int) -> int:
        """A probe leaves; returns its number."""
        self._last_id = number = (self._last_id + 1) & 0xFFFF
        if len(self._unanswered) >= _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        self._unanswered[number] = SentProbe(plane, path, now)
        return number

    def find(self, number: int, stamp: int) -> SentProbe | None:
        """The probe with this number and timestamp, if it is in flight.

        Each life numbers its probes from 1: an answer to a late probe of an earlier one has another timestamp.
        """
        probe = self._unanswered.get(number)
        return probe if probe is not None and headers.timestamp(probe.sent) == stamp else None

    def answered(self, number: int) -> None:
        """The probe is no longer in flight."""
        probe = self._unanswered.pop(number, None)
        if probe is not None and (self._proven is None or probe.sent >= self._proven.sent):
            self._proven = probe

    def in_flight(self, number: int, stamp: int) -> bool:
        """Whether a probe with this number and timestamp is in flight."""
        return self.find(number, stamp) is not None
