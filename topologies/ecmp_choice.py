"""The uplinks that a RoCE packet takes, as `p4src/ipv6_route.p4` computes it, and source ports for an uplink.

The switch's hash covers addresses, flow label (0 in RoCE's packets), next header and UDP ports; it is multiplied by the
switch's seed, and a second CRC of the product chooses among the uplinks that lead to the destination's T0.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from topologies import addressing
from topologies.entries import ecmp_seed
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.ip_routes import ip_routes
from topologies.parts import FabricNic, Switch, Tier
from topologies.up_down import FabricPath

_UDP = 17
_FIRST_SPORT, _LAST_SPORT = 0xC000, 0xFFFF  # RoCEv2's


def ecmp_path(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, sport: int) -> FabricPath:
    """The path that ECMP sends such packets on, between hosts of different T0s.

    FabricError where a T2 leads to several T1s of the target's pod, whose choice is not computed here.
    """
    t0 = fabric.racks(source.t0)[plane]
    uplink = chosen_uplink(fabric, source, target, plane, sport)
    if t0.pod == fabric.pod_of(target.t0):
        return FabricPath(plane, Tier.T1, uplink)
    t1 = fabric.tier(Tier.T1, plane)[fabric.first_t1(source.t0) + uplink]
    t2 = _chosen(fabric, t1, source, target, sport)
    last = fabric.uplinks(fabric.racks(target.t0)[plane].name)
    below = [far for far in last if t2 in fabric.uplinks(f"t1-{far}@p{plane}")]
    if len(below) != 1:
        raise FabricError(f"t2-{t2}@p{plane} leads to {target.name} over {len(below)} T1s, and chooses one of them")
    return FabricPath(plane, Tier.T2, uplink, t2, below[0] - fabric.first_t1(target.t0))


def chosen_uplink(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, sport: int) -> int:
    """Number of the T1, counted in its pod, that ECMP of the source's T0 sends such packets to."""
    return _chosen(fabric, fabric.racks(source.t0)[plane], source, target, sport) - fabric.first_t1(source.t0)


def source_ports(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, uplink: int) -> Iterator[int]:
    """UDP source ports, ascending, with which RoCE packets take that uplink; FabricError if none leads there."""
    switch, first = fabric.racks(source.t0)[plane], fabric.first_t1(source.t0)
    uplinks = [t1 - first for t1 in _uplinks(fabric, switch, target)]
    if uplink not in uplinks:
        raise FabricError(
            f"{source.name} has no uplink {uplink} towards {target.name} in plane {plane}: "
            + (f"there are {', '.join(map(str, sorted(uplinks)))}" if uplinks else "both are below one T0")
        )
    for sport in range(_FIRST_SPORT, _LAST_SPORT + 1):
        if chosen_uplink(fabric, source, target, plane, sport) == uplink:
            yield sport


def _uplinks(fabric: Fabric, switch: Switch, target: FabricNic) -> tuple[int, ...]:
    """The members of the ECMP group of a switch, in its order, by number of the switch above; none if it leads down."""
    if switch.kernel:
        raise FabricError(f"{switch.name} is the kernel's, whose choice among its uplinks cannot be foretold")
    routes = ip_routes(fabric, switch)
    number = {link.lower.port: upper for upper, link in fabric.uplinks(switch.name).items()}
    group = routes.group_of.get(target.t0)
    if group is None:
        return ()
    return tuple(number[port] for port in routes.groups[group])


def _chosen(fabric: Fabric, switch: Switch, source: FabricNic, target: FabricNic, sport: int) -> int:
    """The number of the switch above `switch` that such packets go to."""
    fields = (
        (int(addressing.nic_address(fabric, source)), 128),
        (int(addressing.nic_address(fabric, target)), 128),
        (0, 20),
        (_UDP, 8),
        (sport, 16),
        (fabric.settings.udp_port, 16),
        (0, 4),  # to whole bytes
    )
    bits = 0
    for value, width in fields:
        bits = bits << width | value
    flow = zlib.crc32(bits.to_bytes(40, "big")) * (ecmp_seed(fabric, switch) | 1) & 0xFFFFFFFF
    uplinks = _uplinks(fabric, switch, target)
    return uplinks[zlib.crc32(flow.to_bytes(4, "big")) % len(uplinks)]
