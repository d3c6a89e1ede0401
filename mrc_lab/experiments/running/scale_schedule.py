"""A schedule on the scale backend: GOAL files and execution traces, whose messages are streams one after another.

What may start is decided by the same rules as with packets (`mrc_lab/workloads/schedules/progress.py`). Messages from a
rank to another are sent one at a time in their order, and have arrived, or are acknowledged, as long after their last
byte has left as a packet takes. So many may be under way as there are slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mrc_lab.experiments.files.checks import message_slots
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.workloads import Replayed
from mrc_lab.experiments.running.recording import FlowRecord, MessageRecord, OperationRecord, TaskRecord
from mrc_lab.experiments.running.replay_load import channel_flows, task_records
from mrc_lab.experiments.running.scale_loads import LoadSetting
from mrc_lab.scale.network import Floats
from mrc_lab.scale.streams import StreamSpec
from mrc_lab.scale.world import ScaleWorld
from mrc_lab.workloads.schedules.messages import ChannelKey, channel_sizes
from mrc_lab.workloads.schedules.progress import Cpu, ScheduleProgress
from topologies.ideal_completion import IdealCompletion


@dataclass(slots=True)
class _Channel:
    """Messages from one rank to another, by number: `waiting` for a slot, or `posted`, the first of which is sent."""

    stream: int
    free: int  # slots
    arrival: int  # ns after the last byte has left
    completion: int
    ports: int
    packet: float = 0.0  # ns on a port
    waiting: deque[int] = field(default_factory=deque)
    posted: deque[int] = field(default_factory=deque)


class ScheduleLoad:
    """The ranks of a schedule, one a host. The whole schedule is one operation."""

    def __init__(self, tenant: Tenant, setting: LoadSetting) -> None:
        load, network = tenant.workload, setting.network
        assert isinstance(load, Replayed)
        self._start, self._mtu = load.start, setting.path_mtu
        self._schedule = load.source.schedule
        self._hosts = select_hosts(load.hosts, network.fabric)[: self._schedule.ranks]
        qps, slots = tenant.transport.qps, message_slots(load, tenant.transport)
        keys = list(channel_sizes(self._schedule))
        self.infos = channel_flows(self._schedule, keys, self._hosts, qps, setting.path_mtu)
        nics = [network.fabric.nic(host) for host in self._hosts]
        self.specs: list[StreamSpec] = []
        self._channels: dict[ChannelKey, _Channel] = {}
        for number, (key, info) in enumerate(zip(keys, self.infos, strict=True)):
            near, far = nics[key.source], nics[key.destination]
            tier = int(network.turning_tier(np.array(near.t0), np.array(far.t0)))
            arrival, completion = setting.latency.arrival[tier], setting.latency.completion[tier]
            ports = len(network.fabric.common_planes(near, far))
            self._channels[key] = _Channel(number, slots, arrival, completion, ports)
            payload = max(1, round(info.payload))  # of a packet on average
            self.specs.append(StreamSpec(near.index, far.index, number, number, payload, slots, qps))
        self._of = list(self._channels.values())  # by stream
        self._progress = ScheduleProgress(self._schedule, lambda: self._world.now, self._send, self._calculate)
        self._first = 0
        self.messages: list[MessageRecord] = []
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.ended_at: int | None = None

    # ---- what happens -----------------------------------------------------------------------------------------------

    def begin(self, world: ScaleWorld, first: int) -> None:
        """Begin the schedule in time."""
        self._world, self._first = world, first
        access, streams = world.network.access, world.streams
        for channel in self._of:
            ends = streams.source[first + channel.stream], streams.destination[first + channel.stream]
            rate = min(float(access[nic].max()) for nic in ends)
            channel.packet = self._mtu * float(streams.line[first + channel.stream]) * 8e9 / rate
        world.streams.most[first : first + len(self.specs)] = np.inf  # slots limit them instead
        world.at(self._start, self._begin)

    def _begin(self, now: int) -> None:
        self._progress.begin()
        self._check_end(now)

    def _calculate(self, cpu: Cpu, time: int) -> None:
        self._world.at(self._world.now + time, lambda now: self._calculated(cpu, now))

    def _calculated(self, cpu: Cpu, now: int) -> None:
        self._progress.calculated(cpu)
        self._check_end(now)

    def _send(self, number: int) -> None:
        one = self._schedule.operations[number]
        if one.peer == one.rank:
            self._world.at(self._world.now, lambda now: self._received(number, now))
            self._world.at(self._world.now, lambda now: self._sent(number, now))
            return
        channel = self._channels[ChannelKey(one.rank, one.peer, one.queue)]
        channel.waiting.append(number)
        self._post(channel)

    def _post(self, channel: _Channel) -> None:
        """Give messages that wait a slot, and send the first if the channel is idle."""
        idle = not channel.posted
        while channel.waiting and channel.free:
            channel.free -= 1
            channel.posted.append(channel.waiting.popleft())
        if idle:
            self._send_next(channel)

    def _send_next(self, channel: _Channel) -> None:
        if channel.posted:
            size = max(1, self._schedule.operations[channel.posted[0]].size)
            self._world.begin([self._first + channel.stream], size)

    def stream_ended(self, streams: Sequence[int], now: int) -> None:
        """The last byte of a message has left."""
        for channel in (self._of[stream] for stream in streams):
            self._left(channel.posted.popleft(), channel, now)
            self._send_next(channel)

    def _left(self, number: int, channel: _Channel, now: int) -> None:
        """The last byte of a message has left, or will once the last turn of the ports is over."""
        packets = -(-self._schedule.operations[number].size // self._mtu)
        left = now + round(-packets % channel.ports / channel.ports * channel.packet)
        self._world.at(left + channel.arrival, lambda time: self._received(number, time))
        self._world.at(left + channel.completion, lambda time: self._acknowledged(number, channel, time))

    def _acknowledged(self, number: int, channel: _Channel, now: int) -> None:
        channel.free += 1
        self._post(channel)
        self._sent(number, now)

    def _received(self, number: int, now: int) -> None:
        self._progress.received(number)
        self._check_end(now)

    def _sent(self, number: int, now: int) -> None:
        self._progress.sent(number)
        self._check_end(now)

    def _check_end(self, now: int) -> None:
        if self.ended_at is not None or not self._progress.idle:
            return
        self.ended_at = now
        if self._progress.done:
            self.operations.append(OperationRecord(self._start, now, self._schedule.sent_bytes(), True))
            problem = self._progress.unread()
        else:
            problem = self._progress.deadlock()
        self.errors += [problem] if problem else []

    # ---- what came of it --------------------------------------------------------------------------------------------

    def advanced(self, before: Floats, since: int, now: int) -> None:
        """Operations are recorded, not the writes they are made of."""

    def failed(self, stream: int, now: int) -> None:
        """No queue pair of MRC fails here."""

    def finish(self, now: int) -> None:
        """Give up what is not done."""
        if self.ended_at is None:
            self.errors.append(self._progress.in_time())

    def flow_records(self, ideal: IdealCompletion, repeated: Floats) -> list[FlowRecord]:
        """None."""
        return []

    def tasks(self) -> list[TaskRecord]:
        """Every operation of the schedule."""
        return list(task_records(self._schedule, self._progress, self._hosts, 0))
