"""Flows of a size as a load: each begins at its time, is written in messages, and ends when the last is acknowledged.

A listener of each host's completion queue finds the flow of every completion and posts what comes next, so flows need
no coroutine of their own; one coroutine begins them in order, and the listener those of a list that wait for others. In
simulation the queue pairs of a flow are made when it begins, which takes no virtual time. Where verbs take time, they
are made before the run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from mrc_host.errors import MrcError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.model import Case, Tenant
from mrc_lab.experiments.files.workloads import ListedFlows, SizedFlows
from mrc_lab.experiments.running.arrivals import Arrival, arrivals
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.flow_connections import FlowConnections, Pairs
from mrc_lab.experiments.running.recording import FlowInfo, FlowRecord, MessageRecord, OperationRecord
from mrc_lab.workloads.htsim.triggers import RunningTriggers
from topologies.ideal_completion import IdealCompletion, PacketSizes

_MOST_ERRORS = 20  # of flows, each with a sentence of its own


@dataclass(slots=True)
class _Flow:
    """A flow: what it is to do, and has done. `pair` is the number of its pair of hosts."""

    number: int
    arrival: Arrival
    pair: int
    left: int  # bytes not posted
    pairs: Pairs = ()
    under_way: int = 0  # writes
    posted: int = 0
    began: int | None = None
    ended: int | None = None
    retransmitted: int | None = None
    failed: bool = False
    announced: int = 0  # queue pairs whose last write is to be noticed where it arrives, and has not been


@dataclass(frozen=True, slots=True)
class _Write:
    """A write under way."""

    flow: _Flow
    began: int
    size: int


@dataclass(slots=True)
class _Progress:
    """How far all flows are: those begun and over, and the writes under way by their work requests."""

    over: int = 0
    writes: dict[int, _Write] = field(default_factory=dict)
    next_write: int = 0
    failures: int = 0


class SizedFlowLoad:
    """All flows of a tenant. `begin` starts them at their times, `end` stops."""

    def __init__(
        self, tenant: Tenant, backend: Backend, seed: int, open_context: Callable[[str], Context], case: Case
    ) -> None:
        load = tenant.workload
        assert isinstance(load, SizedFlows)
        self._load, self._backend = load, backend
        fabric = build_fabric(case.fabric)  # the file's: of it are rates and times of arrivals
        planned = arrivals(load, fabric, seed, case.duration)
        if not planned:
            raise ExperimentError(
                "no flow begins in the run: give the workload more load, or the run more time",
                "Another seed may have one; a run with few flows says little.",
            )
        order = {name: number for number, name in enumerate(fabric.nic_names)}
        ends = {(one.source, one.destination) for one in planned}
        self._between = sorted(ends, key=lambda pair: (order[pair[0]], order[pair[1]]))
        numbers = {pair: number for number, pair in enumerate(self._between)}
        self._flows = [
            _Flow(number, one, numbers[one.source, one.destination], one.size) for number, one in enumerate(planned)
        ]
        self._listed = load.file.matrix if isinstance(load, ListedFlows) else None
        self._triggers = None if self._listed is None else RunningTriggers(self._listed)
        self._qps = tenant.transport.qps
        message = min(load.message, max(one.size for one in planned))
        self._message = message
        self._connections = FlowConnections(tenant, backend, seed, open_context, message, self._between)
        packets = PacketSizes.of(tenant.transport.kind, self._connections.path_mtu, backend.fabric)
        self._ideal = IdealCompletion(backend.fabric, packets, backend.link_delay)
        self._ready: dict[int, Pairs] = {}  # made before the run: by flow or, if they are shared, by pair of hosts
        self._progress = _Progress()
        self._messages: list[MessageRecord] = []
        self._origin = 0  # of the run, by the backend's clock
        self._wake = asyncio.Event()
        self._task: asyncio.Future[None] | None = None
        self._lost: MrcError | None = None
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []

    async def prepare(self) -> None:
        """Make the queue pairs that are shared or, where verbs take time, all of them."""
        if self._load.connections == "shared":
            for number in range(len(self._between)):
                self._ready[number] = self._connections.connect(number)
                self._connections.use(number, self._ready[number])
        elif self._backend.verbs_take_time:
            for flow in self._flows:
                self._ready[flow.number] = self._connections.connect(flow.pair)

    def infos(self) -> list[FlowInfo]:
        """One for each pair of hosts: its flows are counted together in time bins."""
        mtu = self._connections.path_mtu
        size, packets = [0] * len(self._between), [0] * len(self._between)
        for flow in self._flows:
            size[flow.pair] += flow.arrival.size
            packets[flow.pair] += -(-flow.arrival.size // mtu)
        return [
            FlowInfo(f"{source}>{destination}", source, destination, self._qps, size[number] / packets[number])
            for number, (source, destination) in enumerate(self._between)
        ]

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: number of its pair of hosts, host, queue pair."""
        waiting = [] if self._load.connections == "shared" else list(self._ready.items())
        found = [
            (self._flows[number].pair, self._flows[number].arrival.source, near)
            for number, pairs in waiting
            for near, _ in pairs
        ]
        return [*self._connections.queue_pairs(), *found]

    def sample(self) -> list[list[int]]:
        """Counters of every pair of hosts."""
        return self._connections.counters()

    async def begin(self) -> None:
        """Begin every flow at its time; returns when all are over."""
        self._task = asyncio.ensure_future(self._run())
        await self._task

    async def _run(self) -> None:
        backend = self._backend
        for end in self._connections.ends.values():
            end.queue.listen(partial(self._completions, end.queue))
        self._origin = backend.now() - round(self._load.start * backend.time_scale)
        for begin, _, flow in sorted(
            (flow.arrival.start, flow.number, flow) for flow in self._flows if flow.arrival.start is not None
        ):
            wait = self._origin + round(begin * backend.time_scale) - backend.now()
            if wait > 0:
                await asyncio.sleep(wait / 1e9)
            self._connections.close_retired()
            self._begin_flow(flow)
        while self._progress.over < len(self._flows) and self._lost is None:
            self._wake.clear()
            await self._wake.wait()
        if self._lost is not None:
            raise self._lost

    def _began(self, flow: _Flow) -> int:
        """When a flow began or is to begin, by the backend's clock; one that still waits for others, now."""
        if flow.began is not None or flow.arrival.start is None:
            return self._backend.now() if flow.began is None else flow.began
        return self._origin + round(flow.arrival.start * self._backend.time_scale)

    def _begin_flow(self, flow: _Flow) -> None:
        shared = self._load.connections == "shared"
        try:
            if shared:
                flow.pairs = self._ready[flow.pair]
            else:
                ready = self._ready.pop(flow.number, None)
                flow.pairs = self._connections.connect(flow.pair) if ready is None else ready
                self._connections.use(flow.pair, flow.pairs)
            flow.began = self._backend.now()
            if self._trigger_at(flow, "recv_done_trigger") is not None:
                flow.announced = min(len(flow.pairs), self._writes_of(flow))
            self._post(flow)
        except MrcError as error:
            self._fail(flow, str(error))

    def _post(self, flow: _Flow) -> None:
        """Post writes of a flow until as many are under way as may be, or nothing is left."""
        most, progress = self._load.outstanding * len(flow.pairs), self._progress
        while flow.left and flow.under_way < most:
            size = min(flow.left, self._message)
            near, _ = flow.pairs[flow.posted % len(flow.pairs)]
            ends = self._connections.ends
            source, target = ends[flow.arrival.source].source, ends[flow.arrival.destination].target
            last = flow.posted + len(flow.pairs) >= self._writes_of(flow)  # on its queue pair
            imm = flow.number if flow.announced and last else None
            near.write(source, target.remote, length=size, wr_id=progress.next_write, imm=imm)
            progress.writes[progress.next_write] = _Write(flow, self._backend.now(), size)
            progress.next_write += 1
            flow.left -= size
            flow.under_way += 1
            flow.posted += 1

    def _completions(self, queue: CompletionQueue) -> None:
        """Take all completions of a host."""
        try:
            while entries := queue.poll(64):
                for completion in entries:
                    self._complete(completion)
        except MrcError as error:
            self._lost = error
        self._wake.set()

    def _writes_of(self, flow: _Flow) -> int:
        """How many writes a flow is."""
        return -(-flow.arrival.size // self._message)

    def _trigger_at(self, flow: _Flow, end: str) -> int | None:
        """The trigger that a flow activates when it is done at one `end`."""
        return None if self._listed is None else getattr(self._listed.flows[flow.number], end)

    def _activate(self, flow: _Flow, end: str) -> None:
        """Begin what waits for this end of a flow."""
        trigger = self._trigger_at(flow, end)
        if self._triggers is not None and trigger is not None:
            for number in self._triggers.activate(trigger):
                self._begin_flow(self._flows[number])

    def _arrived(self, completion: Completion) -> None:
        """The last write on a queue pair has arrived."""
        flow = self._flows[completion.imm or 0]
        flow.announced -= 1
        if not flow.announced:
            self._activate(flow, "recv_done_trigger")

    def _complete(self, completion: Completion) -> None:
        if completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            if completion.status is CompletionStatus.SUCCESS:
                self._arrived(completion)
            return
        write = self._progress.writes.pop(completion.wr_id, None)
        if write is None:
            return
        flow, now, ok = write.flow, self._backend.now(), completion.status is CompletionStatus.SUCCESS
        flow.under_way -= 1
        self._messages.append(MessageRecord(flow.pair, write.began, now, write.size, ok))
        if flow.failed:
            return
        if not ok:
            self._fail(flow, f"{completion.status.value}: {completion.reason}")
            return
        self._connections.note_arrival(flow.pair, write.size)
        if flow.left:
            try:
                self._post(flow)
            except MrcError as error:
                self._fail(flow, str(error))
        elif not flow.under_way:
            flow.ended = now
            self._over(flow)
            self._activate(flow, "send_done_trigger")

    def _fail(self, flow: _Flow, reason: str) -> None:
        flow.failed = True
        self._progress.failures += 1
        if self._progress.failures <= _MOST_ERRORS:
            arrival = flow.arrival
            self.errors.append(f"flow {flow.number} ({arrival.source}>{arrival.destination}): {reason}")
        self._over(flow)

    def _over(self, flow: _Flow) -> None:
        self._progress.over += 1
        self._wake.set()
        if self._load.connections == "own" and flow.pairs:
            with contextlib.suppress(MrcError):  # of an agent that has exited
                flow.retransmitted = self._connections.retire(flow.pair, flow.pairs)

    def messages(self) -> list[MessageRecord]:
        """Writes that completed."""
        return self._messages

    def flow_records(self) -> list[FlowRecord]:
        """Every flow, also those that are not over, with the backend's times."""
        records = []
        for flow in self._flows:
            one = flow.arrival
            began = self._began(flow)
            ideal = self._ideal.of(one.source, one.destination, one.size)
            records.append(FlowRecord(flow.pair, flow.number, one.size, began, flow.ended, ideal, flow.retransmitted))
        return records

    async def end(self, timeout_s: float) -> None:
        """Begin and post nothing more. What is under way brings the bytes that are there already: it may stay."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        for end in self._connections.ends.values():
            end.queue.unlisten()
        if late := sum(flow.began is None and flow.arrival.start is None for flow in self._flows):
            self.errors.append(f"{late} flows had not begun when the run ended: those before them had not ended")
        more = self._progress.failures - _MOST_ERRORS
        if more > 0:
            self.errors.append(f"and {more} more flows failed")
        if not self.errors and not any(message.ok for message in self._messages):
            self.errors.append("no write completed before the run ended: there is nothing to judge")

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that differ at the destinations, and bytes compared."""
        return self._connections.wrong_bytes()
