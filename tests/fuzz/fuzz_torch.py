"""Random collectives of PyTorch's process groups, some posted by callbacks of others: mrc's results are gloo's.

Ranks are threads of this process, NICs copy memory. Each rank posts a step at once, when the step before has ended, or
in a callback of that one's future; over gloo always when it has ended.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests.mrc_lab.torch.ranks import Ranks, options

WORLD = 3
SECONDS = 60  # until an operation is given up
DTYPES = (torch.float64, torch.float32, torch.int32, torch.int64, torch.uint8)
KINDS = ("allreduce", "reduce", "broadcast", "allgather", "gather", "scatter", "alltoall", "uneven", "barrier")
_REDUCED = (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN)
AT_ONCE, AFTERWARDS, IN_CALLBACK = "at once", "afterwards", "in a callback"


@dataclass(frozen=True)
class Step:
    """One collective; `next` says when the following one is posted."""

    kind: str
    size: int
    dtype: torch.dtype
    root: int
    op: Any
    strided: bool
    next: str

    @classmethod
    def draw(cls, chance: random.Random) -> Step:
        return cls(
            chance.choice(KINDS),
            chance.choice([0, 1, chance.randrange(2, 20), chance.randrange(20, 700)]),
            chance.choice(DTYPES),
            chance.randrange(WORLD),
            chance.choice(_REDUCED),
            chance.random() < 0.3,
            chance.choice([AT_ONCE, AFTERWARDS, IN_CALLBACK]),
        )

    def tensors(self, seed: int, count: int, sizes: Sequence[int] = ()) -> list[torch.Tensor]:
        """The same for both backends: small whole numbers, whose sums are exact in any order."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for size in sizes or [self.size] * count:
            values = torch.randint(0, 9, (size, 2), generator=generator).to(self.dtype)
            made.append(values[:, 0] if self.strided else values[:, 0].contiguous())
        return made

    def post(self, group: Any, rank: int, seed: int) -> tuple[Any, list[torch.Tensor]]:
        """The work, and what holds its result on this rank."""
        (own,) = self.tensors(seed * WORLD + rank, 1)
        many = self.tensors(seed * WORLD + rank + 1, WORLD)
        rooted = rank == self.root
        if self.kind == "allreduce":
            return group.allreduce([own], options(dist.AllreduceOptions, reduceOp=self.op)), [own]
        if self.kind == "reduce":
            how = options(dist.ReduceOptions, reduceOp=self.op, rootRank=self.root)
            return group.reduce([own], how), [own] if rooted else []
        if self.kind == "broadcast":
            return group.broadcast([own], options(dist.BroadcastOptions, rootRank=self.root)), [own]
        if self.kind == "allgather":
            return group.allgather([many], [own]), many
        if self.kind == "gather":
            return group.gather([many] if rooted else [], [own], options(dist.GatherOptions, rootRank=self.root)), (
                many if rooted else []
            )
        if self.kind == "scatter":
            how = options(dist.ScatterOptions, rootRank=self.root)
            return group.scatter([own], [many] if rooted else [], how), [own]
        if self.kind == "alltoall":
            output = torch.empty(self.size * WORLD, dtype=self.dtype)
            return group.alltoall_base(output, torch.cat(many), [], []), [output]
        if self.kind == "uneven":
            output = torch.empty(WORLD * (self.size + rank), dtype=self.dtype)
            given = torch.cat(self.tensors(seed * WORLD + rank, 0, [self.size + peer for peer in range(WORLD)]))
            sent = [self.size + peer for peer in range(WORLD)]
            return group.alltoall_base(output, given, [self.size + rank] * WORLD, sent), [output]
        return group.barrier(), []


class Fuzzer:
    """Gloo's groups are made once, mrc's too: a failed collective ends them, and the harness makes a new fuzzer."""

    def __init__(self) -> None:
        self._ranks = Ranks(WORLD, timeout_s=SECONDS)
        self._gloo = [None] * WORLD
        device = dist.ProcessGroupGloo.create_device(interface="lo")
        store = dist.HashStore()

        def connect(rank: int) -> None:
            how = dist.ProcessGroupGloo._Options()
            how._devices = [device]
            how._timeout = timedelta(seconds=SECONDS)
            self._gloo[rank] = dist.ProcessGroupGloo(store, rank, WORLD, how)

        _on_each_rank(connect)

    def case(self, chance: random.Random) -> None:
        steps = [Step.draw(chance) for _ in range(chance.randint(1, 30))]
        plain = [replace(step, strided=False, next=AFTERWARDS) for step in steps]  # gloo takes contiguous tensors only
        over_gloo = self._run(self._gloo, plain)
        over_mrc = self._run(self._ranks.groups, steps)
        for number, step in enumerate(steps):
            for rank in range(WORLD):
                for found, expected in zip(over_mrc[rank][number], over_gloo[rank][number], strict=True):
                    assert torch.equal(found, expected), f"step {number}, rank {rank}: {step}"

    def close(self) -> None:
        self._ranks.__exit__()

    def _run(self, groups: Sequence[Any], steps: list[Step]) -> list[list[list[torch.Tensor]]]:
        results: list[list[list[torch.Tensor]]] = [[] for _ in groups]

        def run(rank: int, number: int = 0) -> None:
            waiting = []
            while number < len(steps):
                work, result = steps[number].post(groups[rank], rank, number)
                results[rank].append(result)
                when = steps[number].next
                number += 1
                if when == IN_CALLBACK:
                    work.get_future().then(lambda _, following=number: run(rank, following)).wait()
                    break
                if when == AFTERWARDS:
                    work.wait()
                else:
                    waiting.append(work)
            for work in waiting:
                work.wait()

        _on_each_rank(run)
        return results


def _on_each_rank(run: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(rank: int) -> None:
        try:
            run(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(WORLD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
