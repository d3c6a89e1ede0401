"""All-reduce in two levels, for clusters that are far apart: inside each cluster, across the clusters, inside again.

Ranks that follow one another form a cluster; all clusters have the same size. A rank belongs to two rings: one of its
cluster, and one of the ranks that have its number in every cluster. An all-reduce is three operations, one after
another: reduce-scatter in the cluster, after which a rank holds one segment of its cluster's result; all-reduce of that
segment across clusters; all-gather in the cluster. So each byte crosses to another cluster 2 (C-1)/C times for C
clusters, by whatever number of ranks, and on the way of the data there are 2 (C-1) long links; in a flat ring of all N
ranks there are 2 (N-1) steps, C of every N of which are long.

Every rank ends with the same bits: a segment is reduced across clusters once, and then copied.

The three are one operation: none of another's comes between them, and what ends one ring ends both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mrc_host.verbs import Context
from mrc_lab.workloads.collectives.communicator import Communicator
from mrc_lab.workloads.collectives.out_of_band import Exchange
from mrc_lab.workloads.collectives.reduction import ReduceOp, Reduction
from mrc_lab.workloads.collectives.settings import StreamSettings
from mrc_lab.workloads.collectives.stream import Receiver, Sender
from mrc_lab.workloads.collectives.turns import Turns

_End = TypeVar("_End")


class HierarchicalCommunicator:
    """One rank's membership in a group of several clusters. Made by :meth:`join`; only `all_reduce` is hierarchical.

    The two rings, `inside` and `across`, may be used by themselves while no all-reduce is under way: they do not know
    of its turn.
    """

    def __init__(self, rank: int, inside: Communicator, across: Communicator) -> None:
        self.rank = rank
        self.world = inside.world * across.world
        self.inside = inside
        self.across = across
        self._turns = Turns(rank, self._end)
        for ring in (inside, across):
            ring.when_failed(self._turns.fail)

    @classmethod
    async def join(
        cls,
        device: Context,
        exchange: Exchange,
        settings: StreamSettings | None = None,
        *,
        clusters: int,
        name: str = "collectives",
    ) -> HierarchicalCommunicator:
        """Join both rings, or none. Raises ValueError when the ranks are not a multiple of `clusters` (at least 1)."""
        if clusters < 1 or exchange.world % clusters:
            raise ValueError(f"{exchange.world} ranks cannot be divided evenly among {clusters} clusters")
        size = exchange.world // clusters
        first = exchange.rank // size * size
        near = _Members(exchange, range(first, first + size))
        far = _Members(exchange, range(exchange.rank % size, exchange.world, size))
        inside = await Communicator.join(device, near, settings, name=f"{name}/inside")
        try:
            across = await Communicator.join(device, far, settings, name=f"{name}/across")
        except BaseException:
            await inside.close()
            raise
        return cls(exchange.rank, inside, across)

    @property
    def senders(self) -> Mapping[int, Sender]:
        """The streams to other ranks, by rank."""
        return {**self._named(self.inside.senders, False), **self._named(self.across.senders, True)}

    @property
    def receivers(self) -> Mapping[int, Receiver]:
        """The streams from other ranks, by rank."""
        return {**self._named(self.inside.receivers, False), **self._named(self.across.receivers, True)}

    def _named(self, ends: Mapping[int, _End], across: bool) -> dict[int, _End]:
        """By rank among all, not within one of the two rings."""
        size = self.inside.world
        if across:
            return {cluster * size + self.inside.rank: end for cluster, end in ends.items()}
        return {self.across.rank * size + local: end for local, end in ends.items()}

    async def all_reduce(
        self, send: NDArray[Any], receive: NDArray[Any] | None = None, op: Reduction = ReduceOp.SUM
    ) -> None:
        """Combine `send` over all ranks into `receive` (None: in place); every rank ends with the same bits.

        The number of elements is a multiple of a cluster's ranks, else ValueError. AVG of integers rounds down in each
        level. Raises `TransferError` when a work request fails, after which the communicator is unusable. Several calls
        at once are carried out in the order of the calls.
        """
        receive = send if receive is None else receive
        self.inside.check(send, receive, 1, 1)
        op.check(send.dtype)
        if send.size % self.inside.world:
            raise ValueError(f"{send.size} elements cannot be dealt out evenly to {self.inside.world} ranks")
        segment = np.empty(send.size // self.inside.world, send.dtype)
        async with self._turns.turn():
            await self.inside.reduce_scatter(send, segment, op)
            await self.across.all_reduce(segment, op=op)
            await self.inside.all_gather(segment, receive)

    async def drain(self) -> None:
        """Wait until every write of ours is acknowledged; after this on all ranks the queue pairs may be destroyed."""
        await self.inside.drain()
        await self.across.drain()

    async def leave(self) -> None:
        """Stop looking at the completion queues; operations are over."""
        await self.inside.leave()
        await self.across.leave()

    async def close(self) -> None:
        """Leave, and destroy everything on the NIC; see `Communicator.close`."""
        await self.inside.close()
        await self.across.close()

    def _end(self, failure: Exception) -> None:
        for ring in (self.inside, self.across):
            ring.fail(failure)


class _Members:
    """The exchange of some of the ranks, made of one of all: all exchange, each takes what its members gave."""

    def __init__(self, everyone: Exchange, members: Sequence[int]) -> None:
        self._everyone = everyone
        self._members = members
        self.rank = members.index(everyone.rank)
        self.world = len(members)

    async def gather(self, name: str, value: Any) -> list[Any]:
        """As :meth:`Exchange.gather`, among the members."""
        values = await self._everyone.gather(name, value)
        return [values[member] for member in self._members]
