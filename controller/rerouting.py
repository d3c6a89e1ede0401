"""Reroutes of plain IPv6 around links without carrier, in emulation (``Fabric.reroute_ns``).

The kernel reports a link that has lost its carrier, or has it back. The configured time after that at the earliest, all
switches of its plane get the routes of the links that have their carrier then. Changes meanwhile wait for the same
moment, so a link that flaps causes one reroute a time at most.

Switches are written concurrently and each by itself: one that is slow or away does not hold up the others, and gets the
routes of the present links when it can. When all of a plane have theirs, an event says how long that took from the
first report on. A controller that starts takes links that have lost their carrier for dead from the beginning, so it
does not undo what one before it did.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Protocol

from controller.events import Events
from controller.values import EventKind, Replanned
from mrc_common.units import show_time
from topologies.fabric import Fabric
from topologies.reroute_words import in_words

_LOG = logging.getLogger(__name__)


class RoutedSwitches(Protocol):
    """Who changes routes (:class:`controller.fleet.Fleet`)."""

    async def reroute(self, name: str, without: frozenset[str]) -> Replanned:
        """Have a switch route plain IPv6 over none of these links."""


class FleetRerouting:
    """The reroutes of a fabric, `after` ns each. `lost` says which links have lost their carrier."""

    def __init__(
        self,
        fabric: Fabric,
        switches: RoutedSwitches,
        events: Events,
        lost: Callable[[], Collection[str]],
        after: int,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._switches, self._events, self._lost, self._after, self._clock = switches, events, lost, after, clock
        self._plane_of = {link.name: link.plane for link in fabric.links}
        self._planes = [_Plane(number) for number in range(fabric.planes)]
        for switch in fabric.switches:
            self._planes[switch.plane].held[switch.name] = frozenset()

    def begin(self) -> frozenset[str]:
        """Links that are dead from the beginning: the caller has switches begin with the routes of the others."""
        for plane in self._planes:
            plane.goal = self._dead(plane)
            plane.held = dict.fromkeys(plane.held, plane.goal)
        return frozenset().union(*(plane.goal for plane in self._planes))

    def link_changed(self, link: str) -> None:
        """A link has lost its carrier, or has it back; in the running loop."""
        plane = self._planes[self._plane_of[link]]
        if plane.waiting is None:
            plane.reported_at = self._clock()
            plane.waiting = asyncio.create_task(self._wait(plane), name=f"reroute {plane.name}")

    async def close(self) -> None:
        """Reroute no more."""
        tasks = [task for plane in self._planes for task in (plane.waiting, *plane.tasks.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _dead(self, plane: _Plane) -> frozenset[str]:
        return frozenset(link for link in self._lost() if self._plane_of[link] == plane.number)

    async def _wait(self, plane: _Plane) -> None:
        while (left := plane.reported_at + self._after - self._clock()) > 0:
            await asyncio.sleep(left / 1e9)
        plane.waiting = None
        goal = self._dead(plane)
        if goal == plane.goal:
            return
        plane.goal = goal
        if not plane.tasks:
            plane.began_at, plane.changes = plane.reported_at, 0
            plane.away.clear()
        for name in plane.held:
            if name not in plane.tasks:
                plane.tasks[name] = asyncio.create_task(self._follow(plane, name), name=f"reroute {name}")

    async def _follow(self, plane: _Plane, name: str) -> None:
        """Have a switch hold the routes of the present links, also those that change while it is written."""
        try:
            while plane.held[name] != plane.goal:
                await self._reroute(plane, name)
        finally:
            del plane.tasks[name]
        if not plane.tasks and plane.changes:
            self._events.publish(EventKind.REROUTED, plane.name, plane.outcome(self._clock()))

    async def _reroute(self, plane: _Plane, name: str) -> None:
        goal = plane.goal
        try:
            made = await self._switches.reroute(name, goal)
        except Exception:
            _LOG.exception("the routes of %s could not be changed; others are", name)
            made = Replanned(0, False)
        plane.held[name] = goal
        plane.changes += made.changes
        plane.away.discard(name)
        if made.changes and not made.done:
            plane.away.add(name)


class _Plane:
    """One plane: its switches, the dead links that each was last written for, and those it should be."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.goal: frozenset[str] = frozenset()
        self.held: dict[str, frozenset[str]] = {}
        self.waiting: asyncio.Task[None] | None = None
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.reported_at = 0  # the first report that the next reroute waits for
        self.began_at = 0  # that of the reroute that is under way
        self.changes = 0  # of it
        self.away: set[str] = set()  # switches that get theirs later

    @property
    def name(self) -> str:
        """As in the names of switches and links."""
        return f"p{self.number}"

    def outcome(self, now: int) -> str:
        """What a reroute did that is done `now`, in words."""
        what = f"{in_words(self.goal, self.changes)} in {show_time(now - self.began_at)}"
        return f"{what}; later {', '.join(sorted(self.away))}, which cannot be reached" if self.away else what
