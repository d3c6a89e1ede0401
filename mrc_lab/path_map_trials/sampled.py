"""The mapper against drawn probes: no packets, so that hundreds of trials with several faults take minutes.

The hosts send the probes of their plans as real ones do, each round in an order of chance, and report every 0.2 s. Each
probe is lost by drawing once for each crossing of a faulty element; that is all there is of a network.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from controller.path_map.mapper import SECOND, PathMap
from controller.path_map.plane_model import path_name
from controller.path_map.values import Direction, ElementKind, SuspectedFault
from mrc_host.path_probes import ProbeReport, ProbesArrived, ProbesSent
from topologies import addressing
from topologies.probe_plan import Crossing, FabricProbePlan, ProbeRoute

POLL_NS = SECOND // 5
_LATENCY_NS = 10_000_000  # from sending to arriving


@dataclass(frozen=True, slots=True)
class FaultyElement:
    """A link, switch or path (`name` as in a `SuspectedFault`) that loses the share `loss` of what crosses it."""

    part: ElementKind
    name: str
    loss: float = 1.0
    direction: Direction = Direction.BOTH

    def crossings(self, route: ProbeRoute) -> int:
        """How often a probe on this route may be lost here."""
        if self.part is ElementKind.PATH:
            return int(path_name(route) == self.name)
        if self.part is ElementKind.SWITCH:
            return route.switches.count(self.name)
        up, down = (route.crossings.count(Crossing(self.name, upward)) for upward in (True, False))
        return {Direction.UP: up, Direction.DOWN: down, Direction.BOTH: up + down}[self.direction]


@dataclass(frozen=True, slots=True)
class _Due:
    """A probe on its way: when it leaves, and its number among its sender's paths."""

    time: int
    path: int
    round: int


class SampledFabric:
    """Hosts that probe by `plan`, and a map of what they report; what is lost depends on `rng` and `faults` alone."""

    def __init__(self, plan: FabricProbePlan, rng: random.Random) -> None:
        self.path_map = PathMap(plan)
        self.faults: tuple[FaultyElement, ...] = ()
        self.now = 0
        self._plan = plan
        self._rng = rng
        self._survival: dict[str, list[float]] = {}
        self._addresses = {n.name: addressing.nic_address(plan.fabric, n).packed for n in plan.fabric.nics}
        self._due: dict[str, list[_Due]] = {host: [] for host in plan.routes}
        self._rounds = {host: rng.randrange(1 << 16) for host in plan.routes}
        self._phase = {host: rng.randrange(plan.round_ns) for host in plan.routes}
        self._late: list[tuple[str, ProbesArrived]] = []
        self.set_faults()

    def set_faults(self, *faults: FaultyElement) -> None:
        """From now on these elements are faulty, and no others."""
        self.faults = faults
        for host, routes in self._plan.routes.items():
            survival = [1.0] * len(routes)
            for fault in faults:
                survival = [s * (1 - fault.loss) ** fault.crossings(r) for s, r in zip(survival, routes, strict=True)]
            self._survival[host] = survival

    def poll(self) -> tuple[SuspectedFault, ...]:
        """Send for 0.2 s, report, and map; returns the suspected faults."""
        self.probe()
        return self.path_map.update(self.now)

    def probe(self) -> None:
        """Send for 0.2 s, and report."""
        begin, self.now = self.now, self.now + POLL_NS
        arrived: dict[str, list[ProbesArrived]] = {host: [] for host in self._plan.routes}
        for target, probe in self._late:
            arrived[target].append(probe)
        self._late = []
        sent = {host: self._send(host, begin, arrived) for host in self._plan.routes}
        for host, probes in sent.items():
            self.path_map.absorb(host, ProbeReport(True, probes, tuple(arrived[host])), self.now)

    def _send(self, host: str, begin: int, arrived: dict[str, list[ProbesArrived]]) -> tuple[ProbesSent, ...]:
        routes, survival, address = self._plan.routes[host], self._survival[host], self._addresses[host]
        sent: dict[int, int] = {}
        for due in self._until(host, self.now):
            sent[due.round] = sent.get(due.round, 0) | 1 << due.path
            if due.time < begin or self._rng.random() >= survival[due.path]:
                continue
            probe = ProbesArrived(address, due.round, 1 << due.path)
            if due.time + _LATENCY_NS < self.now:
                arrived[routes[due.path].target].append(probe)
            else:
                self._late.append((routes[due.path].target, probe))
        return tuple(ProbesSent(number, paths) for number, paths in sent.items())

    def _until(self, host: str, now: int) -> list[_Due]:
        """The probes of a host that leave before a time."""
        waiting = self._due[host]
        count = len(self._plan.routes[host])
        while not waiting or waiting[-1].time < now:
            begin, number = self._phase[host], self._rounds[host]
            order = self._rng.sample(range(count), count)
            waiting += [_Due(begin + i * self._plan.round_ns // count, path, number) for i, path in enumerate(order)]
            self._phase[host] += self._plan.round_ns
            self._rounds[host] += 1
        gone = [due for due in waiting if due.time < now]
        del waiting[: len(gone)]
        return gone


def hidden(fault: FaultyElement, faults: tuple[FaultyElement, ...], plan: FabricProbePlan) -> bool:
    """Whether what the others lose leaves too little to see this one by: no route over it delivers half its probes."""
    best = 0.0
    for route in plan.all_routes:
        if fault.crossings(route):
            survival = 1.0
            for other in faults:
                if other is not fault:
                    survival *= (1 - other.loss) ** other.crossings(route)
            best = max(best, survival)
    return best < 0.5
