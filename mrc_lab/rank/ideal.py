"""The shortest time in which a network without faults can do a workload of the ranking.

It is limited by the host that sends or receives most, as one flow of all these bytes alone on the fabric
(``topologies.ideal_completion``), from a host of its own rack. A training step computes, and then reduces what is left
to reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.workloads import Collective, Incast, Permutation, Training
from topologies.ideal_completion import IdealCompletion, PacketSizes
from topologies.name_patterns import matches


@dataclass(frozen=True, slots=True)
class Ideal:
    """Bytes that all hosts together deliver, and the shortest time for it in ns."""

    delivered: int
    time: float


def ideal(case: Case) -> Ideal:
    """That of a case; TypeError for a workload that is not ranked."""
    fabric = build_fabric(case.fabric)
    hosts = len(fabric.nics)
    packets = PacketSizes.of(case.transport.kind, 4096, fabric)
    flow = IdealCompletion(fabric, packets, case.fabric.delay)
    first, last = fabric.nics[-2].name, fabric.nics[-1].name

    def alone(size: int) -> int:
        return flow.of(first, last, size)

    def ring(size: int) -> int:
        return alone(2 * (hosts - 1) * size // hosts)

    workload = case.workload
    if isinstance(workload, Permutation):
        assert workload.total is not None
        return Ideal(hosts * workload.total, alone(workload.total))
    if isinstance(workload, Incast):
        assert workload.total is not None
        senders = sum(
            nic.name != workload.target and any(matches(nic.name, pattern) for pattern in workload.sources)
            for nic in fabric.nics
        )
        size = senders * workload.total
        return Ideal(size, alone(size))
    if isinstance(workload, Collective):
        size = workload.bytes
        if workload.operation == "all_to_all":
            return Ideal((hosts - 1) * size, alone(size * (hosts - 1) // hosts))
        return Ideal(2 * (hosts - 1) * size, ring(size))
    if isinstance(workload, Training):
        size = sum(workload.gradients)
        rest = ring(workload.gradients[-1])
        return Ideal(workload.steps * 2 * (hosts - 1) * size, workload.steps * max(workload.compute + rest, ring(size)))
    raise TypeError(f"{type(workload).__name__} is not ranked")
