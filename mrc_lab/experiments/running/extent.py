"""The extent of a case on its fabric: how many senders, receivers, flows and links its names and patterns mean.

A pattern may mean fewer or other hosts than its author thinks, and a run of two flows looks like one of sixteen. So
what was chosen is counted, named, and shown before a run, by ``--check``, in the report and in ``summary.json``.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_common.units import counted
from mrc_lab.experiments.files.fault_draws import draw_case
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Case, Tenant, joined
from mrc_lab.experiments.files.workloads import Incast, ListedFlows, Ranks, Replayed, SizedFlows, Workload, Writes
from mrc_lab.experiments.running.arrivals import arrivals
from mrc_lab.experiments.running.flows import plan
from mrc_lab.experiments.running.tenant_seed import tenant_seed
from mrc_lab.workloads.schedules.messages import channel_sizes
from simulation.fault_limits import SIMULATION
from topologies.fabric import Fabric, LinkKind, Tier
from topologies.faults import Fault
from topologies.name_patterns import is_pattern

_MAX_SPANS = 6  # spans of names in a line
_MAX_FAULTS = 6  # faults with a line of their own
_MAX_DRAWN = 20  # names in a line
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True, slots=True)
class TenantExtent:
    """Hosts of a workload, in the fabric's order, and what is between them.

    `flows` are from a host to another, each on `queue_pairs` of them in all; both are None of a collective, which
    decides itself who writes to whom. `slowed` are the hosts that are stragglers.
    """

    name: str
    workload: str
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    flows: int | None
    queue_pairs: int | None
    slowed: tuple[str, ...] = ()

    def in_words(self) -> str:
        """One line, with the number of everything."""
        kind = self.workload
        if self.flows is None:
            text = f"{kind} among {counted(len(self.senders), 'host')} ({spans(self.senders)})"
        elif not self.flows:
            text = f"{kind}: no host writes to another"
        else:
            text = (
                f"{kind}: {counted(len(self.senders), 'sender')} ({spans(self.senders)}),"
                f" {counted(len(self.receivers), 'receiver')} ({spans(self.receivers)}),"
                f" {counted(self.flows, 'flow')} on {counted(self.queue_pairs or 0, 'queue pair')}"
            )
        if self.slowed:
            text += f", {counted(len(self.slowed), 'straggler')} ({spans(self.slowed)})"
        return joined(self.name, text)


@dataclass(frozen=True, slots=True)
class FaultExtent:
    """The links that a fault takes down or impairs, at least in one direction, and the switches that it is about.

    `drawn` are the links or switches that were drawn of `matches` by chance.
    """

    kind: str
    line: int
    links: tuple[str, ...]
    switches: tuple[str, ...]
    name: str = ""
    drawn: tuple[str, ...] = ()
    matches: int = 0

    def in_words(self) -> str:
        """One line, with the number of everything, and the names of what was drawn."""
        if self.drawn:
            word = "switches" if self.switches else "links"
            listed = ", ".join(self.drawn[:_MAX_DRAWN]) + ", ..." * (len(self.drawn) > _MAX_DRAWN)
            return joined(self.name, self.kind, f"{len(self.drawn)} of {self.matches} {word}, drawn: {listed}")
        words = [counted(len(self.switches), "switch", "switches")] if self.switches else []
        if self.links:
            words.append(counted(len(self.links), "link") + f" ({', '.join(self.links)})" * (len(self.links) <= 2))
        return joined(self.name, self.kind, ", ".join(words))

    def numbers(self) -> dict[str, Any]:
        """For ``summary.json``."""
        found: dict[str, Any] = {"kind": self.kind, "links": len(self.links), "switches": len(self.switches)}
        found |= {"name": self.name} if self.name else {}
        return found | ({"drawn": list(self.drawn), "matches": self.matches} if self.drawn else {})


@dataclass(frozen=True, slots=True)
class Extent:
    """All that a case is about: the fabric's hosts and links, and what its workloads and faults chose of them.

    `links` are all of the fabric. `parts` counts those that can fail alone: ``t0_t1_links``, ``t1s``, ``nic_ports``.
    """

    hosts: int
    links: int
    parts: Mapping[str, int]
    tenants: tuple[TenantExtent, ...]
    faults: tuple[FaultExtent, ...]

    def lines(self) -> Iterator[str]:
        """For people: a line for each workload and fault."""
        for tenant in self.tenants:
            yield tenant.in_words()
        for fault in self.faults[:_MAX_FAULTS]:
            yield fault.in_words()
        if len(self.faults) > _MAX_FAULTS:
            links = {link for fault in self.faults for link in fault.links}
            more = counted(len(self.faults) - _MAX_FAULTS, "more fault")
            yield f"{more}; {counted(len(links), 'link')} in all"

    def numbers(self) -> dict[str, Any]:
        """For ``summary.json``: everything counted, and the hosts by name."""
        return {
            "hosts": self.hosts,
            "links": self.links,
            "parts": dict(self.parts),
            "workloads": [dataclasses.asdict(tenant) for tenant in self.tenants],
            "faults": [fault.numbers() for fault in self.faults],
        }


def _parts(fabric: Fabric) -> dict[str, int]:
    """Links between T0s and T1s, T1s and ports of NICs, of all planes."""
    kinds = Counter(link.kind for link in fabric.links)
    t1s = sum(switch.tier is Tier.T1 for switch in fabric.switches)
    return {"t0_t1_links": kinds[LinkKind.T0_T1], "t1s": t1s, "nic_ports": kinds[LinkKind.NIC_T0]}


def extent_of(case: Case, fabric: Fabric, seed: int = 1) -> Extent:
    """What `case` came to mean on `fabric`. `seed` is that of the run, for what is chance."""
    return Extent(
        len(fabric.nics),
        len(fabric.links),
        _parts(fabric),
        tuple(_tenant(tenant, fabric, seed, case.duration) for tenant in case.tenants),
        tuple(_faults(draw_case(case, seed).faults, fabric)),
    )


def pattern_warnings(case: Case, fabric: Fabric) -> Iterator[str]:
    """Patterns of hosts that came to mean a single one, where several were meant: a sentence each."""
    for tenant in case.tenants:
        for pattern in _host_patterns(tenant.workload):
            if is_pattern(pattern) and len(found := select_hosts([pattern], fabric)) == 1:
                yield f"{joined(tenant.name, repr(pattern))} matches one host only, {found[0]}"


def _host_patterns(load: Workload) -> Iterator[str]:
    if isinstance(load, Incast):
        yield from load.sources
    elif isinstance(load, Ranks):
        yield from load.hosts
        for straggler in load.stragglers:
            yield from straggler.hosts
    elif not isinstance(load, Writes | ListedFlows) or hasattr(load, "hosts"):
        yield from load.hosts


def _tenant(tenant: Tenant, fabric: Fabric, seed: int, duration: int) -> TenantExtent:
    load = tenant.workload
    if isinstance(load, Ranks):
        hosts = tuple(select_hosts(load.hosts, fabric))
        slowed = {host for straggler in load.stragglers for host in select_hosts(straggler.hosts, fabric)}
        name = getattr(load, "operation", load.name) if load.name == "collective" else load.name
        in_order = tuple(host for host in hosts if host in slowed)
        return TenantExtent(tenant.name, name, hosts, hosts, None, None, in_order)
    if isinstance(load, Replayed):
        ranks = select_hosts(load.hosts, fabric)[: load.source.schedule.ranks]
        channels = channel_sizes(load.source.schedule)
        pairs = {(ranks[channel.source], ranks[channel.destination]) for channel in channels}
        return _between(tenant, pairs, len(channels), len(channels) * tenant.transport.qps, fabric)
    if isinstance(load, SizedFlows):
        begun = arrivals(load, fabric, tenant_seed(seed, tenant), duration)
        own = len(begun) if load.connections == "own" else len({(one.source, one.destination) for one in begun})
        pairs = {(one.source, one.destination) for one in begun}
        return _between(tenant, pairs, len(begun), own * tenant.transport.qps, fabric)
    flows = plan(tenant, fabric, seed)
    pairs = {(flow.source, flow.destination) for flow in flows}
    pairs |= {(flow.destination, flow.source) for flow in flows if flow.both_ways}
    count = sum(1 + flow.both_ways for flow in flows)
    return _between(tenant, pairs, count, sum((1 + flow.both_ways) * flow.qps for flow in flows), fabric)


def _between(tenant: Tenant, pairs: set[tuple[str, str]], flows: int, queue_pairs: int, fabric: Fabric) -> TenantExtent:
    senders, receivers = {source for source, _ in pairs}, {destination for _, destination in pairs}
    return TenantExtent(
        tenant.name,
        tenant.workload.name,
        tuple(name for name in fabric.nic_names if name in senders),
        tuple(name for name in fabric.nic_names if name in receivers),
        flows,
        queue_pairs,
    )


def _faults(planned: Sequence[PlannedFault], fabric: Fabric) -> Iterator[FaultExtent]:
    """The extent of each fault of the file; one that was drawn is several."""
    together: dict[int, list[PlannedFault]] = {}
    for number, fault in enumerate(planned):
        together.setdefault(fault.draw.place if fault.draw else -1 - number, []).append(fault)
    for faults in together.values():
        yield _fault(faults, fabric)


def _fault(planned: Sequence[PlannedFault], fabric: Fabric) -> FaultExtent:
    """The extent of one fault of the file, which may have been drawn as several."""
    first = planned[0]
    touched = [_touched(one.fault, fabric) for one in planned]
    links = tuple(dict.fromkeys(link for found, _ in touched for link in found))
    switches = tuple(dict.fromkeys(switch for _, found in touched for switch in found))
    found = FaultExtent(first.fault.kind.name, first.line, links, switches, first.name)
    if first.draw is None:
        return found
    return dataclasses.replace(found, drawn=switches or links, matches=first.draw.matches)


def _touched(fault: Fault, fabric: Fabric) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Links and switches of a fault."""
    links = SIMULATION.effect_of(fabric, fault).touched_links(fabric)
    pattern = getattr(fault, "switch", None)
    switches = () if pattern is None else tuple(switch.name for switch in fabric.find_switches(pattern))
    return links, switches


def spans(names: Iterable[str]) -> str:
    """Names in short: those that are numbered one after the other as a span, of many the first."""
    found: list[list[str]] = []
    last: tuple[str, int] | None = None
    for name in names:
        match = _NUMBERED.fullmatch(name)
        here = (match[1], int(match[2])) if match else None
        if here is not None and last == (here[0], here[1] - 1):
            found[-1].append(name)
        else:
            found.append([name])
        last = here
    shown = [f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(span) for span in found[:_MAX_SPANS]]
    return ", ".join(shown) + (" ..." if len(found) > _MAX_SPANS else "")
