"""Tensors as the one-dimensional arrays that our collectives take, and torch's reductions as ours.

A contiguous tensor on the CPU is passed as it is, without a copy. Any other is copied into a contiguous one first, and
back when the operation has ended (`Staged`).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import FakeTensor

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
        _check_memory(tensor)
        self._tensor = tensor.detach()
        dense = self._tensor.resolve_conj().resolve_neg().contiguous()
        self._dense = dense
        self._copied = dense.data_ptr() != tensor.data_ptr() or tensor.is_conj() or tensor.is_neg()

    @property
    def array(self) -> Array:
        """The elements. ValueError for a type without arithmetic in numpy."""
        return _memory(self._dense, _numpy_type(self._dense.dtype))

    @property
    def raw(self) -> NDArray[np.uint8]:
        """The bytes."""
        return _memory(self._dense, np.dtype(np.uint8))

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


def _check_memory(tensor: torch.Tensor) -> None:
    """ValueError for a tensor without memory of its own: a DTensor or fake one, or one whose storage was freed."""
    if not tensor.numel():
        return
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    if isinstance(tensor, FakeTensor) or tensor.untyped_storage().nbytes() < needed or not tensor.data_ptr():
        raise ValueError(
            f"the backend mrc moves tensors that have memory, but this {type(tensor).__name__} of {tensor.numel()}"
            " elements has none: pass the local tensor of a DTensor, and do not free a storage before"
        )


class _Memory:
    """A dense tensor's memory for numpy, which keeps this object, and so the tensor, while it has arrays of it.

    `Tensor.numpy()` would do the same, but forbid for ever to resize the tensor's storage, as FSDP 1 does.
    """

    def __init__(self, tensor: torch.Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": (tensor.numel() * tensor.element_size() // dtype.itemsize,),
            "data": (tensor.data_ptr(), False),
        }


def _memory(tensor: torch.Tensor, dtype: np.dtype[Any]) -> Array:
    return np.asarray(_Memory(tensor, dtype)) if tensor.numel() else np.empty(0, dtype)


@functools.cache
def _numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    """How numpy calculates with it; of bfloat16 it has the bits. ValueError for what it does not know."""
    if dtype is torch.bfloat16:
        return np.dtype(np.uint16)
    try:
        found: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        raise ValueError(f"the backend mrc does not reduce {dtype}") from None
    return found


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
    found.check(_numpy_type(dtype))
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
