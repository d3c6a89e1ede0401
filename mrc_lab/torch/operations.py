"""Torch's collectives as coroutines over our communicator.

Each function checks its tensors, which it may refuse by ValueError, stages them (`tensors`), and returns the operation
that moves or combines them. `op` is a torch ReduceOp, `root` a rank, and `rank` this one of `world`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mrc_lab.torch.arguments import check_count, check_fit, check_types, paired, split
from mrc_lab.torch.gather_in_all import gather_in_all
from mrc_lab.torch.group_links import Collective
from mrc_lab.torch.tensors import Array, Staged, reduction, stage
from mrc_lab.workloads.collectives import Communicator

_EMPTY = np.empty(0, np.uint8)
Tensors = Sequence[torch.Tensor]

# Reductions


def all_reduce(tensors: Tensors, op: object) -> Collective:
    """Combine each tensor over all ranks, in place."""
    prepared = [(staged, *reduction(op, tensor.dtype)) for staged, tensor in paired(tensors)]

    async def operation(ranks: Communicator) -> None:
        for staged, how, factor in prepared:
            if factor is not None:
                staged.scale(factor)
            await ranks.all_reduce(staged.array, None, how)
            staged.give_back()

    return operation


def reduce(tensors: Tensors, op: object, root: int, rank: int) -> Collective:
    """Combine each tensor over all ranks, in place on the root alone."""
    prepared = [(staged, *reduction(op, tensor.dtype)) for staged, tensor in paired(tensors)]

    async def operation(ranks: Communicator) -> None:
        for staged, how, factor in prepared:
            used = staged
            if factor is not None:
                used = staged if rank == root else staged.apart()
                used.scale(factor)
            await ranks.reduce(used.array, None, how, root)
            if rank == root:
                staged.give_back()

    return operation


def reduce_scatter(outputs: Tensors, inputs: Tensors, op: object, world: int) -> Collective:
    """Combine each input over all ranks; the output beside it gets this rank's part of the result."""
    check_fit("reduce_scatter", zip(outputs, inputs, strict=True), received=world)
    hows = [reduction(op, tensor.dtype) for tensor in inputs]
    sent, received = stage(inputs), stage(outputs)

    async def operation(ranks: Communicator) -> None:
        for given, output, (how, factor) in zip(sent, received, hows, strict=True):
            used = given
            if factor is not None:
                used = given.apart()
                used.scale(factor)
            await ranks.reduce_scatter(used.array, output.array, how)
            output.give_back()

    return operation


# Data that is moved as it is


def broadcast(tensors: Tensors, root: int) -> Collective:
    """Copy the tensors of the root to all ranks."""
    staged = stage(tensors)

    async def operation(ranks: Communicator) -> None:
        for each in staged:
            await ranks.broadcast(each.raw, None, root)
            each.give_back()

    return operation


def all_gather_single(outputs: Tensors, inputs: Tensors, world: int) -> Collective:
    """Collect every rank's input in the output beside it, in rank order."""
    check_fit("all_gather", zip(outputs, inputs, strict=True), sent=world)
    sent, received = stage(inputs), stage(outputs)

    async def operation(ranks: Communicator) -> None:
        for given, output in zip(sent, received, strict=True):
            await ranks.all_gather(given.raw, output.raw)
            output.give_back()

    return operation


def all_gather(by_rank: Sequence[Tensors], inputs: Tensors, rank: int, world: int) -> Collective:
    """Collect every rank's inputs: `by_rank[r]` are those of rank r."""
    check_count("all_gather", by_rank, world)
    for row in by_rank:
        check_types("all_gather", zip(row, inputs, strict=True))
    check_fit("all_gather", zip(by_rank[rank], inputs, strict=True))
    sent = stage(inputs)
    received = [stage(row) for row in by_rank]

    async def operation(ranks: Communicator) -> None:
        for given, places in zip(sent, zip(*received, strict=True), strict=True):
            await gather_in_all(ranks, given.raw, [place.raw for place in places])
            for place in places:
                place.give_back()

    return operation


def gather(outputs: Tensors, given: torch.Tensor, root: int, rank: int, world: int) -> Collective:
    """Collect every rank's tensor in the `outputs` of the root, one for each rank; others' outputs do not matter."""
    places = outputs if rank == root else []
    if rank == root:
        check_count("gather", places, world)
        check_fit("gather", ((place, given) for place in places))
    (staged,) = stage([given])
    sent = [_EMPTY] * world
    sent[root] = staged.raw
    return _exchange(sent, stage(places) or [None] * world)


def scatter(output: torch.Tensor, parts: Tensors, root: int, rank: int, world: int) -> Collective:
    """Send `parts[r]` of the root to the output of rank r; others' parts do not matter."""
    given = parts if rank == root else []
    if rank == root:
        check_count("scatter", given, world)
        check_fit("scatter", ((output, part) for part in given))
    sent = [each.raw for each in stage(given)] or [_EMPTY] * world
    received: list[Staged | None] = [None] * world
    (received[root],) = stage([output])
    return _exchange(sent, received)


def all_to_all(outputs: Tensors, inputs: Tensors, world: int) -> Collective:
    """Send `inputs[r]` to rank r; `outputs[r]` comes from there."""
    check_count("all_to_all", inputs, world)
    check_count("all_to_all", outputs, world)
    return _exchange([each.raw for each in stage(inputs)], stage(outputs))


def all_to_all_single(
    output: torch.Tensor,
    given: torch.Tensor,
    output_splits: Sequence[int] | None,
    input_splits: Sequence[int] | None,
    world: int,
) -> Collective:
    """Send a part of `given`, cut along its first dimension, to each rank; `output` gets theirs in rank order."""
    check_types("all_to_all", [(output, given)])
    (sent,), (place,) = stage([given]), stage([output])
    outgoing = split("input", sent, given, input_splits, world)
    incoming = split("output", place, output, output_splits, world)

    async def operation(ranks: Communicator) -> None:
        await ranks.exchange(outgoing, incoming)
        place.give_back()

    return operation


def _exchange(sent: Sequence[Array], received: Sequence[Staged | None]) -> Collective:
    """Send `sent[r]` to rank r; `received[r]` comes from there, or nothing."""

    async def operation(ranks: Communicator) -> None:
        await ranks.exchange(sent, [_EMPTY if place is None else place.raw for place in received])
        for place in received:
            if place is not None:
                place.give_back()

    return operation
