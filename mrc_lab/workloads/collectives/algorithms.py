"""The collective operations over streams, as coroutines of one rank.

All but all-to-all go round a ring: a rank receives from the one before it and sends to the one after. What cannot be
sent at once waits in an outbox, so that a rank always takes what arrives, however slow its own way out is; otherwise a
ring whose windows are all full would stand still. Arrays are cut in segments, one a rank, and
segments in chunks that move on independently: a chunk is passed on as soon as it is there (and reduced), and all links
of the ring work at the same time.

In a reduction segment k is always combined in the same order of ranks (see `ring_reduce`) and then copied, whatever
the timing: every rank ends with the same bits. Parts go round in `receive` and never disturb one another: a segment's
result can only exist after our part of it has been sent.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_lab.workloads.collectives.chunk_outbox import ChunkOutbox
from mrc_lab.workloads.collectives.layout import Layout, Span
from mrc_lab.workloads.collectives.pacing import Pacing
from mrc_lab.workloads.collectives.reduction import Reduction
from mrc_lab.workloads.collectives.stream import Bytes, Receiver, Sender

Array = NDArray[Any]


class RingPlace:
    """One rank's place in a ring of `world` (at least 2) for one operation: where it receives, and what it sends on.

    `pacing` is how long the library takes with each chunk.
    """

    def __init__(
        self, rank: int, world: int, previous: Receiver, following: Sender, pacing: Pacing | None = None
    ) -> None:
        self.rank = rank
        self.world = world
        self.previous = previous
        self._outbox = ChunkOutbox(following, pacing, previous.fail)
        self.send = self._outbox.put

    def send_all(self, data: Bytes, layout: Layout, index: int) -> None:
        """Send every chunk of a segment."""
        for chunk in layout.chunks(index):
            self.send(part(data, chunk))

    async def run(self, receiving: Coroutine[Any, Any, None]) -> None:
        """Receive, and send the rest, until both are through."""
        try:
            await receiving
            await self._outbox.flush()
        finally:
            self._outbox.close()


async def all_reduce(ring: RingPlace, send: Array, receive: Array, op: Reduction, chunk_bytes: int) -> None:
    """Reduce and scatter, then gather: 2 (N-1) steps."""
    rank, world = ring.rank, ring.world
    layout = Layout(send.size, send.itemsize, world, chunk_bytes)
    source, target = as_bytes(send), as_bytes(receive)

    async def receiving() -> None:
        for step in range(world - 1):
            for chunk in layout.chunks(rank - step - 1):
                arrived = await ring.previous.receive(chunk.length)
                total = part(target, chunk)
                combine(op, arrived, part(source, chunk), total, send.dtype)
                if step == world - 2:
                    op.finish(total.view(send.dtype), world)
                ring.previous.release()
                ring.send(total)
        await _pass_on(ring, layout, target, rank)

    ring.send_all(source, layout, rank)
    await ring.run(receiving())


async def reduce_scatter(ring: RingPlace, send: Array, receive: Array, op: Reduction, chunk_bytes: int) -> None:
    """N-1 steps; segment r of the result ends on rank r. Partial results need memory of one segment at most."""
    rank, world = ring.rank, ring.world
    layout = Layout(send.size, send.itemsize, world, chunk_bytes)
    source, target = as_bytes(send), as_bytes(receive)
    base = layout.segment(rank).offset

    async def receiving() -> None:
        for step in range(world - 1):
            last = step == world - 2
            for chunk in layout.chunks(rank - step - 2):
                arrived = await ring.previous.receive(chunk.length)
                there = Span(chunk.offset - base, chunk.length)
                total = part(target, there) if last else np.empty_like(arrived)
                combine(op, arrived, part(source, chunk), total, send.dtype)
                ring.previous.release()
                if last:
                    op.finish(total.view(send.dtype), world)
                else:
                    ring.send(total)

    ring.send_all(source, layout, rank - 1)
    await ring.run(receiving())


async def all_gather(ring: RingPlace, send: Array, receive: Array, chunk_bytes: int) -> None:
    """N-1 steps: every rank's segment goes round once."""
    layout = Layout(receive.size, receive.itemsize, ring.world, chunk_bytes)
    source, target = as_bytes(send), as_bytes(receive)
    _put(part(target, layout.segment(ring.rank)), source)
    ring.send_all(target, layout, ring.rank)
    await ring.run(_pass_on(ring, layout, target, ring.rank - 1))


async def broadcast(ring: RingPlace, send: Array, receive: Array, root: int, chunk_bytes: int) -> None:
    """A chain from `root` round the ring to the rank before it."""
    layout = Layout(receive.size, receive.itemsize, 1, chunk_bytes)
    target = as_bytes(receive)
    place = (ring.rank - root) % ring.world

    async def receiving() -> None:
        if place == 0:
            return
        for chunk in layout.chunks(0):
            arrived = await ring.previous.receive(chunk.length)
            part(target, chunk)[:] = arrived
            ring.previous.release()
            if place < ring.world - 1:
                ring.send(part(target, chunk))

    if place == 0:
        _put(target, as_bytes(send))
        ring.send_all(target, layout, 0)
    await ring.run(receiving())


async def all_to_all(
    rank: int,
    senders: Mapping[int, Sender],
    receivers: Mapping[int, Receiver],
    send: Array,
    receive: Array,
    chunk_bytes: int,
    pacing: Pacing | None = None,
) -> None:
    """Segment j of `send` goes to rank j, directly and all at once; own data is copied."""
    layout = Layout(send.size, send.itemsize, len(senders) + 1, chunk_bytes)
    source, target = as_bytes(send), as_bytes(receive)
    own = layout.segment(rank)
    part(target, own)[:] = part(source, own)
    times = ready_times(pacing, [layout.chunks(peer) for peer in senders])
    work = [
        send_segment(sender, source, layout.chunks(peer), ready, pacing)
        for (peer, sender), ready in zip(senders.items(), times, strict=True)
    ]
    work += [receive_segment(receiver, target, layout, peer) for peer, receiver in receivers.items()]
    await together(*work)


async def send_receive(
    sender: Sender, receiver: Receiver, send: Array, receive: Array, chunk_bytes: int, pacing: Pacing | None = None
) -> None:
    """One array out and another one in."""
    outgoing = Layout(send.size, send.itemsize, 1, chunk_bytes)
    incoming = Layout(receive.size, receive.itemsize, 1, chunk_bytes)
    chunks = list(outgoing.chunks(0))
    (ready,) = ready_times(pacing, [chunks])
    await together(
        send_segment(sender, as_bytes(send), chunks, ready, pacing),
        receive_segment(receiver, as_bytes(receive), incoming, 0),
    )


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines at the same time; when one fails the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def as_bytes(array: Array) -> Bytes:
    """The bytes of a one-dimensional contiguous array."""
    return array.view(np.uint8)


def part(data: Bytes, span: Span) -> Bytes:
    """The bytes of `span`."""
    return data[span.offset : span.end]


async def _pass_on(ring: RingPlace, layout: Layout, target: Bytes, first: int) -> None:
    """Receive the segments `first`, `first`-1, ... into `target`; pass each on, except the last one."""
    for step in range(ring.world - 1):
        for chunk in layout.chunks(first - step):
            place = part(target, chunk)
            place[:] = await ring.previous.receive(chunk.length)
            ring.previous.release()
            if step < ring.world - 2:
                ring.send(place)


def ready_times(pacing: Pacing | None, streams: Sequence[Iterable[Span]]) -> list[list[float]]:
    """When chunks to several ranks may be sent, which are copied in turn: the first of each, then the second ..."""
    times: list[list[float]] = [[] for _ in streams]
    if pacing is not None:
        for chunks in itertools.zip_longest(*streams):
            for chunk, stream in zip(chunks, times, strict=True):
                if chunk is not None:
                    stream.append(pacing.ready(chunk.length))
    return times


async def send_segment(
    sender: Sender, data: Bytes, chunks: Iterable[Span], ready: Sequence[float], pacing: Pacing | None
) -> None:
    """Send the chunks of `data`, each not before it is ready."""
    for number, chunk in enumerate(chunks):
        if pacing is not None:
            await pacing.until(ready[number])
        await sender.send(part(data, chunk))


async def receive_segment(receiver: Receiver, data: Bytes, layout: Layout, index: int) -> None:
    """Receive the chunks of segment `index` into their places in `data`."""
    for chunk in layout.chunks(index):
        part(data, chunk)[:] = await receiver.receive(chunk.length)
        receiver.release()


def combine(op: Reduction, left: Bytes, right: Bytes, out: Bytes, dtype: np.dtype[Any]) -> None:
    """One step of a reduction, on bytes."""
    op.combine(left.view(dtype), right.view(dtype), out.view(dtype))


def _put(place: Bytes, data: Bytes) -> None:
    """Copy, unless it is the same memory."""
    if place.ctypes.data != data.ctypes.data:
        place[:] = data
