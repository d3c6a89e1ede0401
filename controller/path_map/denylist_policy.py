"""The entropy values that hosts should not use because of suspected faults."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.path_map.values import Direction, ElementKind, SuspectedFault
from topologies.addressing import path_ev
from topologies.fabric import Fabric
from topologies.probe_plan import Crossing, crossed

DeniedEv = tuple[str, str, int]
"""A host, the host it sends to, and an entropy value."""


def paths_to_deny(fabric: Fabric, suspected: Iterable[SuspectedFault]) -> frozenset[DeniedEv]:
    """Every path of data over a suspected fault, in its direction.

    A pair of hosts that would have no path left keeps all of its paths: some of what it sends may arrive, and there is
    nothing better. A suspected fault on a single path forbids just that.
    """
    crossings: set[Crossing] = set()
    switches: set[str] = set()
    single: set[str] = set()
    for fault in suspected:
        if fault.part is ElementKind.SWITCH:
            switches.add(fault.name)
        elif fault.part is ElementKind.PATH:
            single.add(fault.name)
        else:
            if fault.direction is not Direction.DOWN:
                crossings.add(Crossing(fault.name, True))
            if fault.direction is not Direction.UP:
                crossings.add(Crossing(fault.name, False))
    if not (crossings or switches or single):
        return frozenset()
    return frozenset(_over(fabric, crossings, switches, single))


def _over(
    fabric: Fabric, crossings: Collection[Crossing], switches: Collection[str], single: Collection[str]
) -> Iterable[DeniedEv]:
    for nic in fabric.nics:
        for peer in fabric.nics:
            if peer == nic:
                continue
            paths, bad = fabric.paths(nic, peer), []
            for path in paths:
                links, passed = crossed(fabric, nic, peer, path)
                ev = path_ev(path)
                own = f"{nic.name}->{peer.name} peer {ev:#06x}"
                if own in single or any(c in crossings for c in links) or any(s in switches for s in passed):
                    bad.append(ev)
            if len(bad) < len(paths):
                yield from ((nic.name, peer.name, ev) for ev in bad)
