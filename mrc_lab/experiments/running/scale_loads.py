"""Workloads of the scale backend: which streams send how much, and what begins once others have ended.

As the loads of packets do (`flows`, `collective_load`), with the same flows, sizes and computing times for the same
seed. A collective operation ends with its slowest rank, and a rank that is late holds up all of it: what it has to send
itself begins when it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from mrc_host.transport.roce.path import chosen_path
from mrc_lab.experiments.files.checks import flow_name
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.workloads import Collective, Training
from mrc_lab.experiments.running.collective_data import ITEM
from mrc_lab.experiments.running.collective_load import channels, ordered_hosts
from mrc_lab.experiments.running.computing import ComputingTimes
from mrc_lab.experiments.running.flows import FlowPlan, plan, source_ports_of
from mrc_lab.experiments.running.recording import FlowInfo, FlowRecord, MessageRecord, OperationRecord, TaskRecord
from mrc_lab.scale.collective_phases import rank_streams
from mrc_lab.scale.latency import Latency
from mrc_lab.scale.network import Floats, Network, turning_switch
from mrc_lab.scale.ring_times import Passing
from mrc_lab.scale.streams import StreamSpec
from mrc_lab.scale.world import ScaleWorld
from simulation.seeds import generator
from topologies import addressing
from topologies.ecmp_choice import ecmp_path
from topologies.ideal_completion import IdealCompletion

MAX_MESSAGES: Final = 1_000_000  # of a run: of more none is kept
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LoadSetting:
    """What loads are made for: the network, times of packets on it, payload of a packet, and the run's time (ns)."""

    network: Network
    latency: Latency
    path_mtu: int
    duration: int
    seed: int


class ScaleLoad(Protocol):
    """What hosts do for one tenant. Flows and streams count from 0 in each load; times are ns of the run."""

    specs: list[StreamSpec]
    infos: list[FlowInfo]
    messages: list[MessageRecord]
    operations: list[OperationRecord]
    errors: list[str]
    warnings: list[str]
    ended_at: int | None

    def begin(self, world: ScaleWorld, first: int) -> None:
        """Begin, or make sure that it begins in time; `first` is the number of its first stream."""

    def advanced(self, before: Floats, since: int, now: int) -> None:
        """Time went on; its streams had so many bytes through `before`."""

    def stream_ended(self, streams: Sequence[int], now: int) -> None:
        """Streams, by its own numbers, have sent all they had."""

    def failed(self, stream: int, now: int) -> None:
        """A queue pair has failed."""

    def finish(self, now: int) -> None:
        """The run is over."""

    def flow_records(self, ideal: IdealCompletion, repeated: Floats) -> list[FlowRecord]:
        """The flows that have a size."""

    def tasks(self) -> list[TaskRecord]:
        """Operations of a schedule."""


class FlowsLoad:
    """Flows of writes: every queue pair keeps `outstanding` of them under way."""

    def __init__(self, tenant: Tenant, setting: LoadSetting) -> None:
        self._setting, fabric = setting, setting.network.fabric
        self._rc = tenant.transport.type == "rc"
        self.specs: list[StreamSpec] = []
        self.infos: list[FlowInfo] = []
        self.messages: list[MessageRecord] = []
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []
        self.ended_at: int | None = None
        self._begins = tenant.workload.start
        self.warnings: list[str] = []
        self._plans: list[FlowPlan] = []
        names: Counter[str] = Counter()
        chance = generator(setting.seed, "queue pair numbers")
        for planned in plan(tenant, fabric, setting.seed):
            ends = planned.source, planned.destination
            for source, destination in (ends, ends[::-1])[: 1 + planned.both_ways]:
                self._add(planned, source, destination, flow_name(source, destination, names), chance)
        self._keeps = self._messages_at_most() <= MAX_MESSAGES
        if not self._keeps:
            self.warnings.append(
                f"more than {MAX_MESSAGES} writes may complete: none is recorded, and completion_time is not known"
            )
        self._of = np.array([spec.flow for spec in self.specs], dtype=np.int64)
        self._size = np.array([spec.message * spec.qps for spec in self.specs], dtype=float)
        pairs = np.array([(spec.source, spec.destination) for spec in self.specs], dtype=np.int64).reshape(-1, 2)
        near, far = setting.network.rack[pairs.T]
        self._tail = setting.latency.completions(setting.network.turning_tier(near, far))
        self._done = np.zeros(len(self.specs), dtype=np.int64)  # rounds of messages, one a queue pair
        self._posted: list[list[int]] = [[] for _ in self.specs]  # when those under way were
        self._open = len(self.specs)
        self._world: ScaleWorld | None = None
        self._first = 0

    def _add(self, planned: FlowPlan, source: str, destination: str, name: str, chance: Any) -> None:
        fabric, flow = self._setting.network.fabric, len(self.infos)
        near, far = fabric.nic(source), fabric.nic(destination)
        packets = -(-planned.message // self._setting.path_mtu)
        self.infos.append(FlowInfo(name, source, destination, planned.qps, planned.message / packets))
        self._plans.append(planned)
        common = (near.index, far.index, flow)
        if not self._rc:
            group = len(self.specs)
            self.specs.append(StreamSpec(*common, group, planned.message, planned.outstanding, planned.qps))
            return
        for sport in source_ports_of(planned, fabric):
            ends = addressing.nic_address(fabric, near).packed, addressing.nic_address(fabric, far).packed
            planes = fabric.common_planes(near, far)
            plane, drawn = chosen_path(ends[0], chance.getrandbits(24), ends[1], chance.getrandbits(24), planes)
            turn = back = -1
            if near.t0 != far.t0:
                turn = turning_switch(ecmp_path(fabric, near, far, plane, sport or drawn))
                back = turning_switch(ecmp_path(fabric, far, near, plane, drawn))
            where = (len(self.specs), planned.message, planned.outstanding, 1, plane, turn, back)
            self.specs.append(StreamSpec(*common, *where))

    def _messages_at_most(self) -> float:
        """Writes that may complete in the run."""
        rates = self._setting.network.access.sum(axis=1)
        found = 0.0
        for spec in self.specs:
            planned = self._plans[spec.flow]
            by_time = rates[spec.source] * self._setting.duration / 8e9 / spec.message
            found += by_time if planned.messages is None else min(by_time, planned.messages)
        return found

    def begin(self, world: ScaleWorld, first: int) -> None:
        """Begin every flow at its time."""
        self._world, self._first = world, first
        for stream, spec in enumerate(self.specs):
            planned = self._plans[spec.flow]
            world.at(self._begins + planned.start, lambda now, stream=stream: self._begin(stream, now))  # type: ignore[misc]

    def _begin(self, stream: int, now: int) -> None:
        assert self._world is not None
        spec, planned = self.specs[stream], self._plans[self.specs[stream].flow]
        self._posted[stream] = [now] * spec.outstanding
        shared = planned.qps // spec.qps  # streams of the flow
        size = np.inf if planned.messages is None else planned.messages * planned.message / shared
        self._world.begin([self._first + stream], size)

    def advanced(self, before: Floats, since: int, now: int) -> None:
        """Note the messages that were completed meanwhile."""
        if not self._keeps:
            return
        assert self._world is not None
        mine = slice(self._first, self._first + len(self.specs))
        streams = self._world.streams
        through, rate = streams.arrived[mine], streams.rate[mine]
        rounds = np.floor((through + 0.5) / self._size).astype(np.int64)
        for stream in np.flatnonzero(rounds > self._done).tolist():
            for number in range(int(self._done[stream]) + 1, int(rounds[stream]) + 1):
                short = max(0.0, number * self._size[stream] - before[stream])
                at = since + short * 8e9 / rate[stream] if rate[stream] > 0 else now
                self._completed(stream, round(at + self._tail[stream]))
            self._done[stream] = rounds[stream]

    def _completed(self, stream: int, now: int) -> None:
        """A message of each queue pair is through, and the next one is posted."""
        spec = self.specs[stream]
        began = self._posted[stream].pop(0)
        self._posted[stream].append(now)
        self.messages += [MessageRecord(spec.flow, began, now, spec.message, True)] * spec.qps

    def stream_ended(self, streams: Sequence[int], now: int) -> None:
        """A flow with a total has sent it."""
        self._stopped(len(streams), now + max(int(self._tail[stream]) for stream in streams))

    def _stopped(self, streams: int, when: int) -> None:
        """Some streams send nothing any more, from `when` on."""
        self._open -= streams
        if not self._open:
            assert self._world is not None
            self._world.at(when, self._over)

    def _over(self, now: int) -> None:
        self.ended_at = now

    def failed(self, stream: int, now: int) -> None:
        """A queue pair had no answer for all of its retries."""
        self.errors.append(f"{self.infos[self.specs[stream].flow].name}: nothing was acknowledged after all retries")
        self._stopped(1, now)

    def finish(self, now: int) -> None:
        """Nothing is left to do."""
        assert self._world is not None
        mine = slice(self._first, self._first + len(self.specs))
        if not (self._world.streams.arrived[mine] >= self._size).any():
            self.errors.append("no write completed before the run ended: there is nothing to judge")

    def flow_records(self, ideal: IdealCompletion, repeated: Floats) -> list[FlowRecord]:
        """The flows that have a total and have begun."""
        found = []
        done: dict[int, list[int]] = {}
        for message in self.messages:
            done.setdefault(message.flow, []).append(message.time)
        for flow, (planned, info) in enumerate(zip(self._plans, self.infos, strict=True)):
            times = done.get(flow, [])
            if planned.messages is None or not times:
                continue
            size = planned.messages * planned.message
            ended = max(times) if len(times) >= planned.messages else None
            began = self._begins + planned.start
            again = round(float(repeated[self._of == flow].sum()))
            takes = ideal.of(info.source, info.destination, size)
            found.append(FlowRecord(flow, flow, size, began, ended, takes, again))
        return found

    def tasks(self) -> list[TaskRecord]:
        """None."""
        return []


class RanksLoad:
    """The ranks of a collective or of a training job, one a host."""

    def __init__(self, tenant: Tenant, setting: LoadSetting) -> None:
        load = tenant.workload
        assert isinstance(load, Collective | Training)
        self._load, self._setting = load, setting
        network, fabric = setting.network, setting.network.fabric
        self._hosts = ordered_hosts(load, fabric)
        self._sizes = load.gradients if isinstance(load, Training) else (load.bytes,)
        self._computing = ComputingTimes(
            load, self._hosts, fabric, setting.seed, load.compute / len(self._sizes) / _SECOND
        )
        ranks = np.array([fabric.nic(host).index for host in self._hosts], dtype=np.int64)
        streams = rank_streams(load.operation, ranks, load.clusters, network, setting.latency)
        self._phases = streams.phases
        lines = channels(load, tenant.transport.qps)
        per_stream = 1 if load.spread == "parts" else tenant.transport.qps
        chunk = load.chunk
        payload = chunk / -(-chunk // setting.path_mtu)
        self.specs = [
            StreamSpec(near, far, number, group, chunk, load.slots, lines * per_stream)
            for number, ((near, far), group) in enumerate(zip(streams.pairs, streams.groups, strict=True))
        ]
        names = [nic.name for nic in fabric.nics]
        self.infos = [
            FlowInfo(f"{names[near]}>{names[far]}", names[near], names[far], lines * per_stream, payload)
            for near, far in streams.pairs
        ]
        self._channels = lines
        self.warnings: list[str] = []
        self.messages: list[MessageRecord] = []
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []
        self.ended_at: int | None = None
        self._world: ScaleWorld | None = None
        self._first = 0
        self._left = 0  # streams of the operation that is under way
        self._number = 0
        self._bucket = 0
        self._phase = 0
        self._began = 0
        self._ready: list[int] = []

    @property
    def _count(self) -> int:
        return self._load.steps if isinstance(self._load, Training) else self._load.iterations

    # ---- operations -------------------------------------------------------------------------------------------------

    def begin(self, world: ScaleWorld, first: int) -> None:
        """Begin the first operation in time."""
        self._world, self._first = world, first
        world.at(self._load.start, self._next)

    def _next(self, now: int) -> None:
        """Begin an operation, or the step, unless all are done."""
        if self._number == self._load.warmup + self._count:
            self.ended_at = now
            return
        computed = np.zeros(len(self._hosts))
        self._bucket = 0
        if isinstance(self._load, Training):
            self._began = now
            self._ready = []
            overlapped = self._load.overlap
            for _ in self._sizes if overlapped else self._sizes[:1]:
                computed += self._compute()
                self._ready.append(now + round(float(computed.max()) * _SECOND))
        else:
            computed += self._compute() if self._load.compute else 0.0
            self._began = now + round(float(computed.min()) * _SECOND)
            self._ready = [now + round(float(computed.max()) * _SECOND)]
        assert self._world is not None
        self._world.at(self._ready[0], self._sum)

    def _compute(self) -> Floats:
        """Seconds that the next computing of each rank takes."""
        if not self._load.compute:
            return np.zeros(len(self._hosts))
        return np.array([self._computing.next(rank) for rank in range(len(self._hosts))])

    def _passing(self) -> Passing:
        """One channel's part of what the phase that is under way sends."""
        load, phase = self._load, self._phases[self._phase]
        return phase.passing(self._sizes[self._bucket], ITEM, self._channels, load.chunk, load.slots)

    def _sum(self, now: int) -> None:
        """All ranks have what they need for the next part: begin its first phase."""
        self._phase = 0
        self._send(now)

    def _send(self, now: int) -> None:
        """Send what the phase sends."""
        assert self._world is not None
        world, passing, phase = self._world, self._passing(), self._phases[self._phase]
        streams = world.streams
        mine = np.arange(self._first + phase.first, self._first + phase.last)
        if phase.operation == "broadcast":
            mine = mine[:-1]
        rates = (
            np.minimum(
                self._setting.network.access.sum(axis=1)[streams.source[mine]],
                self._setting.network.access.sum(axis=1)[streams.destination[mine]],
            )
            / streams.line[mine]
        )
        most = [self._channels * passing.most(float(rate) / self._channels) for rate in np.unique(rates)]
        streams.most[mine] = np.array(most)[np.unique(rates, return_inverse=True)[1]]
        self._left = len(mine)
        world.begin(mine, passing.size * self._channels)

    def stream_ended(self, streams: Sequence[int], now: int) -> None:
        """Some streams of an operation have sent all of it."""
        self._left -= len(streams)
        if not self._left:
            assert self._world is not None
            phase = self._phases[self._phase]
            tail = phase.farthest
            if phase.operation == "broadcast":
                piece = min(self._load.chunk, self._passing().segment)
                rate = float(self._world.streams.most[self._first])
                tail += round((len(self._hosts) - 2) * (piece * 8e9 / rate + phase.arrival))
            self._world.at(now + tail, self._sent)

    def _sent(self, now: int) -> None:
        """A phase is done."""
        self._phase += 1
        if self._phase < len(self._phases):
            self._send(now)
        else:
            self._summed(now)

    def _summed(self, now: int) -> None:
        self._bucket += 1
        assert self._world is not None
        if self._bucket < len(self._sizes):
            if len(self._ready) == self._bucket:  # not overlapped
                self._ready.append(now + round(float(self._compute().max()) * _SECOND))
            self._world.at(self._ready[self._bucket], self._sum)
            return
        counts = self._number >= self._load.warmup
        self.operations.append(OperationRecord(self._began, now, sum(self._sizes), counts))
        self._number += 1
        self._next(now)

    # ---- what came of it --------------------------------------------------------------------------------------------

    def advanced(self, before: Floats, since: int, now: int) -> None:
        """Operations are recorded, not the writes they are made of."""

    def failed(self, stream: int, now: int) -> None:
        """No queue pair of MRC fails here."""

    def finish(self, now: int) -> None:
        """Give up what is not done."""
        if self.ended_at is None:
            done = sum(operation.counted for operation in self.operations)
            what = "operations" if isinstance(self._load, Collective) else "steps"
            self.errors.append(f"only {done} of {self._count} {what} were done when the time was over")

    def flow_records(self, ideal: IdealCompletion, repeated: Floats) -> list[FlowRecord]:
        """None."""
        return []

    def tasks(self) -> list[TaskRecord]:
        """None."""
        return []
