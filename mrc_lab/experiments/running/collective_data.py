"""Data of a collective's ranks: what they send, and what each shall have received at the end.

Values are small whole numbers, so that their sums are exact in any order. They come from one random cycle, which is
repeated if it is too short; each rank begins a little further on. So large worlds need little memory, and results are
compared with a cycle that stays in the caches. What took another's place has its values only if the two are a multiple
of the cycle apart. That is never so of two parts of one rank, nor of one part of two ranks; lengths and distances are
primes, so of two packets or chunks it is a few in a million times, where an operation is longer than the cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrc_common.same_bytes import same_bytes

Array = NDArray[np.float32]
ITEM = 4  # bytes of an element
CYCLES = 1_048_583, 1_048_589  # elements; the second where parts are multiples of the first
_SHIFTS = 4099, 4111, 4127, 4129, 4133  # elements from where one rank begins to where the next does


@dataclass(frozen=True, slots=True)
class _Piece:
    """`length` elements of a cycle, from `start` on."""

    cycle: Array
    start: int
    length: int

    def runs(self) -> Iterator[Array]:
        """Its elements, as parts of the cycle."""
        at, left = self.start % self.cycle.size, self.length
        while left:
            run = self.cycle[at : at + left]
            yield run
            at, left = 0, left - run.size


@dataclass(frozen=True, slots=True)
class Expected:
    """What one rank shall have received."""

    pieces: tuple[_Piece, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return sum(piece.length for piece in self.pieces)

    def array(self) -> Array:
        """All of it."""
        return np.concatenate(list(self._runs()))

    def wrong_bytes(self, received: Array) -> int:
        """Bytes of the elements that differ from these."""
        wrong = at = 0
        for run in self._runs():
            part = received[at : at + run.size]
            if not same_bytes(run.data, part.data):
                wrong += ITEM * int(np.count_nonzero(part != run))
            at += run.size
        return wrong

    def _runs(self) -> Iterator[Array]:
        for piece in self.pieces:
            yield from piece.runs()


def contributions(operation: str, world: int, elements: int, seed: int) -> list[tuple[Array, Expected]]:
    """By rank: what it sends, to which nobody can write, and what it shall have received.

    `elements` is the size of the operation as nccl-tests count it, a multiple of `world`.
    """
    part = elements // world
    length = next(length for length in CYCLES if part % length)
    shift = next(shift for shift in _SHIFTS if part % shift and (part - shift) % length)
    begins = [rank * shift for rank in range(world)]
    cycle, values = _values(seed, length, elements + begins[-1])
    sends = [values[begin : begin + elements] for begin in begins]
    results: list[list[_Piece]]
    if operation in ("all_reduce", "reduce_scatter"):
        total = _sum([send[: cycle.size] for send in sends])
        if operation == "all_reduce":
            results = [[_Piece(total, 0, elements)]] * world
        else:
            results = [[_Piece(total, rank * part, part)] for rank in range(world)]
    elif operation == "all_gather":
        sends = [send[:part] for send in sends]
        results = [[_Piece(cycle, begin, part) for begin in begins]] * world
    elif operation == "all_to_all":
        results = [[_Piece(cycle, begin + rank * part, part) for begin in begins] for rank in range(world)]
    elif operation == "broadcast":
        results = [[_Piece(cycle, 0, elements)]] * world
    else:
        results = [[_Piece(cycle, begins[rank - 1], elements)] for rank in range(world)]
    return [(send, Expected(tuple(pieces))) for send, pieces in zip(sends, results, strict=True)]


def _values(seed: int, longest: int, length: int) -> tuple[Array, Array]:
    """A cycle of values from -128 to 127, at most `longest`, and so many of them, repeated as needed."""
    cycle = np.frombuffer(np.random.default_rng(seed).bytes(min(length, longest)), np.int8).astype(np.float32)
    values = cycle if length == cycle.size else np.resize(cycle, length)
    values.flags.writeable = False
    return cycle, values


def _sum(arrays: list[Array]) -> Array:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
