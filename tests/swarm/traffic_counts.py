"""Counts what NICs send, from the frames that T0s take in: by queue pair, plane and path, and while nothing moves.

A queue pair is named by the sending NIC and the QPN that its packets carry, which is the receiver's. Time is cut into
bins of `bin_ns`. As long as bins pass without a first transmission or a completion anywhere, the world stands still:
what each queue pair sends in each such stretch is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from mrc_host.wire import opcodes
from simulation.trace import Trace
from tests.swarm.kept_planes import KeptPlanes
from topologies.fabric import Fabric, LinkKind

_NEXT_HEADER: Final = 20
_IPV6: Final = 41
_OUTER: Final = slice(38, 54)
_BTH: Final = 14 + 40 + 40 + 8
_QPN: Final = slice(_BTH + 5, _BTH + 8)
_FLAGS: Final = _BTH + 8
_PSN: Final = slice(_BTH + 9, _BTH + 12)
_RTX: Final = 0x20
_ENDPOINT_QPN: Final = 2  # of what is between NICs, not queue pairs

Flow = tuple[str, int]  # the sending NIC and the receiver's QPN


class Stretch(NamedTuple):
    """What a queue pair sent while nothing moved, from `start` on for `length` (ns)."""

    start: int
    length: int
    data: int  # frames: retransmissions
    again: int  # of these, those of packets that were retransmitted before in this stretch
    probes: int
    answers: int  # all other frames


class TrafficCounts(Trace):
    """A trace that also counts: `planes` and `paths` first transmissions, `repeated` retransmissions by plane.

    `sent` is the bytes of all data frames. `kept_planes` sees all frames, if it is set.
    """

    def __init__(self, fabric: Fabric, bin_ns: int) -> None:
        super().__init__()
        self.planes: dict[Flow, Counter[int]] = {}
        self.paths: dict[Flow, Counter[bytes]] = {}
        self.repeated: dict[Flow, Counter[int]] = {}
        self.sent: Counter[Flow] = Counter()
        self.still: dict[Flow, list[Stretch]] = {}
        self.kept_planes: KeptPlanes | None = None
        self._fabric = fabric
        self._senders: dict[tuple[int, int], tuple[str, int]] = {}  # T0's number and port -> NIC and plane
        self._bin_ns = bin_ns
        self._bin = 0
        self._moved = True
        self._now: Counter[tuple[Flow, str]] = Counter()  # frames in this bin, by the field of `Stretch`
        self._stretch: Counter[tuple[Flow, str]] = Counter()  # frames in the bins before without movement
        self._again: Counter[Flow] = Counter()  # retransmissions of what was retransmitted already in this stretch
        self._resent: set[tuple[Flow, bytes]] = set()
        self._since = 0

    def start(self, devices: Sequence[str]) -> None:
        """Learn the numbers of the devices."""
        super().start(devices)
        number = {name: position for position, name in enumerate(devices)}
        for link in self._fabric.links:
            if link.kind is LinkKind.NIC_T0:
                self._senders[number[link.upper.node], link.upper.port] = link.lower.node, link.plane

    def frame(self, now: int, device: int, port: int, frame: bytes) -> None:
        """Count what comes from a NIC."""
        super().frame(now, device, port, frame)
        sender = self._senders.get((device, port))
        if sender is not None and self.kept_planes is not None:
            self.kept_planes.frame(now, *sender, frame)
        if sender is None or len(frame) <= _FLAGS or frame[_NEXT_HEADER] != _IPV6:
            return
        if now // self._bin_ns != self._bin:
            self._next_bin(now)
        qpn = int.from_bytes(frame[_QPN], "big")
        flow = sender[0], qpn
        kind = "probes" if frame[_BTH] == opcodes.PROBE else "answers"
        if opcodes.WRITE_FIRST <= frame[_BTH] <= opcodes.WRITE_ONLY_IMM:
            kind = "data"
            self.sent[flow] += len(frame)
            if frame[_FLAGS] & _RTX:
                self.repeated.setdefault(flow, Counter())[sender[1]] += 1
                packet = flow, bytes(frame[_PSN])
                self._again[flow] += packet in self._resent
                self._resent.add(packet)
            else:
                self._moved = True
                planes = self.planes.get(flow)
                if planes is None:
                    planes = self.planes[flow] = Counter()
                    self.paths[flow] = Counter()
                planes[sender[1]] += 1
                self.paths[flow][frame[_OUTER]] += 1
        if qpn != _ENDPOINT_QPN:
            self._now[flow, kind] += 1

    def progress(self, now: int) -> None:
        """Something completed."""
        if now // self._bin_ns != self._bin:
            self._next_bin(now)
        self._moved = True

    def finish(self, now: int) -> None:
        """The run is over."""
        self._next_bin(now)
        self._close(now)

    def _next_bin(self, now: int) -> None:
        """The bin that was counted is over; if there was movement in it, so is the stretch before."""
        if self._moved:
            self._close(self._bin * self._bin_ns)
            self._since = (self._bin + 1) * self._bin_ns
            self._again.clear()
            self._resent.clear()
        else:
            self._stretch.update(self._now)
        self._now.clear()
        self._moved = False
        self._bin = now // self._bin_ns

    def _close(self, until: int) -> None:
        counts = self._stretch
        for flow in dict.fromkeys(flow for flow, _ in counts):
            data, probes, answers = counts[flow, "data"], counts[flow, "probes"], counts[flow, "answers"]
            again = min(data, self._again[flow])
            stretch = Stretch(self._since, until - self._since, data, again, probes, answers)
            self.still.setdefault(flow, []).append(stretch)
        counts.clear()
