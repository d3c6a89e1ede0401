"""Reroutes of plain IPv6 around links without carrier, in virtual time (``Fabric.reroute_ns``).

That long after a link has lost its carrier, or has it back, all switches of its plane get the routes of the links that
have theirs then, at once. Changes meanwhile wait for the same moment, so a link that flaps causes one reroute a time at
most. While the controller is away nothing changes; what was due meanwhile is done when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from p4runtime_shim.switch import EmbeddedSwitch
from simulation.core.native import Clock
from simulation.write_entries import change_entries
from topologies.entry_difference import route_difference
from topologies.fabric import Fabric
from topologies.ip_routes import NO_LINKS


@dataclass(frozen=True, slots=True)
class Reroute:
    """At `time` (ns) the switches of a plane got routes without some links, by `changes` of entries and groups."""

    time: int
    plane: int
    without: frozenset[str]
    changes: int


class Rerouting:
    """The reroutes of one world, `after` ns each; those that have been are in `done`, in order.

    `switch` gives a switch by name.
    """

    def __init__(self, fabric: Fabric, clock: Clock, switch: Callable[[str], EmbeddedSwitch], after: int) -> None:
        self.done: list[Reroute] = []
        self._fabric, self._clock, self._switch = fabric, clock, switch
        self._after = after
        self._planes = {link.name: link.plane for link in fabric.links}
        self._down: frozenset[str] = NO_LINKS
        self._controller = True
        self._pending: set[int] = set()  # planes
        self._missed: set[int] = set()  # those that were due while the controller was away
        self._without = dict.fromkeys(range(fabric.planes), NO_LINKS)

    def faults_changed(self, down: frozenset[str], *, controller: bool) -> None:
        """These links have no carrier now, and the controller is there or not."""
        changed = {self._planes[name] for name in down ^ self._down}
        self._down, self._controller = down, controller
        for plane in sorted(changed - self._pending):
            self._pending.add(plane)
            self._clock.at(self._clock.now + self._after, self._due, plane)
        if controller:
            missed, self._missed = sorted(self._missed), set()
            self._reroute(missed)

    def _due(self, plane: int, _: object) -> None:
        self._pending.discard(plane)
        if self._controller:
            self._reroute((plane,))
        else:
            self._missed.add(plane)

    def _reroute(self, planes: Collection[int]) -> None:
        fabric = self._fabric
        for plane in planes:
            without = frozenset(name for name in self._down if self._planes[name] == plane)
            before, self._without[plane] = self._without[plane], without
            changes = 0
            for switch in fabric.switches if without != before else ():
                if switch.plane == plane:
                    difference = route_difference(fabric, switch, without, before)
                    change_entries(self._switch(switch.name), difference)
                    changes += len(difference)
            if changes:
                self.done.append(Reroute(self._clock.now, plane, without, changes))
