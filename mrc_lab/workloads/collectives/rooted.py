"""Operations that begin or end at one rank, and exchanges of arrays of any lengths between all ranks.

`reduce` is a chain along the ring that ends at the root: every link carries each byte once. The others send directly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mrc_lab.workloads.collectives.algorithms import (
    Array,
    RingPlace,
    as_bytes,
    combine,
    part,
    ready_times,
    receive_segment,
    send_segment,
    together,
)
from mrc_lab.workloads.collectives.layout import Layout
from mrc_lab.workloads.collectives.pacing import Pacing
from mrc_lab.workloads.collectives.reduction import Reduction
from mrc_lab.workloads.collectives.stream import Receiver, Sender


async def reduce(
    ring: RingPlace, send: Array, receive: Array | None, op: Reduction, root: int, chunk_bytes: int
) -> None:
    """Combine in the order root+1, root+2, ..., root. Only the root needs `receive`."""
    layout = Layout(send.size, send.itemsize, 1, chunk_bytes)
    source = as_bytes(send)
    place = (ring.rank - root) % ring.world
    target = as_bytes(receive) if receive is not None else None

    async def receiving() -> None:
        if place == 1:
            return
        for chunk in layout.chunks(0):
            arrived = await ring.previous.receive(chunk.length)
            total = part(target, chunk) if place == 0 and target is not None else np.empty_like(arrived)
            combine(op, arrived, part(source, chunk), total, send.dtype)
            ring.previous.release()
            if place == 0:
                op.finish(total.view(send.dtype), ring.world)
            else:
                ring.send(total)

    if place == 1:
        ring.send_all(source, layout, 0)
    await ring.run(receiving())


async def exchange(
    senders: Mapping[int, Sender],
    receivers: Mapping[int, Receiver],
    outgoing: Mapping[int, Array],
    incoming: Mapping[int, Array],
    chunk_bytes: int,
    pacing: Pacing | None = None,
) -> None:
    """Send each array to its rank while receiving one from each of others, all at once; empty ones take no packet."""
    out = {peer: Layout(array.size, array.itemsize, 1, chunk_bytes).chunks(0) for peer, array in outgoing.items()}
    times = ready_times(pacing, list(out.values()))
    work = [
        send_segment(senders[peer], as_bytes(outgoing[peer]), chunks, ready, pacing)
        for (peer, chunks), ready in zip(out.items(), times, strict=True)
    ]
    for peer, array in incoming.items():
        layout = Layout(array.size, array.itemsize, 1, chunk_bytes)
        work.append(receive_segment(receivers[peer], as_bytes(array), layout, 0))
    await together(*work)
