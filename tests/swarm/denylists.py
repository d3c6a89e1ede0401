"""The controller's denylists in a swarm run: what is forbidden when, and that no NIC uses it meanwhile.

A :class:`Denied` stands among the faults of a plan, so that it is kept, left out and shrunk like them. Paths that
several of them forbid at once are allowed again with the last. A denied path carries neither data nor answers from the
moment the NIC got the denylist; frames that left before are no mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mrc_host.wire import opcodes
from simulation.world import SimulatedWorld
from tests.swarm.scenario import FOREVER
from topologies.fabric import Fabric
from topologies.faults import Fault
from topologies.paths import destination as path_to

Route = tuple[str, str, int]  # from a NIC to a NIC, by an entropy value

_NEXT_HEADER, _IPV6 = 20, 41
_OUTER = slice(38, 54)  # destination
_OPCODE = 14 + 40 + 40 + 8
_USES = frozenset(
    (*range(opcodes.WRITE_FIRST, opcodes.WRITE_ONLY_IMM + 1), opcodes.TRANSPORT_ACK, opcodes.SACK, opcodes.NACK)
)


@dataclass(frozen=True, slots=True)
class Denied(Fault):
    """These paths are on the denylists of their NICs."""

    routes: tuple[Route, ...]


class DenylistChecker:
    """Applies the plan's denials in a world; `report` gets each use of a denied path (once per path)."""

    def __init__(self, world: SimulatedWorld, report: Callable[[str], None]) -> None:
        self._world = world
        self._report = report
        self._denied: Counter[Route] = Counter()
        self._reported: set[Route] = set()
        self._routes: dict[tuple[str, bytes], Route] = {}

    def plan(self, denials: Iterable[tuple[Denied, int, int]]) -> None:
        """Deny and allow at the times given (ns)."""
        for denied, start, end in denials:
            for nic in sorted({nic for nic, _, _ in denied.routes}):
                self._watch(nic)
            self._world.clock.at(start, self._change, denied, 1)
            if end < FOREVER:
                self._world.clock.at(end, self._change, denied, -1)

    def repeat(self, nic: str) -> None:
        """The NIC has restarted: the controller denies the paths again."""
        for route, count in self._denied.items():
            if route[0] == nic and count:
                self._notify(route, True)

    def _change(self, denied: Denied, step: int) -> None:
        for route in denied.routes:
            self._denied[route] += step
            if self._denied[route] == (step > 0):  # the first that forbids it, or the last
                self._notify(route, step > 0)

    def _notify(self, route: Route, denied: bool) -> None:
        world, (nic, peer, ev) = self._world, route
        address = path_to(world.fabric, world.fabric.nic(nic), world.fabric.nic(peer)).address
        world.nic(nic).control.set_path_denied(address, ev, denied, world.now)
        world.poke(nic)

    def _watch(self, nic: str) -> None:
        if any(name == nic for name, _ in self._routes):
            return
        self._routes |= addresses(self._world.fabric, nic)
        self._world.nic_node(nic).watch(lambda frame: self._left(nic, frame))

    def _left(self, nic: str, frame: bytes) -> None:
        if frame[_NEXT_HEADER] != _IPV6 or frame[_OPCODE] not in _USES:
            return
        route = self._routes.get((nic, frame[_OUTER]))
        if route is not None and self._denied[route] and route not in self._reported:
            self._reported.add(route)
            self._report(f"{nic} used the path {route[2]:#x} to {route[1]} at {self._world.now} ns though it is denied")


def addresses(fabric: Fabric, nic: str) -> dict[tuple[str, bytes], Route]:
    """Every path of a NIC by its name and the outer destination address of its frames."""
    found: dict[tuple[str, bytes], Route] = {}
    for peer in fabric.nics:
        if peer.name != nic:
            known = path_to(fabric, fabric.nic(nic), peer)
            found |= {(nic, known.template.address(ev)): (nic, peer.name, ev) for ev in known.evs}
    return found
