"""Arguments of torch's calls: what options say, and whether tensors fit each other. Errors are ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from mrc_lab.torch.tensors import Array, Staged, stage


def operator_of(opts: Any) -> Any:
    """The reduction that options name; it may stand there itself, as in C++."""
    return dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)


def own_timeout(opts: Any) -> timedelta | None:
    """The operation's own timeout, if it has one: torch says by a negative one that it has none."""
    given: timedelta | None = getattr(opts, "timeout", None)
    return given if given is not None and given > timedelta(0) else None


def paired(tensors: Sequence[torch.Tensor]) -> list[tuple[Staged, torch.Tensor]]:
    """Each tensor, staged and as it is."""
    return list(zip(stage(tensors), tensors, strict=True))


def check_count(what: str, tensors: Sequence[Any], world: int) -> None:
    """One for each rank."""
    if len(tensors) != world:
        raise ValueError(f"{what} was given {len(tensors)} tensors for {world} ranks")


def check_types(what: str, pairs: Any) -> None:
    """Of each pair (output, input), equal types."""
    for one, other in pairs:
        if one.dtype != other.dtype:
            raise ValueError(f"{what} cannot move {other.dtype} to {one.dtype}")


def check_fit(what: str, pairs: Any, *, sent: int = 1, received: int = 1) -> None:
    """Of each pair (output, input): equal types, and the input `sent` times as long as the output `received` times."""
    for output, given in pairs:
        check_types(what, [(output, given)])
        if sent * given.numel() != received * output.numel():
            raise ValueError(
                f"{what} cannot put {sent * given.numel()} elements into {received * output.numel()}: the input has"
                f" {given.numel()}, the output {output.numel()}"
            )


def split(which: str, staged: Staged, tensor: torch.Tensor, splits: Sequence[int] | None, world: int) -> list[Array]:
    """The bytes of a tensor in parts along its first dimension, one for each rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % world:
            raise ValueError(f"{rows} rows of {which} cannot be dealt out evenly to {world} ranks: give split sizes")
        splits = [rows // world] * world
    check_count("all_to_all", splits, world)
    if min(splits) < 0:
        raise ValueError(f"the {which} split sizes {list(splits)} include a negative one")
    if sum(splits) != rows:
        raise ValueError(f"the {which} split sizes add up to {sum(splits)}, but the tensor has {rows} rows")
    raw = staged.raw
    row_bytes = raw.size // rows if rows else 0
    ends = np.cumsum(splits) * row_bytes
    return [raw[end - count * row_bytes : end] for end, count in zip(ends, splits, strict=True)]
