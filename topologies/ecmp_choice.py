"""The uplink of its T0 that a RoCE packet takes, as `p4src/ipv6_route.p4` computes it, and source ports for an uplink.

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
from topologies.parts import FabricNic

_UDP = 17
_FIRST_SPORT, _LAST_SPORT = 0xC000, 0xFFFF  # RoCEv2's


def chosen_uplink(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, sport: int) -> int:
    """Number of the T1, counted in its pod, that ECMP of the source's T0 sends such packets to."""
    return _uplinks(fabric, source, target, plane)[_slot(fabric, source, target, plane, sport)]


def source_ports(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, uplink: int) -> Iterator[int]:
    """UDP source ports, ascending, with which RoCE packets take that uplink; FabricError if none leads there."""
    uplinks = _uplinks(fabric, source, target, plane)
    if uplink not in uplinks:
        raise FabricError(
            f"{source.name} has no uplink {uplink} towards {target.name} in plane {plane}: "
            + (f"there are {', '.join(map(str, sorted(uplinks)))}" if uplinks else "both are below one T0")
        )
    for sport in range(_FIRST_SPORT, _LAST_SPORT + 1):
        if uplinks[_slot(fabric, source, target, plane, sport)] == uplink:
            yield sport


def _uplinks(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int) -> tuple[int, ...]:
    """The members of the ECMP group, in its order; none where both hosts are below one T0."""
    switch = fabric.racks(source.t0)[plane]
    if switch.kernel:
        raise FabricError(f"{switch.name} is the kernel's, whose choice among its uplinks cannot be foretold")
    routes = ip_routes(fabric, switch)
    if source.t0 == target.t0:
        return ()
    number = {link.lower.port: upper for upper, link in fabric.uplinks(switch.name).items()}
    group = routes.group_of.get(target.t0)
    if group is None:
        return ()
    return tuple(number[port] for port in routes.groups[group])


def _slot(fabric: Fabric, source: FabricNic, target: FabricNic, plane: int, sport: int) -> int:
    switch = fabric.racks(source.t0)[plane]
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
    return zlib.crc32(flow.to_bytes(4, "big")) % len(_uplinks(fabric, source, target, plane))
