"""Wiring of a Clos: the positions that its switches and NICs give to every link, and the ports there.

- A NIC has a port in each plane, on its T0.
- A T0 has a link to every T1 of its pod. Ports 1..D are its downlinks, in the order of the NICs; D+1.. its uplinks,
  uplink u to the T1 of number u in the pod.
- A T1 has ports 1..T for the T0s of its pod, T+1.. for its T2s, both by number.
- A T2 has ports 1.. for its T1s, by number; which these are is the fabric's :class:`~topologies.parts.T2Wiring`.

A fabric need not have a link at every position. A port whose link is missing keeps its number, and is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topologies.parts import FabricNic, LinkEnd, LinkKind, Switch, T2Wiring, Tier


@dataclass(frozen=True, slots=True)
class Position:
    """A place for a link."""

    name: str
    kind: LinkKind
    plane: int
    lower: LinkEnd
    upper: LinkEnd


def positions(
    planes: int, switches: Iterable[Switch], nics: Sequence[FabricNic], wiring: T2Wiring
) -> Mapping[str, Position]:
    """Every position by name, plane by plane: those of NICs, then those of T0s, then those of T1s."""
    by_plane: list[dict[Tier, list[Switch]]] = [{tier: [] for tier in Tier} for _ in range(planes)]
    for switch in switches:
        by_plane[switch.plane][switch.tier].append(switch)
    racks: dict[int, int] = {}
    for nic in nics:
        racks[nic.t0] = max(racks.get(nic.t0, 0), nic.downlink + 1)
    return {
        position.name: position
        for plane, tiers in enumerate(by_plane)
        for position in (
            *_nic_links(plane, nics),
            *_t0_links(plane, racks, _by_pod(tiers[Tier.T0]), _by_pod(tiers[Tier.T1])),
            *_t1_links(plane, _by_pod(tiers[Tier.T0]), _by_pod(tiers[Tier.T1]), tiers[Tier.T2], wiring),
        )
    }


def neighbouring_t1s(t2: int, t2_count: int, t1s: Mapping[int, Sequence[int]], wiring: T2Wiring) -> tuple[int, ...]:
    """Numbers of the T1s that T2 number `t2` joins; `t1s` are the numbers of each pod's."""
    if wiring is T2Wiring.MESH:
        return tuple(t1 for pod in t1s.values() for t1 in pod)
    column = t2 * len(next(iter(t1s.values()))) // t2_count
    return tuple(pod[column] for pod in t1s.values())


def _by_pod(switches: Iterable[Switch]) -> dict[int, list[Switch]]:
    pods: dict[int, list[Switch]] = {}
    for switch in switches:
        pods.setdefault(switch.pod, []).append(switch)
    return pods


def _nic_links(plane: int, nics: Iterable[FabricNic]) -> Iterator[Position]:
    for nic in nics:
        upper = LinkEnd(f"t0-{nic.t0}@p{plane}", nic.downlink + 1)
        yield Position(f"{nic.name}@p{plane}", LinkKind.NIC_T0, plane, LinkEnd(nic.name, plane), upper)


def _t0_links(
    plane: int, racks: Mapping[int, int], t0s: Mapping[int, list[Switch]], t1s: Mapping[int, list[Switch]]
) -> Iterator[Position]:
    for pod, below in t0s.items():
        for row, t0 in enumerate(below):
            for uplink, t1 in enumerate(t1s.get(pod, ())):
                lower = LinkEnd(t0.name, racks.get(t0.index, 0) + 1 + uplink)
                yield Position(_name(t0, t1), LinkKind.T0_T1, plane, lower, LinkEnd(t1.name, row + 1))


def _t1_links(
    plane: int,
    t0s: Mapping[int, list[Switch]],
    t1s: Mapping[int, list[Switch]],
    t2s: Sequence[Switch],
    wiring: T2Wiring,
) -> Iterator[Position]:
    numbers = {pod: [t1.index for t1 in found] for pod, found in t1s.items()}
    joined = {t2.index: neighbouring_t1s(t2.index, len(t2s), numbers, wiring) for t2 in t2s}
    ports = {(t2, t1): port for t2, found in joined.items() for port, t1 in enumerate(found, 1)}
    for pod, found in t1s.items():
        for t1 in found:
            above = [t2 for t2 in t2s if (t2.index, t1.index) in ports]
            for number, t2 in enumerate(above, len(t0s.get(pod, ())) + 1):
                upper = LinkEnd(t2.name, ports[t2.index, t1.index])
                yield Position(_name(t1, t2), LinkKind.T1_T2, plane, LinkEnd(t1.name, number), upper)


def _name(lower: Switch, upper: Switch) -> str:
    return f"{lower.name.partition('@')[0]}:{upper.name}"
