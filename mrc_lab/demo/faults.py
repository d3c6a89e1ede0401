"""Faults of the demo: which link, when, and which paths cross it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mrc_lab.errors import ExperimentError
from topologies.addressing import EV_PLANE_SHIFT
from topologies.fabric import Fabric, Link, LinkKind

_NEVER: Final = 1 << 62  # a step that no run has


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Cut a link of `kind` once `at_step` is complete and bring it up again `duration_s` seconds later.

    It comes up sooner if `by_step` is complete by then, so that steps are left to compare with. Without `link` the
    busiest one of its kind is taken.
    """

    kind: LinkKind
    at_step: int
    duration_s: float
    link: str | None = None
    by_step: int = _NEVER


@dataclass(slots=True)
class LinkCut:
    """What was done, and when (monotonic ns) the link's first end was taken down and up."""

    kind: LinkKind
    link: str
    step: int
    link_down_ns: int
    link_up_ns: int | None = None


def busiest_link(fabric: Fabric, kind: LinkKind, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Link of `kind` over which most bytes went between two readings (name -> bytes of both directions)."""
    carried = {
        link.name: after.get(link.name, 0) - before.get(link.name, 0) for link in fabric.links if link.kind is kind
    }
    name = max(carried, key=lambda link: carried[link])
    if carried[name] <= 0:
        raise ExperimentError(f"no {kind.value} link carried traffic")
    return name


def crosses(fabric: Fabric, link: Link, host: str, peer: str, ev: int) -> bool:
    """Whether the path `ev` from `host` to `peer` uses `link` (in either direction)."""
    if ev >> EV_PLANE_SHIFT != link.plane:
        return False
    ends = (fabric.nic(host), fabric.nic(peer))
    if link.kind is LinkKind.NIC_T0:
        return link.lower.node in (host, peer)
    t0s = {end.t0 for end in ends}
    if len(t0s) == 1:
        return False
    lower, upper = fabric.switch(link.lower.node), fabric.switch(link.upper.node)
    return lower.index in t0s and upper.index == ev & ((1 << EV_PLANE_SHIFT) - 1)
