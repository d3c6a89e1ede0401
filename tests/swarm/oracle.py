"""What the fault schedule alone excuses: for how long two NICs had no way to each other.

Paths are recomputed here from the fabric's links, not taken from the NICs. A path is gone while any channel on it is
down. A flapping link counts as gone for as long as it flaps, a path for as long as it is denied. What is merely lossy,
slow or corrupting is not gone, unless hardly anything gets through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from math import prod

from mrc_host.verbs_types import ALL_PLANES
from simulation.fault_limits import SIMULATION
from tests.swarm.application_faults import HOST_FAULTS, Mute
from tests.swarm.channel_faults import BitFlips, ClassLoss
from tests.swarm.denylists import Denied
from tests.swarm.scenario import EVERY_PLANE, Masks, ScenarioFault
from topologies.addressing import entropy_value
from topologies.fabric import Fabric, FabricNic, Link, LinkEnd
from topologies.fault_entries import ALWAYS
from topologies.fault_targets import directions
from topologies.faults import Fault
from topologies.faults.kind import Intermittent

Span = tuple[int, int]
_BAD_LUCK = 1e-3  # happens to one of the many queue pairs that a soak has


@dataclass(frozen=True, slots=True)
class _Harm:
    """What a fault does to a channel: a chance of loss for all frames or by DSCP, wrong bits, the loss of one path.

    None of these: it is only slower or longer.
    """

    loss: float = 0.0
    corrupts: bool = False
    one_path: bool = False
    class_loss: Mapping[int, float] = field(default_factory=dict)


def silences(faults: Iterable[ScenarioFault], pair: int) -> list[Span]:
    """When the NIC at an end of pair number `pair` took nothing for it."""
    return [
        (planned.start, planned.end)
        for planned in faults
        if isinstance(planned.fault, Mute) and planned.fault.pair == pair
    ]


def longest_separation(
    fabric: Fabric,
    faults: Iterable[ScenarioFault],
    a: str,
    b: str,
    gap: int,
    attempts: int = 0,
    also: Iterable[Span] = (),
    masks: Masks = EVERY_PLANE,
) -> int:
    """The longest time (ns) without any whole path from `a` to `b`, or without any from `b` to `a`.

    Spans with less than `gap` ns between them count as one: in so short a time nothing may have been tried. With
    `attempts`, a path is gone, too, while a fault loses so much on it that so many packets in a row may well be lost.
    `also` are spans in which there is none for a reason of their own. `masks` are the planes on which `a` and
    `b` send, each its data and answers.
    """
    faults = tuple(faults)
    there = _separated(fabric, faults, a, b, attempts, masks[0])
    spans = [*also, *there, *_separated(fabric, faults, b, a, attempts, masks[1])]
    return max((end - start for start, end in merge(spans, gap)), default=0)


def longest_impairment(
    fabric: Fabric,
    faults: Iterable[ScenarioFault],
    a: str,
    b: str,
    gap: int,
    also: Iterable[Span] = (),
    masks: Masks = EVERY_PLANE,
) -> int:
    """The longest time (ns) in which any channel between `a` and `b` was lossy, corrupting or down.

    For a connection that has one path, and cannot choose which. `gap`, `also` and `masks` as above.
    """
    ways = (*paths(fabric, a, b, masks[0]), *paths(fabric, b, a, masks[1]))
    ends = {end for _, hops in ways for end in hops}
    spans = [
        (planned.start, planned.end)
        for planned in faults
        if any(end in ends and harms(wrong) for end, wrong in channels(fabric, planned))
    ]
    spans += also
    return max((end - start for start, end in merge(spans, gap)), default=0)


def touched(fabric: Fabric, faults: Iterable[ScenarioFault], nic: str) -> bool:
    """Whether any fault loses, corrupts or blocks anything on the channels between `nic` and its T0s."""
    ends = {end for link in fabric.links_of(nic) for end in (link.lower, link.upper)}
    for planned in faults:
        for end, wrong in channels(fabric, planned):
            if end in ends and harms(wrong):
                return True
    return False


def channels(fabric: Fabric, planned: ScenarioFault) -> tuple[tuple[LinkEnd, _Harm], ...]:
    """What is wrong with channels; nothing, when paths are only denied, or it is hosts that something befalls."""
    return () if isinstance(planned.fault, (Denied, *HOST_FAULTS)) else tuple(_harms_of(fabric, planned.fault))


def _harms_of(fabric: Fabric, fault: Fault) -> Iterator[tuple[LinkEnd, _Harm]]:
    if isinstance(fault, ClassLoss | BitFlips):
        classes = fault.traffic_class.values(fabric.settings.dscp) if isinstance(fault, ClassLoss) else ()
        harm = _Harm(0.0, isinstance(fault, BitFlips), class_loss=dict.fromkeys(classes, fault.probability))
        yield from ((source, harm) for _, source, _ in directions(fabric, fault.link, fault.towards))
        return
    effect = SIMULATION.effect_of(fabric, fault)
    yield from ((end, _Harm(loss / ALWAYS, bool(corrupt))) for end, loss, corrupt in effect.losses(fabric))
    yield from ((end, _Harm()) for end, _ in effect.shapes)
    if effect.tables is not None:
        yield from ((end, _Harm(one_path=True)) for end in effect.tables.sources)


def harms(wrong: _Harm) -> bool:
    return bool(wrong.loss or wrong.corrupts or wrong.one_path or wrong.class_loss)


def merge(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """The union of spans, those closer than `gap` joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _separated(
    fabric: Fabric, faults: tuple[ScenarioFault, ...], source: str, target: str, attempts: int, mask: int
) -> list[Span]:
    """When every path from `source` to `target` in the planes of `mask` is gone."""
    common: list[Span] | None = None
    for ev, ends in paths(fabric, source, target, mask):
        gone = merge(_gone(fabric, faults, source, target, ev, ends, attempts))
        common = gone if common is None else _both(common, gone)
    return common or []


def _gone(
    fabric: Fabric,
    faults: tuple[ScenarioFault, ...],
    source: str,
    target: str,
    ev: int,
    ends: tuple[LinkEnd, ...],
    attempts: int,
) -> list[Span]:
    spans = []
    for planned in faults:
        if isinstance(planned.fault, Denied) and (source, target, ev) in planned.fault.routes:
            spans.append((planned.start, planned.end))
        for end, wrong in channels(fabric, planned):
            if end in ends and (_swallows(wrong) or _path_gone(planned, end, source, ev)):
                spans.append((planned.start, planned.end))
                break
        if attempts and _loss(channels(fabric, planned), ends) ** attempts > _BAD_LUCK:
            spans.append((planned.start, planned.end))
    return spans


def _loss(channels: Iterable[tuple[LinkEnd, _Harm]], ends: tuple[LinkEnd, ...]) -> float:
    """The chance that a packet of the class that fares worst is lost on a path through `ends`."""
    met = (wrong for end, wrong in channels if end in ends)
    return 1.0 - prod((1.0 - wrong.loss) * (1.0 - max(wrong.class_loss.values(), default=0.0)) for wrong in met)


def _swallows(wrong: _Harm) -> bool:
    """Whether one class of traffic, or all, is lost for good: a connection needs both."""
    return wrong.loss >= 1.0 or max(wrong.class_loss.values(), default=0.0) >= 1.0


def _path_gone(planned: ScenarioFault, end: LinkEnd, source: str, ev: int) -> bool:
    fault = planned.fault
    return end.node == source and getattr(fault, "ev", None) == ev and getattr(fault, "probability", 0.0) >= 1.0


def dead_spans(
    fabric: Fabric, faults: Iterable[ScenarioFault], source: str, target: str, ev: int, dscp: Iterable[int]
) -> list[Span]:
    """When a path carried none of the traffic with these DSCP values. What comes and goes and denials do not count."""
    ends = next(ends for known, ends in paths(fabric, source, target) if known == ev)
    spans = [
        (planned.start, planned.end)
        for planned in faults
        if not isinstance(planned.fault, Intermittent)
        for end, wrong in channels(fabric, planned)
        if end in ends
        and (
            wrong.loss >= 1.0
            or all(wrong.class_loss.get(value, 0.0) >= 1.0 for value in dscp)
            or _path_gone(planned, end, source, ev)
        )
    ]
    return merge(spans)


def untouched_share(
    fabric: Fabric, faults: Iterable[ScenarioFault], a: str, b: str, masks: Masks = EVERY_PLANE
) -> float:
    """The share of paths that no fault ever hit, in the plane and direction where it is smallest; `masks` as above."""
    planes = chain(*_untouched(fabric, tuple(faults), a, b, masks))
    return min((sum(whole) / len(whole) for whole in planes), default=1.0)


def most_hit(fabric: Fabric, faults: Iterable[ScenarioFault], a: str, b: str, masks: Masks = EVERY_PLANE) -> int:
    """How many paths some fault ever hit, in the plane and direction where these are most; `masks` as above."""
    return max((whole.count(False) for whole in chain(*_untouched(fabric, tuple(faults), a, b, masks))), default=0)


def has_whole_planes(fabric: Fabric, faults: Iterable[ScenarioFault], a: str, b: str, masks: Masks) -> bool:
    """Whether each direction has a plane of which no fault ever hit a path; `masks` as above."""
    return all(any(all(whole) for whole in planes) for planes in _untouched(fabric, tuple(faults), a, b, masks))


def _untouched(
    fabric: Fabric, faults: tuple[ScenarioFault, ...], a: str, b: str, masks: Masks
) -> Iterator[Collection[list[bool]]]:
    """By direction and plane: of each path, whether no fault ever hit it."""
    hit = {end for planned in faults for end, _ in channels(fabric, planned)}
    for source, target, mask in ((a, b, masks[0]), (b, a, masks[1])):
        denied = {route for planned in faults if isinstance(planned.fault, Denied) for route in planned.fault.routes}
        by_plane: dict[int, list[bool]] = {}
        for ev, ends in paths(fabric, source, target, mask):
            whole = hit.isdisjoint(ends) and (source, target, ev) not in denied
            by_plane.setdefault(ends[0].port, []).append(whole)
        yield by_plane.values()


def shared_planes(fabric: Fabric, source: str, target: str, mask: int = ALL_PLANES) -> list[int]:
    """The planes of `mask` that both NICs have a link to."""
    a, b = fabric.nic(source), fabric.nic(target)
    return [p for p in range(fabric.planes) if mask >> p & 1 and fabric.nic_link(a, p) and fabric.nic_link(b, p)]


def paths(fabric: Fabric, source: str, target: str, mask: int = ALL_PLANES) -> list[tuple[int, tuple[LinkEnd, ...]]]:
    """Every path in the planes of `mask` as entropy value and the ends that its channels leave, hop by hop.

    Found by walking up from both ends to where the walks meet. Over a T2, each climb of the source is used once: the
    T1s that lead down from its T2 take turns.
    """
    a, b = fabric.nic(source), fabric.nic(target)
    planes = shared_planes(fabric, source, target, mask)
    for turn in (_at_t0, _at_t1, _at_t2):
        found = [path for plane in planes for path in turn(fabric, plane, a, b)]
        if found:
            return found
    return []


_Path = tuple[int, tuple[LinkEnd, ...]]


def _at_t0(fabric: Fabric, plane: int, a: FabricNic, b: FabricNic) -> Iterator[_Path]:
    if a.t0 == b.t0:
        yield entropy_value(plane, 0), (LinkEnd(a.name, plane), fabric.link(f"{b.name}@p{plane}").upper)


def _at_t1(fabric: Fabric, plane: int, a: FabricNic, b: FabricNic) -> Iterator[_Path]:
    first, last = LinkEnd(a.name, plane), fabric.link(f"{b.name}@p{plane}").upper
    for up, down in product(_climbs(fabric, first, 2), _climbs(fabric, LinkEnd(b.name, plane), 2)):
        if up[-1].upper.node == down[-1].upper.node:
            yield entropy_value(plane, _in_pod(fabric, up[1])), (first, up[1].lower, down[1].upper, last)


def _at_t2(fabric: Fabric, plane: int, a: FabricNic, b: FabricNic) -> Iterator[_Path]:
    first, last = LinkEnd(a.name, plane), fabric.link(f"{b.name}@p{plane}").upper
    for up in _climbs(fabric, first, 3):
        t1, t2 = fabric.switch(up[1].upper.node).index, fabric.switch(up[2].upper.node)
        downs = [down for down in _climbs(fabric, LinkEnd(b.name, plane), 3) if down[2].upper.node == t2.name]
        if downs:
            down = downs[(t1 + t2.index + a.t0 + b.t0) % len(downs)]
            ev = entropy_value(plane, _in_pod(fabric, up[1]), t2.index, _in_pod(fabric, down[1]))
            yield ev, (first, up[1].lower, up[2].lower, down[2].upper, down[1].upper, last)


def _climbs(fabric: Fabric, end: LinkEnd, links: int) -> Iterator[tuple[Link, ...]]:
    """Every walk of so many links upwards, from the port of a NIC."""
    link = fabric.link_at(end)
    if link is None or not links:
        return
    if links == 1:
        yield (link,)
        return
    for above in fabric.links_of(link.upper.node):
        if above.lower.node == link.upper.node:
            yield from ((link, *rest) for rest in _climbs(fabric, above.lower, links - 1))


def _in_pod(fabric: Fabric, link: Link) -> int:
    """Number in its pod of the T1 above a T0-T1 link."""
    t1 = fabric.switch(link.upper.node)
    return t1.index - min(other.index for other in fabric.tier(t1.tier, t1.plane) if other.pod == t1.pod)


def _both(left: list[Span], right: list[Span]) -> list[Span]:
    """The intersection of two unions of spans."""
    result = []
    for a, b in left:
        for c, d in right:
            if max(a, c) < min(b, d):
                result.append((max(a, c), min(b, d)))
    return result
