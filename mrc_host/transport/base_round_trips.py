"""Base round trips to one peer: how long a full packet and its answer take on each path when nothing queues.

Congestion control takes for queueing delay what a round trip has beyond its base, and scales its largest window with
the mean base (docs/congestion.md). One minimum for all would make both wrong where ways are of unlike length, or become
longer.

* **Shortest.** Each path has the shortest round trip seen on it, and at first none above that of the configuration. A
  path that hardly differs from the shortest of its plane counts as that one, which has been measured more often.
* **Probes.** From round trips of data a longer way cannot be told from a queue that never drains. So a path whose round
  trips are long is probed in the control class, which no queue of data delays: once in ten round trips in each plane. A
  full packet would have taken longer by what its length takes on each link.
* **Longer ways.** Such a probe waits for one frame at each switch at most. If it takes longer than a full packet once
  took, the way has become longer, there or back. It is repeated until answers on two planes agree, or three on one:
  then all paths of the plane are raised, and whatever arrives sooner lowers them again.
* **Ways back.** Answers come on any plane, whatever plane the packet took. What a plane adds to the way back is the
  mean of what probes answered there took beyond the base of their paths.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.ev_probes import EvProbes
from mrc_host.transport.peer_frames import CONTROL

_PROBE_BYTES: Final = 138  # the frame of an endpoint request (docs/protocol.md §1.1)
_INTERVAL: Final = 10  # round trips between probes, as for bad paths in simulation
_ANSWERS: Final = 3  # on one plane that show a longer way
_MEAN_OF: Final = 8  # probes, as SRTT is the mean of about eight samples (RFC 6298)
_NEVER: Final = (1 << 62) - 1


def _far(rtt: int, least: int) -> bool:
    """Whether a round trip is so much longer than the `least` that it matters.

    A window of 1.5 bandwidth-delay products fills a path half as long again; a quarter leaves as much for queues.
    """
    return 4 * (rtt - least) > least


class _Probing:
    """The probe of one plane: on which path, and what its answers show."""

    __slots__ = ("answers", "arrived", "index", "least", "next", "request_id", "sent", "weight")

    def __init__(self) -> None:
        self.request_id = -1  # of the probe in flight
        self.sent = -1  # when it left; -1: not yet
        self.index = 0
        self.weight = 0  # bytes of the packet that was late
        self.next = 0  # when the plane may be probed again
        self.arrived = _NEVER  # the shortest round trip of data on the path since the first probe
        self.least = _NEVER  # what a full packet would have taken, by the answers so far
        self.answers: list[tuple[int, int]] = []  # the port of each of them, and the same


class BaseRoundTrips:
    """Those of all paths to one peer, in ns. `mean` is over the planes, 0 while nothing is known."""

    __slots__ = (
        "_given", "_hops", "_known", "_least", "_members", "_probes", "_probing", "_rates", "_reverse", "_reverses",
        "_shortest", "_total", "mean",
    )  # fmt: skip

    def __init__(self, probes: EvProbes, members: list[list[int]], rates: list[int], hops: int, given: int) -> None:
        """`members` are the paths of each plane, `rates` (bit/s) those of our ports, `hops` the links of a path.

        `given` is the configured base round trip, 0 if none is.
        """
        planes = len(rates)
        self._members = members
        self._probes = probes
        self._rates = rates
        self._hops = hops
        self._given = given or _NEVER
        self._shortest: list[int] = []  # by path; 0: unknown
        self._least = [_NEVER] * planes  # of the shortest of each plane
        self._total = [0] * planes  # their sum
        self._known = [0] * planes  # and of how many paths
        self._probing = [_Probing() for _ in rates]
        self._reverse = [0] * planes  # what answers at a port take longer than the base of the path
        self._reverses = [0] * planes  # of how many probes that is the mean
        self.mean = 0

    def of(self, index: int, plane: int, port: int = -1) -> int:
        """Base of a packet that took path `index` of `plane`, answered at `port` or (-1) where answers are fastest."""
        least, own = self._least[plane], self._shortest[index]
        base = own if _far(own, least) else least
        reverse = self._reverse[port] if port >= 0 else 0
        return base + reverse if reverse and _far(base + reverse, base) else base

    def sample(self, index: int, plane: int, port: int, rtt: int, weight: int, now: int) -> tuple[int, bool]:
        """A packet of `weight` bytes, sent on path `index` of `plane`, was answered at `port` after `rtt` ns.

        Returns the base of such a packet, and whether a probe was queued.
        """
        self.shorter(index, plane, rtt)
        base = self.of(index, plane, port)
        probing = self._probing[plane]
        if probing.index == index and rtt < probing.arrived:
            probing.arrived = rtt
        if now < probing.next or not _far(rtt, base):
            return base, False
        self._probes.cancel(probing.request_id)  # if it was not answered in the whole interval
        probing.index, probing.weight, probing.arrived, probing.least = index, weight, rtt, _NEVER
        probing.answers.clear()
        self._probe(probing)
        probing.next = now + _INTERVAL * self._shortest[index] + 2 * rtt
        return base, True

    def shorter(self, index: int, plane: int, rtt: int) -> None:
        """Something took `rtt` ns on path `index` of `plane` and back."""
        shortest = self._shortest
        while len(shortest) <= index:
            shortest.append(0)
        known = shortest[index]
        if not known or rtt < known:
            shortest[index] = own = rtt if known else min(rtt, self._given)
            self._least[plane] = min(self._least[plane], own)
            self._total[plane] += own - known
            self._known[plane] += not known
            self._average()

    # ---- probes -------------------------------------------------------------------------------------------------

    def _probe(self, probing: _Probing) -> None:
        probing.sent = -1
        plane = self._probing.index(probing)
        probing.request_id = self._probes.send(probing.index, plane, CONTROL)

    def probe_sent(self, request_id: int, plane: int, now: int) -> None:
        """A probe, perhaps one of these, leaves on `plane`."""
        if self._probing[plane].request_id == request_id:
            self._probing[plane].sent = now

    def probe_answered(self, request_id: int, plane: int, port: int, service_time: int, now: int) -> bool:
        """A probe, perhaps one of these, sent on `plane`, was answered at `port` after `service_time` ns at the peer.

        Returns whether another was queued.
        """
        probing = self._probing[plane]
        if probing.request_id != request_id or probing.sent < 0:
            return False
        trip = now - probing.sent - service_time
        packet = trip + self._longer_frame(plane, probing.weight)
        probing.request_id = -1
        self.shorter(probing.index, plane, packet)
        known = self._shortest[probing.index]
        probing.answers.append((port, packet))
        probing.least = min(probing.least, packet)
        if trip - self._reverse[port] > known:
            if not self._agreed(probing):
                self._probe(probing)
                probing.arrived = _NEVER  # some of that may have been under way when the way became longer
                probing.next = max(probing.next, now + 2 * trip)
                return True
            self._raise(plane, min(probing.arrived, probing.least) - known)
            probing.next = now  # others of its paths may have become longer still
        for answered, took in probing.answers:
            self._count_reverse(answered, took - probing.least)
        return False

    def _agreed(self, probing: _Probing) -> bool:
        """Whether the answers so far came on two planes, or are so many that chance hardly led them all astray."""
        return len({port for port, _ in probing.answers}) > 1 or len(probing.answers) >= _ANSWERS

    def _longer_frame(self, plane: int, weight: int) -> int:
        """What a packet of `weight` bytes takes longer than a probe, if all links are as fast as our port (ns)."""
        return self._hops * max(0, weight - _PROBE_BYTES) * 8_000_000_000 // self._rates[plane]

    def _raise(self, plane: int, by: int) -> None:
        """Paths of a plane have become longer by `by` ns; those that have not are lowered by what arrives next."""
        if by <= 0:
            return
        shortest = self._shortest
        self._least[plane] += by
        for index in self._members[plane]:
            if index < len(shortest) and shortest[index]:
                shortest[index] += by
                self._total[plane] += by
        self._average()

    def _count_reverse(self, port: int, excess: int) -> None:
        """An answer at a port took `excess` ns more than the base of its path."""
        self._reverses[port] = min(self._reverses[port] + 1, _MEAN_OF)
        self._reverse[port] += (excess - self._reverse[port]) // self._reverses[port]
        self._average()

    def _average(self) -> None:
        planes = base = 0
        for total, known in zip(self._total, self._known, strict=True):
            if known:
                planes += 1
                base += total // known
        self.mean = base // planes + sum(self._reverse) // len(self._reverse)
