"""Size of a run of the scale backend: its memory and time, estimated from numbers before they are spent.

Factors are those of a run of 131,072 NICs on 8 planes, and fit one of 8,192 (docs/scale.md, "How large"). Memory is
that of the fabric's links, of the streams and of the series that are recorded. Time is that of building the fabric, and
of computing all rates anew at every change: near-linear in streams, and in a plane every two racks share each T1, and
every two pods each T2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrc_common.declared.document import Value
from mrc_common.memory import available_memory, resident_memory
from mrc_common.units import show_size, show_time
from mrc_lab.experiments.files.fabric_part import FabricPart
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Case, Tenant
from mrc_lab.experiments.files.workloads import Ranks, Replayed, Training
from mrc_lab.workloads.schedules.messages import channel_sizes
from mrc_lab.workloads.schedules.schedule import OperationKind
from topologies.fabric import Fabric

_PROCESS: Final = 100e6  # bytes of a process that has imported all
_BYTES_A_LINK: Final = 900
_BYTES_A_STREAM: Final = 1_000
SAMPLE: Final = 2 * 8  # bytes of a counter in a bin, as it is taken and as it is kept
_LINK_NS: Final = 12_000
_STREAM_NS: Final = 130_000  # planned, begun and recorded
_STREAM_CHANGE_NS: Final = 9_500
_SHARING_NS: Final = 1.2  # of two racks of a plane and a T1, or two pods and a T2, at a change


@dataclass(frozen=True, slots=True)
class ScaleSize:
    """Bytes of memory, and ns of one processor. `__str__` says both."""

    memory: float
    time: float

    @classmethod
    def of(cls, case: Case, fabric: Fabric, counters: int) -> ScaleSize:
        """That of a case, in which each flow has so many counters."""
        part, bins = case.fabric, case.duration // case.measure.bin + 2
        streams = sum(_streams(tenant, fabric) for tenant in case.tenants)
        shared = fabric.planes * (fabric.t0_count**2 * fabric.t1_per_pod + fabric.pods**2 * fabric.t2_count)
        changes = _changes(case)
        return cls(
            _of_fabric(part) + streams * (_BYTES_A_STREAM + SAMPLE * bins * counters) + _of_subsets(case, fabric),
            _LINK_NS * _links(part)
            + streams * (_STREAM_NS + changes * _STREAM_CHANGE_NS)
            + shared * changes * _SHARING_NS,
        )

    def __str__(self) -> str:
        """As ``about 2.8 GiB of memory and 96 s``."""
        return f"about {show_size(self.memory)} of memory and {show_time(max(1e9, round(self.time, -9)))} or more"


def check_fabric_memory(part: FabricPart, place: Value) -> None:
    """FileError where a fabric, which is not built yet, would not fit into memory."""
    if problem := too_large(_of_fabric(part)):
        raise place.error(f"{problem}: make the fabric smaller")


def too_large(memory: float) -> str:
    """What is wrong about so much memory, of this process in all, or nothing."""
    available = available_memory()
    free = available + resident_memory()
    if memory <= free or not available:
        return ""
    return f"the run would take {show_size(memory)} of memory, and {show_size(free)} are free"


def _links(part: FabricPart) -> int:
    """Links of a fabric whose T2s join T1s in groups, if none is missing."""
    pods, racks = part.pods, part.pods * part.t0
    hosts = part.hosts
    if part.racks is not None:
        pods, racks, hosts = len(part.racks), sum(map(len, part.racks)), sum(map(sum, part.racks))
    return part.planes * (hosts + racks * part.t1 + pods * part.t2)


def _of_fabric(part: FabricPart) -> float:
    return _PROCESS + _BYTES_A_LINK * _links(part)


def _streams(tenant: Tenant, fabric: Fabric) -> int:
    """Streams of a tenant; of writes as many as there would be from all hosts."""
    load = tenant.workload
    if isinstance(load, Ranks):
        ranks = len(select_hosts(load.hosts, fabric))
        return ranks * (ranks - 1) if load.operation == "all_to_all" else ranks * (1 if load.clusters == 1 else 2)
    if isinstance(load, Replayed):
        return len(channel_sizes(load.source.schedule))
    return len(fabric.nics) * (1 if tenant.transport.type == "mrc" else tenant.transport.qps)


def _of_subsets(case: Case, fabric: Fabric) -> int:
    """Bytes of the states of paths of queue pairs that use a part of them: one for each (mrc_lab/scale)."""
    paths = fabric.planes * max(fabric.t1_per_pod, fabric.t2_count, 1)
    return sum(
        _streams(tenant, fabric) * tenant.transport.qps * paths
        for tenant in case.tenants
        if tenant.transport.paths is not None and tenant.transport.paths < paths
    )


def _changes(case: Case) -> int:
    """How often rates are computed at least: twice for faults of one time, when they begin and when they are known."""
    times = {time for fault in case.faults for time in (fault.at, fault.until) if time is not None}
    operations = 0
    for load in (tenant.workload for tenant in case.tenants):
        if isinstance(load, Ranks):
            count = load.steps * len(load.gradients) if isinstance(load, Training) else load.iterations
            operations += (load.warmup + count) * (1 if load.clusters == 1 else 3)  # phases
        if isinstance(load, Replayed):  # each message begins or ends alone, perhaps
            operations += 2 * sum(sent.kind is OperationKind.SEND for sent in load.source.schedule.operations)
    return 1 + 2 * len(times) + operations
