"""One-way streams of chunks between two ranks, made of WRITE and WRITE_WITH_IMM.

A stream has queue pairs of its own, one or several; chunk n takes the n-th, modulo their number, or each chunk is split
among all of them. The receiver uses chunks in order. Both ends keep a window of slots in registered memory, and chunk n
lives in slot n modulo the window at either end. To send a chunk, or a part of it, the sender copies it into its slot
and posts a WRITE of all but its tail and a WRITE_WITH_IMM of the tail; the receiver gets a completion for the second
one only, when everything before it is in memory. The immediate value is the CRC-32 of the chunk, seeded with its
running number and computed before posting; the receiver computes it again from its own memory when it uses the chunk. A
difference is counted as that chunk's bytes being wrong.

A slot is free again when two things are known: that the receiver has used the chunk, and that the write is
acknowledged (before that a retransmission might read the slot once more). The receiver signals the first with a
credit: a small WRITE_WITH_IMM in the other direction, whose immediate value is the number of chunks it has released so
far, modulo 2**32. It sends one for every half of the window. If too many credits are not acknowledged yet, the next one
waits and then covers everything released meanwhile. So neither end ever has more WRITE_WITH_IMMs in flight than the
queue pair's attributes allow, and memory does not depend on the size of an operation.

The two ends do not poll the completion queue: its owner passes them their completions with `take`, or the reason why
there will be none with `fail`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrc_host.verbs import MemoryRegion, QueuePair, RemoteMemory
from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus, WorkRequest, WrOpcode
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives.layout import Span, check, copy_and_check, parts
from mrc_lab.workloads.collectives.settings import StreamSettings

Bytes = NDArray[np.uint8]
CREDIT_AREA = 64  # bytes at the beginning of every region; credits are sent from there and arrive there
_CREDIT_BYTES = 4  # what a credit writes, always zeros; only its immediate value matters
_OPEN_CREDITS = 4  # unacknowledged ones at most


@dataclass(frozen=True)
class Place:
    """Where one end is. `name` is for messages; slots begin at `here` of `region` and at `there` of `remote`."""

    name: str
    settings: StreamSettings
    pairs: Sequence[QueuePair]
    region: MemoryRegion
    here: int
    remote: RemoteMemory
    there: int


class StreamEnd:
    """What both ends share. They belong to the loop that runs when they are made."""

    def __init__(self, place: Place) -> None:
        self.name = place.name
        self.pairs = tuple(place.pairs)
        self._index = {pair.qpn: index for index, pair in enumerate(self.pairs)}
        self._settings = place.settings
        self._window = place.settings.window
        self._slot_bytes = place.settings.slot_bytes
        self._region = place.region
        self._memory = np.frombuffer(place.region.buffer, dtype=np.uint8)
        self._here = place.here
        self._remote = place.remote
        self._there = place.there
        self._whole = Span(0, 0)  # of the last chunk that was not split; most are equally long
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    def take(self, completion: Completion) -> None:
        """Account for a completion of this stream's queue pair; raises `TransferError` if it is a failure."""
        if completion.status is not CompletionStatus.SUCCESS:
            why = f" ({completion.reason})" if completion.reason else ""
            raise TransferError(f"{self.name}: a write failed: {completion.status.value}{why}")
        if completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            self._immediate(self._index[completion.qpn], completion.imm or 0, completion.byte_len)
        else:
            self._acknowledged(self._index[completion.qpn])
        self._wake()

    def fail(self, failure: Exception) -> None:
        """Whoever waits here now or later gets `failure`."""
        self._failure = self._failure or failure
        self._wake()

    def _immediate(self, index: int, imm: int, length: int) -> None:
        raise NotImplementedError

    def _acknowledged(self, index: int) -> None:
        raise NotImplementedError

    def _parts(self, number: int, length: int) -> list[tuple[int, Span]]:
        """What chunk `number` is sent as: indices of queue pairs, and the part of it that each sends."""
        if self._settings.split:
            return list(enumerate(parts(length, len(self.pairs))))
        if self._whole.length != length:
            self._whole = Span(0, length)
        return [(number % len(self.pairs), self._whole)]

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready`; one coroutine at a time. A failure comes first."""
        while self._failure is None and not ready():
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _slot(self, base: int, number: int) -> int:
        """Offset of chunk `number`'s slot."""
        return base + number % self._window * self._slot_bytes

    def _write(self, offset: int, length: int, there: int, imm: int | None) -> WorkRequest:
        """A WRITE, or with `imm` a signaled WRITE_WITH_IMM, from and to these offsets of the two regions."""
        return WorkRequest(
            wr_id=0,
            opcode=WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM,
            local_address=self._region.info.address + offset,
            lkey=self._region.info.lkey,
            length=length,
            remote_address=self._remote.address + there,
            rkey=self._remote.rkey,
            imm=imm,
            signaled=imm is not None,
        )


class Sender(StreamEnd):
    """The end that sends."""

    _sent = _arrived = _released = 0  # chunks; running numbers; all before `_arrived` are acknowledged

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._posted_most = place.settings.unacknowledged_most
        self._on_free: Callable[[], None] | None = None
        slots = place.settings.window * len(self.pairs)
        self._bulks: list[WorkRequest | None] = [None] * slots  # posted last, of each part of each slot
        self._under_way: list[deque[int]] = [
            deque() for _ in self.pairs
        ]  # chunks of which each has unacknowledged parts

    async def send(self, chunk: Bytes) -> None:
        """Send 1 to `chunk_bytes` bytes; returns once they are copied, waiting for a free slot first.

        Raises `TransferError` when an earlier write of the communicator failed; the stream is then unusable.
        """
        await self._until(self._has_room)
        self._put(chunk)

    def send_now(self, chunk: Bytes) -> bool:
        """As :meth:`send` if a slot is free; False, and nothing is sent, if none is."""
        self.check()
        room = self._has_room()
        if room:
            self._put(chunk)
        return room

    def when_free(self, call: Callable[[], None] | None) -> None:
        """Have `call` called, once, when a slot is free or the stream has failed; None takes that back."""
        self._on_free = call

    def check(self) -> None:
        """Raise the stream's failure, if it has one."""
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        super()._wake()
        if self._on_free is not None and (self._failure is not None or self._has_room()):
            call, self._on_free = self._on_free, None
            call()

    def _has_room(self) -> bool:
        return self._sent - self._arrived < self._posted_most and self._sent - self._released < self._window

    def _put(self, chunk: Bytes) -> None:
        """Copy a chunk into its slot, which is free, and post it."""
        number, length = self._sent, chunk.size
        offset, there = self._slot(self._here, number), self._slot(self._there, number)
        imm = copy_and_check(number, self._region.buffer[offset : offset + length], chunk.data)
        self._sent += 1
        for index, part in self._parts(number, length):
            self._under_way[index].append(number)
            self._post(number, index, offset + part.offset, part.length, there + part.offset, imm)

    def _post(self, number: int, index: int, offset: int, length: int, there: int, imm: int) -> None:
        """Write a part of a chunk: all but its tail, then the tail with the immediate value."""
        bulk = length - min(length, self._settings.tail_bytes)
        requests = [self._bulk(number, index, offset, bulk, there)] if bulk else []
        requests.append(self._write(offset + bulk, length - bulk, there + bulk, imm))
        self.pairs[index].post_send(requests)

    def _bulk(self, number: int, index: int, offset: int, length: int, there: int) -> WorkRequest:
        """A WRITE from `offset`; often the very request that was made for this part of the slot before."""
        place = number % self._window * len(self.pairs) + index
        request = self._bulks[place]
        if request is None or request.length != length or request.local_address != self._region.info.address + offset:
            request = self._bulks[place] = self._write(offset, length, there, None)
        return request

    async def drain(self) -> None:
        """Wait until every write is acknowledged."""
        await self._until(lambda: self._arrived >= self._sent)

    def _immediate(self, index: int, imm: int, length: int) -> None:
        self._released += (imm - self._released) & 0xFFFFFFFF

    def _acknowledged(self, index: int) -> None:
        self._under_way[index].popleft()
        self._arrived = min((chunks[0] for chunks in self._under_way if chunks), default=self._sent)


class Receiver(StreamEnd):
    """The end that receives. The counters say what was received and checked so far."""

    chunks = bytes = wrong_chunks = wrong_bytes = 0
    _released = _granted = _open_credits = 0

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._immediates: list[deque[tuple[int, int]]] = [deque() for _ in self.pairs]  # and tails of new chunks
        self._credit_limit = max(1, min(_OPEN_CREDITS, place.settings.immediates))

    async def receive(self, length: int) -> Bytes:
        """Wait for the next chunk, which has `length` bytes. They are valid until :meth:`release`.

        Raises `TransferError` when an earlier write of the communicator failed, or when the chunk's tail shows that the
        sender sent another length: the two ranks are not in the same operation. The stream is then unusable.
        """
        expected = 0  # the same of every part
        for index, part in self._parts(self.chunks, length):
            arrived = self._immediates[index]
            await self._until(lambda arrived=arrived: bool(arrived))  # type: ignore[misc]
            expected, tail = arrived.popleft()
            if tail != min(part.length, self._settings.tail_bytes):
                raise TransferError(
                    f"{self.name}: a chunk of {length} bytes was expected, and one of another length arrived; "
                    "all ranks must call the same operations in the same order, with arrays that fit"
                )
        offset = self._slot(self._here, self.chunks)
        if check(self.chunks, self._region.buffer[offset : offset + length]) != expected:
            self.wrong_chunks += 1
            self.wrong_bytes += length
        self.chunks += 1
        self.bytes += length
        return self._memory[offset : offset + length]

    def release(self) -> None:
        """Give the slot of the chunk received last back to the sender."""
        self._released += 1
        self._grant()

    async def drain(self) -> None:
        """Wait until every credit is acknowledged."""
        await self._until(lambda: not self._open_credits)

    def _grant(self) -> None:
        """Tell the sender how many slots are free again, if it is worth a packet."""
        enough = self._released - self._granted >= max(1, self._window // 2)
        if enough and self._open_credits < self._credit_limit:
            self._granted = self._released
            self._open_credits += 1
            self.pairs[0].post_send([self._write(0, _CREDIT_BYTES, 0, self._granted & 0xFFFFFFFF)])

    def _immediate(self, index: int, imm: int, length: int) -> None:
        self._immediates[index].append((imm, length))

    def _acknowledged(self, index: int) -> None:
        self._open_credits -= 1
        self._grant()
