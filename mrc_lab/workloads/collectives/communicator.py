"""A rank's membership in a group that does collective operations, in the manner of an NCCL communicator.

Joining creates, on the rank's NIC, one region of registered memory, one completion queue and the queue pairs of each
stream; the ranks exchange their addresses over an :class:`Exchange` and connect. From then on operations need
only the fabric. Completions are handed to their streams as they arrive.

Operations are collective: every rank calls the same ones, in the same order, with arguments that fit. Arrays are
one-dimensional, contiguous and of any type whose elements have at most 16 bytes; they need not be registered. An
operation returns when the caller's arrays may be used again; `drain` waits until the NIC has nothing under way either.

Several operations may be called at once: they are carried out one after another, in the order of the calls, as on a
CUDA stream. Several communicators may use one NIC at once; each has queue pairs of its own.

An operation that fails or is cancelled half-way takes its communicator with it, since nobody knows what the other
ranks have of it: operations called later, or waiting for their turn, raise the same reason. A rank that only receives
does not notice that its peer is gone; a caller that needs an end in bounded time puts a timeout round the operation,
in the way of asyncio, and closes the communicator: ``asyncio.wait_for(ranks.all_reduce(array), 30)``.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_host.errors import MrcError
from mrc_host.verbs import CompletionQueue, Context
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import algorithms, rooted
from mrc_lab.workloads.collectives.out_of_band import Exchange
from mrc_lab.workloads.collectives.rank_resources import Card, Resources, StreamPlan
from mrc_lab.workloads.collectives.reduction import ReduceOp, Reduction
from mrc_lab.workloads.collectives.settings import WIDEST_ITEM, Peers, StreamSettings
from mrc_lab.workloads.collectives.stream import Receiver, Sender, StreamEnd
from mrc_lab.workloads.collectives.turns import Turns


@dataclass(frozen=True, slots=True)
class TransferCounters:
    """What one rank received and checked so far; `wrong_bytes` is the length of all chunks whose CRC did not match."""

    chunks: int = 0
    bytes: int = 0
    wrong_chunks: int = 0
    wrong_bytes: int = 0


class Communicator:
    """Made by :meth:`join`."""

    def __init__(
        self,
        rank: int,
        world: int,
        settings: StreamSettings,
        queue: CompletionQueue,
        senders: Mapping[int, Sender],
        receivers: Mapping[int, Receiver],
        release: Callable[[], None],
    ) -> None:
        self.rank = rank
        self.world = world
        self.settings = settings
        self._queue = queue
        self._senders = senders
        self._receivers = receivers
        self._ends: dict[int, StreamEnd] = {
            pair.qpn: end for end in (*senders.values(), *receivers.values()) for pair in end.pairs
        }
        self._release = release
        self._turns = Turns(rank, self._end)
        self._on_failure: Callable[[Exception], None] | None = None
        self._pacing = settings.pacing.pacing()
        queue.listen(self._dispatch)

    @classmethod
    async def join(
        cls,
        device: Context,
        exchange: Exchange,
        settings: StreamSettings | None = None,
        *,
        peers: Peers = Peers.RING,
        name: str = "collectives",
    ) -> Communicator:
        """Make everything on `device`, exchange addresses under `name`, connect, and wait for all ranks.

        If that fails or is cancelled nothing stays on the NIC: it may be tried again, under another name.
        """
        settings = settings or StreamSettings()
        plan = StreamPlan(settings, exchange.world, peers)
        own = Resources.create(device, plan, exchange.rank)
        try:
            gathered = await exchange.gather(f"{name}/cards", own.card.to_json())
            cards = {peer: Card.from_json(gathered[peer], own.rank) for peer in {**own.outgoing, **own.incoming}}
            senders = {peer: own.sender(plan, peer, cards[peer]) for peer in own.outgoing}
            receivers = {peer: own.receiver(plan, peer, cards[peer]) for peer in own.incoming}
            await exchange.gather(f"{name}/connected", True)
        except BaseException:
            own.close()
            raise
        return cls(exchange.rank, exchange.world, settings, own.queue, senders, receivers, own.close)

    @property
    def senders(self) -> Mapping[int, Sender]:
        """The streams to other ranks, by rank."""
        return self._senders

    @property
    def receivers(self) -> Mapping[int, Receiver]:
        """The streams from other ranks, by rank."""
        return self._receivers

    @property
    def transfer(self) -> TransferCounters:
        """What was received and checked so far, over all streams."""
        ends = self._receivers.values()
        return TransferCounters(
            sum(end.chunks for end in ends),
            sum(end.bytes for end in ends),
            sum(end.wrong_chunks for end in ends),
            sum(end.wrong_bytes for end in ends),
        )

    # Operations; each raises `TransferError` when a work request fails, after which the communicator is unusable, and
    # ValueError for arguments that do not fit, after which it is as before.

    async def all_reduce(
        self, send: NDArray[Any], receive: NDArray[Any] | None = None, op: Reduction = ReduceOp.SUM
    ) -> None:
        """Combine `send` over all ranks into `receive` (None: in place); every rank ends with the same bits."""
        receive = send if receive is None else receive
        self.check(send, receive, 1, 1)
        op.check(send.dtype)
        async with self._operation():
            if not self._alone(send, receive, op):
                await algorithms.all_reduce(self._ring(), send, receive, op, self.settings.chunk_bytes)

    async def reduce_scatter(self, send: NDArray[Any], receive: NDArray[Any], op: Reduction = ReduceOp.SUM) -> None:
        """Combine `send`, one segment a rank, over all ranks; rank r gets segment r in `receive`.

        In place when `receive` is that segment of `send`.
        """
        self.check(send, receive, self.world, 1)
        op.check(send.dtype)
        async with self._operation():
            if not self._alone(send, receive, op):
                await algorithms.reduce_scatter(self._ring(), send, receive, op, self.settings.chunk_bytes)

    async def all_gather(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        """Collect every rank's `send` in `receive`, in rank order.

        In place when `send` is the rank's own segment of `receive`.
        """
        self.check(send, receive, 1, self.world)
        async with self._operation():
            if not self._alone(send, receive):
                await algorithms.all_gather(self._ring(), send, receive, self.settings.chunk_bytes)

    async def broadcast(self, send: NDArray[Any], receive: NDArray[Any] | None = None, root: int = 0) -> None:
        """Copy `send` of rank `root` to `receive` of every rank (None: in place); `send` of others is not used."""
        self._check_root(root)
        receive = send if receive is None else receive
        self.check(send, receive, 1, 1)
        async with self._operation():
            if not self._alone(send, receive):
                await algorithms.broadcast(self._ring(), send, receive, root, self.settings.chunk_bytes)

    async def all_to_all(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        """Send segment j of `send` to rank j; segment i of `receive` comes from rank i. Needs `Peers.ALL`.

        The two arrays must not overlap.
        """
        if np.shares_memory(send, receive):
            raise ValueError("all_to_all cannot be done in place")
        if send.size % self.world:
            raise ValueError(f"{send.size} elements cannot be dealt out evenly to {self.world} ranks")
        self.check(send, receive, 1, 1)
        self._need_everyone("all_to_all")
        async with self._operation():
            chunk = self.settings.chunk_bytes
            await algorithms.all_to_all(self.rank, self._senders, self._receivers, send, receive, chunk, self._pacing)

    async def send_receive(self, send: NDArray[Any], to: int, receive: NDArray[Any], source: int) -> None:
        """Send one array to rank `to` while receiving one, of the length that `source` sends, from there.

        In a ring `to` is the following and `source` the preceding rank. The two arrays must not overlap.
        """
        if np.shares_memory(send, receive):
            raise ValueError("send_receive cannot be done in place")
        self.check(send, receive, None, None)
        alone = to == source == self.rank
        if not alone and (to not in self._senders or source not in self._receivers):
            raise ValueError(f"rank {self.rank} has no streams to rank {to} and from rank {source}")
        async with self._operation():
            if alone:
                receive[:] = send
                return
            sender, receiver = self._senders[to], self._receivers[source]
            chunk = self.settings.chunk_bytes
            await algorithms.send_receive(sender, receiver, send, receive, chunk, self._pacing)

    async def reduce(
        self, send: NDArray[Any], receive: NDArray[Any] | None = None, op: Reduction = ReduceOp.SUM, root: int = 0
    ) -> None:
        """Combine `send` over all ranks into `receive` of rank `root` (None: in place); that of others is not used."""
        self._check_root(root)
        receive = send if receive is None or self.rank != root else receive
        self.check(send, receive, 1, 1)
        op.check(send.dtype)
        async with self._operation():
            if not self._alone(send, receive, op):
                await rooted.reduce(self._ring(), send, receive, op, root, self.settings.chunk_bytes)

    async def gather(self, send: NDArray[Any], receive: NDArray[Any] | None = None, root: int = 0) -> None:
        """Collect every rank's `send` in `receive` of rank `root`, in rank order. Needs `Peers.ALL`.

        Only the root needs `receive`; `send` may be its own segment there.
        """
        self._check_root(root)
        self._need_everyone("gather")
        if self.rank != root:
            self.check(send, send, None, None)
            await self._exchange({root: send}, {})
        elif receive is None:
            raise ValueError("the root of a gather needs an array to receive in")
        else:
            self.check(send, receive, 1, self.world)
            await self._exchange({root: send}, dict(enumerate(_segments(receive, self.world))))

    async def scatter(self, send: NDArray[Any] | None, receive: NDArray[Any], root: int = 0) -> None:
        """Send segment j of `send` of rank `root` to `receive` of rank j. Needs `Peers.ALL`.

        Only the root needs `send`; `receive` may be its own segment there.
        """
        self._check_root(root)
        self._need_everyone("scatter")
        if self.rank != root:
            self.check(receive, receive, None, None)
            await self._exchange({}, {root: receive})
        elif send is None:
            raise ValueError("the root of a scatter needs an array to send")
        else:
            self.check(send, receive, self.world, 1)
            await self._exchange(dict(enumerate(_segments(send, self.world))), {root: receive})

    async def exchange(self, send: Sequence[NDArray[Any]], receive: Sequence[NDArray[Any]]) -> None:
        """All-to-all of arrays of any lengths: `send[j]` goes to rank j, `receive[i]` comes from rank i, as long there.

        Empty arrays take no packet. None of `receive` may overlap one of `send`. Needs `Peers.ALL`.
        """
        self._need_everyone("exchange")
        if len(send) != self.world or len(receive) != self.world:
            raise ValueError(f"{len(send)} arrays to send and {len(receive)} to receive, but {self.world} ranks")
        for arrays in zip(send, receive, strict=True):
            self.check(*arrays, None, None)
        if send[self.rank].size != receive[self.rank].size:
            raise ValueError(f"{send[self.rank].size} elements for rank {self.rank} itself do not fit what it receives")
        if any(np.may_share_memory(one, other) for one in send for other in receive):
            raise ValueError("exchange cannot be done in place")
        await self._exchange(dict(enumerate(send)), dict(enumerate(receive)))

    async def barrier(self) -> None:
        """Return when every rank has called this."""
        await self.all_gather(np.zeros(1, np.uint8), np.zeros(self.world, np.uint8))

    def check(
        self, send: NDArray[Any], receive: NDArray[Any], send_parts: int | None, receive_parts: int | None
    ) -> None:
        """ValueError unless arrays fit: `receive` / `receive_parts` is as long as `send` / `send_parts`."""
        for array in (send, receive):
            if array.ndim != 1 or not array.flags.c_contiguous:
                raise ValueError("a collective needs one-dimensional contiguous arrays")
        if send.dtype != receive.dtype or send.dtype.hasobject or send.itemsize > WIDEST_ITEM:
            raise ValueError(f"a collective cannot move {send.dtype} to {receive.dtype}")
        if send_parts and receive_parts and send.size * receive_parts != receive.size * send_parts:
            raise ValueError(
                f"{send.size} elements to send and {receive.size} to receive do not fit {self.world} ranks"
            )

    async def drain(self) -> None:
        """Wait until every write of ours is acknowledged; after this on all ranks the queue pairs may be destroyed."""
        for sender in self._senders.values():
            await sender.drain()
        for receiver in self._receivers.values():
            await receiver.drain()

    async def leave(self) -> None:
        """Stop looking at the completion queue; operations are over. What is on the NIC goes with its context."""
        self._queue.unlisten()

    async def close(self) -> None:
        """Leave, and destroy queue pairs, memory and queue on the NIC; what is called or waiting fails.

        Other ranks' writes that are not acknowledged yet fail too: `drain` on all ranks first, unless it is after an
        error. Closing twice does nothing.
        """
        self.fail(TransferError("the communicator is closed"))
        await self.leave()
        self._release()

    # Means

    def _dispatch(self) -> None:
        try:
            while completions := self._queue.poll():
                for completion in completions:
                    self._ends[completion.qpn].take(completion)
        except (TransferError, MrcError) as failure:
            self.fail(failure)

    def fail(self, failure: Exception) -> None:
        """Whoever waits in this communicator now or later gets the first failure."""
        self._turns.fail(failure)

    def when_failed(self, call: Callable[[Exception], None]) -> None:
        """Have `call` called with the first failure, once: this communicator is part of something that ends with it."""
        self._on_failure = call

    def _end(self, failure: Exception) -> None:
        for end in self._ends.values():
            end.fail(failure)
        if self._on_failure is not None:
            self._on_failure(failure)

    @contextlib.asynccontextmanager
    async def _operation(self) -> AsyncIterator[None]:
        """The turn of one operation."""
        async with self._turns.turn():
            if self._pacing is not None:
                self._pacing.begin()
            yield

    async def _exchange(self, outgoing: Mapping[int, NDArray[Any]], incoming: Mapping[int, NDArray[Any]]) -> None:
        """Send and receive checked arrays, by rank; what is for this rank itself is copied."""
        async with self._operation():
            if self.rank in outgoing and self.rank in incoming:
                incoming[self.rank][:] = outgoing[self.rank]
            out = {peer: array for peer, array in outgoing.items() if peer != self.rank}
            into = {peer: array for peer, array in incoming.items() if peer != self.rank}
            chunk = self.settings.chunk_bytes
            await rooted.exchange(self._senders, self._receivers, out, into, chunk, self._pacing)

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self.world:
            raise ValueError(f"there is no rank {root} in a world of {self.world}")

    def _need_everyone(self, name: str) -> None:
        if len(self._senders) != self.world - 1:
            raise ValueError(f"{name} needs a communicator joined with Peers.ALL")

    def _ring(self) -> algorithms.RingPlace:
        previous = self._receivers[(self.rank - 1) % self.world]
        following = self._senders[(self.rank + 1) % self.world]
        return algorithms.RingPlace(self.rank, self.world, previous, following, self._pacing)

    def _alone(self, send: NDArray[Any], receive: NDArray[Any], op: Reduction | None = None) -> bool:
        """Do the operation if there is only one rank, or nothing to move; True if so."""
        if self.world == 1 and receive.size:
            receive[:] = send
            if op is not None:
                op.finish(receive, 1)
        return self.world == 1 or not receive.size


def _segments(array: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """`count` views of `array`, one behind the other and equally long."""
    return list(array.reshape(count, -1)) if array.size else [array] * count
