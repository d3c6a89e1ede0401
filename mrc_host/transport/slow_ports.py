"""Which ports are slower than the others, our own or a peer's. Planes carry equal loads, so all wait for the slowest.

Each cycle of a queue pair's plane balance (``plane_balance``), in which every plane sends a burst, speaks for one plane
or for none:

* For a port of **our own** if the others waited for it: what leaves it slowly does not queue in the fabric.
* For the **peer's** port, or its plane of the fabric, if packets of that plane queue there and those of others do not:
  its round trip, as a multiple of its shortest, is much longer than that of any other plane. A longer link does not
  count, nor does an incast, which all planes share. This must keep the queue pair from sending for much of the time,
  in some of the cycles: a queue may also stay from earlier, and does no harm while what enters it leaves it.

A port becomes slow when that many more cycles spoke for it than did not, and is so until as many more did not: neither
one long interruption nor a port on the threshold makes events. A cycle is a number of packets, hence so is the time
that this takes, whatever the rates. Other traffic that takes half of one plane has the same effect, and the same event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mrc_host.transport.plane_balance import NOBODY
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.values import AsyncEvent, SlowPortEvent

# A fit. A cycle sends at least two packets of 4096 bytes per plane, eight by default: with these, 2 MB per plane. A
# transient, of paths that are given up or of a window that adapts, takes some ten cycles in simulation.
CYCLES: Final = 64
# Planes that carry equal loads differ by up to 1.3 in simulated incasts; a port at half its rate by 2.6 or more.
_LONGER: Final = 3, 2
_FRACTION: Final = 64  # round trips are compared in this fraction of the shortest


class SlowPorts:
    """The ports of one NIC; `slow` is the mask of the slow ones."""

    __slots__ = ("_emit", "_harmless", "_local", "_peer", "_score", "slow")

    def __init__(self, ports: int, emit: Callable[[AsyncEvent], None], peer: bytes = b"") -> None:
        """`peer` is the address of the NIC; b"" for our own. `emit` is called with events."""
        self._emit = emit
        self._peer = peer
        self._local = not peer
        self._score = [0] * ports
        self._harmless = 0  # cycles in a row
        self.slow = 0

    def vote(self, slowest: int, now: int) -> None:
        """A cycle spoke for port `slowest`, or NOBODY."""
        self._harmless = 0
        self._count(slowest, now)

    def harmless(self, now: int) -> None:
        """In this cycle no harm came of the queues of the slowest port. Many such in a row speak for nobody."""
        if self._harmless < CYCLES:
            self._harmless += 1
        else:
            self._count(NOBODY, now)

    def _count(self, slowest: int, now: int) -> None:
        for port, score in enumerate(self._score):
            if port == slowest:
                if score < CYCLES:
                    self._score[port] = score + 1
                    if score + 1 == CYCLES:
                        self._set(port, True, now)
            elif score:
                self._score[port] = score - 1
                if score == 1:
                    self._set(port, False, now)

    def forget(self, port: int, now: int) -> None:
        """The port went down: when it is back, it may be as fast as the others."""
        self._score[port] = 0
        self._set(port, False, now)

    def _set(self, port: int, slow: bool, now: int) -> None:
        if bool(self.slow >> port & 1) != slow:
            self.slow ^= 1 << port
            self._emit(SlowPortEvent(now, port, slow, self._local, self._peer))


def slowest(trips: Sequence[RoundTrip], planes: int) -> int:
    """The one of `planes` where packets queue much longer than in any other; NOBODY if none or if that is not known."""
    most = second = 0
    found = NOBODY
    for plane, trip in enumerate(trips):
        if planes >> plane & 1:
            if not trip.min_rtt or trip.doubtful:
                return NOBODY
            times = trip.smoothed * _FRACTION // trip.min_rtt
            if times > most:
                most, second, found = times, most, plane
            elif times > second:
                second = times
    more, less = _LONGER
    return found if second and less * most >= more * second else NOBODY
