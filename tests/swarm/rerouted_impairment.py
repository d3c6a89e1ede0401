"""For how long switches that reroute leave two NICs without a sound way, as far as the fault schedule tells.

A link without carrier harms a connection until the routes avoid it, and for as long as no way is left in the plane. A
change of routes takes the fabric's time, or longer if the controller is away when it is due. Meanwhile plain IPv6 may
take any way up and down, so all other harm in the plane counts, wherever it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from simulation.fault_limits import SIMULATION
from tests.swarm.application_faults import HOST_FAULTS
from tests.swarm.channel_faults import CHANNEL_FAULTS
from tests.swarm.denylists import Denied
from tests.swarm.oracle import Span, channels, harms, merge, shared_planes
from tests.swarm.scenario import EVERY_PLANE, Masks, ScenarioFault
from tests.topologies.reachability import reachable
from topologies.fabric import Fabric, LinkEnd, LinkKind
from topologies.faults.controller_down import ControllerDown
from topologies.faults.kind import Intermittent


def longest_rerouted_impairment(
    fabric: Fabric,
    faults: Iterable[ScenarioFault],
    a: str,
    b: str,
    gap: int,
    also: Iterable[Span] = (),
    masks: Masks = EVERY_PLANE,
) -> int:
    """The longest time (ns) in which a connection of the two, on whatever plane, may have had no sound way.

    `gap` and `also` are as in :mod:`tests.swarm.oracle`. Of `masks` only planes in neither are left out.
    """
    faults = tuple(faults)
    planes = shared_planes(fabric, a, b, masks[0] | masks[1])
    spans = [*also, *_without_way(fabric, faults, planes, a, b), *_unnoticed(fabric, faults, planes, a, b)]
    return max((end - start for start, end in merge(spans, gap)), default=0)


def _carriers(fabric: Fabric, planned: ScenarioFault, planes: Iterable[int]) -> frozenset[str]:
    """Links of some planes whose carrier a fault takes."""
    if isinstance(planned.fault, (Denied, *HOST_FAULTS, *CHANNEL_FAULTS)):
        return frozenset()
    down = SIMULATION.effect_of(fabric, planned.fault).down
    return frozenset(name for name in down if fabric.link(name).plane in planes)


def _without_way(
    fabric: Fabric, faults: tuple[ScenarioFault, ...], planes: Sequence[int], a: str, b: str
) -> Iterator[Span]:
    """When there was no way on a plane, or routes may not have been those of the links that there were."""
    cuts = [(planned, names) for planned in faults if (names := _carriers(fabric, planned, planes))]
    for planned, _ in cuts:
        if isinstance(planned.fault, Intermittent):
            yield planned.start, _rerouted(fabric, faults, planned.end)
        yield planned.start, _rerouted(fabric, faults, planned.start)
        yield planned.end, _rerouted(fabric, faults, planned.end)
    times = sorted({time for planned, _ in cuts for time in (planned.start, planned.end)})
    for start, end in itertools.pairwise(times):
        dead = {name for planned, names in cuts if planned.start <= start < planned.end for name in names}
        if any(b not in reachable(fabric, a, plane, dead) for plane in planes):
            yield start, end


def _rerouted(fabric: Fabric, faults: tuple[ScenarioFault, ...], changed: int) -> int:
    """By when routes are those of a link that has changed."""
    assert fabric.reroute_ns is not None
    done = changed + fabric.reroute_ns
    away = [(planned.start, planned.end) for planned in faults if isinstance(planned.fault, ControllerDown)]
    return next((end for start, end in merge(away) if start <= done < end), done)


def _unnoticed(
    fabric: Fabric, faults: tuple[ScenarioFault, ...], planes: Sequence[int], a: str, b: str
) -> Iterator[Span]:
    """When anything on a plane was harmed that switches do not notice; of NICs' links only those of the two count."""
    for planned in faults:
        down = _carriers(fabric, planned, planes)
        for end, wrong in channels(fabric, planned):
            if harms(wrong) and _concerns(fabric, end, planes, (a, b)) and not _of(fabric, end, down):
                yield planned.start, planned.end
                break


def _concerns(fabric: Fabric, end: LinkEnd, planes: Iterable[int], hosts: tuple[str, str]) -> bool:
    link = fabric.link_at(end)
    if link is None or link.plane not in planes:
        return False
    return link.kind is not LinkKind.NIC_T0 or link.lower.node in hosts


def _of(fabric: Fabric, end: LinkEnd, names: frozenset[str]) -> bool:
    link = fabric.link_at(end)
    return link is not None and link.name in names
