"""Run one case on the scale backend and record it, as `run_case` does on the backends that have packets.

Nothing is written, so no content is compared; nothing is queued, so nothing is trimmed. What the recording has, it has
in the units of the other backends, with fractions of packets rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mrc_common.units import show_size, show_time
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.verbs_types import PathReason, PathState, QpAttributes
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.checks import MAX_MEMORY
from mrc_lab.experiments.files.model import Case, Tenant
from mrc_lab.experiments.files.scale_size import SAMPLE, ScaleSize, too_large
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.files.workloads import Ranks, Replayed
from mrc_lab.experiments.running.case_warnings import case_warnings
from mrc_lab.experiments.running.fitted_fabric import fitted_fabric
from mrc_lab.experiments.running.recording import (
    FLOW_COUNTERS,
    LINK_COUNTERS,
    Fidelity,
    FlowRecord,
    MessageRecord,
    OperationRecord,
    PathRecord,
    Recording,
    TaskRecord,
    TenantRecord,
)
from mrc_lab.experiments.running.run_case import flow_label, span
from mrc_lab.experiments.running.scale_loads import FlowsLoad, LoadSetting, RanksLoad, ScaleLoad
from mrc_lab.experiments.running.scale_schedule import ScheduleLoad
from mrc_lab.experiments.running.tenant_seed import tenant_seed
from mrc_lab.scale.latency import Latency
from mrc_lab.scale.network import Floats, Integers, Network
from mrc_lab.scale.path_states import MAX_CHANGES
from mrc_lab.scale.round_trips import TierRoundTrips
from mrc_lab.scale.streams import Streams, StreamSpec
from mrc_lab.scale.world import ScaleWorld
from simulation.fault_limits import SIMULATION
from simulation.transport_timers import FabricTiming, timing
from simulation.world import default_queues
from topologies.addressing import path_ev
from topologies.fabric import Fabric
from topologies.faults.engine import FaultEngine
from topologies.ideal_completion import IdealCompletion, PacketSizes

_LEFT_OUT = "rates between changes, and no queues: dips of a few round trips at a change are left out (docs/scale.md)"


def run_scale_case(
    case: Case,
    seed: int,
    notify: Callable[[str], None],
    progress: Callable[[float], None],
    interrupted: Callable[[], bool] = lambda: False,
) -> Recording:
    """Run a case, which `check_scale` has let pass. `progress` gets the share of its time that is over.

    `notify` is told first how large it is. Once `interrupted`, the run ends, and its recording says so.
    ExperimentError if it would not fit into memory, KeyboardInterrupt if it is interrupted before it begins.
    """
    fabric = fitted_fabric(case)
    size = ScaleSize.of(case, fabric, len(FLOW_COUNTERS))
    if problem := too_large(size.memory):
        raise ExperimentError(problem, "Make measure.bin wider, or let fewer hosts send.")
    notify(f"{len(fabric.nics)} NICs: {size}")
    for warning in case_warnings(case, fabric, 1.0):
        notify(f"Warning: {warning}.")
    run = _CaseRun(case, fabric, seed, progress, interrupted)
    if interrupted():
        raise KeyboardInterrupt
    return run.record()


def _check_series(flows: int, case: Case) -> None:
    """ExperimentError where the series of all flows would take too much memory."""
    bins = -(-case.duration // case.measure.bin)
    needed = SAMPLE * flows * (bins + 1) * len(FLOW_COUNTERS)
    if needed > MAX_MEMORY:
        most, shown = show_size(MAX_MEMORY), show_size(needed)
        raise ExperimentError(
            f"the series of {flows} flows in {bins} time bins take {shown} of memory, but {most} is the most",
            "Make measure.bin wider.",
        )


def _load(tenant: Tenant, setting: LoadSetting) -> ScaleLoad:
    if isinstance(tenant.workload, Ranks):
        return RanksLoad(tenant, setting)
    return (ScheduleLoad if isinstance(tenant.workload, Replayed) else FlowsLoad)(tenant, setting)


class _CaseRun:
    def __init__(
        self,
        case: Case,
        fabric: Fabric,
        seed: int,
        progress: Callable[[float], None],
        interrupted: Callable[[], bool],
    ) -> None:
        self._case, self._fabric, self._progress, self._interrupted = case, fabric, progress, interrupted
        self._cut_short = False
        transport = case.tenants[0].transport  # all have the same
        mtu = replace(QpAttributes(), **attributes_given(case.tenants[0])).path_mtu
        self._sizes = PacketSizes.of(transport.kind, mtu, fabric)
        network = Network.of(fabric)
        latency = Latency.of(fabric, self._sizes, case.fabric.delay)
        self._loads: list[ScaleLoad] = []
        self._firsts: list[int] = []  # streams before those of each load
        self._flows: list[int] = []  # flows before those of each load
        specs: list[StreamSpec] = []
        flows = groups = 0
        for tenant in case.tenants:
            setting = LoadSetting(network, latency, mtu, case.duration, tenant_seed(seed, tenant))
            load = _load(tenant, setting)
            self._loads.append(load)
            self._firsts.append(len(specs))
            self._flows.append(flows)
            specs += [replace(one, flow=one.flow + flows, group=one.group + groups) for one in load.specs]
            flows += len(load.infos)
            groups = 1 + max((one.group for one in specs), default=-1)
        _check_series(flows, case)
        settings = fabric.settings.transport
        streams = Streams.of(specs, self._sizes, settings.sack_threshold, latency, network)
        engine = FaultEngine(fabric, SIMULATION, seed=f"{seed} ")
        for planned in case.faults:
            until = None if planned.until is None else planned.until - planned.at
            engine.add(planned.fault, 0, start_at_ns=planned.at, duration_ns=until)
        for record in engine.registry:
            if record.starts_at_ns == 0:
                engine.begin(record.id, 0)
        fitted = self._timing()
        trips = TierRoundTrips.of(fabric, fitted, case.fabric.delay)
        retries = self._retries(fitted, trips)
        self._world = ScaleWorld(
            network, streams, settings, engine, self._ended, seed, trips, retries, self._failed, transport.paths
        )
        self._count = flows
        self._times: list[int] = []
        self._samples: list[Floats] = []

    def _timing(self) -> FabricTiming:
        """What `simulation.world` fits to the fabric."""
        queues = default_queues(self._fabric)
        return timing(self._fabric, self._case.fabric.delay, queues.max_packets or queues.buffer_packets)

    def _retries(self, fitted: FabricTiming, trips: TierRoundTrips) -> list[RetryPolicy]:
        """The retries of queue pairs, by the tier where their paths turn."""
        given, transport = attributes_given(self._case.tenants[0]), self._fabric.settings.transport
        attributes = [replace(fitted.attributes(), timeout=timeout) for timeout in trips.timeouts]
        return [RetryPolicy.with_attributes(replace(one, **given), transport) for one in attributes]

    def _failed(self, stream: int, now: int) -> None:
        for load, first in zip(self._loads, self._firsts, strict=True):
            if first <= stream < first + len(load.specs):
                load.failed(stream - first, now)

    def record(self) -> Recording:
        """Run to the end of the duration, or of all loads, or until the user interrupts it."""
        world, case = self._world, self._case
        world.faults_changed()
        for load, first in zip(self._loads, self._firsts, strict=True):
            load.begin(world, first)
        self._sample()
        while self._times[-1] < case.duration and not self._is_over():
            edge = min(len(self._times) * case.measure.bin, case.duration)
            world.run(edge, self._advanced, self._is_over)
            self._sample()
            self._progress(world.now / case.duration)
        self._cut_short = self._interrupted()
        if not self._cut_short:
            for load in self._loads:
                load.finish(world.now)
        return self._recording()

    def _is_over(self) -> bool:
        return self._interrupted() or all(load.ended_at is not None for load in self._loads)

    def _advanced(self, before: Floats, since: int, now: int) -> None:
        for load, first in zip(self._loads, self._firsts, strict=True):
            load.advanced(before[first : first + len(load.specs)], since, now)

    def _ended(self, which: Integers, now: int) -> None:
        for load, first in zip(self._loads, self._firsts, strict=True):
            own = which[(which >= first) & (which < first + len(load.specs))] - first
            if len(own):
                load.stream_ended(own.tolist(), now)

    def _sample(self) -> None:
        streams = self._world.streams
        self._times.append(self._world.now)
        counters = (streams.arrived / streams.packet, streams.sent, streams.repeated, None, streams.lost, None)
        found = np.zeros((self._count, len(FLOW_COUNTERS)))
        for column, counter in enumerate(counters):
            if counter is not None:
                np.add.at(found[:, column], streams.flow, counter)
        self._samples.append(found)

    # ---- what came of it --------------------------------------------------------------------------------------------

    def _recording(self) -> Recording:
        world, case, fabric = self._world, self._case, self._fabric
        streams, bad = world.streams, world.paths.bad_paths()
        ideal = IdealCompletion(fabric, self._sizes, case.fabric.delay)
        messages: list[MessageRecord] = []
        operations: list[OperationRecord] = []
        sized: list[FlowRecord] = []
        tasks: list[TaskRecord] = []
        infos = []
        tenants = []
        for number, (tenant, load, first, flow) in enumerate(
            zip(case.tenants, self._loads, self._firsts, self._flows, strict=True)
        ):
            mine = slice(first, first + len(load.specs))
            infos += [replace(one, name=flow_label(tenant, one.name), tenant=number) for one in load.infos]
            messages += [replace(one, flow=one.flow + flow) for one in load.messages if one.time <= world.now]
            operations += [replace(one, tenant=number) for one in load.operations]
            sized += [replace(one, flow=one.flow + flow) for one in load.flow_records(ideal, streams.repeated[mine])]
            tasks += [replace(one, tenant=number) for one in load.tasks()]
            out_of_use = round(float((bad[mine] * streams.qps[mine]).sum()))
            errors, start = tuple(load.errors), tenant.workload.start
            tenants.append(TenantRecord(tenant.name, start, load.ended_at, out_of_use, errors, 0, 0))
        edges = len(self._times)
        return Recording(
            case=case.name,
            times=np.array(self._times, dtype=np.int64),
            flows=tuple(infos),
            flow_samples=np.rint(np.array(self._samples)).astype(np.int64).reshape(edges, self._count, -1),
            channels=(),
            link_samples=np.zeros((edges, 0, len(LINK_COUNTERS)), dtype=np.int64),
            messages=tuple(sorted(messages, key=lambda record: (record.time, record.flow))),
            paths=tuple(self._paths()),
            ports=(),
            operations=tuple(operations),
            faults=tuple(span(fault, fabric) for fault in case.faults),
            bad_paths=sum(tenant.bad_paths for tenant in tenants),
            trimmed={},
            drops={},
            errors=tuple(error for tenant in tenants for error in tenant.errors),
            wrong_bytes=0,
            checked_bytes=0,
            nic_bps=round(float(world.network.access[0].sum())),
            fidelity=Fidelity(notes=(_LEFT_OUT,)),
            warnings=(
                *case_warnings(case, fabric, 1.0),
                *(warning for load in self._loads for warning in load.warnings),
                *self._left_out(),
            ),
            tenants=tuple(tenants),
            tasks=tuple(tasks),
            flow_records=tuple(sized),
            interrupted=self._interruption() if self._cut_short else "",
        )

    def _interruption(self) -> str:
        return f"interrupted after {show_time(self._world.now)} of {show_time(self._case.duration)}"

    def _left_out(self) -> Iterator[str]:
        if len(self._world.paths.changes) >= MAX_CHANGES:
            yield f"only the first {MAX_CHANGES} changes of paths were kept: path_failures does not count the others"

    def _paths(self) -> Sequence[PathRecord]:
        """Changes of paths, one for each queue pair of a flow; queue pairs are numbered from 0 in their flow."""
        world, streams = self._world, self._world.streams
        names, tiers = [nic.name for nic in self._fabric.nics], world.paths.tiers
        good, bad = PathState.GOOD.value, PathState.ASSUMED_BAD.value
        found = []
        for change in world.paths.changes:
            host, flow = names[streams.source[change.stream]], int(streams.flow[change.stream])
            ev = path_ev(world.network.path(tiers[change.stream], change.plane, change.turn))
            went = change.first_loss is not None
            reason = PathReason.LOSS if went else PathReason.PROBE
            states = (good, bad, reason.value) if went else (bad, good, reason.value)
            pairs = range(int(streams.qps[change.stream])) if change.pair is None else (change.pair,)
            found += [
                PathRecord(change.time, flow, host, pair, ev, change.plane, *states, change.first_loss)
                for pair in pairs
            ]
        return found
