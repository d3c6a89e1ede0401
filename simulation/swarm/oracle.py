"""What the fault schedule alone excuses: for how long two NICs had no way to each other.

Paths are recomputed here from the fabric's links, not taken from the NICs. A path is gone while any channel on it is
down. A flapping link counts as gone for as long as it flaps, a path for as long as it is denied. What is merely lossy,
slow or damaged is not gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulation.channel import Impairment
from simulation.fault_impairments import impairments_of
from simulation.swarm.application_faults import HOST_FAULTS
from simulation.swarm.denylists import Denied
from simulation.swarm.scenario import PlannedFault
from topologies.addressing import entropy_value
from topologies.fabric import Endpoint, Fabric
from topologies.faults.flap import Flap

Span = tuple[int, int]


def longest_separation(fabric: Fabric, faults: Iterable[PlannedFault], a: str, b: str, gap: int) -> int:
    """The longest time (ns) without any whole path from `a` to `b`, or without any from `b` to `a`.

    Spans with less than `gap` ns between them count as one: in so short a time nothing may have been tried.
    """
    faults = tuple(faults)
    spans = _separated(fabric, faults, a, b) + _separated(fabric, faults, b, a)
    return max((end - start for start, end in merge(spans, gap)), default=0)


def longest_damage(fabric: Fabric, faults: Iterable[PlannedFault], a: str, b: str, gap: int) -> int:
    """The longest time (ns) in which any channel between `a` and `b` was lossy, damaging or down.

    For a connection that has one path, and cannot choose which. `gap` as above.
    """
    ends = {end for pair in ((a, b), (b, a)) for _, hops in paths(fabric, *pair) for end in hops}
    spans = [
        (planned.start, planned.end)
        for planned in faults
        if any(end in ends and _harms(wrong) for end, wrong in _channels(fabric, planned))
    ]
    return max((end - start for start, end in merge(spans, gap)), default=0)


def touched(fabric: Fabric, faults: Iterable[PlannedFault], nic: str) -> bool:
    """Whether any fault loses, damages or blocks anything on the channels between `nic` and its T0s."""
    ends = {end for link in fabric.links_of(nic) for end in (link.lower, link.upper)}
    for planned in faults:
        for end, wrong in _channels(fabric, planned):
            if end in ends and _harms(wrong):
                return True
    return False


def _channels(fabric: Fabric, planned: PlannedFault) -> tuple[tuple[Endpoint, Impairment], ...]:
    """What is wrong with channels; nothing, when paths are only denied, or it is hosts that something befalls."""
    return () if isinstance(planned.fault, (Denied, *HOST_FAULTS)) else impairments_of(fabric, planned.fault).channels


def _harms(wrong: Impairment) -> bool:
    return bool(wrong.down or wrong.loss or wrong.corruption or wrong.path_loss or wrong.class_loss)


def merge(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """The union of spans, those closer than `gap` joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _separated(fabric: Fabric, faults: tuple[PlannedFault, ...], source: str, target: str) -> list[Span]:
    """When every path from `source` to `target` is gone."""
    common: list[Span] | None = None
    for ev, ends in paths(fabric, source, target):
        gone = merge(_gone(fabric, faults, source, target, ev, ends))
        common = gone if common is None else _both(common, gone)
    return common or []


def _gone(
    fabric: Fabric, faults: tuple[PlannedFault, ...], source: str, target: str, ev: int, ends: tuple[Endpoint, ...]
) -> list[Span]:
    spans = []
    for planned in faults:
        if isinstance(planned.fault, Denied) and (source, target, ev) in planned.fault.routes:
            spans.append((planned.start, planned.end))
        for end, wrong in _channels(fabric, planned):
            if end in ends and (_swallows(wrong) or _path_gone(planned, end, source, ev)):
                spans.append((planned.start, planned.end))
                break
    return spans


def _swallows(wrong: Impairment) -> bool:
    """Whether one class of traffic, or all, is lost for good: a connection needs both."""
    return wrong.down or wrong.loss >= 1.0 or max(wrong.class_loss.values(), default=0.0) >= 1.0


def _path_gone(planned: PlannedFault, end: Endpoint, source: str, ev: int) -> bool:
    fault = planned.fault
    return end.node == source and getattr(fault, "ev", None) == ev and getattr(fault, "probability", 0.0) >= 1.0


def dead_spans(
    fabric: Fabric, faults: Iterable[PlannedFault], source: str, target: str, ev: int, dscp: Iterable[int]
) -> list[Span]:
    """When a path carried none of the traffic with these DSCP values. Flapping links and denials do not count."""
    ends = next(ends for known, ends in paths(fabric, source, target) if known == ev)
    spans = [
        (planned.start, planned.end)
        for planned in faults
        if not isinstance(planned.fault, Flap)
        for end, wrong in _channels(fabric, planned)
        if end in ends
        and (
            wrong.down
            or wrong.loss >= 1.0
            or all(wrong.class_loss.get(value, 0.0) >= 1.0 for value in dscp)
            or _path_gone(planned, end, source, ev)
        )
    ]
    return merge(spans)


def untouched_share(fabric: Fabric, faults: Iterable[PlannedFault], a: str, b: str) -> float:
    """The share of paths that no fault ever hit, in the plane and direction where it is smallest."""
    faults = tuple(faults)
    hit = {end for planned in faults for end, _ in _channels(fabric, planned)}
    least = 1.0
    for source, target in ((a, b), (b, a)):
        denied = {route for planned in faults if isinstance(planned.fault, Denied) for route in planned.fault.routes}
        by_plane: dict[int, list[bool]] = {}
        for ev, ends in paths(fabric, source, target):
            whole = hit.isdisjoint(ends) and (source, target, ev) not in denied
            by_plane.setdefault(ends[0].port, []).append(whole)
        least = min(least, *(sum(whole) / len(whole) for whole in by_plane.values()))
    return least


def paths(fabric: Fabric, source: str, target: str) -> list[tuple[int, tuple[Endpoint, ...]]]:
    """Every path as entropy value and the ends that its channels leave, hop by hop."""
    a, b = fabric.nic(source), fabric.nic(target)
    found: list[tuple[int, tuple[Endpoint, ...]]] = []
    for plane in range(fabric.planes):
        first = Endpoint(source, plane)
        last = fabric.link(f"{target}@p{plane}").t0_end
        if a.t0 == b.t0:
            found.append((entropy_value(plane, 0), (first, last)))
            continue
        for uplink in range(fabric.t1_count):
            up = fabric.link(f"t0-{a.t0}:t1-{uplink}@p{plane}").lower
            down = fabric.link(f"t0-{b.t0}:t1-{uplink}@p{plane}").upper
            found.append((entropy_value(plane, uplink), (first, up, down, last)))
    return found


def _both(left: list[Span], right: list[Span]) -> list[Span]:
    """The intersection of two unions of spans."""
    result = []
    for a, b in left:
        for c, d in right:
            if max(a, c) < min(b, d):
                result.append((max(a, c), min(b, d)))
    return result
