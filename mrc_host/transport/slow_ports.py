"""Ports that are slower than the others, our own or a peer's. Planes carry equal loads, so all wait for the slowest.

Each cycle of a queue pair's plane balance (``plane_balance``), in which every plane sends a burst, speaks for up to
half of the planes, or for none; of more it could not be said that they are slower than usual:

* For ports of **our own** if the others waited for them: what leaves them slowly does not queue in the fabric.
* For ports of the **peer**, or their planes of the fabric, if packets of these planes queue there and those of others
  do not: each of their round trips, as a multiple of its shortest, is much longer than that of any other plane. A
  longer link does not count, nor does an incast, which all planes share. This must keep the queue pair from sending for
  much of the time, in some of the cycles: a queue may also stay from earlier, and does no harm while what enters it
  leaves it. Where such ports have unlike rates, only the slowest have queues, as no plane gets more than these.

A port becomes slow when that many more cycles spoke for it than did not, and is so until as many more did not: neither
one long interruption nor a port on the threshold makes events. A cycle is a number of packets, hence so is the time
that this takes, whatever the rates. Other traffic that takes half of one plane has the same effect, and the same event.

**Retired.** With `slow_port_retry` a port that becomes slow carries no new data for that time, so that the others need
not wait for it. Then it is tried: it is used again, with half of the score that makes it slow, and is retired again or
is no longer slow once this score is full or used up. Each failed trial doubles the time to the next, up to 64 times, as
for bad paths. Ports are tried one after the other: if most of those in use were slow, these would seem to be usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mrc_host.transport.plane_balance import NOBODY
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.verbs_types import AsyncEvent, SlowPortEvent

# A fit. A cycle sends at least two packets of 4096 bytes per plane, eight by default: with these, 2 MB per plane. A
# transient, of paths that are given up or of a window that adapts, takes some ten cycles in simulation.
CYCLES: Final = 64
# Planes that carry equal loads differ by up to 1.3 in simulated incasts; a port at half its rate by 2.6 or more.
_LONGER: Final = 3, 2
_FRACTION: Final = 64  # round trips are compared in this fraction of the shortest
_MAX_DOUBLINGS: Final = 6  # of the time to the next trial


class SlowPorts:
    """The ports of one NIC; `slow` is the mask of the slow ones, `retired` of those that carry no new data."""

    __slots__ = (
        "_due",
        "_emit",
        "_failures",
        "_harmless",
        "_local",
        "_next",
        "_peer",
        "_retry",
        "_score",
        "retired",
        "slow",
        "when_retired",
    )

    def __init__(self, ports: int, emit: Callable[[AsyncEvent], None], peer: bytes = b"", retry: int = 0) -> None:
        """`peer` is the address of the NIC; b"" for our own. `emit` is called with events.

        After `retry` ns a slow port is tried again; 0: it is never retired.
        """
        self._emit = emit
        self._peer = peer
        self._local = not peer
        self._retry = retry
        self._score = [0] * ports
        self._failures = [0] * ports  # how often it was retired since it was fast
        self._due = [0] * ports  # time of the next trial of a retired port
        self._next = 0  # the earliest of these
        self._harmless = 0  # cycles in a row
        self.slow = 0
        self.retired = 0
        self.when_retired: Callable[[int], None] | None = None  # called with the time, also when a port is tried

    def vote(self, slower: int, now: int) -> None:
        """A cycle spoke for the ports of the mask `slower`, or NOBODY."""
        self._harmless = 0
        self._count(slower, now)

    def harmless(self, now: int) -> None:
        """In this cycle no harm came of the queues of the slower ports. Many such in a row speak for nobody."""
        if self._harmless < CYCLES:
            self._harmless += 1
        else:
            self._count(NOBODY, now)

    def _count(self, slower: int, now: int) -> None:
        found = 0
        for port, score in enumerate(self._score):
            if self.retired >> port & 1:
                continue  # not used, so not judged
            if slower >> port & 1:
                if score < CYCLES:
                    self._score[port] = score + 1
                    if score + 1 == CYCLES:
                        found |= 1 << port
                        self._set(port, True, now)
            elif score:
                self._score[port] = score - 1
                if score == 1:
                    self._failures[port] = 0
                    self._set(port, False, now)
        if found and self._retry:
            self._retire(found, now)

    def forget(self, port: int, now: int) -> None:
        """The port went down: when it is back, it may be as fast as the others. Does not call `when_retired`."""
        self._score[port] = self._failures[port] = 0
        self.retired &= ~(1 << port)
        self._set(port, False, now)

    def _set(self, port: int, slow: bool, now: int) -> None:
        if bool(self.slow >> port & 1) != slow:
            self.slow ^= 1 << port
            self._emit(SlowPortEvent(now, port, slow, self._local, self._peer))

    # ---- retired ports ------------------------------------------------------------------------------------------

    def _retire(self, ports: int, now: int) -> None:
        for port, failures in enumerate(self._failures):
            if ports >> port & 1:
                self._due[port] = now + (self._retry << min(failures, _MAX_DOUBLINGS))
                self._failures[port] = failures + 1
        self._change(ports, now)

    def try_retired(self, now: int) -> None:
        """Use the retired port again whose trial is due, if there is one."""
        if not self.retired or now < self._next:
            return
        port = min((due, port) for port, due in enumerate(self._due) if self.retired >> port & 1)[1]
        self._score[port] = CYCLES // 2
        self._due = [max(due, now + self._retry) for due in self._due]
        self._change(1 << port, now)

    def _change(self, ports: int, now: int) -> None:
        self.retired ^= ports
        self._next = min([due for number, due in enumerate(self._due) if self.retired >> number & 1], default=0)
        if self.when_retired is not None:
            self.when_retired(now)


def slowest(trips: Sequence[RoundTrip], planes: int) -> int:
    """Those of `planes`, at most half, where packets queue much longer than in any other; NOBODY if that is not known.

    Of several such sets it is the largest: between planes of unlike rates there may be more than one gap.
    """
    if planes & planes - 1 == 0:
        return NOBODY  # there is no other
    times = [0] * len(trips)  # of planes that are not in use
    for plane, trip in enumerate(trips):
        if planes >> plane & 1:
            if not trip.min_rtt or trip.doubtful:
                return NOBODY
            times[plane] = trip.smoothed * _FRACTION // trip.min_rtt
    ranked = sorted(times)[len(times) - planes.bit_count() :]
    more, less = _LONGER
    for number in range((len(ranked) + 1) // 2, len(ranked)):
        longer = ranked[number]
        if less * longer >= more * ranked[number - 1]:
            return sum([1 << plane for plane, time in enumerate(times) if time >= longer])
    return NOBODY
