"""Flows of writes between pairs of hosts, each on its own queue pairs, as ib_write_bw makes them.

Two hosts that write to each other (bidirectional) share queue pairs, one direction each way. Every queue pair keeps
`outstanding` writes under way; all writes of a flow carry the same bytes to the same place, which are compared at the
end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mrc_host.values import CompletionOpcode, CompletionStatus, QpAttributes, QpType
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from mrc_lab.experiments.files.checks import select_hosts, split_pair
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.files.workloads import Collective, Incast, Permutation, Training, WriteBw
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.coordinated_paths import Coordination
from mrc_lab.experiments.running.recording import FlowInfo, MessageRecord
from simulation.seeds import generator
from topologies.fabric import Fabric


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A flow to be: hosts, whether the second writes back, and when it begins (ns of the file)."""

    source: str
    destination: str
    both_ways: bool = False
    start: int = 0


def plan(case: Case, fabric: Fabric, seed: int) -> list[FlowPlan]:
    """The flows of a workload; those of a random permutation derive from `seed`."""
    load = case.workload
    if isinstance(load, WriteBw):
        return [
            FlowPlan(*split_pair(pair, fabric), load.bidirectional, start)
            for pair, start in zip(load.pairs, (*load.starts, *[0] * len(load.pairs)), strict=False)
        ]
    if isinstance(load, Incast):
        flows = [FlowPlan(source, load.target) for source in select_hosts(load.sources, fabric)]
        return flows + [FlowPlan(*split_pair(pair, fabric)) for pair in load.victim]
    if isinstance(load, Permutation):
        hosts = select_hosts(load.hosts, fabric)
        return [FlowPlan(a, b) for a, b in zip(hosts, _permuted(hosts, load.shift, seed), strict=True)]
    assert not isinstance(load, Collective | Training), "collectives have their own module"
    raise TypeError(f"no flows for {load!r}")


def _permuted(hosts: Sequence[str], shift: int | None, seed: int) -> list[str]:
    if shift is not None:
        shift %= len(hosts)
        return [*hosts[shift:], *hosts[:shift]]
    chance = generator(seed, "permutation")
    while True:  # a third of all permutations move everybody
        others = chance.sample(hosts, len(hosts))
        if all(a != b for a, b in zip(hosts, others, strict=True)):
            return others


class TrafficFlow:
    """One direction between two hosts: what it writes, from where to where, and what it has done so far."""

    def __init__(self, number: int, info: FlowInfo, source: MemoryRegion, target: MemoryRegion) -> None:
        self.number = number
        self.info = info
        self.source, self.target = source, target
        self.pairs: list[tuple[QueuePair, QueuePair]] = []  # near end, far end
        self.queues: list[CompletionQueue] = []
        self.messages: list[MessageRecord] = []
        self.failed: list[str] = []
        self.start = 0  # ns of the file
        self.left: int | None = None  # messages still to post, None: until stopped

    def sample(self) -> list[int]:
        """Counters as in FLOW_COUNTERS, over all queue pairs."""
        near = [pair.counters() for pair, _ in self.pairs]
        far = [pair.counters() for _, pair in self.pairs]
        return [
            sum(c.data_received for c in far),
            sum(c.data_sent for c in near),
            sum(c.retransmitted for c in near),
            sum(c.spurious_retransmitted for c in near),
            sum(c.lost for c in near),
            sum(c.timeouts for c in near),
        ]

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that differ at the destination, and bytes compared; nothing is compared before a write is through."""
        if not any(message.ok for message in self.messages):
            return 0, 0
        size = len(self.source)
        if self.source.buffer == self.target.buffer:
            return 0, size
        return sum(a != b for a, b in zip(self.source.buffer, self.target.buffer, strict=True)), size


class FlowLoad:
    """All flows of a case. `begin` starts them, `end` stops them and waits for what is under way."""

    def __init__(self, case: Case, backend: Backend, seed: int, open_context: Callable[[str], Context]) -> None:
        load = case.workload
        assert not isinstance(load, Collective | Training)
        self._backend = backend
        self._message, self._outstanding, self._total = load.message, load.outstanding, load.total
        self._attributes = queue_pair_attributes(case, backend)
        self._kind = QpType(case.transport.type)
        self._qps = case.transport.qps
        self._coordination: Coordination | None = None
        if case.transport.ev_choice == "coordinated":
            self._coordination = Coordination(backend.fabric, case.transport.paths or 1)
        self._seed = seed
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.flows: list[TrafficFlow] = []
        for planned in plan(case, backend.fabric, seed):
            self._connect(planned, open_context(planned.source), open_context(planned.destination))

    def _connect(self, planned: FlowPlan, near: Context, far: Context) -> None:
        ends = ((near, planned.source, planned.destination), (far, planned.destination, planned.source))
        domains = [context.alloc_pd() for context, *_ in ends]
        flows: list[TrafficFlow] = []
        for way in range(1 + planned.both_ways):
            _, source, destination = ends[way]
            regions = domains[way].alloc_mr(self._message), domains[1 - way].alloc_mr(self._message)
            number = len(self.flows)
            regions[0].buffer[:] = generator(self._seed, "bytes", number).randbytes(self._message)
            packets = -(-self._message // self._attributes.path_mtu)
            info = FlowInfo(f"{source}>{destination}", source, destination, self._qps, self._message / packets)
            flow = TrafficFlow(number, info, *regions)
            flow.start = planned.start
            if self._total is not None:
                flow.left = max(1, self._total // self._message)
            self.flows.append(flow)
            flows.append(flow)
        for _ in range(self._qps):
            queues = [context.create_cq(2 * self._outstanding + 8) for context, *_ in ends]
            pairs = [
                domain.create_qp(queue, queue, self._kind, self._end_attributes(*end, sends=way <= planned.both_ways))
                for way, (end, domain, queue) in enumerate(zip(ends, domains, queues, strict=True))
            ]
            pairs[0].connect(pairs[1].address)
            pairs[1].connect(pairs[0].address)
            for way, flow in enumerate(flows):
                flow.pairs.append((pairs[way], pairs[1 - way]))
                flow.queues.append(queues[way])

    def _end_attributes(self, context: Context, host: str, peer: str, *, sends: bool) -> QpAttributes:
        if self._coordination is None or not sends:
            return self._attributes
        return replace(self._attributes, ev_profile=self._coordination.profile(context, host, peer))

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""
        return [(flow.number, flow.info.source, near) for flow in self.flows for near, _ in flow.pairs]

    def infos(self) -> list[FlowInfo]:
        """The flows."""
        return [flow.info for flow in self.flows]

    def sample(self) -> list[list[int]]:
        """Counters of every flow."""
        return [flow.sample() for flow in self.flows]

    async def begin(self) -> None:
        """Start writing on every queue pair; returns when all have written their total, else never."""
        for flow in self.flows:
            for (near, _), queue in zip(flow.pairs, flow.queues, strict=True):
                self._tasks.append(asyncio.ensure_future(self._write(flow, near, queue)))
        await asyncio.gather(*self._tasks)

    async def end(self, timeout_s: float) -> None:
        """Post nothing more, and wait `timeout_s` seconds at most for what is under way."""
        self._stopping = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _write(self, flow: TrafficFlow, pair: QueuePair, queue: CompletionQueue) -> None:
        posted: dict[int, int] = {}  # write -> when
        number = 0
        remote = flow.target.remote
        if flow.start:
            await asyncio.sleep(flow.start * self._backend.time_scale / 1e9)
        while True:
            while len(posted) < self._outstanding and not self._stopping and flow.left != 0:
                if flow.left is not None:
                    flow.left -= 1
                posted[number] = self._backend.now()
                pair.write(flow.source, remote, wr_id=number)
                number += 1
            if not posted:
                return
            completion = await queue.next()
            if completion.opcode is not CompletionOpcode.WRITE:
                continue
            ok = completion.status is CompletionStatus.SUCCESS
            began = posted.pop(completion.wr_id)
            flow.messages.append(MessageRecord(flow.number, began, self._backend.now(), self._message, ok))
            if not ok:
                flow.failed.append(f"{flow.info.name}: {completion.status.value}: {completion.reason}")
                return


def queue_pair_attributes(case: Case, backend: Backend) -> QpAttributes:
    """The world's timers, then what the file says."""
    return backend.attributes(attributes_given(case.transport))
