"""Round-trip time of a packet through a fabric without queues, which congestion control measures against."""

from __future__ import annotations

from functools import cached_property
from heapq import nlargest
from itertools import pairwise

from topologies.fabric import Fabric, FabricNic, Link, LinkKind, Tier
from topologies.up_down import nodes

FRAME = 4096 + 142  # bytes of a full data packet (docs/protocol.md §1.1), without FCS
ACK = 154
PROBE = 134  # of an endpoint request
OVERHEAD = 24  # bytes around a frame: preamble and SFD 8, FCS 4, inter-packet gap 12 (IEEE 802.3)


def serialization(size: int, rate_bps: int) -> int:
    """Time (ns, rounded up) that a frame of `size` bytes occupies a line."""
    return -(-8_000_000_000 * (size + OVERHEAD) // rate_bps)


def base_round_trip(fabric: Fabric, delay: int = 0) -> int:
    """Round trip (ns) of a full packet and its SACK on the longest path; links that do not say have `delay` ns each.

    Where paths hardly differ (not :func:`varied`), the slowest link is assumed everywhere.
    """
    if varied(fabric) and (longest := _longest_path(fabric, delay)):
        return longest
    slowest = min(link.rate_bps for link in fabric.links)
    hops = 4 if fabric.t1_count else 2
    return hops * (serialization(FRAME, slowest) + serialization(ACK, slowest) + 2 * delay)


def _longest_path(fabric: Fabric, delay: int) -> int:
    """The same over the links that paths have; 0 if there are no paths.

    At each switch the two longest paths up to it are joined that come from below different ports, T0s or pods.
    """
    longest = 0
    for plane in range(fabric.planes):
        up: dict[str, int] = {}  # the longest path from a NIC up to each switch
        for switch in (switch for tier in Tier for switch in fabric.tier(tier, plane)):
            branches: dict[str | int, int] = {}
            for link in fabric.links_of(switch.name):
                below = link.lower.node
                if below != switch.name and (link.kind is LinkKind.NIC_T0 or below in up):
                    branch = fabric.switch(below).pod if switch.tier is Tier.T2 else below
                    branches[branch] = max(branches.get(branch, 0), up.get(below, 0) + _round_trip(link, delay))
            if branches:
                up[switch.name] = max(branches.values())
            if len(branches) > 1:
                longest = max(longest, sum(nlargest(2, branches.values())))
    return longest


def bandwidth_delay_product(fabric: Fabric, round_trip: int) -> int:
    """Bytes that all ports of the fastest NIC carry in a round trip of `round_trip` ns."""
    fastest = max(sum(link.rate_bps for link in fabric.links_of(nic.name)) for nic in fabric.nics)
    return fastest * round_trip // 8_000_000_000


def varied(fabric: Fabric) -> bool:
    """Whether paths differ so much that one base RTT does not do for all.

    They do with three tiers, and where links are uneven. The others differ by some serializations only.
    """
    return bool(fabric.t2_count) or uneven(fabric)


def uneven(fabric: Fabric) -> bool:
    """Whether links of one class differ in rate, or any has a delay of its own: paths of two hosts may differ."""
    rates = {kind: {link.rate_bps for link in fabric.links if link.kind is kind} for kind in LinkKind}
    own_delay = any(link.delay_ns is not None for link in fabric.links)
    return own_delay or any(len(found) > 1 for found in rates.values())


class PathRoundTrips:
    """Round trips between single pairs of hosts of one fabric, each on the longest of its paths.

    Links that do not say have `delay` ns; `waiting` ns are added for what is not the links' own.
    """

    def __init__(self, fabric: Fabric, delay: int = 0, waiting: int = 0) -> None:
        self._fabric = fabric
        self._delay = delay
        self._waiting = waiting
        self._between: dict[tuple[int, int, int], int] = {}

    @cached_property
    def varied(self) -> bool:
        """Whether they differ enough to matter."""
        return varied(self._fabric)

    def of(self, nic: FabricNic, peer: FabricNic) -> int:
        """The round trip (ns) of a full packet and its SACK from `nic` to `peer`."""
        planes = dict.fromkeys(path.plane for path in self._fabric.paths(nic, peer))
        return self._waiting + max(
            self._port(nic, plane) + self._switches(nic, peer, plane) + self._port(peer, plane) for plane in planes
        )

    def _port(self, nic: FabricNic, plane: int) -> int:
        link = self._fabric.nic_link(nic, plane)
        assert link is not None, "a path begins and ends at links"
        return _round_trip(link, self._delay)

    def _switches(self, nic: FabricNic, peer: FabricNic, plane: int) -> int:
        """The longest path between two T0s of a plane."""
        key = nic.t0, peer.t0, plane
        if key not in self._between:
            found = [
                nodes(self._fabric, nic, peer, path) for path in self._fabric.paths(nic, peer) if path.plane == plane
            ]
            self._between[key] = max(
                sum(_round_trip(self._fabric.link_between(near, far), self._delay) for near, far in pairwise(names))
                for names in found
            )
        return self._between[key]


def _round_trip(link: Link, delay: int) -> int:
    """What one link adds to a round trip."""
    own = delay if link.delay_ns is None else link.delay_ns
    return serialization(FRAME, link.rate_bps) + serialization(ACK, link.rate_bps) + 2 * own
