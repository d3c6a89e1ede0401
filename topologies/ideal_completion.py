"""Ideal completion time of a flow: alone on an idle fabric, from its first frame to the last acknowledgement.

As in the simulator of HPCC (SIGCOMM 2019), and as pFabric (SIGCOMM 2013) normalizes: the time in which the frames of
the flow, with their headers, leave at the access rate, and then a round trip without queues. Exactly:

- The access rate is that of all ports which source and destination have in common, of each port the slower end. Frames
  are spread over ports of equal rates, so that one frame takes as long as one port needs for it; where rates differ,
  the ports are one of their sum.
- The last frame is then sent once more on every further link of a path, since switches store and forward, and so is
  an acknowledgement on the way back. Every link adds its propagation delay, there and back. Of several paths the
  fastest counts.

Time of hosts, NICs and switches is no part of it, nor is anything that a transport does besides (retransmissions,
probes, a window that does not fill the path). All transports are measured against the same fabric, so a queue pair of
one path, on a host of several ports, has an ideal that it cannot reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mrc_host.config import EvFormat
from mrc_host.verbs_types import QpType
from mrc_host.wire.encap import SRH_LENGTH
from topologies.fabric import Fabric, FabricNic, Link
from topologies.round_trip import FRAME, OVERHEAD, uneven
from topologies.up_down import FabricPath, first_path, nodes

_MRC_HEADERS = FRAME - 4096
_MRC_ACK = 142  # a SACK without CC_STATE
_OUTER_HEADER = 40
_RC_HEADERS = 14 + 40 + 8 + 12 + 4  # Ethernet, IPv6, UDP, BTH, ICRC
_RETH = 16  # of the first packet of a write
_RC_ACK = _RC_HEADERS + 4  # with an AETH
_GAP = 12  # bytes between frames, for which the receiver of the last does not wait


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """Bytes of a packet: most payload, headers without FCS, more of them in a flow's first packet, and its answer."""

    mtu: int
    headers: int
    first: int
    ack: int

    @classmethod
    def of(cls, kind: QpType, mtu: int, fabric: Fabric) -> PacketSizes:
        """Those of a type of queue pair on a fabric."""
        if kind is QpType.RC:
            return cls(mtu, _RC_HEADERS, _RETH, _RC_ACK)
        form = fabric.settings.ev_format
        beside = SRH_LENGTH if form is EvFormat.SRV6_SRH else 0
        if not (form.routed and kind.source_routed):
            beside = -_OUTER_HEADER
        return cls(mtu, _MRC_HEADERS + beside, 0, _MRC_ACK + beside)

    @property
    def answer(self) -> int:
        """Bytes on the line of an acknowledgement, all that is around a frame included."""
        return self.ack + OVERHEAD

    def frame(self, payload: int) -> int:
        """Bytes on the line of a packet with `payload` bytes, all that is around a frame included."""
        return -(-payload // 4) * 4 + self.headers + OVERHEAD


@dataclass(frozen=True, slots=True)
class _Route:
    """Access ports of two hosts, b/s, and of their fastest path: ns a byte and delay (ns) of every link."""

    ports: tuple[int, ...]
    ns_per_byte: tuple[float, ...]
    delay: int

    def once_more(self, size: int) -> int:
        """Time of a frame of `size` bytes on the links after the first."""
        return sum(int(ns * size) for ns in self.ns_per_byte[1:])

    def back(self, size: int) -> int:
        """Time of a frame of `size` bytes on all links."""
        return sum(int(ns * size) for ns in self.ns_per_byte)


class IdealCompletion:
    """Ideal completion times of flows on one fabric, whose links have `delay` ns where they do not say."""

    def __init__(self, fabric: Fabric, packets: PacketSizes, delay: int = 0) -> None:
        self._fabric, self._packets, self._delay = fabric, packets, delay
        self._routes: dict[tuple[str, str], _Route] = {}
        self._uneven = uneven(fabric)

    def of(self, source: str, destination: str, size: int) -> int:
        """Time (ns) of a flow of `size` bytes between two hosts."""
        route = self._route(source, destination)
        packets = self._packets
        full, rest = divmod(size - 1, packets.mtu)  # packets before the last, which has rest + 1 bytes
        last = packets.frame(rest + 1) + (packets.first if not full else 0)
        whole = packets.frame(packets.mtu)
        full_sent, sent = _sent(route.ports, full, whole, last, packets.first if full else 0)
        done = max(sent + route.once_more(last - _GAP), full_sent + route.once_more(whole - _GAP) if full else 0.0)
        return int(done) + route.delay + self.answer_time(source, destination)

    def answer_time(self, source: str, destination: str) -> int:
        """Time (ns) of an acknowledgement on its way back from the destination."""
        route = self._route(source, destination)
        return route.back(self._packets.answer - 2 * _GAP) + route.delay

    def _route(self, source: str, destination: str) -> _Route:
        key = source, destination
        if key not in self._routes:
            self._routes[key] = self._find(self._fabric.nic(source), self._fabric.nic(destination))
        return self._routes[key]

    def _find(self, source: FabricNic, destination: FabricNic) -> _Route:
        fabric = self._fabric
        ports = []
        for plane in fabric.common_planes(source, destination):
            ends = fabric.nic_link(source, plane), fabric.nic_link(destination, plane)
            ports.append(min(link.rate_bps for link in ends if link is not None))
        found = []
        for path in self._paths(source, destination):
            names = (source.name, *nodes(fabric, source, destination, path), destination.name)
            found.append(self._along([self._link(near, far, path.plane) for near, far in pairwise(names)], ports))
        whole = self._packets.frame(self._packets.mtu)
        return min(found, key=lambda route: route.once_more(whole) + 2 * route.delay)

    def _paths(self, source: FabricNic, destination: FabricNic) -> tuple[FabricPath, ...]:
        """Those of two hosts that may differ: where links are even, one stands for thousands of others."""
        if self._uneven:
            return self._fabric.paths(source, destination)
        planes = self._fabric.common_planes(source, destination)
        first = first_path(self._fabric, planes, source.t0, destination.t0)
        assert first is not None, "any two hosts have a path"
        return (first,)

    def _link(self, near: str, far: str, plane: int) -> Link:
        for host in (near, far):
            if host in self._fabric.nic_names:
                link = self._fabric.nic_link(self._fabric.nic(host), plane)
                assert link is not None, "a path begins and ends at links"
                return link
        return self._fabric.link_between(near, far)

    def _along(self, links: Sequence[Link], ports: Sequence[int]) -> _Route:
        delays = (self._delay if link.delay_ns is None else link.delay_ns for link in links)
        return _Route(tuple(ports), tuple(8e9 / link.rate_bps for link in links), sum(delays))


def _sent(ports: Sequence[int], full: int, whole: int, last: int, first: int) -> tuple[float, float]:
    """When ports of these rates have sent `full` frames of `whole` bytes, and then one of `last`, ns.

    The first frame has `first` bytes more.
    """
    if len(set(ports)) > 1:
        total = 8e9 / sum(ports)
        return (full * whole + first) * total, (full * whole + first + last) * total
    rounds, beside = divmod(full, len(ports))
    ns = 8e9 / ports[0]
    longest = (rounds + bool(beside)) * whole + first
    own = rounds * whole + (first if len(ports) == 1 else 0)  # on the port that is free first
    return longest * ns, (own + last) * ns
