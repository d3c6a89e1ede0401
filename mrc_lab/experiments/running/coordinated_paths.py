"""Coordinated choice of paths: what a scheduler that knows all flows could do, to compare with NICs that choose alone.

The queue pairs that leave a rack are numbered; each gets, in every plane, an equal number of paths that follow those of
the queue pair before it, round and round. With two tiers a path is a T0 uplink, so no uplink has two queue pairs more
than another. An EV profile
with just these entropy values says so to the NIC.
"""

from __future__ import annotations

from collections import Counter

from mrc_host.verbs.context import Context
from mrc_host.verbs_types import EvMode, EvProfile
from topologies.addressing import path_ev
from topologies.fabric import Fabric


class Coordination:
    """Gives out paths; `paths` in all to each queue pair, a multiple of the number of planes."""

    def __init__(self, fabric: Fabric, paths: int) -> None:
        self._fabric = fabric
        self._each = paths // fabric.planes
        self._given: Counter[int] = Counter()  # queue pairs that leave each rack

    def evs(self, source: str, destination: str) -> tuple[int, ...]:
        """Entropy values of the next queue pair; none when both hosts are below one T0, where there is no choice."""
        fabric = self._fabric
        rack = fabric.nic(source).t0
        if rack == fabric.nic(destination).t0:
            return ()
        first = self._given[rack] * self._each
        self._given[rack] += 1
        found: list[int] = []
        for plane in range(fabric.planes):
            paths = [path for path in fabric.paths(fabric.nic(source), fabric.nic(destination)) if path.plane == plane]
            found += [path_ev(paths[(first + step) % len(paths)]) for step in range(min(self._each, len(paths)))]
        return tuple(found)

    def profile(self, context: Context, source: str, destination: str) -> int:
        """Number of a new EV profile on the source's NIC, 0 (its own choice) where there is no choice."""
        evs = self.evs(source, destination)
        return context.controller().create_ev_profile(EvProfile(EvMode.EXPLICIT, evs)) if evs else 0
