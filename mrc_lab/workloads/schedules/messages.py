"""Messages of a schedule over verbs: each is a WRITE_WITH_IMM into a slot that its receiver has set aside.

Messages from one rank to another under the same queue number share a *channel*: queue pairs in turn, and `slots` slots
of registered memory at the receiver, each as large as the channel's largest message. The immediate value is the
operation's number in the schedule; source, size and tag are looked up there, as a header would give them. What arrives
is compared with what was sent, handed on in the order of sending, and its slot is free again once the write is also
acknowledged. So a message may wait for a slot, but never for a receive to be posted. A message of 0 bytes is a write of
one byte; one from a rank to itself is not written at all.

All ranks are in this process, one on each NIC.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mrc_common.random_bytes import fill
from mrc_host.errors import MrcError
from mrc_host.verbs import CompletionQueue, Context, MemoryRegion, QueuePair
from mrc_host.verbs_types import Access, Completion, CompletionOpcode, CompletionStatus, QpAttributes, QpType
from mrc_lab.errors import TransferError
from mrc_lab.workloads.schedules.schedule import Operation, OperationKind, Schedule

MAX_QUEUE_PAIRS = 8192
_SHIFT = 4093  # messages begin at this many places of what a rank sends, so that no two in a row have the same bytes


@dataclass(frozen=True, slots=True)
class ChannelKey:
    """A channel: the ranks at its ends, and its number between them."""

    source: int
    destination: int
    queue: int


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """Of all channels. `slots` are messages under way on one, over its `queue_pairs` together."""

    slots: int = 4
    queue_pairs: int = 1
    qp_type: QpType = QpType.MRC


@dataclass(slots=True)
class RankChannel:
    """One channel, connected. `under_way` are its messages from posting until they are handed on, in order."""

    pairs: list[tuple[QueuePair, QueuePair]]  # near end, far end
    source: MemoryRegion
    target: MemoryRegion
    slot_bytes: int
    free: deque[int]
    slot_of: dict[int, int] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    under_way: deque[int] = field(default_factory=deque)
    arrived: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    posted: int = 0


def channel_sizes(schedule: Schedule) -> dict[ChannelKey, int]:
    """Every channel that a schedule needs, with the bytes of its largest message; ranks to themselves have none."""
    found: dict[ChannelKey, int] = {}
    for one in schedule.operations:
        if one.kind is OperationKind.SEND and one.peer != one.rank:
            key = ChannelKey(one.rank, one.peer, one.queue)
            found[key] = max(found.get(key, 1), one.size)
    return found


def memory_bytes(schedule: Schedule, slots: int) -> int:
    """Registered memory that all ranks need together."""
    sizes = channel_sizes(schedule)
    largest: dict[int, int] = {}
    for key, size in sizes.items():
        largest[key.source] = max(largest.get(key.source, 0), size)
    return slots * sum(sizes.values()) + sum(size + _SHIFT for size in largest.values())


class ScheduleMessages:
    """All channels of a schedule. `on_sent` and `on_arrived` are called with the number of the send.

    `failed` is called once with the reason when a write fails; nothing is sent from then on.
    """

    def __init__(
        self,
        schedule: Schedule,
        settings: MessageSettings,
        contexts: Sequence[Context],
        attributes: Callable[[Context], QpAttributes],
        seed: int,
    ) -> None:
        self._operations = schedule.operations
        self.settings = settings
        self._contexts = contexts
        self._channels: dict[ChannelKey, RankChannel] = {}
        self._readers: list[asyncio.Future[None]] = []
        self._queues: list[CompletionQueue] = []
        self._broken = False
        self.wrong_bytes = self.checked_bytes = 0
        self.on_sent: Callable[[int], None] = lambda number: None
        self.on_arrived: Callable[[int], None] = lambda number: None
        self.failed: Callable[[Exception], None] = lambda error: None
        self._make(channel_sizes(schedule), attributes, seed)

    @property
    def channels(self) -> Mapping[ChannelKey, RankChannel]:
        """All channels."""
        return self._channels

    def _make(self, sizes: Mapping[ChannelKey, int], attributes: Callable[[Context], QpAttributes], seed: int) -> None:
        settings = self.settings
        ends: defaultdict[int, int] = defaultdict(int)
        largest: defaultdict[int, int] = defaultdict(int)
        for key, size in sizes.items():
            ends[key.source] += 1
            ends[key.destination] += 1
            largest[key.source] = max(largest[key.source], size)
        domains = {rank: self._contexts[rank].alloc_pd() for rank in ends}
        queues = {
            rank: self._contexts[rank].create_cq(count * (settings.slots + 8) + 16) for rank, count in ends.items()
        }
        values = {rank: attributes(self._contexts[rank]) for rank in ends}
        sources: dict[int, MemoryRegion] = {}
        for rank, size in largest.items():
            sources[rank] = domains[rank].alloc_mr(size + _SHIFT)
            fill(sources[rank].buffer, random.Random(f"{seed}/{rank}"))
        for key, size in sizes.items():
            rank, peer = key.source, key.destination
            target = domains[peer].alloc_mr(size * settings.slots, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
            pairs: list[tuple[QueuePair, QueuePair]] = []
            for _ in range(settings.queue_pairs):
                near, far = (
                    domains[end].create_qp(queues[end], queues[end], settings.qp_type, values[end])
                    for end in (rank, peer)
                )
                near.connect(far.address)
                far.connect(near.address)
                pairs.append((near, far))
            self._channels[key] = RankChannel(pairs, sources[rank], target, size, deque(range(settings.slots)))
        self._queues = list(queues.values())

    def start(self) -> None:
        """Begin to take completions."""
        self._readers = [asyncio.ensure_future(self._read(queue)) for queue in self._queues]

    async def stop(self) -> None:
        """Take no more completions."""
        for reader in self._readers:
            reader.cancel()
        if self._readers:
            await asyncio.wait(self._readers)

    def send(self, number: int) -> None:
        """Send the message of operation `number`, as soon as there is a slot for it."""
        one = self._operations[number]
        if one.peer == one.rank:
            asyncio.get_running_loop().call_soon(self._deliver_here, number)
            return
        channel = self._channel(one)
        channel.waiting.append(number)
        self._post(channel)

    def _deliver_here(self, number: int) -> None:
        self.on_sent(number)
        self.on_arrived(number)

    def _channel(self, one: Operation) -> RankChannel:
        return self._channels[ChannelKey(one.rank, one.peer, one.queue)]

    def _post(self, channel: RankChannel) -> None:
        """Post what has a slot."""
        while channel.waiting and channel.free and not self._broken:
            number = channel.waiting.popleft()
            slot = channel.free.popleft()
            channel.slot_of[number] = slot
            channel.under_way.append(number)
            pair = channel.pairs[channel.posted % len(channel.pairs)][0]
            channel.posted += 1
            try:
                pair.write(
                    channel.source,
                    channel.target.remote,
                    offset=number % _SHIFT,
                    remote_offset=slot * channel.slot_bytes,
                    length=max(1, self._operations[number].size),
                    wr_id=number,
                    imm=number,
                )
            except MrcError as error:
                self._fail(error)

    async def _read(self, queue: CompletionQueue) -> None:
        try:
            while True:
                self._take(await queue.next())
        except Exception as error:  # of any kind: nobody else would take completions
            self._fail(error)

    def _take(self, completion: Completion) -> None:
        if completion.status is not CompletionStatus.SUCCESS:
            why = f": {completion.reason}" if completion.reason else ""
            raise TransferError(f"{self._operations[completion.wr_id]}: {completion.status.value}{why}")
        received = completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM
        number = (completion.imm or 0) if received else completion.wr_id
        channel = self._channel(self._operations[number])
        if received:
            self._compare(channel, number)
            channel.arrived.add(number)
        else:
            channel.acknowledged.add(number)
            self.on_sent(number)
        self._free(channel, number)
        while channel.under_way and channel.under_way[0] in channel.arrived:
            first = channel.under_way.popleft()
            self.on_arrived(first)
            self._forget(channel, first)
        self._post(channel)

    def _compare(self, channel: RankChannel, number: int) -> None:
        """Count bytes that are not what was sent."""
        size, slot = self._operations[number].size, channel.slot_of[number]
        there, here = slot * channel.slot_bytes, number % _SHIFT
        found = np.frombuffer(channel.target.buffer, np.uint8, size, there) if size else np.empty(0, np.uint8)
        sent = np.frombuffer(channel.source.buffer, np.uint8, size, here) if size else found
        self.wrong_bytes += int(np.count_nonzero(found != sent))
        self.checked_bytes += size

    def _free(self, channel: RankChannel, number: int) -> None:
        """A slot is free when its message is there and nothing of it can be sent once more."""
        if number in channel.acknowledged and number in channel.arrived:
            channel.free.append(channel.slot_of.pop(number))
            self._forget(channel, number)

    def _forget(self, channel: RankChannel, number: int) -> None:
        """Drop what is kept of a message, once it is handed on and its slot is free."""
        if number not in channel.slot_of and number not in channel.under_way:
            channel.arrived.discard(number)
            channel.acknowledged.discard(number)

    def _fail(self, error: Exception) -> None:
        if not self._broken:
            self._broken = True
            self.failed(error)
