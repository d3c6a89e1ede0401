"""Reductions of bfloat16, a type that numpy lacks: arrays hold its 16-bit words.

A bfloat16 is the upper half of a float32. To combine two arrays they are widened, which is exact, combined in float32,
and rounded to the nearest bfloat16, ties to even. Sums, products, quotients by a number of ranks, minima and maxima
then are those of IEEE 754, rounded once: float32 has more than twice the significant bits (24) of bfloat16 (8) plus
two, so rounding twice changes nothing (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_lab.workloads.collectives.reduction import ReduceOp

_QUIET = 0x0040  # the bit that makes a NaN a quiet one


@dataclass(frozen=True, slots=True)
class Bfloat16:
    """`op` on arrays of uint16 that hold bfloat16: a `Reduction` for the communicator's operations."""

    op: ReduceOp

    def combine(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        """One step: `left` holds what earlier ranks gave."""
        total = widen(left)
        self.op.combine(total, widen(right), total)
        out[:] = narrow(total)

    def finish(self, total: NDArray[Any], world: int) -> None:
        """What is left to do, in place, once every rank's part is in."""
        if self.op is ReduceOp.AVG:
            wide = widen(total)
            self.op.finish(wide, world)
            total[:] = narrow(wide)

    def check(self, dtype: np.dtype[Any]) -> None:
        """ValueError unless `dtype` is uint16."""
        if dtype != np.uint16:
            raise ValueError(f"bfloat16 is reduced in arrays of uint16, not of {dtype}")


def widen(words: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The values of bfloat16 words, exactly."""
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The words of the nearest bfloat16, ties to even; a NaN stays one."""
    bits = values.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), upper | np.uint32(_QUIET), rounded).astype(np.uint16)
