"""Flows of writes between pairs of hosts, each on its own queue pairs, as ib_write_bw makes them.

Two hosts that write to each other (bidirectional) share queue pairs, one direction each way. Every queue pair keeps
`outstanding` writes under way; all writes of a flow carry the same bytes to the same place, which are compared at the
end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from mrc_common.random_bytes import fill
from mrc_common.same_bytes import same_bytes
from mrc_host.errors import MrcError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import CompletionOpcode, CompletionStatus, EvMode, EvProfile, QpAttributes
from mrc_lab.experiments.files.checks import flow_name, listed_flows
from mrc_lab.experiments.files.host_names import select_hosts, split_pair
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.files.workloads import FlowPart, Incast, Permutation, WriteBw
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.coordinated_paths import Coordination
from mrc_lab.experiments.running.derangement import derangement
from mrc_lab.experiments.running.recording import FlowInfo, FlowRecord, MessageRecord, OperationRecord, flow_counters
from simulation.seeds import generator
from topologies.ecmp_choice import source_ports
from topologies.fabric import Fabric
from topologies.ideal_completion import IdealCompletion, PacketSizes


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A flow to be: hosts, writes of how many bytes, how many under way and on how many queue pairs.

    `both_ways`: the second host writes back. `start` counts from that of the workload (ns of the file); `total` is how
    many bytes there are in all (None: as many as the run has time for). `uplinks`: the T1s that its queue pairs shall
    take in turn (rc; empty: by chance).
    """

    source: str
    destination: str
    message: int
    outstanding: int
    qps: int
    total: int | None = None
    start: int = 0
    both_ways: bool = False
    uplinks: tuple[int, ...] = ()

    @property
    def messages(self) -> int | None:
        """How many writes there are in all; whole ones, at least one."""
        return None if self.total is None else max(1, self.total // self.message)


def plan(tenant: Tenant, fabric: Fabric, seed: int) -> list[FlowPlan]:
    """The flows of a workload; those of a random permutation derive from `seed`."""
    load = tenant.workload
    assert isinstance(load, WriteBw | Permutation | Incast), "collectives have their own module"
    flows = [
        FlowPlan(
            *split_pair(flow.pair, fabric),
            message=flow.message or load.message,
            outstanding=flow.outstanding or load.outstanding,
            qps=flow.qps or tenant.transport.qps,
            total=flow.total or load.total,
            start=flow.start or 0,
            both_ways=isinstance(load, WriteBw) and load.bidirectional,
        )
        for flow in _flows(load, fabric, seed)
    ]
    starts, uplinks = dict(enumerate(load.starts)), dict(enumerate(load.uplinks))
    return [
        replace(flow, start=starts.get(number, flow.start), uplinks=uplinks.get(number, ()))
        for number, flow in enumerate(flows)
    ]


def _flows(load: WriteBw | Permutation | Incast, fabric: Fabric, seed: int) -> list[FlowPart]:
    """The flows, in the order of `starts`."""
    if not isinstance(load, Permutation) or load.shift is not None:
        return listed_flows(load, fabric)
    hosts = select_hosts(load.hosts, fabric)
    return [FlowPart(f"{a}>{b}") for a, b in zip(hosts, derangement(hosts, seed), strict=True)]


def source_ports_of(planned: FlowPlan, fabric: Fabric) -> list[int]:
    """A UDP source port for each queue pair of a flow, all different, that leads it to its uplink; 0: by chance."""
    if not planned.uplinks:
        return [0] * planned.qps
    source, target = fabric.nic(planned.source), fabric.nic(planned.destination)
    known = {uplink: source_ports(fabric, source, target, 0, uplink) for uplink in planned.uplinks}
    return [next(known[planned.uplinks[number % len(planned.uplinks)]]) for number in range(planned.qps)]


class TrafficFlow:
    """One direction between two hosts: what it writes, from where to where, and what it has done so far."""

    def __init__(
        self,
        number: int,
        info: FlowInfo,
        planned: FlowPlan,
        source: MemoryRegion,
        target: MemoryRegion,
        path_mtu: int,
    ) -> None:
        self.number = number
        self.info = info
        self.planned = planned
        self.source, self.target = source, target
        self.pairs: list[tuple[QueuePair, QueuePair]] = []  # near end, far end
        self.queues: list[CompletionQueue] = []
        self.messages: list[MessageRecord] = []
        self.failed: list[str] = []
        self.path_mtu = path_mtu
        self.began: int | None = None  # when its first write was posted
        self.left = planned.messages  # still to post, None: until stopped
        self.total = self.left and self.left * planned.message  # bytes of all writes

    def record(self, ideal: IdealCompletion) -> FlowRecord:
        """What came of it; it has a total and has begun."""
        assert self.total is not None
        assert self.began is not None
        done = [message.time for message in self.messages if message.ok]
        is_over = len(done) * self.planned.message == self.total
        retransmitted = None
        with contextlib.suppress(MrcError):  # of an agent that has exited
            retransmitted = sum(near.counters().retransmitted for near, _ in self.pairs)
        return FlowRecord(
            self.number,
            self.number,
            self.total,
            self.began,
            max(done) if is_over else None,
            ideal.of(self.info.source, self.info.destination, self.total),
            retransmitted,
        )

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that differ at the destination, and bytes compared; nothing is compared before a write is through."""
        if not any(message.ok for message in self.messages):
            return 0, 0
        size = len(self.source)
        if same_bytes(self.source.buffer, self.target.buffer):
            return 0, size
        return sum(a != b for a, b in zip(self.source.buffer, self.target.buffer, strict=True)), size


class FlowLoad:
    """All flows of a tenant. `begin` starts them, `end` stops them and waits for what is under way."""

    def __init__(self, tenant: Tenant, backend: Backend, seed: int, open_context: Callable[[str], Context]) -> None:
        self._backend = backend
        self._given = attributes_given(tenant)
        self._kind = tenant.transport.kind
        self._evs = tenant.transport.evs
        self._coordination: Coordination | None = None
        if tenant.transport.ev_choice == "coordinated":
            self._coordination = Coordination(backend.fabric, tenant.transport.paths or 1)
        self._seed = seed
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._names: Counter[str] = Counter()
        self.flows: list[TrafficFlow] = []
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []
        for planned in plan(tenant, backend.fabric, seed):
            self._connect(planned, open_context(planned.source), open_context(planned.destination))

    async def prepare(self) -> None:
        """Everything is connected already."""

    def _connect(self, planned: FlowPlan, near: Context, far: Context) -> None:
        ends = ((near, planned.source, planned.destination), (far, planned.destination, planned.source))
        attributes = self._backend.attributes(self._given, (planned.source, planned.destination))
        domains = [context.alloc_pd() for context, *_ in ends]
        flows: list[TrafficFlow] = []
        for way in range(1 + planned.both_ways):
            _, source, destination = ends[way]
            message = planned.message
            regions = domains[way].alloc_mr(message), domains[1 - way].alloc_mr(message)
            number = len(self.flows)
            fill(regions[0].buffer, generator(self._seed, "bytes", number))
            packets = -(-message // attributes.path_mtu)
            info = FlowInfo(
                flow_name(source, destination, self._names), source, destination, planned.qps, message / packets
            )
            flow = TrafficFlow(number, info, planned, *regions, attributes.path_mtu)
            self.flows.append(flow)
            flows.append(flow)
        sports = source_ports_of(planned, self._backend.fabric)
        for sport in sports:
            queues = [context.create_cq(2 * planned.outstanding + 8) for context, *_ in ends]
            pairs = [
                domain.create_qp(
                    queue,
                    queue,
                    self._kind,
                    replace(
                        self._end_attributes(attributes, *end, sends=way <= planned.both_ways),
                        udp_sport=0 if way else sport,  # what the far end sends is not placed
                    ),
                )
                for way, (end, domain, queue) in enumerate(zip(ends, domains, queues, strict=True))
            ]
            pairs[0].connect(pairs[1].address)
            pairs[1].connect(pairs[0].address)
            for way, flow in enumerate(flows):
                flow.pairs.append((pairs[way], pairs[1 - way]))
                flow.queues.append(queues[way])

    def _end_attributes(
        self, attributes: QpAttributes, context: Context, host: str, peer: str, *, sends: bool
    ) -> QpAttributes:
        if self._coordination is None or not sends:
            return limit_evs(attributes, self._evs, context)
        return replace(attributes, ev_profile=self._coordination.profile(context, host, peer))

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""
        return [(flow.number, flow.info.source, near) for flow in self.flows for near, _ in flow.pairs]

    def flow_records(self) -> list[FlowRecord]:
        """The flows that have a total and have begun."""
        sized = [flow for flow in self.flows if flow.total and flow.began is not None]
        fabric = self._backend.fabric
        ideal: dict[int, IdealCompletion] = {}
        for mtu in {flow.path_mtu for flow in sized}:
            ideal[mtu] = IdealCompletion(fabric, PacketSizes.of(self._kind, mtu, fabric), self._backend.link_delay)
        return [flow.record(ideal[flow.path_mtu]) for flow in sized]

    def infos(self) -> list[FlowInfo]:
        """The flows."""
        return [flow.info for flow in self.flows]

    def sample(self) -> list[list[int]]:
        """Counters of every flow."""
        return [flow_counters(flow.pairs) for flow in self.flows]

    async def begin(self) -> None:
        """Start writing on every queue pair; returns when all have written their total, else never."""
        for flow in self.flows:
            for (near, _), queue in zip(flow.pairs, flow.queues, strict=True):
                self._tasks.append(asyncio.ensure_future(self._write(flow, near, queue)))
        await asyncio.gather(*self._tasks)

    def messages(self) -> list[MessageRecord]:
        """Writes that completed, by flow."""
        return [message for flow in self.flows for message in flow.messages]

    async def end(self, timeout_s: float) -> None:
        """Post nothing more, and wait `timeout_s` seconds at most for what is under way."""
        self._stopping = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.errors += [error for flow in self.flows for error in flow.failed]
        if not self.errors and not any(message.ok for message in self.messages()):
            self.errors.append("no write completed before the run ended: there is nothing to judge")

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that differ at the destinations, and bytes compared."""
        found = [flow.wrong_bytes() for flow in self.flows]
        return sum(wrong for wrong, _ in found), sum(checked for _, checked in found)

    async def _write(self, flow: TrafficFlow, pair: QueuePair, queue: CompletionQueue) -> None:
        posted: dict[int, int] = {}  # write -> when
        number = 0
        remote = flow.target.remote
        planned = flow.planned
        if planned.start:
            await asyncio.sleep(planned.start * self._backend.time_scale / 1e9)
        while True:
            while len(posted) < planned.outstanding and not self._stopping and flow.left != 0:
                if flow.left is not None:
                    flow.left -= 1
                posted[number] = self._backend.now()
                if flow.began is None:
                    flow.began = posted[number]
                pair.write(flow.source, remote, wr_id=number)
                number += 1
            if not posted:
                return
            completion = await queue.next()
            if completion.opcode is not CompletionOpcode.WRITE:
                continue
            ok = completion.status is CompletionStatus.SUCCESS
            began = posted.pop(completion.wr_id)
            flow.messages.append(MessageRecord(flow.number, began, self._backend.now(), planned.message, ok))
            if not ok:
                flow.failed.append(f"{flow.info.name}: {completion.status.value}: {completion.reason}")
                return


def queue_pair_attributes(tenant: Tenant, backend: Backend) -> QpAttributes:
    """The world's timers, then what the file says."""
    return backend.attributes(attributes_given(tenant))


def limit_evs(attributes: QpAttributes, size: int | None, context: Context) -> QpAttributes:
    """Attributes of a queue pair on the NIC of `context` that has `size` entropy values in all (None: all there are).

    Queue pairs of one size share an EV profile.
    """
    if size is None:
        return attributes
    profile, controller = EvProfile(EvMode.AUTO, size=size), context.controller()
    there = next((number for number, known in controller.ev_profiles().items() if known == profile), None)
    return replace(attributes, ev_profile=controller.create_ev_profile(profile) if there is None else there)
