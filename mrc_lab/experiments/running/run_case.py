"""Run one case on a backend and record it.

In the backend's loop: a load (flows, collectives or a schedule) for each tenant, a sampler at the edges of the time
bins, one listener a host for path and port events, and the faults. The recording ends when the duration is over or all
loads are done; then what is under way may finish, unrecorded, so that bytes can be compared. Tenants share the NICs of
the hosts that they have in common, and what fails of one does not end the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mrc_host import plugins
from mrc_host.errors import MrcError
from mrc_host.verbs.context import Context
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import PathEvent, PathState, PortEvent, QpEvent, SlowPortEvent
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case, Tenant, joined
from mrc_lab.experiments.files.workloads import Ranks, Replayed, SizedFlows
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.case_warnings import case_warnings
from mrc_lab.experiments.running.collective_load import collective_load
from mrc_lab.experiments.running.flows import FlowLoad
from mrc_lab.experiments.running.recording import (
    FLOW_COUNTERS,
    FaultSpan,
    FlowInfo,
    FlowRecord,
    MessageRecord,
    OperationRecord,
    PathRecord,
    PortRecord,
    Recording,
    TaskRecord,
    TenantRecord,
)
from mrc_lab.experiments.running.replay_load import ReplayLoad
from mrc_lab.experiments.running.sized_flow_load import SizedFlowLoad
from mrc_lab.experiments.running.slow_ports import SlowPortWarnings
from mrc_lab.experiments.running.tenant_seed import tenant_seed
from mrc_lab.fabric import event_traces
from simulation.errors import SimulationError
from simulation.fault_limits import SIMULATION
from topologies.fabric import Fabric

_SECOND = 1_000_000_000
_WRONG_VALUES = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError)  # what these raise somewhere else


class Load(Protocol):
    """What the hosts do for one tenant. Flows count from 0 in each load, times are the backend's.

    `operations` and `errors` are complete after `end`.
    """

    operations: list[OperationRecord]
    errors: list[str]

    async def prepare(self) -> None:
        """Make and connect everything."""

    def infos(self) -> list[FlowInfo]:
        """Its flows."""

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""

    def sample(self) -> list[list[int]]:
        """Counters of every flow, as in FLOW_COUNTERS."""

    async def begin(self) -> None:
        """Do it; returns when all is done."""

    async def end(self, timeout_s: float) -> None:
        """Stop it."""

    def messages(self) -> list[MessageRecord]:
        """Writes that completed, where the load is made of writes."""

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that are wrong at the end, and bytes compared."""


@dataclass(slots=True)
class _Running:
    """One tenant of the run. `first` is the number of its first flow among those of all tenants."""

    number: int
    tenant: Tenant
    load: Load
    first: int = 0
    ended: int | None = None
    bad_paths: int = 0
    errors: list[str] = field(default_factory=list)

    def error(self, text: str) -> None:
        """Note what went wrong."""
        self.errors.append(f"{self.tenant.name}: {text}" if self.tenant.name else text)


def run_case(
    case: Case,
    backend: Backend,
    seed: int,
    trace: Path | None = None,
    captures: Sequence[str] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> Recording:
    """Run `case` and return what was recorded.

    `progress` gets the share of the recorded time that is over, from 0 to 1, at every edge of a bin.
    Event traces of all NICs and captures of the links `captures` go to the folder `trace`, if one is given.

    Raises ExperimentError, also with the traceback where a plugin raises, MrcError or SimulationError.
    """
    try:
        run = _CaseRun(case, backend, seed, progress)
        with contextlib.nullcontext() if trace is None else backend.traced(trace, captures):
            recording = backend.run(run.job())
        if trace is not None:
            event_traces.note_run(trace, run.begin)
        return recording
    except Exception as error:
        failed = None if isinstance(error, ExperimentError) else plugins.failure(error)
        if failed is None and plugins.in_use() and isinstance(error, _WRONG_VALUES):
            failed = plugins.suspected(error)
        if failed is None:
            raise
        raise ExperimentError(failed) from error


class _CaseRun:
    def __init__(self, case: Case, backend: Backend, seed: int, progress: Callable[[float], None]) -> None:
        self._progress = progress
        self._case, self._backend, self._seed = case, backend, seed
        self._contexts: dict[str, Context] = {}
        self._owner: dict[tuple[str, int], int] = {}  # host, QPN -> flow
        self.begin = 0  # of the run, by the backend's clock
        self._over = False  # the time that is recorded
        self._running: list[_Running] = []
        self._paths: list[PathRecord] = []
        self._ports: list[PortRecord] = []
        self._slow_ports = SlowPortWarnings(backend.fabric)
        self._errors: list[str] = []
        self._times: list[int] = []
        self._flow_rows: list[list[list[int]]] = []
        self._link_rows: list[Any] = []
        self._queue_rows: list[Any] = []
        self._signal_edges: list[int] = []
        self._signal_rows: list[Any] = []

    def _open(self, host: str) -> Context:
        if host not in self._contexts:
            self._contexts[host] = self._backend.open(host)
        return self._contexts[host]

    async def job(self) -> Recording:
        """Everything, inside the backend's loop."""
        case, backend = self._case, self._backend
        self._running = await self._prepare()
        self._owner = {(host, pair.qpn): flow for flow, host, pair in self._queue_pairs()}
        scale = backend.time_scale
        duration = round(case.duration * scale)
        self.begin = await backend.order_faults(case.faults)
        helpers = [asyncio.ensure_future(self._listen(name, context)) for name, context in self._contexts.items()]
        for helper in helpers:
            helper.add_done_callback(_retrieve)  # if this job is ended, nobody else does
        await asyncio.sleep(max(0, self.begin - backend.now()) / _SECOND)
        async with backend.traffic():
            await self._record(duration, round(case.measure.bin * scale))
        self._errors += await backend.check_faults(self.begin + self._times[-1])
        await asyncio.gather(*(running.load.end(duration / _SECOND) for running in self._running))
        for helper in helpers:
            if helper.done() and not helper.cancelled() and helper.exception() is not None:
                self._errors.append(str(helper.exception()))
            helper.cancel()
        if not case.measure.links:
            self._link_rows += [self._link_rows[0]] * (len(self._times) - 2) + [await backend.sample_channels()]
        return self._recording()

    async def _prepare(self) -> list[_Running]:
        """The loads of all tenants, connected."""
        found: list[_Running] = []
        flows = 0
        for number, tenant in enumerate(self._case.tenants):
            load: Load = _maker(tenant, self._case)(tenant, self._backend, tenant_seed(self._seed, tenant), self._open)
            await load.prepare()
            found.append(_Running(number, tenant, load, flows))
            flows += len(load.infos())
        return found

    def _queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""
        return [
            (running.first + flow, host, pair)
            for running in self._running
            for flow, host, pair in running.load.queue_pairs()
        ]

    async def _work(self, running: _Running) -> None:
        """What a tenant does, from its start to its end."""
        if running.tenant.workload.start:
            await asyncio.sleep(running.tenant.workload.start * self._backend.time_scale / _SECOND)
        try:
            await running.load.begin()
        except (MrcError, ExperimentError) as error:
            running.error(str(error))
        if not self._over:
            running.ended = self._backend.now() - self.begin

    async def _record(self, duration: int, width: int) -> None:
        """Sample at every edge until all loads are done or the duration is over."""
        work = asyncio.ensure_future(self._everybody())
        work.add_done_callback(_retrieve)
        await self._sample()
        number = 0
        while not work.done() and self._times[-1] < duration:
            number += 1
            edge = self.begin + min(number * width, duration)
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                await _until(work, (edge - self._backend.now()) / _SECOND)
            await self._sample()
            self._progress(self._times[-1] / duration)
        if self._case.measure.queues:
            await self._sample_signals(0)
        self._over = True
        error = work.exception() if work.done() else None
        if error is not None and (failed := plugins.failure(error)):
            raise ExperimentError(failed) from error
        if isinstance(error, (MrcError, ExperimentError, SimulationError, OSError)):
            self._errors.append(str(error))
        elif error is not None:
            raise error

    async def _everybody(self) -> None:
        await asyncio.gather(*(self._work(running) for running in self._running))

    async def _sample(self) -> None:
        self._times.append(self._backend.now() - self.begin)
        try:
            self._flow_rows.append([row for running in self._running for row in running.load.sample()])
        except MrcError as error:
            self._errors.append(str(error))
            self._flow_rows.append(self._flow_rows[-1])
        if self._case.measure.links or len(self._times) == 1:
            self._link_rows.append(await self._backend.sample_channels())
        if self._case.measure.queues:
            self._queue_rows.append(await self._backend.sample_queues())
            await self._sample_signals(self._backend.signal_period)

    async def _sample_signals(self, period: int) -> None:
        """Sample marks and trims for the edge that was just sampled, if the last time is as long ago."""
        edge = len(self._times) - 1
        if self._signal_edges and self._times[edge] - self._times[self._signal_edges[-1]] < period:
            return
        if edge not in self._signal_edges[-1:]:
            self._signal_edges.append(edge)
            self._signal_rows.append(await self._backend.sample_signals())

    def _flow_of(self, host: str, qpn: int) -> int | None:
        """The flow that has a queue pair; random flows make theirs only when they begin."""
        if (host, qpn) not in self._owner and any(isinstance(one.load, SizedFlowLoad) for one in self._running):
            self._owner.update({(name, pair.qpn): flow for flow, name, pair in self._queue_pairs()})
        return self._owner.get((host, qpn))

    async def _listen(self, host: str, context: Context) -> None:
        while True:
            event = await context.next_event()
            time = max(0, event.time - self.begin)  # of faults that were there before
            if isinstance(event, PathEvent):
                flow = self._flow_of(host, event.qpn)
                if flow is not None:
                    first = None if event.first_loss_time is None else event.first_loss_time - self.begin
                    states = event.old.value, event.new.value, event.reason.value
                    self._paths.append(PathRecord(time, flow, host, event.qpn, event.ev, event.plane, *states, first))
            elif isinstance(event, PortEvent):
                self._ports.append(PortRecord(time, host, event.port, event.up, event.local))
            elif isinstance(event, SlowPortEvent):
                self._slow_ports.note(host, event, time)
            elif isinstance(event, QpEvent):
                self._note_failure(host, event)

    def _note_failure(self, host: str, event: QpEvent) -> None:
        text = f"{host}: queue pair {event.qpn:#x}: {event.reason}"
        flow = self._flow_of(host, event.qpn)
        if flow is None:
            self._errors.append(text)
        else:
            next(running for running in reversed(self._running) if running.first <= flow).error(text)

    def _recording(self) -> Recording:
        backend, begin = self._backend, self.begin
        messages: list[MessageRecord] = []
        operations: list[OperationRecord] = []
        flows: list[FlowInfo] = []
        tasks: list[TaskRecord] = []
        sized: list[FlowRecord] = []
        for running in self._running:
            load, number = running.load, running.number
            if isinstance(load, ReplayLoad):
                tasks += [replace(task, tenant=number) for task in load.tasks(begin)]
            if isinstance(load, FlowLoad | SizedFlowLoad):
                sized += [self._flow_record(one, running.first) for one in load.flow_records()]
            flows += [replace(info, name=flow_label(running.tenant, info.name), tenant=number) for info in load.infos()]
            messages += [
                replace(one, flow=running.first + one.flow, began=one.began - begin, time=one.time - begin)
                for one in load.messages()
            ]
            operations += [
                replace(one, began=one.began - begin, ended=one.ended - begin, tenant=number) for one in load.operations
            ]
            for error in load.errors:
                running.error(error)
        tenants = tuple(map(self._tenant_record, self._running))
        nic = backend.fabric.nics[0].name
        shape = len(self._times), len(flows), len(FLOW_COUNTERS)
        return Recording(
            case=self._case.name,
            times=np.array(self._times, dtype=np.int64),
            flows=tuple(flows),
            flow_samples=np.array(self._flow_rows, dtype=np.int64).reshape(shape),
            channels=backend.channels,
            link_samples=np.array(self._link_rows[: len(self._times)], dtype=np.int64),
            messages=tuple(sorted(messages, key=lambda record: (record.time, record.flow))),
            paths=tuple(self._paths),
            ports=tuple(self._ports),
            operations=tuple(operations),
            faults=tuple(span(fault, backend.fabric, backend.time_scale) for fault in self._case.faults),
            bad_paths=sum(tenant.bad_paths for tenant in tenants),
            trimmed=backend.trimmed(),
            drops=backend.drops(),
            errors=(*self._errors, *(error for tenant in tenants for error in tenant.errors)),
            wrong_bytes=sum(tenant.wrong_bytes for tenant in tenants),
            checked_bytes=sum(tenant.checked_bytes for tenant in tenants),
            nic_bps=sum(link.rate_bps for link in backend.fabric.links_of(nic)),
            rate_scale=backend.rate_scale,
            time_scale=backend.time_scale,
            fidelity=backend.fidelity(),
            warnings=(
                *case_warnings(self._case, backend.fabric, backend.time_scale),
                *self._slow_ports.warnings(),
            ),
            tenants=tenants,
            queue_samples=np.array(self._queue_rows, dtype=np.int64) if self._queue_rows else None,
            signal_edges=np.array(self._signal_edges, dtype=np.int64) if self._signal_rows else None,
            signal_samples=np.array(self._signal_rows, dtype=np.int64) if self._signal_rows else None,
            tasks=tuple(tasks),
            flow_records=tuple(sized),
            reroutes=tuple(replace(one, time=one.time - begin) for one in backend.reroutes() if one.time >= begin),
        )

    def _flow_record(self, record: FlowRecord, first: int) -> FlowRecord:
        """With times from the beginning of the run; what ended after the run has not ended in it."""
        ended = None if record.ended is None else record.ended - self.begin
        if ended is not None and ended > self._times[-1]:
            ended = None
        return replace(record, flow=first + record.flow, began=record.began - self.begin, ended=ended)

    def _tenant_record(self, running: _Running) -> TenantRecord:
        wrong, checked = running.load.wrong_bytes()
        return TenantRecord(
            name=running.tenant.name,
            start=round(running.tenant.workload.start * self._backend.time_scale),
            ended=running.ended,
            bad_paths=sum(_bad_paths(pair) for *_, pair in running.load.queue_pairs()),
            errors=tuple(running.errors),
            wrong_bytes=wrong,
            checked_bytes=checked,
        )


def _maker(tenant: Tenant, case: Case) -> Callable[[Tenant, Backend, int, Callable[[str], Context]], Load]:
    """What creates the load of a tenant."""
    if isinstance(tenant.workload, SizedFlows):
        return partial(SizedFlowLoad, case=case)
    if isinstance(tenant.workload, Replayed):
        return ReplayLoad
    return collective_load if isinstance(tenant.workload, Ranks) else FlowLoad


def flow_label(tenant: Tenant, flow: str) -> str:
    """What a tenant's flow is called."""
    return f"{tenant.name}/{flow}" if tenant.name else flow


def span(planned: PlannedFault, fabric: Fabric, scale: float = 1.0) -> FaultSpan:
    """A planned fault as reports show it: what in words, and the links it touches; times are `scale` times as long."""
    fault = planned.fault.scaled(times=scale, rates=1 / scale)
    links = SIMULATION.effect_of(fabric, fault).touched_links(fabric)
    until = None if planned.until is None else round(planned.until * scale)
    label = joined(planned.name, fault.in_words())
    drawn_from = planned.draw.matches if planned.draw else 0
    return FaultSpan(fault.kind.name, label, round(planned.at * scale), until, links, planned.name, drawn_from)


def _bad_paths(pair: QueuePair) -> int:
    try:
        return sum(path.state is PathState.ASSUMED_BAD for path in pair.paths())
    except MrcError:
        return 0


def _until(work: asyncio.Future[None], seconds: float) -> Coroutine[Any, Any, object]:
    return asyncio.wait([work], timeout=max(0.0, seconds))


def _retrieve(task: asyncio.Future[None]) -> None:
    """Let nobody complain of an exception that was not asked for."""
    if not task.cancelled():
        task.exception()
