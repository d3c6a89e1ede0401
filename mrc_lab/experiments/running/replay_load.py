"""A schedule as a load: what GOAL files and execution traces say, one rank a host, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from mrc_host.errors import MrcError
from mrc_host.verbs.context import Context
from mrc_host.verbs.queue_pair import QueuePair
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.checks import message_slots
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.workloads import Replayed
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.flows import limit_evs, queue_pair_attributes
from mrc_lab.experiments.running.recording import FlowInfo, MessageRecord, OperationRecord, TaskRecord, flow_counters
from mrc_lab.workloads.schedules.messages import ChannelKey, MessageSettings, ScheduleMessages
from mrc_lab.workloads.schedules.progress import NEVER, ScheduleProgress
from mrc_lab.workloads.schedules.replay import Replay
from mrc_lab.workloads.schedules.schedule import OperationKind, Schedule


def channel_flows(
    schedule: Schedule, channels: Iterable[ChannelKey], hosts: Sequence[str], queue_pairs: int, mtu: int
) -> list[FlowInfo]:
    """A flow for each pair of ranks and number of queue (GOAL: nic) with messages."""
    sent: dict[ChannelKey, list[int]] = {}
    for one in schedule.operations:
        if one.kind is OperationKind.SEND:
            sent.setdefault(ChannelKey(one.rank, one.peer, one.queue), []).append(max(1, one.size))
    infos = []
    for key in channels:
        ends = hosts[key.source], hosts[key.destination]
        name = ">".join(ends) + (f"#nic{key.queue}" if key.queue else "")
        payload = sum(sent[key]) / sum(-(-size // mtu) for size in sent[key])
        infos.append(FlowInfo(name, *ends, queue_pairs, payload))
    return infos


def task_records(
    schedule: Schedule, progress: ScheduleProgress, hosts: Sequence[str], begin: int
) -> Iterator[TaskRecord]:
    """Every operation of a schedule, with times from `begin` on."""
    for one, began, ended in zip(schedule.operations, progress.began, progress.ended, strict=True):
        started, done = (None if time == NEVER else time - begin for time in (began, ended))
        yield TaskRecord(one, hosts[one.rank], started, done)


class ReplayLoad:
    """The ranks of a schedule. A flow is what one rank sends to another; the whole schedule is one operation."""

    def __init__(self, tenant: Tenant, backend: Backend, seed: int, open_context: Callable[[str], Context]) -> None:
        load = tenant.workload
        assert isinstance(load, Replayed)
        self._backend = backend
        self._schedule = load.source.schedule
        self._hosts = select_hosts(load.hosts, backend.fabric)[: self._schedule.ranks]
        self._attributes = queue_pair_attributes(tenant, backend)
        slots = message_slots(load, tenant.transport)
        self._messages = ScheduleMessages(
            self._schedule,
            MessageSettings(slots, tenant.transport.qps, tenant.transport.kind),
            [open_context(host) for host in self._hosts],
            lambda context: limit_evs(self._attributes, tenant.transport.evs, context),
            seed,
        )
        self._replay = Replay(self._schedule, self._messages, backend.now, backend.time_scale)
        self._task: asyncio.Future[None] | None = None
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []

    async def prepare(self) -> None:
        """Everything is connected already."""

    def infos(self) -> list[FlowInfo]:
        """A flow for each pair of ranks and number of queue (GOAL: nic) with messages."""
        mtu, pairs = self._attributes.path_mtu, self._messages.settings.queue_pairs
        return channel_flows(self._schedule, self._messages.channels, self._hosts, pairs, mtu)

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""
        channels = enumerate(self._messages.channels.items())
        return [
            (number, self._hosts[key.source], near) for number, (key, channel) in channels for near, _ in channel.pairs
        ]

    def sample(self) -> list[list[int]]:
        """Counters of every flow."""
        return [flow_counters(channel.pairs) for channel in self._messages.channels.values()]

    async def begin(self) -> None:
        """Do the whole schedule."""
        self._task = asyncio.ensure_future(self._run())
        await self._task

    async def _run(self) -> None:
        began = self._backend.now()
        try:
            await self._replay.run()
        except (MrcError, ExperimentError) as error:
            self.errors.append(str(error))
            return
        self.operations.append(OperationRecord(began, self._backend.now(), self._schedule.sent_bytes(), True))
        if unread := self._replay.progress.unread():
            self.errors.append(unread)

    async def end(self, timeout_s: float) -> None:
        """Give up what is not done."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
            self.errors.append(self._replay.progress.in_time())

    def messages(self) -> list[MessageRecord]:
        """The schedule is recorded as one operation, and its own operations as tasks."""
        return []

    def tasks(self, begin: int) -> Iterator[TaskRecord]:
        """Every operation, with times from `begin` on."""
        return task_records(self._schedule, self._replay.progress, self._hosts, begin)

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that arrived wrong, and bytes compared."""
        return self._messages.wrong_bytes, self._messages.checked_bytes
