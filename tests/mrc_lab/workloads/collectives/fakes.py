"""A NIC that copies memory: verbs for tests of what is built on verbs, with timing chosen by a seeded generator.

Writes of one queue pair are placed in any order between two WRITE_WITH_IMMs, which complete in order, as MRC allows.
Source memory is read when a write is placed, not when it is posted, and must not have changed until it is acknowledged.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrc_host.verbs_types import (
    Access,
    AsyncEvent,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    MemoryRegionInfo,
    PathInfo,
    PathState,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpType,
    WorkRequest,
    WrOpcode,
)


class FakeNetwork:
    """Joins the fake devices of one test."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs: dict[tuple[bytes, int], FakePair] = {}
        self.regions: dict[int, FakeRegion] = {}
        self.corrupt_next = 0  # how many of the next placements get one byte flipped
        self.fail_next = 0  # how many of the next placements are refused
        self.placed_bytes = 0
        self.stalled = False  # nothing is placed meanwhile
        self.devices: list[FakeDevice] = []
        self.silent: set[bytes] = set()  # NICs that neither send nor answer
        self.imm_count = 0
        self.plain_count = 0

    def region_at(self, address: int) -> FakeRegion:
        return next(r for r in self.regions.values() if 0 <= address - r.info.address < r.info.length)

    def reachable(self, pair: FakePair) -> bool:
        """Whether neither end is silent."""
        assert pair.remote is not None
        return not self.silent & {pair.address.address, pair.remote.address}

    def device(self, number: int) -> FakeDevice:
        self.devices.append(FakeDevice(self, number))
        return self.devices[-1]


@dataclass
class FakeRegion:
    info: MemoryRegionInfo
    buffer: memoryview


class FakeQueue:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: deque[Completion] = deque()
        self.listener: Callable[[], None] | None = None

    def put(self, completion: Completion) -> None:
        self.entries.append(completion)
        assert len(self.entries) <= self.capacity, "completion queue overrun"
        asyncio.get_running_loop().call_soon(self._call)

    def poll(self, max_entries: int = 16) -> list[Completion]:
        return [self.entries.popleft() for _ in range(min(max_entries, len(self.entries)))]

    def listen(self, listener: Callable[[], None]) -> None:
        self.listener = listener
        asyncio.get_running_loop().call_soon(self._call)  # for entries that are here already

    def unlisten(self) -> None:
        self.listener = None

    def _call(self) -> None:
        if self.listener is not None:
            self.listener()

    def close(self) -> None:
        """Nothing looks at it any more."""


@dataclass
class _Write:
    region: FakeRegion | None  # None: of no bytes
    offset: int
    request: WorkRequest
    copy: bytes

    @property
    def now(self) -> bytes | memoryview:
        return b"" if self.region is None else self.region.buffer[self.offset : self.offset + self.request.length]


@dataclass
class FakePair:
    network: FakeNetwork
    address: QpAddress
    send_cq: FakeQueue
    recv_cq: FakeQueue
    attributes: QpAttributes
    remote: QpAddress | None = None
    queue: deque[_Write] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    open_imms: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    last_acknowledgement: asyncio.Task[None] | None = None
    closed: bool = False

    @property
    def qpn(self) -> int:
        return self.address.qpn

    def connect(self, remote: QpAddress) -> None:
        self.remote = remote
        self.tasks.append(asyncio.get_running_loop().create_task(self._run()))

    def post_send(self, requests: Sequence[WorkRequest]) -> None:
        for request in requests:
            assert (request.imm is None) == (request.opcode is WrOpcode.WRITE)
            self.open_imms += request.imm is not None
            if not request.length:
                self.queue.append(_Write(None, 0, request, b""))
                continue
            region = next(r for r in self.network.regions.values() if r.info.lkey == request.lkey)
            offset = request.local_address - region.info.address
            assert 0 <= offset <= offset + request.length <= len(region.buffer)
            self.queue.append(_Write(region, offset, request, bytes(region.buffer[offset : offset + request.length])))
        assert self.open_imms <= self.attributes.max_wimm_dest
        self.wake.set()

    def close(self) -> None:
        self.closed = True
        for task in self.tasks:
            if not task.get_loop().is_closed():
                task.cancel()

    def counters(self) -> QpCounters:
        return QpCounters(data_sent=self.sent)

    def paths(self) -> tuple[PathInfo, ...]:
        return (PathInfo(ev=0, plane=0, state=PathState.GOOD, active=True),)

    async def _run(self) -> None:
        while True:
            while not self.queue:
                self.wake.clear()
                await self.wake.wait()
            group = []
            while self.queue:
                group.append(self.queue.popleft())
                if group[-1].request.imm is not None:
                    break
            order = group[:]
            self.network.random.shuffle(order)
            for write in order:
                for _ in range(self.network.random.randrange(4)):
                    await asyncio.sleep(0)
                while self.network.stalled or not self.network.reachable(self):
                    await asyncio.sleep(0.002)
                if not self._place(write):
                    return
            for write in group:
                if write.request.imm is not None:
                    peer = self.network.pairs[self.remote.address, self.remote.qpn]
                    imm = CompletionOpcode.RECV_WRITE_WITH_IMM
                    request, ok = write.request, CompletionStatus.SUCCESS
                    peer.recv_cq.put(Completion(0, peer.address.qpn, imm, ok, request.length, request.imm))
            acknowledgement = self._acknowledge(group, self.last_acknowledgement)
            self.last_acknowledgement = asyncio.get_running_loop().create_task(acknowledgement)
            self.tasks.append(self.last_acknowledgement)

    def _place(self, write: _Write) -> bool:
        network, request = self.network, write.request
        assert self.remote is not None
        if network.pairs[self.remote.address, self.remote.qpn].closed:
            return self._fail(request, CompletionStatus.REMOTE_OPERATION_ERROR, "the peer's queue pair is gone")
        if not request.length:
            return True
        target = next(
            r for r in network.regions.values() if 0 <= request.remote_address - r.info.address < r.info.length
        )
        if network.fail_next or target.info.rkey != request.rkey:
            network.fail_next = max(network.fail_next - 1, 0)
            return self._fail(request, CompletionStatus.REMOTE_ACCESS_ERROR, "wrong rkey")
        at = request.remote_address - target.info.address
        data = bytearray(write.now)
        if network.corrupt_next:
            network.corrupt_next -= 1
            data[network.random.randrange(len(data))] ^= 0x10
        target.buffer[at : at + request.length] = data
        network.placed_bytes += request.length
        network.imm_count += request.imm is not None
        network.plain_count += request.imm is None
        self.sent += 1
        return True

    def _fail(self, request: WorkRequest, status: CompletionStatus, reason: str) -> bool:
        opcode = CompletionOpcode.WRITE
        self.send_cq.put(Completion(request.wr_id, self.address.qpn, opcode, status, 0, reason=reason))
        return False

    async def _acknowledge(self, group: list[_Write], before: asyncio.Task[None] | None) -> None:
        for _ in range(self.network.random.randrange(12)):
            await asyncio.sleep(0)
        if before is not None:
            await before
        for write in group:
            assert write.now == write.copy, "memory was changed before its write was acknowledged"
            self.open_imms -= write.request.imm is not None
            request, ok = write.request, CompletionStatus.SUCCESS
            if request.signaled:
                opcode = CompletionOpcode.WRITE
                self.send_cq.put(Completion(request.wr_id, self.address.qpn, opcode, ok, request.length))


class FakeDevice:
    def __init__(self, network: FakeNetwork, number: int) -> None:
        self.network = network
        self.nic = bytes(15) + bytes([number])
        self.name = f"h{number + 1}"
        self.domains: list[FakeDomain] = []
        self.events: asyncio.Queue[AsyncEvent] = asyncio.Queue()

    async def next_event(self) -> AsyncEvent:
        return await self.events.get()

    def alloc_pd(self) -> FakeDomain:
        self.domains.append(FakeDomain(self))
        return self.domains[-1]

    def kill(self) -> None:
        """As when its process ends: nothing that it has stays on the NIC."""
        for domain in self.domains:
            domain.close()

    def create_cq(self, capacity: int) -> FakeQueue:
        return FakeQueue(capacity)


class FakeDomain:
    def __init__(self, device: FakeDevice) -> None:
        self.network, self.nic = device.network, device.nic
        self.pairs: list[FakePair] = []

    def close(self) -> None:
        for pair in self.pairs:
            pair.close()

    def alloc_mr(self, length: int, access: Access) -> FakeRegion:
        assert access == Access.LOCAL_WRITE | Access.REMOTE_WRITE
        address = 0x10_0000 + sum(-(-len(r.buffer) // 4096) * 4096 + 4096 for r in self.network.regions.values())
        number = len(self.network.regions)
        info = MemoryRegionInfo(address, length, lkey=3000 + number, rkey=7000 + number)
        region = FakeRegion(info, memoryview(bytearray(length)))
        self.network.regions[info.rkey] = region
        return region

    def create_qp(
        self,
        send_cq: Any,
        recv_cq: Any,
        qp_type: QpType = QpType.MRC,
        attributes: QpAttributes = QpAttributes(),  # noqa: B008 (frozen)
    ) -> FakePair:
        address = QpAddress(self.nic, 16 + len(self.network.pairs))
        pair = FakePair(self.network, address, send_cq, recv_cq, attributes)
        self.network.pairs[self.nic, address.qpn] = pair
        self.pairs.append(pair)
        return pair


class FakeExchange:
    """Ranks of one process gathering over futures."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.values: dict[str, dict[int, Any]] = {}
        self.done: dict[str, asyncio.Event] = {}

    def rank(self, number: int) -> FakeRank:
        return FakeRank(self, number)


class FakeRank:
    def __init__(self, exchange: FakeExchange, rank: int) -> None:
        self.exchange = exchange
        self.rank = rank
        self.world = exchange.world

    async def gather(self, name: str, value: Any) -> list[Any]:
        values = self.exchange.values.setdefault(name, {})
        event = self.exchange.done.setdefault(name, asyncio.Event())
        values[self.rank] = value
        if len(values) == self.world:
            event.set()
        await event.wait()
        return [values[r] for r in range(self.world)]
