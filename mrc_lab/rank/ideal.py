"""The shortest time in which a network without faults can do a workload of the ranking.

It is limited by the host that sends or receives most, as one flow of all these bytes alone on the fabric
(``topologies.ideal_completion``), from a host of its own rack. A training step computes, and then reduces what is left
to reduce. Where hosts wait for uplinks rather than for their own ports (a permutation, an all-to-all), it is the time
of the uplinks of a rack, all of whose traffic in a permutation is taken to go to other racks.

What a fault leaves to every transport is a :class:`Capacity`: it makes the bytes slower from the fault on, and neither
computing nor what was sent before.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.workloads import Collective, Incast, Permutation, Training
from topologies.fabric import Fabric
from topologies.ideal_completion import IdealCompletion, PacketSizes
from topologies.name_patterns import matches


@dataclass(frozen=True, slots=True)
class Ideal:
    """Bytes that all hosts together deliver, and the shortest time for it in ns."""

    delivered: int
    time: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """The `share` of its capacity that a network has from `since` (ns) on."""

    share: float = 1.0
    since: int = 0

    def time(self, full: float, start: int = 0) -> float:
        """How long it takes from `start` (ns) on to send what takes `full` ns with the whole capacity."""
        before = min(full, max(0, self.since - start))
        return before + (full - before) / self.share


_WHOLE = Capacity()


def ideal(case: Case, capacity: Capacity = _WHOLE) -> Ideal:
    """That of a case with the capacity that its faults leave; TypeError for a workload that is not ranked."""
    fabric = build_fabric(case.fabric)
    hosts = len(fabric.nics)
    packets = PacketSizes.of(case.transport.kind, 4096, fabric)
    flow = IdealCompletion(fabric, packets, case.fabric.delay)
    first, last = fabric.nics[-2].name, fabric.nics[-1].name

    def alone(size: int) -> int:
        return flow.of(first, last, size)

    def ring(size: int) -> int:
        return alone(2 * (hosts - 1) * size // hosts)

    def over_uplinks(size: int) -> int:
        return alone(round(size * _oversubscription(fabric)))

    workload = case.workload
    if isinstance(workload, Permutation):
        assert workload.total is not None
        return Ideal(hosts * workload.total, capacity.time(max(alone(workload.total), over_uplinks(workload.total))))
    if isinstance(workload, Incast):
        assert workload.total is not None
        senders = sum(
            nic.name != workload.target and any(matches(nic.name, pattern) for pattern in workload.sources)
            for nic in fabric.nics
        )
        size = senders * workload.total
        return Ideal(size, capacity.time(alone(size)))
    if isinstance(workload, Collective):
        size = workload.bytes
        if workload.operation == "all_to_all":
            others = hosts - len(fabric.nics_of(0))
            longest = max(alone(size * (hosts - 1) // hosts), over_uplinks(size * others // hosts))
            return Ideal((hosts - 1) * size, capacity.time(longest))
        return Ideal(2 * (hosts - 1) * size, capacity.time(ring(size)))
    if isinstance(workload, Training):
        size = sum(workload.gradients)
        rest, time = ring(workload.gradients[-1]), 0.0
        for _ in range(workload.steps):
            ready = time + workload.compute
            time = max(ready + capacity.time(rest, round(ready)), time + capacity.time(ring(size), round(time)))
        return Ideal(workload.steps * 2 * (hosts - 1) * size, time)
    raise TypeError(f"{type(workload).__name__} is not ranked")


def _oversubscription(fabric: Fabric) -> float:
    """The rate of the hosts of the first rack over that of its uplinks; all racks of a ranking are alike."""
    down = sum(link.rate_bps for nic in fabric.nics_of(0) for link in fabric.links_of(nic.name))
    return down / sum(link.rate_bps for t0 in fabric.racks(0) for link in fabric.uplinks(t0.name).values())
