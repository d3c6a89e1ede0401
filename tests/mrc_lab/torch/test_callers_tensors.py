"""Whatever an operation does with a caller's tensors, they stay what they were but for their elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist

from tests.mrc_lab.torch.ranks import Ranks, options

WORLD = 2
Make = Callable[[int], Any]  # a tensor of so many elements


def rooted(kind: Any) -> Any:
    return options(kind, rootRank=0)


def reduce_factor(group: Any, make: Make, rank: int) -> Any:
    op = options(dist.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(2.0))
    return group.allreduce([make(6)], op)


# Each takes the group, what makes tensors, and the rank.
OPERATIONS: dict[str, Callable[[Any, Make, int], Any]] = {
    "allreduce": lambda group, make, rank: group.allreduce([make(6)]),
    "allreduce with a factor": reduce_factor,
    "allreduce_coalesced": lambda group, make, rank: group.allreduce_coalesced([make(6), make(2)]),
    "reduce": lambda group, make, rank: group.reduce([make(6)], rooted(dist.ReduceOptions)),
    "reduce_scatter_single": lambda group, make, rank: group.reduce_scatter_single(make(6), make(6 * WORLD)),
    "reduce_scatter_single_coalesced": lambda group, make, rank: group.reduce_scatter_single_coalesced(
        [make(6)], [make(6 * WORLD)]
    ),
    "reduce_scatter": lambda group, make, rank: group.reduce_scatter([make(6)], [[make(6) for _ in range(WORLD)]]),
    "broadcast": lambda group, make, rank: group.broadcast([make(6)], rooted(dist.BroadcastOptions)),
    "all_gather_single": lambda group, make, rank: group.all_gather_single(make(6 * WORLD), make(6)),
    "allgather": lambda group, make, rank: group.allgather([[make(6) for _ in range(WORLD)]], [make(6)]),
    "allgather of unlike sizes": lambda group, make, rank: group.allgather([[make(2), make(4)]], [make(2 + 2 * rank)]),
    "allgather_coalesced": lambda group, make, rank: group.allgather_coalesced(
        [[make(6)] for _ in range(WORLD)], [make(6)]
    ),
    "gather": lambda group, make, rank: group.gather(
        [[make(6) for _ in range(WORLD)]] if rank == 0 else [], [make(6)], rooted(dist.GatherOptions)
    ),
    "scatter": lambda group, make, rank: group.scatter(
        [make(6)], [[make(6) for _ in range(WORLD)]] if rank == 0 else [], rooted(dist.ScatterOptions)
    ),
    "alltoall": lambda group, make, rank: group.alltoall([make(6), make(6)], [make(6), make(6)]),
    "all_to_all_single": lambda group, make, rank: group.all_to_all_single(make(6), make(6)),
    "send, recv": lambda group, make, rank: group.recv([make(6)], 0) if rank else group.send([make(6)], 1),
    "recv_anysource": lambda group, make, rank: group.recv_anysource([make(6)]) if rank else group.send([make(6)], 1),
}
LAYOUTS: dict[str, Make] = {
    "contiguous": lambda count: torch.ones(count),
    "strided": lambda count: torch.ones(count, 2)[:, 0],
    "leaf": lambda count: torch.ones(count, requires_grad=True),
    "part of a graph": lambda count: torch.ones(count, requires_grad=True) * 2,
    "bfloat16": lambda count: torch.ones(count, dtype=torch.bfloat16),
    "negative view": lambda count: torch.ones(count, dtype=torch.complex64).conj().imag,
}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks(WORLD) as made:
        yield made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_tensors_can_be_resized_afterwards_and_have_the_gradients_they_had(
    ranks: Ranks, name: str, layout: str
) -> None:
    made: list[tuple[Any, Any]] = []

    def make(count: int) -> Any:
        tensor = LAYOUTS[layout](count)
        made.append((tensor, (tensor.requires_grad, tensor.is_leaf, tensor.grad_fn, tensor.shape, tensor.stride())))
        return tensor

    ranks.each(lambda group, rank: OPERATIONS[name](group, make, rank))
    for tensor, before in made:
        assert (tensor.requires_grad, tensor.is_leaf, tensor.grad_fn, tensor.shape, tensor.stride()) == before
        assert torch.isfinite(tensor.detach().float()).all()
        tensor.untyped_storage().resize_(0)


def test_every_operation_is_tried() -> None:
    """Those of the class that take tensors, under whichever of their names."""
    takes = {name for name, member in vars(type_of_group()).items() if not name.startswith("_") and callable(member)}
    other = {"barrier", "monitored_barrier", "shutdown", "abort", "set_timeout", "rank", "size", "name", "send", "recv"}
    other |= {"getBackendName", "getGroupName", "getGroupDesc", "getRank", "getSize", "supports_tensor_alloc"}
    other |= {
        "get_error",
        "errored",
        "get_reconfigure_handle",
        "reconfigure",
        "register_abort_hook",
        "unregister_abort_hook",
    }
    aliases = {"allgather_into_tensor_coalesced", "all_gather_single_coalesced", "reduce_scatter_tensor_coalesced"}
    aliases |= {"alltoall_base"}
    assert takes - other - aliases == set(OPERATIONS) - {name for name in OPERATIONS if " " in name}


def type_of_group() -> type:
    from mrc_lab.torch.process_group import MrcProcessGroup

    return MrcProcessGroup
