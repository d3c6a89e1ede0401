"""What people train with besides DistributedDataParallel, on two ranks: ``parallel_program WAY RANK FOLDER``.

Each way trains the same small model, split over the ranks, and compares with the whole model in this process, or with
what the same ranks get over gloo: results and gradients, which are sums of the same numbers. NICs are in memory
(`nics_in_memory`), with their sockets in FOLDER.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import checkpoint, distributed_c10d
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WORLD = 2


def model(layers: int = 2) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(layers)))


def square(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def same(some: Tensor, others: Tensor) -> None:
    torch.testing.assert_close(some, others)


def tensor_parallel(rank: int) -> None:
    """A layer split by columns, the next one by rows."""
    whole = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    split = parallelize_module(
        copy.deepcopy(whole), init_device_mesh("cpu", (WORLD,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    given = torch.randn(6, 8)
    for each in (whole, split):
        square(each(given), torch.ones(6, 4)).backward()
    same(split(given), whole(given))
    for part, full in zip(split.parameters(), whole.parameters(), strict=True):
        same(part.grad.full_tensor(), full.grad)


def distributed_tensors(rank: int) -> None:
    """A matrix that is split by rows, by columns, and whole again; a product of split ones."""
    mesh = init_device_mesh("cpu", (WORLD,))
    matrix = torch.arange(35.0).reshape(5, 7)  # which two ranks cannot share evenly
    rows = distribute_tensor(matrix, mesh, [Shard(0)])
    assert rows.to_local().shape == ((3, 7) if rank == 0 else (2, 7))
    same(rows.redistribute(mesh, [Shard(1)]).full_tensor(), matrix)
    same((rows @ distribute_tensor(matrix.t().contiguous(), mesh, [Shard(0)])).full_tensor(), matrix @ matrix.t())


def pipeline(rank: int) -> None:
    """A stage a rank in two schedules, and two stages a rank in turn."""
    given, target = torch.randn(6, 8), torch.zeros(6, 8)
    for schedule in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
        stages = 2 * WORLD if schedule is ScheduleInterleaved1F1B else WORLD
        whole, parts = model(stages), model(stages)
        mine = range(rank, stages, WORLD)
        made = [PipelineStage(parts[number], number, stages, torch.device("cpu")) for number in mine]
        run = schedule(made if len(made) > 1 else made[0], n_microbatches=2, loss_fn=square)
        output = run.step(*[given] if rank == 0 else [], **{} if rank == 0 else {"target": target})
        loss = square(whole(given), target)
        loss.backward()
        if rank == WORLD - 1:
            same(output, whole(given))
        for number in mine:
            for part, full in zip(parts[number].parameters(), whole[number].parameters(), strict=True):
                same(part.grad, full.grad)


def fully_sharded(rank: int) -> None:
    """Parameters that every rank has a part of, and a step of an optimizer."""
    whole, split = model(), model()
    fully_shard(split, mesh=init_device_mesh("cpu", (WORLD,)))
    for each in (whole, split):
        optimizer = torch.optim.AdamW(each.parameters(), lr=0.1)
        given = torch.linspace(-1, 1, 8 * WORLD).reshape(WORLD, 8)
        mine = given if each is whole else given[rank : rank + 1]
        square(each(mine), torch.zeros_like(mine)).backward()
        optimizer.step()
    for part, full in zip(split.parameters(), whole.parameters(), strict=True):
        same(part.full_tensor(), full)


def like_gloo(train: Callable[[Any], list[Tensor]]) -> None:
    """Train in the group of mrc, then in one of gloo."""
    for over_mrc, over_gloo in zip(train(dist.group.WORLD), train(dist.new_group(backend="gloo")), strict=True):
        same(over_mrc, over_gloo)


def given_to(rank: int, step: int) -> Tensor:
    return torch.linspace(-1, 1 + rank, 24).reshape(3, 8) * (1 + step)


def fully_sharded_1(rank: int) -> None:
    """The first version of fully sharded data parallelism frees what it has gathered by resizing its storage."""

    def train(group: Any) -> list[Tensor]:
        split = FullyShardedDataParallel(model(), process_group=group, device_id=torch.device("cpu"))
        optimizer = torch.optim.SGD(split.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            square(split(given_to(rank, step)), torch.zeros(3, 8)).backward()
            optimizer.step()
        with FullyShardedDataParallel.summon_full_params(split):
            return [part.detach().clone() for part in split.parameters()]

    like_gloo(train)


def powersgd(rank: int) -> None:
    """PowerSGD's hook waits for collectives in callbacks of others."""

    def train(group: Any) -> list[Tensor]:
        torch.manual_seed(3)
        whole = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 8))
        split = nn.parallel.DistributedDataParallel(whole, process_group=group)
        state = PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
        split.register_comm_hook(state, powerSGD_hook)
        optimizer = torch.optim.SGD(split.parameters(), lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            square(split(given_to(rank, step)), torch.zeros(3, 8)).backward()
            optimizer.step()
        return [part.detach().clone() for part in whole.parameters()]

    like_gloo(train)


def saved_meanwhile(rank: int) -> None:
    """A checkpoint that is written while the training goes on."""
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    weights = {"w": torch.arange(4.0), "step": 3}
    saving = checkpoint.async_save(weights, checkpoint_id=folder[0])
    value = torch.ones(5)
    dist.all_reduce(value)
    assert value.tolist() == [WORLD] * 5
    saving.result()
    assert distributed_c10d._device_capability() == ["cpu"]
    assert distributed_c10d._get_object_coll_device() == "cpu"
    found: dict[str, Any] = {"w": torch.zeros(4), "step": 0}
    checkpoint.load(found, checkpoint_id=folder[0])
    same(found["w"], weights["w"])
    assert found["step"] == 3


WAYS: dict[str, Callable[[int], None]] = {
    each.__name__: each
    for each in (
        tensor_parallel,
        distributed_tensors,
        pipeline,
        fully_sharded,
        fully_sharded_1,
        powersgd,
        saved_meanwhile,
    )
}


def main() -> None:
    way, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.environ["MRC_AGENT"] = f"{folder}/h{rank + 1}.sock"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("mrc", init_method=f"file://{folder}/{way}", rank=rank, world_size=WORLD)
    WAYS[way](rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
