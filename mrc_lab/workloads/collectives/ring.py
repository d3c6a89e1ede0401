"""A ring of ranks for data-parallel training: sums of gradients in place, and blocks of bytes gathered.

This is a :class:`Communicator` with streams to its two neighbours, made for arrays up to a given size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_host.verbs import Context, QueuePair
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.workloads.collectives.communicator import Communicator, TransferCounters
from mrc_lab.workloads.collectives.out_of_band import Exchange
from mrc_lab.workloads.collectives.reduction import ring_reduce
from mrc_lab.workloads.collectives.settings import CHUNK_BYTES, WIDEST_ITEM, StreamSettings


@dataclass(frozen=True, slots=True)
class RingSettings:
    """What a ring is built for: `max_bytes` bounds the array of one operation; the rest is as in `StreamSettings`."""

    max_bytes: int
    chunk_bytes: int = CHUNK_BYTES
    tail_bytes: int = 4096
    qp_type: QpType = QpType.MRC
    attributes: QpAttributes = field(default_factory=QpAttributes)

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.chunk_bytes, self.tail_bytes) < 1:
            raise ValueError("max_bytes, chunk_bytes and tail_bytes must be at least 1")

    @property
    def streams(self) -> StreamSettings:
        """Settings of the two streams."""
        chunk = max(self.chunk_bytes, WIDEST_ITEM)
        return StreamSettings(chunk, tail_bytes=self.tail_bytes, qp_type=self.qp_type, attributes=self.attributes)


class Ring:
    """One rank's end of a ring. Operations are collective: every rank calls the same ones, in the same order."""

    def __init__(self, settings: RingSettings, communicator: Communicator) -> None:
        self.settings = settings
        self._communicator = communicator

    @classmethod
    async def join(cls, device: Context, exchange: Exchange, settings: RingSettings, *, name: str = "ring") -> Ring:
        """Create memory and queue pairs on `device`, exchange addresses under `name`, connect, wait for all ranks."""
        return cls(settings, await Communicator.join(device, exchange, settings.streams, name=name))

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self._communicator.rank

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self._communicator.world

    @property
    def pairs(self) -> tuple[QueuePair, QueuePair]:
        """The queue pairs to the next and to the previous rank; there are none in a world of one."""
        (sender,), (receiver,) = self._communicator.senders.values(), self._communicator.receivers.values()
        return sender.pairs[0], receiver.pairs[0]

    @property
    def transfer(self) -> TransferCounters:
        """What was received and checked so far."""
        return self._communicator.transfer

    async def all_reduce(self, array: NDArray[Any]) -> None:
        """Replace `array` (one-dimensional, contiguous) by the sum over all ranks, the same bits on each.

        Raises `TransferError` when a work request fails; the ring is then unusable.
        """
        self._check(array.nbytes)
        await self._communicator.all_reduce(array)

    async def all_gather(self, block: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Give `block` (bytes, the same length on every rank); returns all ranks' blocks as rows in rank order."""
        rows = np.empty(self.world * block.size, dtype=np.uint8)
        self._check(rows.nbytes)
        await self._communicator.all_gather(block, rows)
        return rows.reshape(self.world, block.size)

    async def drain(self) -> None:
        """Wait until every write of ours is acknowledged; after this on all ranks the queue pairs may be destroyed."""
        await self._communicator.drain()

    def _check(self, nbytes: int) -> None:
        if nbytes > self.settings.max_bytes:
            raise ValueError(f"{nbytes} bytes in one operation, but the ring was built for {self.settings.max_bytes}")


def ring_sum(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Sum of one array a rank, added in the order a ring of that many ranks adds them: the same bits."""
    return ring_reduce(parts)
