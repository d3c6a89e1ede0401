"""Who can reach whom up and down over live links, found from the links alone."""

from __future__ import annotations

from collections.abc import Collection

from topologies.fabric import Fabric


def reachable(fabric: Fabric, source: str, plane: int, dead: Collection[str]) -> set[str]:
    """NICs that a way up and down again leads to in a plane, over no dead link."""
    live = [link for link in fabric.links if link.plane == plane and link.name not in dead]
    first = next((link.upper.node for link in live if link.lower.node == source), None)
    if first is None:
        return set()
    up = {first}
    for _ in range(2):
        up |= {link.upper.node for link in live if link.lower.node in up}
    down = set(up)
    for _ in range(3):
        down |= {link.lower.node for link in live if link.upper.node in down}
    return down & set(fabric.nic_names)
