"""Places of faults: from the names and patterns of :mod:`topologies.faults` to links and their ends.

What happens there is the fault's effect (:mod:`topologies.faults.effect`).
"""

from __future__ import annotations

from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.name_patterns import select

LinkDirection = tuple[Link, LinkEnd, LinkEnd]
"""One direction of a link: the link, the end that frames leave, and the end that they go to."""


def directions(fabric: Fabric, pattern: str, towards: str | None = None) -> tuple[LinkDirection, ...]:
    """Directions of the links that match, those towards a node, or pattern, only; FabricError if there is none."""
    candidates = tuple(
        (link, source, target)
        for link in fabric.find_links(pattern)
        for source, target in ((link.lower, link.upper), (link.upper, link.lower))
    )
    if towards is None:
        return candidates
    nodes = set(select(dict.fromkeys(target.node for *_, target in candidates), towards))
    found = tuple(direction for direction in candidates if direction[2].node in nodes)
    if not found:
        raise FabricError(f"no link that matches {pattern!r} leads to a node that matches {towards!r}")
    return found


def link_of_port(fabric: Fabric, end: LinkEnd) -> Link:
    """The link at a port of a NIC or switch; FabricError if there is no such port."""
    link = fabric.link_at(end)
    if link is None:
        raise FabricError(f"there is no port {end.port} of {end.node} in fabric {fabric.name}")
    return link


def links_of_switches(fabric: Fabric, pattern: str) -> tuple[Link, ...]:
    """All links of the switches that match, each once; FabricError if no switch does."""
    names = [switch.name for switch in fabric.find_switches(pattern)]
    return tuple(dict.fromkeys(link for name in names for link in fabric.links_of(name)))


def delaying_end(fabric: Fabric, end: LinkEnd) -> LinkEnd | None:
    """The port of a P4 switch that delays what leaves `end`: the port itself, or the one at the other end of the link.

    That is for a NIC's port and a kernel switch's; None if neither end is at a P4 switch.
    """
    ends = (end, fabric.peer(end))
    return next((one for one in ends if one is not None and is_p4(fabric, one.node)), None)


def is_p4(fabric: Fabric, node: str) -> bool:
    """Whether a node is a switch that runs the P4 program, and so can make faults."""
    return node not in fabric.nic_names and not fabric.is_kernel(node)
