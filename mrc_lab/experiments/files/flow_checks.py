"""Checks of random flows, and of metrics that are about flows of a size."""

from __future__ import annotations

from collections.abc import Iterable

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_lab.experiments.files.host_names import several_hosts
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.workloads import ListedFlows, RandomFlows, SizedFlows, Writes
from topologies.fabric import Fabric

MAX_FLOWS = 200_000


def check_random_flows(load: RandomFlows, fabric: Fabric) -> None:
    """FabricError or ValueError when the hosts do not exist, or there is nowhere to go from one of them."""
    nics = [fabric.nic(name) for name in several_hosts(load.hosts, fabric)]
    if load.pattern == "inter_rack" and len({nic.t0 for nic in nics}) < 2:
        raise ValueError("the pattern inter_rack needs hosts in two racks or more: give more hosts, or another pattern")


def check_arrivals(load: RandomFlows, fabric: Fabric, duration: int) -> None:
    """ValueError when no flow can begin in the run's `duration` (ns), or more than a run can record."""
    until = duration if load.until is None else load.until
    if until > duration:
        raise ValueError(f"until is {units.show_time(until)}, but the run lasts {units.show_time(duration)}")
    if until <= load.start:
        raise ValueError(
            f"until is {units.show_time(until)}, but the workload begins at {units.show_time(load.start)}:"
            " no flow would begin"
        )
    expected = _expected_by(load, fabric, until)
    if load.count is None and expected > MAX_FLOWS:
        raise ValueError(
            f"about {expected:,.0f} flows would begin, but {MAX_FLOWS:,} are the most: give count, or a shorter until"
        )
    if load.count is not None and load.count > MAX_FLOWS:
        raise ValueError(f"count is {load.count:,}, but {MAX_FLOWS:,} are the most")
    if expected < 1:
        raise ValueError(
            f"{expected:.2g} flows are to be expected by {units.show_time(until)}: give more load, a longer run or"
            " smaller sizes"
        )


def expected_flows(load: SizedFlows, fabric: Fabric, duration: int) -> float:
    """How many flows begin on average in a run of `duration` ns, `count` at most."""
    if isinstance(load, ListedFlows):
        return len(load.file.matrix.flows)
    assert isinstance(load, RandomFlows)
    expected = _expected_by(load, fabric, duration if load.until is None else load.until)
    return expected if load.count is None else min(expected, load.count)


def _expected_by(load: RandomFlows, fabric: Fabric, until: int) -> float:
    hosts = several_hosts(load.hosts, fabric)
    return sum(arrival_rate(load, fabric, host) for host in hosts) * (until - load.start)


def arrival_rate(load: RandomFlows, fabric: Fabric, host: str) -> float:
    """Flows that begin at a host per ns on average: its share of what its ports carry, over the mean size of a flow."""
    access = sum(link.rate_bps for link in fabric.links_of(host))
    return load.load * access / 8e9 / load.sizes.distribution.mean


def check_sized_flows(metric: str, tenants: Iterable[Tenant], place: Value) -> None:
    """FileError when none of the tenants has flows of a size, which have a completion time."""
    for tenant in tenants:
        load = tenant.workload
        if isinstance(load, SizedFlows) or (isinstance(load, Writes) and _has_total(load)):
            return
    raise place.error(
        f"{metric} is of flows that have a size: give a workload of kind flows or htsim, or give flows a total"
    )


def _has_total(load: Writes) -> bool:
    listed = (*getattr(load, "pairs", ()), *getattr(load, "victim", ()))
    return load.total is not None or any(flow.total is not None for flow in listed)
