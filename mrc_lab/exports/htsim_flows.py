"""The flows of a case as connections of htsim; ValueError names the key that has no like there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Case, Tenant
from mrc_lab.experiments.files.workloads import Collective, ListedFlows, SizedFlows, Writes
from mrc_lab.experiments.running.arrivals import arrivals
from mrc_lab.experiments.running.collective_data import ITEM
from mrc_lab.experiments.running.flows import plan
from mrc_lab.experiments.running.tenant_seed import tenant_seed
from mrc_lab.workloads.collectives.layout import Layout
from mrc_lab.workloads.htsim.connection_matrix import PICOSECONDS, MatrixFlow, MatrixTrigger
from mrc_lab.workloads.htsim.lines import MAX_INT
from topologies.fabric import Fabric

_Flow = tuple[int, str, str, int]  # start (ns), source, destination, bytes


def exported_flows(case: Case, seed: int) -> tuple[tuple[MatrixFlow, ...], tuple[MatrixTrigger, ...]]:
    """The flows of a run with `seed`, with ids from 1 on, and triggers."""
    if len(case.tenants) > 1:
        raise ValueError("workloads: a connection matrix has the flows of one workload")
    (tenant,) = case.tenants
    load, fabric = tenant.workload, build_fabric(case.fabric)
    if isinstance(load, ListedFlows):
        return tuple(_later(flow, load.start) for flow in load.file.matrix.flows), load.file.matrix.triggers
    return tuple(_connections(_flows(tenant, case, fabric, seed), fabric)), ()


def _later(flow: MatrixFlow, ns: int) -> MatrixFlow:
    return flow if flow.start is None else replace(flow, start=flow.start + ns * PICOSECONDS)


def _connections(flows: Iterable[_Flow], fabric: Fabric) -> Iterable[MatrixFlow]:
    numbers = {name: number for number, name in enumerate(fabric.nic_names)}
    for number, (start, source, destination, size) in enumerate(flows, 1):
        if size > MAX_INT:
            raise ValueError(f"workload: {source} writes {size:,} bytes to {destination}, and {MAX_INT:,} are the most")
        yield MatrixFlow(numbers[source], numbers[destination], size, start * PICOSECONDS, number)


def _flows(tenant: Tenant, case: Case, fabric: Fabric, seed: int) -> Iterable[_Flow]:
    load = tenant.workload
    if isinstance(load, SizedFlows):
        for one in arrivals(load, fabric, tenant_seed(seed, tenant), case.duration):
            assert one.start is not None, "only flows of a list wait for others"
            yield one.start, one.source, one.destination, one.size
    elif isinstance(load, Writes):
        for planned in plan(tenant, fabric, tenant_seed(seed, tenant)):
            if planned.messages is None:
                raise ValueError("workload.total is missing: in htsim each flow has a size")
            begin, size = load.start + planned.start, planned.messages * planned.message
            yield begin, planned.source, planned.destination, size
            if planned.both_ways:
                yield begin, planned.destination, planned.source, size
    elif isinstance(load, Collective) and load.operation == "all_to_all":
        yield from _all_to_all(load, fabric)
    else:
        what = load.operation if isinstance(load, Collective) else load.name
        raise ValueError(
            f"workload.kind: htsim has no {what}; write_bw, permutation, incast, flows, htsim, and a collective that is"
            " an all_to_all, can be exported"
        )


def _all_to_all(load: Collective, fabric: Fabric) -> Iterable[_Flow]:
    """Every host writes a segment of its data to each other one, all at once."""
    for name, expected in (("iterations", 1), ("warmup", 0), ("compute", 0), ("interleave", False)):
        if getattr(load, name) != expected:
            raise ValueError(f"workload.{name} must be left out: an exported all_to_all is done once, from the start")
    hosts = select_hosts(load.hosts, fabric)
    layout = Layout(load.bytes // ITEM, ITEM, len(hosts), load.chunk)
    for source in hosts:
        for number, destination in enumerate(hosts):
            size = layout.segment(number).length
            if destination != source and size:
                yield load.start, source, destination, size
