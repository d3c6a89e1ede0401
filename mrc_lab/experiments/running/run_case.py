"""Run one case on a backend and record it.

In the backend's loop: the load (flows or collectives), a sampler at the edges of the time bins, one listener a host for
path and port events, and the faults. The recording ends when the duration is over or the load is done; then what is
under way may finish, unrecorded, so that bytes can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Protocol

import numpy as np

from mrc_host.errors import MrcError
from mrc_host.values import PathEvent, PathState, PortEvent, QpEvent
from mrc_host.verbs.context import Context
from mrc_host.verbs.queue_pair import QueuePair
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.workloads import Collective, Training
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.collective_load import CollectiveLoad, collective_load
from mrc_lab.experiments.running.flows import FlowLoad
from mrc_lab.experiments.running.recording import (
    FaultSpan,
    FlowInfo,
    MessageRecord,
    OperationRecord,
    PathRecord,
    PortRecord,
    Recording,
)
from simulation.fault_impairments import impairments_of
from topologies.fabric import Fabric

_SECOND = 1_000_000_000


class Load(Protocol):
    """What the hosts do."""

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


def run_case(case: Case, backend: Backend, seed: int) -> Recording:
    """Run `case` and return what was recorded. Raises ExperimentError, MrcError or SimulationError."""
    return backend.run(_CaseRun(case, backend, seed).job())


class _CaseRun:
    def __init__(self, case: Case, backend: Backend, seed: int) -> None:
        self._case, self._backend, self._seed = case, backend, seed
        self._contexts: dict[str, Context] = {}
        self._owner: dict[tuple[str, int], int] = {}  # host, QPN -> flow
        self._begin = 0
        self._paths: list[PathRecord] = []
        self._ports: list[PortRecord] = []
        self._errors: list[str] = []
        self._times: list[int] = []
        self._flow_rows: list[list[list[int]]] = []
        self._link_rows: list[Any] = []

    def _open(self, host: str) -> Context:
        if host not in self._contexts:
            self._contexts[host] = self._backend.open(host)
        return self._contexts[host]

    async def job(self) -> Recording:
        """Everything, inside the backend's loop."""
        case, backend = self._case, self._backend
        load: FlowLoad | CollectiveLoad
        if isinstance(case.workload, Collective | Training):
            load = collective_load(case, backend, self._seed, self._open)
            await load.prepare()
        else:
            load = FlowLoad(case, backend, self._seed, self._open)
        pairs = load.queue_pairs()
        self._owner = {(host, pair.qpn): flow for flow, host, pair in pairs}
        scale = backend.time_scale
        duration = round(case.duration * scale)
        self._begin = await backend.order_faults(case.faults)
        helpers = [asyncio.ensure_future(self._listen(name, context)) for name, context in self._contexts.items()]
        helpers.append(asyncio.ensure_future(backend.faults_made()))
        for helper in helpers:
            helper.add_done_callback(_retrieve)  # if this job is ended, nobody else does
        await asyncio.sleep(max(0, self._begin - backend.now()) / _SECOND)
        async with backend.traffic():
            await self._record(load, duration, round(case.measure.bin * scale))
        await load.end(duration / _SECOND)
        for helper in helpers:
            if helper.done() and not helper.cancelled() and helper.exception() is not None:
                self._errors.append(str(helper.exception()))
            helper.cancel()
        if not case.measure.links:
            self._link_rows += [self._link_rows[0]] * (len(self._times) - 2) + [await backend.sample_channels()]
        return self._recording(load, pairs)

    async def _record(self, load: Load, duration: int, width: int) -> None:
        """Sample at every edge until the load is done or the duration over."""
        work = asyncio.ensure_future(load.begin())
        work.add_done_callback(_retrieve)
        await self._sample(load)
        number = 0
        while not work.done() and self._times[-1] < duration:
            number += 1
            edge = self._begin + min(number * width, duration)
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                await _until(work, (edge - self._backend.now()) / _SECOND)
            await self._sample(load)
        if work.done() and work.exception() is not None:
            self._errors.append(str(work.exception()))

    async def _sample(self, load: Load) -> None:
        self._times.append(self._backend.now() - self._begin)
        try:
            self._flow_rows.append(load.sample())
        except MrcError as error:
            self._errors.append(str(error))
            self._flow_rows.append(self._flow_rows[-1])
        if self._case.measure.links or len(self._times) == 1:
            self._link_rows.append(await self._backend.sample_channels())

    async def _listen(self, host: str, context: Context) -> None:
        while True:
            event = await context.next_event()
            time = max(0, event.time - self._begin)  # of faults that were there before
            if isinstance(event, PathEvent):
                flow = self._owner.get((host, event.qpn))
                if flow is not None:
                    first = None if event.first_loss_time is None else event.first_loss_time - self._begin
                    states = event.old.value, event.new.value, event.reason.value
                    self._paths.append(PathRecord(time, flow, host, event.qpn, event.ev, event.plane, *states, first))
            elif isinstance(event, PortEvent):
                self._ports.append(PortRecord(time, host, event.port, event.up, event.local))
            elif isinstance(event, QpEvent):
                self._errors.append(f"{host}: queue pair {event.qpn:#x}: {event.reason}")

    def _recording(self, load: FlowLoad | CollectiveLoad, pairs: list[tuple[int, str, QueuePair]]) -> Recording:
        backend = self._backend
        messages: list[MessageRecord] = []
        operations: list[OperationRecord] = []
        if isinstance(load, CollectiveLoad):
            operations = [_moved_operation(record, self._begin) for record in load.operations]
            self._errors += load.errors
            wrong, checked = load.wrong_bytes()
        else:
            wrong = checked = 0
            for flow in load.flows:
                messages += [_moved_message(record, self._begin) for record in flow.messages]
                self._errors += flow.failed
                parts = flow.wrong_bytes()
                wrong, checked = wrong + parts[0], checked + parts[1]
            if not self._errors and not any(message.ok for message in messages):
                self._errors.append("no write completed before the run ended: there is nothing to judge")
        nic = backend.fabric.nics[0].name
        return Recording(
            case=self._case.name,
            times=np.array(self._times, dtype=np.int64),
            flows=tuple(load.infos()),
            flow_samples=np.array(self._flow_rows, dtype=np.int64),
            channels=backend.channels,
            link_samples=np.array(self._link_rows[: len(self._times)], dtype=np.int64),
            messages=tuple(sorted(messages, key=lambda record: (record.time, record.flow))),
            paths=tuple(self._paths),
            ports=tuple(self._ports),
            operations=tuple(operations),
            faults=tuple(span(fault, backend.fabric, backend.time_scale) for fault in self._case.faults),
            bad_paths=sum(_bad_paths(pair) for *_, pair in pairs),
            trimmed=backend.trimmed(),
            drops=backend.drops(),
            errors=tuple(self._errors),
            wrong_bytes=wrong,
            checked_bytes=checked,
            nic_bps=sum(link.rate_bps for link in backend.fabric.links_of(nic)),
            rate_scale=backend.rate_scale,
            time_scale=backend.time_scale,
            fidelity=backend.fidelity(),
        )


def span(planned: PlannedFault, fabric: Fabric, scale: float = 1.0) -> FaultSpan:
    """A planned fault as reports show it: what in words, and the links it touches; times are `scale` times as long."""
    fault = planned.fault.scaled(times=scale, rates=1 / scale)
    done = impairments_of(fabric, fault)
    named = [link.name for link in done.carrier]
    for end, _ in done.channels:
        link = fabric.link_at(end)
        if link is not None:
            named.append(link.name)
    until = None if planned.until is None else round(planned.until * scale)
    place = [getattr(fault, fault.kind.target.name)] if fault.kind.target else []
    label = " ".join(filter(None, [fault.kind.name.replace("_", " "), *place, fault.values_text()]))
    return FaultSpan(fault.kind.name, label, round(planned.at * scale), until, tuple(dict.fromkeys(named)))


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


def _moved_message(record: MessageRecord, begin: int) -> MessageRecord:
    return MessageRecord(record.flow, record.began - begin, record.time - begin, record.size, record.ok)


def _moved_operation(record: OperationRecord, begin: int) -> OperationRecord:
    return OperationRecord(record.began - begin, record.ended - begin, record.size, record.counted)
