"""Checks of flows that a connection matrix of htsim lists, and the links that have failed in it."""

from __future__ import annotations

from collections.abc import Iterable

from mrc_common import units
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.workloads import ListedFlows
from mrc_lab.workloads.htsim.connection_matrix import MatrixFailure
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.link_down import LinkDown


def check_listed_flows(load: ListedFlows, fabric: Fabric) -> None:
    """ValueError when the fabric has fewer hosts than a connection matrix has nodes."""
    matrix = load.file.matrix
    if matrix.nodes > len(fabric.nics):
        hosts = units.counted(len(fabric.nics), "host")
        raise ValueError(f"{matrix.source} has {matrix.nodes} nodes, but the fabric has {hosts}")


def check_begin(load: ListedFlows, duration: int) -> None:
    """ValueError with the line of the first flow that would begin when a run of `duration` ns is over."""
    matrix = load.file.matrix
    for flow in matrix.flows:
        if flow.start_ns is not None and load.start + flow.start_ns >= duration:
            raise ValueError(
                f"{matrix.source}, line {flow.line}: the flow begins at {units.show_time(load.start + flow.start_ns)},"
                f" but the run lasts {units.show_time(duration)}"
            )


def check_failures(load: ListedFlows, fabric: Fabric, faults: Iterable[PlannedFault]) -> None:
    """ValueError with the line of a failure that the fabric cannot have, or that is not among the faults too.

    Failed links are the fabric's, and faults of an experiment say which: so nothing of a matrix is left out in silence.
    """
    matrix = load.file.matrix
    for failure in matrix.failures:
        link = failed_link(fabric, failure)
        if not any(planned.fault == LinkDown(link) and planned.at == 0 and planned.until is None for planned in faults):
            raise ValueError(
                f"{matrix.source}, line {failure.line}: link {link} has failed: say so in faults,"
                f" as in {{kind: link_down, link: '{link}', at: 0us}}"
            )


def failed_link(fabric: Fabric, failure: MatrixFailure) -> str:
    """The link that htsim fails; FabricError where there is none.

    htsim joins uplink `l` of its aggregation switch number `p` of a pod with core `p + l * n`, where a pod has `n` of
    them, but fails the link to core `p * n + link_id` (``FatTreeTopology::add_failed_link``) and stops if the switch
    has none there.
    """
    per_pod, t1s = fabric.t1_per_pod, fabric.pods * fabric.t1_per_pod
    place = f"line {failure.line}: "
    if not fabric.t2_count:
        raise FabricError(f"{place}htsim fails links from T1s to T2s only, and a fabric of two tiers has none")
    uplinks = fabric.t2_count // per_pod
    if failure.switch_id >= t1s or failure.link_id >= uplinks:
        raise FabricError(f"{place}there are {t1s} AGG switches with {uplinks} uplinks each, and both count from 0")
    group = failure.switch_id % per_pod
    core = group * per_pod + failure.link_id
    if core % per_pod != group or core >= fabric.t2_count:
        raise FabricError(
            f"{place}AGG {failure.switch_id} has no link to core {core}, which htsim takes for its link"
            f" {failure.link_id}, and stops"
        )
    return f"t1-{failure.switch_id}:t2-{group * uplinks + core // per_pod}@p0"
