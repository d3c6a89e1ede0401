"""Checks across keys: names against the fabric, times against the run, selections against metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_common.declared.field_types import suggest
from mrc_common.suggestions import did_you_mean
from mrc_host import plugins
from mrc_host.errors import InvalidArgumentError
from mrc_host.transport import algorithms
from mrc_host.verbs_types import QpType
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.fabric_part import FabricPart, build_fabric
from mrc_lab.experiments.files.fault_checks import check_faults
from mrc_lab.experiments.files.flap_process import check_flaps
from mrc_lab.experiments.files.flow_checks import check_arrivals, check_random_flows, check_sized_flows
from mrc_lab.experiments.files.host_names import select_hosts, several_hosts, split_pair
from mrc_lab.experiments.files.listed_flows import check_begin, check_failures, check_listed_flows
from mrc_lab.experiments.files.metric_names import METRICS, OF_FLOW_SIZES
from mrc_lab.experiments.files.model import (
    Case,
    Expectation,
    Published,
    ReportedMetric,
    Selection,
    Tenant,
    TransportPart,
)
from mrc_lab.experiments.files.transport import check_transport
from mrc_lab.experiments.files.workloads import (
    Collective,
    FlowPart,
    Incast,
    ListedFlows,
    Permutation,
    RandomFlows,
    Ranks,
    Replayed,
    SizedFlows,
    Training,
    Workload,
    WriteBw,
    Writes,
)
from mrc_lab.workloads.schedules.messages import MAX_QUEUE_PAIRS, channel_sizes, memory_bytes
from topologies.ecmp_choice import source_ports
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.loader import place_of
from topologies.name_patterns import check_pattern, is_pattern, select

_STATISTICAL = (
    "throughput",
    "link_throughput",
    "queue_depth",
    "algbw",
    "busbw",
    "completion_time",
    *OF_FLOW_SIZES,
    "failover_time",
    "recovery_time",
)
OF_QUEUES = ("queue_depth", "pause_time", "pauses")
OF_LINKS = ("link_throughput", *OF_QUEUES)
OF_ALL_TENANTS = (*OF_LINKS, "trimmed")
OF_WHOLE_RUN = ("paths_bad", "trimmed", "errors", "wrong_bytes")  # or of all that a tenant did
MAX_MEMORY = 8 << 30
_UNITS = {"rate": units.RATE, "time": units.TIME, "share": units.SHARE, "count": units.SHARE, "size": units.SIZE}


def check_case(case: Case, document: Value, backend: str = "") -> None:
    """FileError for anything in a case that names what does not exist, or whose times make no sense.

    `backend` is the one that the file asks for: scale moves no bytes, so that they take no memory.
    """
    members = document.items()
    fabric = checked_fabric(case.fabric, document)
    if all(tenant.transport.kind is not QpType.MRC for tenant in case.tenants):
        for name in ("spraying", "path_selection"):
            if getattr(case.transport, name) is not None:
                raise _at(members["transport"], name).error("applies to mrc only, and no flow here is of that type")
    for tenant, place, keys in zip(case.tenants, *tenant_places(case, document), strict=True):
        mtu = dict(tenant.transport.attributes).get("path_mtu", 4096)
        if isinstance(mtu, int) and mtu + 146 > case.fabric.mtu + 14:
            raise members["fabric"].error(f"packets of path_mtu {mtu} do not fit an MTU of {case.fabric.mtu}")
        _check_tenant(case, tenant, fabric, place, keys)
    if backend != "scale":
        check_memory(case, fabric, document)
    if case.measure.warmup >= case.duration:
        raise members["measure"].error("the warm-up is as long as the run: make it shorter, or the duration longer")
    if case.duration // case.measure.bin > 100_000:
        raise members["duration"].error("more than 100000 time bins: make measure.bin wider")
    check_faults(case, fabric, tuple(members["faults"].elements()) if case.faults else ())
    if case.flaps:
        listed = members["flaps"].elements() if members["flaps"].is_list else [members["flaps"]]
        for process, place in zip(case.flaps, listed, strict=True):
            check_flaps(process, fabric, case.duration, place)


def checked_fabric(part: FabricPart, document: Value) -> Fabric:
    """The fabric of a case; FileError at the key that makes it impossible."""
    try:
        return build_fabric(part)
    except FabricError as error:
        raise place_of(str(error), document.items()["fabric"]).error(str(error)) from None


def tenant_places(case: Case, document: Value) -> tuple[list[Value], list[Value]]:
    """For each tenant where the file says what it does, and where it says what its transport is."""
    members = document.items()
    if not case.tenant_names:
        return [members["workload"]], [members.get("transport", document)]
    entries = list(members["workloads"].elements())
    return entries, [entry.items().get("transport") or members.get("transport") or entry for entry in entries]


def _check_tenant(case: Case, tenant: Tenant, fabric: Fabric, place: Value, transport: Value) -> None:
    """FileError for anything that a tenant cannot do on this fabric, or with its transport."""
    part = tenant.transport
    if isinstance(tenant.workload, Replayed):
        pairs = 2 * part.qps * len(channel_sizes(tenant.workload.source.schedule))
        if pairs > MAX_QUEUE_PAIRS:
            raise place.error(f"needs {pairs} queue pairs, but {MAX_QUEUE_PAIRS} are the most: use fewer ranks or qps")
    try:
        check_workload(tenant.workload, fabric)
        if isinstance(tenant.workload, RandomFlows):
            check_arrivals(tenant.workload, fabric, case.duration)
        if isinstance(tenant.workload, ListedFlows):
            check_begin(tenant.workload, case.duration)
            check_failures(tenant.workload, fabric, case.faults)
    except (FabricError, ValueError) as error:
        raise place.error(str(error)) from None
    if latest_start(tenant.workload) >= case.duration:
        word = "start" if tenant.workload.start >= case.duration else "starts"
        raise place.error(f"a pair begins when the run is over: see {word}")
    for name in ("evs", "paths"):
        if getattr(part, name) is not None and not part.kind.source_routed:
            raise _at(transport, name).error(f"applies to mrc and uet only: {part.type} has no entropy values of paths")
    if part.ev_choice == "coordinated":
        _check_coordination(case, tenant, transport)
    if part.planes is not None:
        _check_planes(part, part.planes, fabric, transport)
    if isinstance(tenant.workload, Writes) and tenant.workload.uplinks:
        _check_uplinks(tenant, tenant.workload, fabric, place)
    if part.congestion is not None:
        _check_congestion(part, transport)
    try:
        check_transport(tenant, case.transport, case.fabric, fabric)
    except InvalidArgumentError as error:
        raise transport.error(str(error)) from None


def _check_planes(part: TransportPart, planes: Collection[int], fabric: Fabric, transport: Value) -> None:
    if (most := max(planes)) >= fabric.planes:
        known = f"its planes are 0 to {fabric.planes - 1}" if fabric.planes > 1 else "its only plane is 0"
        raise _at(transport, "planes").error(f"the fabric has no plane {most}: {known}")
    for name, given in (("evs", part.evs is not None), ("ev_choice", part.ev_choice == "coordinated")):
        if given:
            raise _at(transport, name).error("chooses from all planes: leave it out, or planes")


def _at(place: Value, name: str) -> Value:
    """Where a section says something, or the section where that is inherited."""
    return place.items().get(name, place)


def _check_coordination(case: Case, tenant: Tenant, place: Value) -> None:
    part, where = tenant.transport, _at(place, "ev_choice")
    if part.kind is not QpType.MRC or isinstance(tenant.workload, Ranks | Replayed | SizedFlows):
        raise where.error(
            "entropy values are coordinated for flows of mrc only: not for other types, kinds flows and htsim, "
            "collectives, training or replays"
        )
    most = case.fabric.planes * max(case.fabric.t1, case.fabric.t2)
    if part.paths is None or part.paths % case.fabric.planes or part.paths > most:
        raise where.error("coordinated needs paths: a multiple of the planes, as many as there are at most")
    if part.evs is not None:
        raise where.error("coordinated says which entropy values there are: leave evs out")


def _check_uplinks(tenant: Tenant, load: Writes, fabric: Fabric, place: Value) -> None:
    where = _at(place, "uplinks")
    if tenant.transport.kind not in (QpType.RC, QpType.RC_SR):
        raise where.error(f"applies to rc and rc_sr only: the path of {tenant.transport.type} is not ECMP's choice")
    if fabric.planes > 1:
        raise where.error("needs a fabric of one plane: which plane a queue pair is in is drawn when it connects")
    if isinstance(load, Permutation) and load.shift is None:
        raise where.error("needs to know the flows: give the permutation a shift")
    flows = listed_flows(load, fabric)
    if len(load.uplinks) > len(flows):
        raise where.error(f"lists {len(load.uplinks)} flows of {len(flows)}")
    try:
        for flow, uplinks in zip(flows, load.uplinks, strict=False):
            source, target = (fabric.nic(name) for name in split_pair(flow.pair, fabric))
            for uplink in set(uplinks):
                next(source_ports(fabric, source, target, 0, uplink))
    except FabricError as error:
        raise where.error(str(error)) from None


def listed_flows(load: Writes, fabric: Fabric) -> list[FlowPart]:
    """The flows of a workload that leaves none to chance, in the order of `starts` and `uplinks`."""
    if isinstance(load, WriteBw):
        return list(load.pairs)
    if isinstance(load, Incast):
        return [*(FlowPart(f"{source}>{load.target}") for source in select_hosts(load.sources, fabric)), *load.victim]
    assert isinstance(load, Permutation)
    assert load.shift is not None
    hosts = select_hosts(load.hosts, fabric)
    shift = load.shift % len(hosts)
    return [FlowPart(f"{a}>{b}") for a, b in zip(hosts, hosts[shift:] + hosts[:shift], strict=True)]


def _flow_names(workload: Workload, fabric: Fabric) -> Iterator[str]:
    """What a run will call the flows of a workload; nothing if only the run knows."""
    if not isinstance(workload, Writes) or (isinstance(workload, Permutation) and workload.shift is None):
        return
    seen = Counter[str]()
    for flow in listed_flows(workload, fabric):
        ends = split_pair(flow.pair, fabric)
        ways = (ends, ends[::-1]) if isinstance(workload, WriteBw) and workload.bidirectional else (ends,)
        yield from (flow_name(*way, seen) for way in ways)


def flow_name(source: str, destination: str, seen: Counter[str]) -> str:
    """``h1>h3``; of the second flow from h1 to h3 ``h1>h3#2``. `seen` counts those that have a name."""
    name = f"{source}>{destination}"
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def _check_congestion(part: TransportPart, place: Value) -> None:
    where = _at(place, "congestion")
    name = part.congestion or ""
    known = {**algorithms.ALGORITHMS, **plugins.CONGESTION_CONTROLS}
    other = "rc" if part.kind.source_routed else "mrc"
    try:
        algorithm = algorithms.find(known, name, part.kind.source_routed)
    except InvalidArgumentError as error:
        hint = f" Or, for {name}, write type: {other} beside it." if name in known else ""
        raise where.error(f"{error}{hint}") from None
    if algorithm.shared and part.window is not None:
        raise where.error(f"{name} makes its own window: leave window out, or take fixed")


def check_workload(workload: Workload, fabric: Fabric) -> None:
    """FabricError or ValueError when hosts do not exist or cannot do it."""
    if isinstance(workload, Ranks):
        _check_ranks(workload, fabric)
    elif isinstance(workload, Replayed):
        _check_replay(workload, fabric)
    elif isinstance(workload, RandomFlows):
        check_random_flows(workload, fabric)
    elif isinstance(workload, ListedFlows):
        check_listed_flows(workload, fabric)
    else:
        _check_flows(workload, fabric)


def check_memory(case: Case, fabric: Fabric, document: Value) -> None:
    """FileError when this process would need too much memory for what hosts send and receive."""
    members = document.items()
    place = members.get("workloads") or members["workload"]
    needed = sum(_memory(tenant, fabric) for tenant in case.tenants)
    if needed > MAX_MEMORY:
        most, shown = units.show_size(MAX_MEMORY), units.show_size(needed)
        raise place.error(
            f"what hosts send and receive takes {shown} of memory, but {most} is the most: make it smaller"
        )


def _memory(tenant: Tenant, fabric: Fabric) -> int:
    """Bytes of the buffers that a run needs: each flow has two; each rank of a collective, and what is compared."""
    workload = tenant.workload
    if isinstance(workload, Replayed):
        return memory_bytes(workload.source.schedule, message_slots(workload, tenant.transport))
    if isinstance(workload, Ranks):
        size = sum(workload.gradients) if isinstance(workload, Training) else workload.bytes
        return 5 * size * len(select_hosts(workload.hosts, fabric))
    if isinstance(workload, RandomFlows):
        return 2 * workload.message * len(select_hosts(workload.hosts, fabric))
    if isinstance(workload, ListedFlows):
        return 2 * workload.largest_write * workload.file.matrix.nodes
    if isinstance(workload, WriteBw):
        ways = 1 + workload.bidirectional
        return sum(2 * ways * (flow.message or workload.message) for flow in workload.pairs)
    if isinstance(workload, Incast):
        beside = sum(flow.message or workload.message for flow in workload.victim)
        return 2 * (workload.message * len(select_hosts(workload.sources, fabric)) + beside)
    return 2 * workload.message * len(select_hosts(workload.hosts, fabric))


def latest_start(workload: Workload) -> int:
    """When the last of its flows begins, ns."""
    if isinstance(workload, Ranks | Replayed | SizedFlows):
        return workload.start
    own = [flow.start or 0 for flow in _listed(workload)]
    return workload.start + max((0, *own, *workload.starts))


def _listed(workload: Writes) -> tuple[FlowPart, ...]:
    """Flows that a workload lists one by one."""
    if isinstance(workload, WriteBw):
        return workload.pairs
    return workload.victim if isinstance(workload, Incast) else ()


def _check_flows(workload: WriteBw | Permutation | Incast, fabric: Fabric) -> None:
    for flow in _listed(workload):
        split_pair(flow.pair, fabric)
        if flow.start is not None and workload.starts:
            raise ValueError(f"{flow.pair} has a start of its own, so starts cannot be there too")
    if isinstance(workload, WriteBw):
        count = len(workload.pairs)
    elif isinstance(workload, Incast):
        fabric.nic(workload.target)
        sources = select_hosts(workload.sources, fabric)
        if workload.target in sources:
            raise ValueError(f"{workload.target} cannot be target and source of the incast")
        count = len(sources) + len(workload.victim)
    else:
        count = len(several_hosts(workload.hosts, fabric))
        if workload.shift is not None and workload.shift % count == 0:
            raise ValueError(f"a shift of {workload.shift} among {count} hosts leads everyone to itself")
    if len(workload.starts) > count:
        flows = "pair" if isinstance(workload, WriteBw) else "flow"
        times = units.counted(len(workload.starts), "time")
        raise ValueError(f"starts has {times} for {units.counted(count, flows)}")


def _check_ranks(workload: Collective | Training, fabric: Fabric) -> None:
    hosts = several_hosts(workload.hosts, fabric)
    if workload.clusters > 1:
        _check_clusters(workload, len(hosts))
    if workload.channels > 1:
        _check_channels(workload, len(hosts))
    for straggler in workload.stragglers:
        for host in select_hosts(straggler.hosts, fabric):
            if host not in hosts:
                raise ValueError(f"{host} is a straggler, but takes no part: see hosts")
    if (workload.jitter or workload.stragglers) and not workload.compute:
        raise ValueError("jitter and stragglers apply to computing, which takes no time here: give compute")


def _check_channels(workload: Collective | Training, hosts: int) -> None:
    smallest = min(workload.gradients) if isinstance(workload, Training) else workload.bytes
    if smallest < (least := 4 * hosts * workload.channels):
        raise ValueError(
            f"{workload.channels} channels among {hosts} hosts need operations of at least {least} bytes, "
            f"not {smallest}: fewer channels or more bytes"
        )


def _check_replay(workload: Replayed, fabric: Fabric) -> None:
    hosts, ranks = select_hosts(workload.hosts, fabric), workload.source.schedule.ranks
    if len(hosts) < ranks:
        raise ValueError(f"{workload.source.path} has {ranks} ranks, but {len(hosts)} hosts take part: one a rank")


def message_slots(workload: Replayed, transport: TransportPart) -> int:
    """Messages that may be under way from one rank to another: one at least on each queue pair."""
    return max(workload.outstanding, transport.qps)


def _check_clusters(workload: Collective | Training, hosts: int) -> None:
    if workload.operation != "all_reduce":
        raise ValueError(f"clusters are for all_reduce, not for {workload.operation}: leave them out")
    if hosts % workload.clusters:
        raise ValueError(f"{hosts} hosts cannot be divided evenly among {workload.clusters} clusters")
    if workload.interleave:
        raise ValueError("interleave would mix the hosts of clusters: leave one of the two out")


def resolve(expectation: Expectation, cases: tuple[Case, ...], place: Value) -> Expectation:
    """The expectation with its values read; FileError when it does not fit its metric or the cases."""
    members = place.items()
    for name in ("of", "against"):
        selection = getattr(expectation, name)
        if selection is not None:
            check_selection(selection, expectation.metric, cases, members.get(name, place))
    published = expectation.published
    if published is not None and published.value is not None:
        published = _published(published, expectation.unit, members["published"])
    number = parse_value(expectation.value, expectation.unit, members["value"])
    return replace(expectation, number=number, published=published)


def check_reported(metric: ReportedMetric, cases: tuple[Case, ...], place: Value) -> None:
    """FileError when a metric to report does not fit one of the cases."""
    if metric.of.variant is not None:
        raise place.error("a reported metric is computed for every variant: leave out variant")
    for case in cases:
        check_selection(replace(metric.of, variant=case.name), metric.metric, cases, place)


def _published(published: Published, unit: str, place: Value) -> Published:
    assert published.value is not None
    return replace(published, number=parse_value(published.value, unit, place.items()["value"]))


def parse_value(text: str, unit: str, place: Value) -> float:
    """A value in the unit of its metric; FileError when it is none."""
    try:
        return float(_UNITS[unit].parse(text))
    except ValueError as error:
        raise place.error(str(error)) from None


def check_selection(selection: Selection, metric: str, cases: tuple[Case, ...], place: Value) -> None:
    """FileError when a selection does not fit its metric, or names what is not there."""
    names = [case.name for case in cases]
    if selection.variant is None and len(cases) > 1:
        raise place.error(f"of: {{variant: ...}} is missing; there are {', '.join(names)}")
    if selection.variant is not None and selection.variant not in names:
        raise place.error(f"there is no variant {selection.variant}; {suggest(selection.variant, names)}")
    case = next(case for case in cases if selection.variant in (None, case.name))
    if selection.flows is not None:
        readable(selection.flows, place)
    start, end = selection.start or 0, case.duration if selection.end is None else selection.end
    if start >= end:
        raise place.error("the window ends before it begins")
    if end > case.duration:
        raise place.error(f"the window ends after the run, which lasts {units.show_time(case.duration)}")
    if end - start < case.measure.bin:
        raise place.error("the window is shorter than a time bin")
    if metric == "link_throughput" and selection.link is None:
        raise place.error("link is missing: link_throughput is of a link")
    for name in ("flows", "start", "end"):
        if metric in OF_WHOLE_RUN and getattr(selection, name) is not None:
            raise place.error(f"{metric} is of the whole run, with its warm-up: leave {name} out")
    if selection.sizes is not None and metric not in OF_FLOW_SIZES:
        raise place.error(f"sizes belongs to {' and '.join(OF_FLOW_SIZES)}")
    if selection.link is not None and metric not in OF_LINKS:
        raise place.error(f"link belongs to {', '.join(OF_LINKS)}")
    if selection.over_links is not None and metric not in OF_QUEUES:
        raise place.error(f"over_links belongs to {', '.join(OF_QUEUES)}")
    if metric in OF_QUEUES and not case.measure.queues:
        raise place.error(f"{metric} is not measured: write measure: {{queues: yes}}")
    if metric in ("pause_time", "pauses") and not case.fabric.queues.pfc:
        raise place.error(f"{metric} is of priority flow control, which is off: write fabric: {{pfc: yes}}")
    if selection.statistic is not None and metric not in _STATISTICAL:
        raise place.error(f"{metric} has no statistic: it is a single value ({METRICS[metric]})")
    if selection.link is not None:
        try:
            build_fabric(case.fabric).find_links(selection.link_directions[0])
        except FabricError as error:
            raise place.error(str(error)) from None
    _check_tenant_selection(selection, metric, case, place)
    if metric in OF_FLOW_SIZES:
        check_sized_flows(metric, [one for one in case.tenants if selection.tenant in (None, one.name)], place)
    if selection.flows is not None:
        _check_flow_pattern(selection.flows, selection.tenant, case, place)


def readable(pattern: str, place: Value) -> None:
    """FileError for a pattern that nobody can read, also where only the run knows what it is about."""
    try:
        check_pattern(pattern)
    except FabricError as error:
        raise place.error(str(error)) from None


def _check_flow_pattern(pattern: str, tenant: str | None, case: Case, place: Value) -> None:
    fabric = build_fabric(case.fabric)
    names: list[str] = []
    hosts: list[str] = []  # of tenants of which only the run knows who writes to whom
    all_known = True
    for one in case.tenants:
        if tenant in (None, one.name):
            flows = list(_flow_names(one.workload, fabric))
            if not flows:
                all_known = False
                if isinstance(one.workload, ListedFlows):
                    flows = _listed_names(one.workload, fabric)
                elif not isinstance(one.workload, WriteBw | Incast):
                    hosts += _with_tenant(one, select_hosts(one.workload.hosts, fabric))
            names += _with_tenant(one, flows)
    try:
        found = _select_flows(names, hosts, pattern) if hosts and is_pattern(pattern) else select(names, pattern)
    except FabricError as error:
        raise place.error(str(error)) from None
    if not found and all_known:
        hint = did_you_mean(pattern, names, most=1, cutoff=0.6) or f"there are {len(names)}, as {names[0]}"
        raise place.error(f"no flow is called {pattern}; {hint}")


def _with_tenant(tenant: Tenant, names: list[str]) -> list[str]:
    """Names as they are and, of a tenant that has a name, with that in front."""
    return [*names, *(f"{tenant.name}/{name}" for name in names if tenant.name)]


def _listed_names(workload: ListedFlows, fabric: Fabric) -> list[str]:
    names = list(fabric.nic_names)
    return [f"{names[flow.source]}>{names[flow.destination]}" for flow in workload.file.matrix.flows]


def _select_flows(names: list[str], hosts: list[str], pattern: str) -> list[str]:
    """Select sources of the flows `names`, or hosts, and then destinations: all pairs of hosts are too many to list."""
    source, arrow, destination = pattern.partition(">")
    if not arrow and "[" in pattern:
        raise FabricError(f"{pattern!r} is not clear: write who writes to whom, as in h[1-4]>*")
    sources, destinations = [*hosts], [*hosts]
    for name in names:
        near, _, far = name.partition(">")
        sources.append(near)
        destinations.append(far)
    return select(sources, source) + select(destinations, destination)


def _check_tenant_selection(selection: Selection, metric: str, case: Case, place: Value) -> None:
    names = case.tenant_names
    if selection.tenant is not None and selection.tenant not in names:
        raise place.error(
            f"there is no tenant {selection.tenant}; {suggest(selection.tenant, names)}"
            if names
            else f"there is no tenant {selection.tenant}: the file has one workload, without a name"
        )
    if selection.tenant is not None and metric in OF_ALL_TENANTS:
        raise place.error(f"{metric} is of links, and no link says whose a packet is: leave tenant out")
    if metric in ("algbw", "busbw"):
        tenant = case.tenant(selection.tenant)
        if tenant is None:
            raise place.error(f"tenant is missing: whose {metric}? There are {', '.join(names)}")
        if not isinstance(tenant.workload, Collective):
            raise place.error(f"{metric} is a metric of collectives: use throughput")


__all__ = ["FileError", "build_fabric", "check_case", "check_workload", "resolve"]
