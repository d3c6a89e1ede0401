"""Reductions: what is done to two ranks' elements, and what a ring of ranks must end with, bit for bit."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mrc_lab.workloads.collectives.layout import Layout

_UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}


class Reduction(Protocol):
    """What an operation does with the elements of several ranks: a :class:`ReduceOp`, or one for a type of its own."""

    def combine(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        """One step: `left` holds what earlier ranks gave; `out` may be either of them."""

    def finish(self, total: NDArray[Any], world: int) -> None:
        """What is left to do, in place, once every rank's part is in."""

    def check(self, dtype: np.dtype[Any]) -> None:
        """ValueError for a type of elements that cannot be reduced so."""


class ReduceOp(enum.Enum):
    """How elements are combined. AVG is the sum divided by the number of ranks, rounded down for integers.

    Integers wrap around. Of bool, SUM and MAX are "or", PROD and MIN "and", and there is no AVG.
    """

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"

    def combine(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        """One step: `left` holds what earlier ranks gave."""
        _UFUNCS[self.value](left, right, out=out)

    def finish(self, total: NDArray[Any], world: int) -> None:
        """What is left to do, in place, once every rank's part is in."""
        if self is ReduceOp.AVG:
            divide = np.floor_divide if total.dtype.kind in "iu" else np.true_divide
            divide(total, total.dtype.type(world), out=total)

    def check(self, dtype: np.dtype[Any]) -> None:
        """ValueError for a type of elements that cannot be reduced so."""
        if self is ReduceOp.AVG and dtype.kind == "b":
            raise ValueError("there is no average of bool")


def ring_reduce(parts: Sequence[NDArray[Any]], op: Reduction = ReduceOp.SUM, *, first: int = 0) -> NDArray[Any]:
    """One array a rank, combined in the order of a ring of that many ranks, in one process: the same bits.

    Segment k starts with the elements of rank k + `first`: 0 for all-reduce, 1 for reduce-scatter.
    """
    world = len(parts)
    total = np.empty_like(parts[0])
    layout = Layout(total.size, 1, world, 1)
    for index in range(world):
        segment = layout.segment(index)
        place = slice(segment.offset, segment.end)
        running = parts[(index + first) % world][place].copy()
        for step in range(1, world):
            op.combine(running, parts[(index + first + step) % world][place], running)
        op.finish(running, world)
        total[place] = running
    return total
