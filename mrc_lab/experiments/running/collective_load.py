"""A collective operation as a load: one rank a host, all in this process, every result compared with the right one.

An operation is done by one or more channels: communicators that each do an equal part of it at the same time
(`channels`). With several queue pairs (`transport.qps`) each channel is either divided into as many again, or its
streams give their chunks to the queue pairs in turn. Collective libraries have all of this (docs/collectives.md).

A training job is the same with several operations a step, one a bucket of gradients, and time to compute between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mrc_host.errors import MrcError
from mrc_host.verbs.context import Context
from mrc_host.verbs.queue_pair import QueuePair
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.workloads import Collective, Training
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.collective_data import ITEM, Array, Expected, contributions
from mrc_lab.experiments.running.computing import ComputingTimes
from mrc_lab.experiments.running.flows import limit_evs, queue_pair_attributes
from mrc_lab.experiments.running.recording import FlowInfo, MessageRecord, OperationRecord, flow_counters
from mrc_lab.workloads.collectives import (
    Communicator,
    Exchange,
    HierarchicalCommunicator,
    LocalMeeting,
    Peers,
    StreamSettings,
)
from topologies.fabric import Fabric

# bus bandwidth over algorithm bandwidth, by operation, for n ranks; as nccl-tests define it
BUS_FACTOR: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send_receive": lambda n: 1.0,
    "broadcast": lambda n: 1.0,
}


@dataclass(slots=True)
class _Rank:
    """One rank's part of one channel."""

    communicator: Communicator | HierarchicalCommunicator
    send: Array
    receive: Array
    expected: Expected

    async def operate(self, operation: str) -> None:
        comm = self.communicator
        if isinstance(comm, HierarchicalCommunicator):
            await comm.all_reduce(self.send, self.receive)
        elif operation == "send_receive":
            n = comm.world
            await comm.send_receive(self.send, (comm.rank + 1) % n, self.receive, (comm.rank - 1) % n)
        else:
            await getattr(comm, operation)(self.send, self.receive)


class CollectiveLoad:
    """The ranks of a collective."""

    def __init__(self, tenant: Tenant, backend: Backend, seed: int, open_context: Callable[[str], Context]) -> None:
        load = tenant.workload
        assert isinstance(load, Collective | Training)
        self._load = load
        self._sizes = load.gradients if isinstance(load, Training) else (load.bytes,)
        self._backend = backend
        self._hosts = ordered_hosts(load, backend.fabric)
        self._contexts = [open_context(host) for host in self._hosts]
        attributes = queue_pair_attributes(tenant, backend)
        self._settings = StreamSettings(
            chunk_bytes=load.chunk,
            slots=load.slots,
            qp_type=tenant.transport.kind,
            attributes=attributes,
            queue_pairs=1 if load.spread == "parts" else tenant.transport.qps,
            split=load.spread == "split",
            unacknowledged=load.unacknowledged,
            pacing=backend.pacing(),
        )
        self._evs = tenant.transport.evs
        self._channels = channels(load, tenant.transport.qps)
        self._seed = seed
        part = load.compute * backend.time_scale / len(self._sizes) / 1e9
        self._computing = ComputingTimes(load, self._hosts, backend.fabric, seed, part)
        self._members: list[Communicator | HierarchicalCommunicator] = []
        self._buckets: list[list[_Rank]] = [[] for _ in self._sizes]  # of each operation, all ranks and channels
        self._task: asyncio.Future[None] | None = None
        self._flows: dict[tuple[str, str], list[tuple[QueuePair, QueuePair]]] = {}
        self.operations: list[OperationRecord] = []
        self.errors: list[str] = []
        self._wrong = self._checked = 0

    async def prepare(self) -> None:
        """Join all communicators."""
        load, world = self._load, len(self._hosts)
        made: dict[int, list[tuple[Array, Expected]]] = {}  # data by size, which channels and buckets share
        for channel in range(self._channels):
            meeting = LocalMeeting(world)
            joined = await asyncio.gather(
                *(self._join(context, meeting.rank(rank), f"c{channel}") for rank, context in enumerate(self._contexts))
            )
            self._members += joined
            for ranks, size in zip(self._buckets, self._sizes, strict=True):
                elements = max(world, size // ITEM // self._channels // world * world)
                if elements not in made:
                    made[elements] = contributions(load.operation, world, elements, self._seed)
                for member in joined:
                    send, expected = made[elements][member.rank]
                    ranks.append(_Rank(member, send, np.zeros(expected.size, np.float32), expected))
            for member in joined:
                for peer, sender in member.senders.items():
                    ends = (self._hosts[member.rank], self._hosts[peer])
                    far = joined[peer].receivers[member.rank]
                    self._flows.setdefault(ends, []).extend(zip(sender.pairs, far.pairs, strict=True))

    async def _join(self, context: Context, exchange: Exchange, name: str) -> Communicator | HierarchicalCommunicator:
        settings, clusters = self._settings_on(context), self._load.clusters
        if clusters > 1:
            return await HierarchicalCommunicator.join(context, exchange, settings, clusters=clusters, name=name)
        peers = Peers.ALL if self._load.operation == "all_to_all" else Peers.RING
        return await Communicator.join(context, exchange, settings, peers=peers, name=name)

    def _settings_on(self, context: Context) -> StreamSettings:
        """Of the queue pairs on one NIC."""
        return replace(self._settings, attributes=limit_evs(self._settings.attributes, self._evs, context))

    def infos(self) -> list[FlowInfo]:
        """A flow for each pair of ranks with a stream."""
        chunk, mtu = self._load.chunk, self._settings.attributes.path_mtu
        payload = chunk / -(-chunk // mtu)
        return [FlowInfo(f"{a}>{b}", a, b, len(pairs), payload) for (a, b), pairs in self._flows.items()]

    def queue_pairs(self) -> list[tuple[int, str, QueuePair]]:
        """Every sending queue pair: flow number, host, pair."""
        flows = enumerate(self._flows.items())
        return [(number, ends[0], near) for number, (ends, pairs) in flows for near, _ in pairs]

    def sample(self) -> list[list[int]]:
        """Counters of every flow."""
        return [flow_counters(pairs) for pairs in self._flows.values()]

    async def begin(self) -> None:
        """Do all iterations; returns when they are done."""
        self._task = asyncio.ensure_future(self._iterate())
        await self._task

    async def end(self, timeout_s: float) -> None:
        """Give up what is not done."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            done = sum(operation.counted for operation in self.operations)
            what = f"{self._count} operations" if isinstance(self._load, Collective) else f"{self._count} steps"
            self.errors.append(f"only {done} of {what} were done when the time was over")
            await asyncio.wait([self._task])
        for member in self._members:
            await member.leave()

    def messages(self) -> list[MessageRecord]:
        """Operations are recorded, not the writes they are made of."""
        return []

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes of results that were wrong, and bytes compared."""
        return self._wrong, self._checked

    async def _iterate(self) -> None:
        load = self._load
        everyone = [rank for ranks in self._buckets for rank in ranks]
        for number in range(load.warmup + self._count):
            if number:
                for rank in everyone:
                    rank.receive[:] = 0
            try:
                began = await self._once()
            except (MrcError, ExperimentError) as error:
                self.errors.append(str(error))
                return
            record = OperationRecord(began, self._backend.now(), sum(self._sizes), number >= load.warmup)
            self.operations.append(record)
            for rank in everyone:
                self._wrong += rank.expected.wrong_bytes(rank.receive)
                self._checked += rank.receive.nbytes

    @property
    def _count(self) -> int:
        return self._load.steps if isinstance(self._load, Training) else self._load.iterations

    async def _once(self) -> int:
        """Do one operation; returns when it began: when the first rank did."""
        began: list[int] = []

        async def rank(number: int, channels: list[_Rank]) -> None:
            if self._load.compute:
                await asyncio.sleep(self._computing.next(number))
            began.append(self._backend.now())
            await self._operate(channels)

        await asyncio.gather(*(rank(number, channels) for number, channels in enumerate(self._ranks(0))))
        return min(began)

    def _ranks(self, bucket: int) -> list[list[_Rank]]:
        """The channels of each rank, for one bucket."""
        found: list[list[_Rank]] = [[] for _ in self._hosts]
        for one in self._buckets[bucket]:
            found[one.communicator.rank].append(one)
        return found

    async def _operate(self, channels: list[_Rank]) -> None:
        await asyncio.gather(*(one.operate(self._load.operation) for one in channels))


class TrainingLoad(CollectiveLoad):
    """A training job: an operation is a step."""

    async def _once(self) -> int:
        """Do one step; returns when it began."""
        began = self._backend.now()
        summed = [asyncio.Event() for _ in self._buckets]
        left = [len(self._hosts) for _ in self._buckets]  # ranks that have a bucket's sum to get yet
        by_rank = zip(*(self._ranks(bucket) for bucket in range(len(self._buckets))), strict=True)
        await asyncio.gather(*(self._step(rank, buckets, summed, left) for rank, buckets in enumerate(by_rank)))
        return began

    async def _step(
        self, rank: int, buckets: Sequence[list[_Rank]], summed: list[asyncio.Event], left: list[int]
    ) -> None:
        """One rank's step: compute bucket by bucket, each summed up behind those before it."""
        load = self._load
        assert isinstance(load, Training)
        sums: list[asyncio.Future[None]] = []
        for number, channels in enumerate(buckets):
            await asyncio.sleep(self._computing.next(rank))
            sums.append(asyncio.ensure_future(self._sum(number, channels, summed, left)))
            if not load.overlap:
                await sums[-1]
                await summed[number].wait()
        await asyncio.gather(*sums)

    async def _sum(self, number: int, channels: list[_Rank], summed: list[asyncio.Event], left: list[int]) -> None:
        if number:
            await summed[number - 1].wait()
        await self._operate(channels)
        left[number] -= 1
        if not left[number]:
            summed[number].set()


def collective_load(
    tenant: Tenant, backend: Backend, seed: int, open_context: Callable[[str], Context]
) -> CollectiveLoad:
    """The load of a collective or a training job."""
    make = TrainingLoad if isinstance(tenant.workload, Training) else CollectiveLoad
    return make(tenant, backend, seed, open_context)


def channels(load: Collective | Training, qps: int) -> int:
    """Communicators that each do an equal part of every operation."""
    return load.channels * (qps if load.spread == "parts" else 1)


def ordered_hosts(load: Collective | Training, fabric: Fabric) -> list[str]:
    """Hosts in rank order; interleaved, neighbours in the ring are below different T0s."""
    hosts = select_hosts(load.hosts, fabric)
    if load.interleave:
        hosts.sort(key=lambda name: (fabric.nic(name).downlink, fabric.nic(name).t0))
    return hosts
