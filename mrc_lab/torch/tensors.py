"""Tensors as the one-dimensional arrays that our collectives take, and torch's reductions as ours.

A contiguous tensor on the CPU is passed as it is, without a copy. Any other is copied into a contiguous one first, and
back when the operation has ended (`Staged`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from mrc_lab.workloads.collectives import Bfloat16, ReduceOp, Reduction

Array = NDArray[Any]


class Bitwise(enum.Enum):
    """Reductions of integers and bool, bit by bit."""

    AND = "bitwise_and"
    OR = "bitwise_or"
    XOR = "bitwise_xor"

    def combine(self, left: Array, right: Array, out: Array) -> None:
        """One step."""
        getattr(np, self.value)(left, right, out=out)

    def finish(self, total: Array, world: int) -> None:
        """Nothing is left to do."""

    def check(self, dtype: np.dtype[Any]) -> None:
        """ValueError for what has no bits to combine."""
        if dtype.kind not in "biu":
            raise ValueError(f"{self.value} takes integers and bool, not {dtype}")


class Staged:
    """A tensor and the contiguous one, often the same, that takes its place in an operation.

    `array` has the tensor's elements, of bfloat16 as uint16; `raw` has its bytes.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            raise ValueError(
                f"the backend mrc moves dense tensors on the CPU, not {tensor.layout} on {tensor.device}: copy it first"
            )
        self._tensor = tensor.detach()
        dense = self._tensor.resolve_conj().resolve_neg().contiguous()
        self._dense = dense
        self._copied = dense.data_ptr() != tensor.data_ptr() or tensor.is_conj() or tensor.is_neg()

    @property
    def array(self) -> Array:
        """The elements. ValueError for a type without arithmetic in numpy."""
        flat = self._dense.view(-1)
        if flat.dtype is torch.bfloat16:
            return np.asarray(flat.view(torch.int16).numpy()).view(np.uint16)
        try:
            return np.asarray(flat.numpy())
        except TypeError:
            raise ValueError(f"the backend mrc does not reduce {flat.dtype}") from None

    @property
    def raw(self) -> NDArray[np.uint8]:
        """The bytes."""
        if not self._dense.numel():
            return np.empty(0, np.uint8)
        return np.asarray(self._dense.view(-1).view(torch.uint8).numpy())

    def scale(self, factor: float | torch.Tensor) -> None:
        """Multiply the elements, as PREMUL_SUM does before it adds."""
        with torch.no_grad():
            self._dense.mul_(factor)

    def give_back(self) -> None:
        """What the operation has left in `array` is the tensor's."""
        if self._copied:
            with torch.no_grad():
                self._tensor.copy_(self._dense)

    def apart(self) -> Staged:
        """One with a copy of the elements, which may be changed while the tensor is not."""
        return Staged(self._dense.clone())


def stage(tensors: Iterable[torch.Tensor]) -> list[Staged]:
    """All of them."""
    return [Staged(tensor) for tensor in tensors]


def reduction(op: Any, dtype: torch.dtype) -> tuple[Reduction, float | torch.Tensor | None]:
    """Our reduction for a torch ReduceOp and a type of elements, and by what to multiply them before.

    Raises ValueError for one that the type does not have.
    """
    state = op.__getstate__()  # of a ReduceOp its kind and factor; of a mere kind its number
    kind, factor = state if isinstance(state, tuple) else (op, None)
    found: Reduction | None = _REDUCTIONS.get(int(kind))
    if found is None:
        raise ValueError(f"the backend mrc has no reduction {kind}")
    if factor is not None and not torch.can_cast(torch.result_type(torch.ones(1, dtype=dtype), factor), dtype):
        raise ValueError(f"{dtype} cannot be multiplied by {factor}")
    if dtype is torch.bfloat16:
        if not isinstance(found, ReduceOp):
            raise ValueError(f"{kind} takes integers and bool, not {dtype}")
        return Bfloat16(found), factor
    if dtype.is_complex and found in (ReduceOp.MIN, ReduceOp.MAX):
        raise ValueError(f"complex numbers have no {kind}")
    found.check(Staged(torch.empty(0, dtype=dtype)).array.dtype)
    return found, factor


_REDUCTIONS: dict[int, Reduction] = {
    int(dist.ReduceOp.SUM): ReduceOp.SUM,
    int(dist.ReduceOp.AVG): ReduceOp.AVG,
    int(dist.ReduceOp.PRODUCT): ReduceOp.PROD,
    int(dist.ReduceOp.MIN): ReduceOp.MIN,
    int(dist.ReduceOp.MAX): ReduceOp.MAX,
    int(dist.ReduceOp.BAND): Bitwise.AND,
    int(dist.ReduceOp.BOR): Bitwise.OR,
    int(dist.ReduceOp.BXOR): Bitwise.XOR,
    int(dist.ReduceOp.PREMUL_SUM): ReduceOp.SUM,
}
