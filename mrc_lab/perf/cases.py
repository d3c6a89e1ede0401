"""The six operations: how large their arrays are, what they must give, and how bandwidth is counted.

Sizes and bandwidths are those of nccl-tests: the size of an operation is that of its larger array, the algorithm's
bandwidth is size over time, and the bus bandwidth multiplies it with the share of the size that each rank must send
whatever the algorithm, so that it compares with the speed of a port.

Every rank can make every rank's data for a check from the check's number alone. Nothing that is expected comes over
the fabric.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_lab.workloads.collectives.communicator import Communicator
from mrc_lab.workloads.collectives.reduction import ReduceOp, ring_reduce
from mrc_lab.workloads.collectives.settings import Peers

Array = NDArray[Any]
_STALE = 0xA5  # fills what an operation must overwrite


@dataclass(frozen=True, slots=True)
class ArraySizes:
    """Arrays of one measurement: `count` is nccl-tests' column, `send` and `receive` are elements on each rank."""

    count: int
    send: int
    receive: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The operation's size."""
        return max(self.send, self.receive) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Buffers:
    """One rank's arrays, which overlap if the operation is done in place."""

    send: Array
    receive: Array


Run = Callable[[Communicator, Buffers, ReduceOp, int], Awaitable[None]]
Expected = Callable[["list[Array]", int, ReduceOp, int], Array]


@dataclass(frozen=True, slots=True)
class PerfCase:
    """An operation.

    `run` does it once, given reduction and root. `expected` gives what a rank must end with when the ranks send the
    arrays of a list. `send_parts` and `receive_parts`: that array has one part for each rank. `passes`: how often each
    part but one must leave a rank, as a share of the size, in the bus bandwidth (None: the two bandwidths are the
    same). `in_place`: it can be done with arrays that overlap.
    """

    name: str
    about: str
    run: Run
    expected: Expected
    send_parts: bool = False
    receive_parts: bool = False
    passes: int | None = None
    reduces: bool = False
    rooted: bool = False
    in_place: bool = True
    peers: Peers = Peers.RING

    def shape(self, nbytes: int, dtype: np.dtype[Any], world: int) -> ArraySizes:
        """Arrays for an operation of about `nbytes`: whole elements, the same for each rank, and at least one."""
        parts = world if self.send_parts or self.receive_parts else 1
        count = max(1, nbytes // dtype.itemsize // parts)
        send, receive = (count * (world if each else 1) for each in (self.send_parts, self.receive_parts))
        return ArraySizes(count, send, receive, dtype)

    def smallest(self, dtype: np.dtype[Any], world: int) -> int:
        """Bytes of the smallest operation: one element, or one for each rank."""
        return self.shape(1, dtype, world).nbytes

    def bus_factor(self, world: int) -> float:
        """Bus bandwidth over algorithm bandwidth (nccl-tests, PERFORMANCE.md)."""
        return 1.0 if self.passes is None else self.passes * (world - 1) / world

    def buffers(self, shape: ArraySizes, data: Array, rank: int, world: int, *, in_place: bool) -> Buffers:
        """Arrays that hold `data`, which the rank sends, and stale bytes for the rest."""
        if not in_place:
            return Buffers(data.copy(), _stale(shape.receive, shape.dtype))
        whole = _stale(max(shape.send, shape.receive), shape.dtype)
        own = _part(whole, rank, world)
        send = whole if self.send_parts == self.receive_parts or self.send_parts else own
        receive = whole if self.send_parts == self.receive_parts or self.receive_parts else own
        send[:] = data
        return Buffers(send, receive)


async def _all_reduce(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    await ranks.all_reduce(buffers.send, buffers.receive, op)


async def _all_gather(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    await ranks.all_gather(buffers.send, buffers.receive)


async def _reduce_scatter(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    await ranks.reduce_scatter(buffers.send, buffers.receive, op)


async def _all_to_all(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    await ranks.all_to_all(buffers.send, buffers.receive)


async def _send_receive(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    following, previous = (ranks.rank + 1) % ranks.world, (ranks.rank - 1) % ranks.world
    await ranks.send_receive(buffers.send, following, buffers.receive, previous)


async def _broadcast(ranks: Communicator, buffers: Buffers, op: ReduceOp, root: int) -> None:
    await ranks.broadcast(buffers.send, buffers.receive, root)


_ALL = (
    PerfCase(
        "all_reduce",
        "Every rank gets the reduction of all arrays.",
        _all_reduce,
        lambda data, rank, op, root: ring_reduce(data, op),
        passes=2,
        reduces=True,
    ),
    PerfCase(
        "all_gather",
        "Every rank gets the arrays of all.",
        _all_gather,
        lambda data, rank, op, root: np.concatenate(data),
        receive_parts=True,
        passes=1,
    ),
    PerfCase(
        "reduce_scatter",
        "Every rank gets its part of the reduction of all arrays.",
        _reduce_scatter,
        lambda data, rank, op, root: _part(ring_reduce(data, op, first=1), rank, len(data)),
        send_parts=True,
        passes=1,
        reduces=True,
    ),
    PerfCase(
        "alltoall",
        "Every rank gets one part of every rank's array.",
        _all_to_all,
        lambda data, rank, op, root: np.concatenate([_part(array, rank, len(data)) for array in data]),
        send_parts=True,
        receive_parts=True,
        passes=1,
        in_place=False,
        peers=Peers.ALL,
    ),
    PerfCase(
        "sendrecv",
        "Every rank sends its array to the next one.",
        _send_receive,
        lambda data, rank, op, root: data[(rank - 1) % len(data)],
        in_place=False,
    ),
    PerfCase(
        "broadcast",
        "Every rank gets the root's array.",
        _broadcast,
        lambda data, rank, op, root: data[root],
        rooted=True,
    ),
)
CASES = {case.name: case for case in _ALL}


def contribution(seed: int, rank: int, count: int, dtype: np.dtype[Any], op: ReduceOp, world: int) -> Array:
    """The `count` elements that `rank` sends in the check of that number: random, as wild as the reduction allows."""
    numbers = np.random.default_rng([seed, rank, count])
    if dtype.kind == "f":
        low, high = (0.5, 2.0) if op is ReduceOp.PROD else (-1.0, 1.0)
        return numbers.uniform(low, high, count).astype(dtype)
    if op is ReduceOp.AVG:  # the sum must not overflow
        return numbers.integers(0, np.iinfo(dtype).max // world, count, dtype=dtype, endpoint=True)
    return np.frombuffer(numbers.bytes(count * dtype.itemsize), dtype=dtype)


def differing(left: Array, right: Array) -> int:
    """Number of elements whose bytes differ; the arrays have the same type and length."""
    rows = (array.view(np.uint8).reshape(array.size, array.itemsize) for array in (left, right))
    return int(np.count_nonzero(np.not_equal(*rows).any(axis=1)))


def _part(array: Array, rank: int, world: int) -> Array:
    """The part of an array that is `rank`'s."""
    count = array.size // world
    return array[rank * count : (rank + 1) * count]


def _stale(count: int, dtype: np.dtype[Any]) -> Array:
    return np.full(count * dtype.itemsize, _STALE, np.uint8).view(dtype)
