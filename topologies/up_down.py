"""Paths up and down again between hosts, over the links that a fabric has.

A packet goes up from the sender's T0 and then down, never up again. Between hosts of one T0 it turns there, else at a
T1 that both T0s have a link to, or else at a T2. Hosts use the paths that turn at the lowest tier at which any plane
has one. Over a T2 there is one path for each T1 above the sender and T2 above that: where the T2 has links to several
T1s of the receiver's pod, different pairs of T0s are given different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.parts import FabricNic, Tier

if TYPE_CHECKING:
    from topologies.fabric import Fabric


@dataclass(frozen=True, slots=True)
class FabricPath:
    """One path: the tier where it turns, and the switches by number; 0 of a tier that it does not reach.

    `uplink` is the T1 on the way up, `downlink` that on the way down, both counted in their pods.
    """

    plane: int
    turn: Tier
    uplink: int = 0
    t2: int = 0
    downlink: int = 0


def paths(fabric: Fabric, planes: Iterable[int], source: int, target: int) -> tuple[FabricPath, ...]:
    """The paths from T0 number `source` to number `target` that are used, in some planes; none if there are none."""
    planes = tuple(planes)
    for tier in Tier:
        found = tuple(path for plane in planes for path in _turning(fabric, plane, source, target, tier))
        if found:
            return found
    return ()


def first_path(fabric: Fabric, planes: Iterable[int], source: int, target: int) -> FabricPath | None:
    """The first of these, without a look at the others; None if there are none."""
    planes = tuple(planes)
    found = (path for tier in Tier for plane in planes for path in _turning(fabric, plane, source, target, tier))
    return next(found, None)


def nodes(fabric: Fabric, source: FabricNic, target: FabricNic, path: FabricPath) -> tuple[str, ...]:
    """The switches on a path, in order."""
    at = f"@p{path.plane}"
    first, last = f"t0-{source.t0}{at}", f"t0-{target.t0}{at}"
    if path.turn is Tier.T0:
        return (first,)
    up = f"t1-{fabric.first_t1(source.t0) + path.uplink}{at}"
    if path.turn is Tier.T1:
        return first, up, last
    return first, up, f"t2-{path.t2}{at}", f"t1-{fabric.first_t1(target.t0) + path.downlink}{at}", last


def _turning(fabric: Fabric, plane: int, source: int, target: int, tier: Tier) -> Iterator[FabricPath]:
    """Paths between hosts of two T0s that turn at a tier."""
    if tier is Tier.T0:
        if source == target:
            yield FabricPath(plane, tier)
        return
    up, down = fabric.uplinks(f"t0-{source}@p{plane}"), fabric.uplinks(f"t0-{target}@p{plane}")
    if tier is Tier.T1:
        first = fabric.first_t1(source)
        yield from (FabricPath(plane, tier, t1 - first) for t1 in up if t1 in down)
        return
    for t1 in up:
        for t2 in fabric.uplinks(f"t1-{t1}@p{plane}"):
            below = [far for far in down if t2 in fabric.uplinks(f"t1-{far}@p{plane}")]
            if below:
                far = below[(t1 + t2 + source + target) % len(below)]
                yield FabricPath(plane, tier, t1 - fabric.first_t1(source), t2, far - fabric.first_t1(target))
