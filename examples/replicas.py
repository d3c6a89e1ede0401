"""Train in replica groups that come and go, with torchft over MRC: a small network that learns from another one.

    sudo mrc up --name lab
    sudo mrc train --fabric lab --elastic torchft examples/replicas.py --method ddp --steps 200
    sudo mrc train --fabric lab --elastic torchft examples/replicas.py --method diloco --steps 20

Kill a rank meanwhile: its group starts again, takes the state of the others, and joins them. With ``--method
local-sgd`` and ``diloco`` groups exchange weights every few steps, and a step is one such exchange. With ``--method
hsdp`` and ``mrc train --group-size 2`` the weights of a group are sharded over its two hosts. The words of ours are
``ProcessGroupMrc``, where torchft's own examples have ProcessGroupGloo or ProcessGroupNCCL, ``"mrc"`` within a group,
and a DistributedDataParallel that outlives a lost replica on CPUs (docs/training-faults.md).
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torchft import Manager, Optimizer
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.process_group import ManagedProcessGroup

from mrc_lab.torch.torchft import DistributedDataParallel, ProcessGroupMrc

INPUTS, WIDTH, CLASSES, BATCH = 64, 256, 10, 32
INNER_STEPS = 5  # between exchanges of weights


def network(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(INPUTS, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, CLASSES)
    )


def local(tensor: Tensor) -> Tensor:
    """The part of a sharded tensor that this rank has, or all of one that is not sharded."""
    part: Tensor = getattr(tensor, "to_local", lambda: tensor)()
    return part


class Replica:
    """One rank of this replica group: its model, and what it gives to a group that comes."""

    def __init__(self, method: str, timeout_s: float) -> None:
        self.model: nn.Module = network(WIDTH)
        if method == "hsdp":
            dist.init_process_group("mrc", timeout=timedelta(seconds=timeout_s))
            fully_shard(self.model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        momentum = 0.0 if method == "hsdp" else 0.9
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=momentum)
        self.outer = torch.optim.SGD(self.model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        self.manager = Manager(
            pg=ProcessGroupMrc(timeout=timedelta(seconds=timeout_s)),
            load_state_dict=self.load,
            state_dict=self.state,
            min_replica_size=1,
            replica_id=f"replicas_{os.environ['REPLICA_GROUP_ID']}",
            use_async_quorum=method not in ("local-sgd", "diloco"),
            timeout=timedelta(seconds=timeout_s),
        )

    def state(self) -> dict[str, Any]:
        weights = [local(value.detach()) for value in self.model.parameters()]
        return {"weights": weights, "optimizer": self.optimizer.state_dict(), "outer": self.outer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for value, given in zip(self.model.parameters(), state["weights"], strict=True):
                local(value).copy_(given)
        self.optimizer.load_state_dict(state["optimizer"])
        self.outer.load_state_dict(state["outer"])

    def loss(self, model: Callable[[Tensor], Tensor], teacher: nn.Module) -> Tensor:
        inputs = torch.randn(BATCH, INPUTS)
        with torch.no_grad():
            wanted = teacher(inputs).argmax(1)
        return functional.cross_entropy(model(inputs), wanted)

    def digest(self) -> float:
        """A number that tells apart weights that differ."""
        weights = torch.cat([local(value.detach()).flatten() for value in self.model.parameters()]).double()
        return float((weights * torch.linspace(-1, 1, len(weights), dtype=torch.float64)).sum())


def train_every_step(replica: Replica, method: str, steps: int, teacher: nn.Module) -> None:
    """DDP or HSDP: gradients are averaged over the groups, and a step counts if that was done everywhere."""
    manager, model = replica.manager, replica.model
    if method == "ddp":
        model = DistributedDataParallel(manager, model)
    else:
        across = ManagedProcessGroup(manager)
        model.set_all_reduce_hook(lambda gradients: across.allreduce([gradients], dist.ReduceOp.AVG).wait())
    optimizer = Optimizer(manager, replica.optimizer)
    while manager.current_step() < steps:
        began = time.monotonic()
        optimizer.zero_grad()
        loss = replica.loss(model, teacher)
        loss.backward()
        optimizer.step()
        report(manager, loss.item(), began)


def train_between_exchanges(replica: Replica, method: str, steps: int, teacher: nn.Module) -> None:
    """LocalSGD or DiLoCo: each group trains by itself for a while, then weights or their changes are averaged."""
    manager, model, optimizer = replica.manager, replica.model, replica.optimizer
    exchange = (
        LocalSGD(manager, model, optimizer, sync_every=INNER_STEPS)
        if method == "local-sgd"
        else DiLoCo(manager, [model], optimizer, replica.outer, sync_every=INNER_STEPS, backup_device="cpu")
    )
    with exchange:
        while manager.current_step() < steps:
            before, began = manager.current_step(), time.monotonic()
            while manager.current_step() == before:
                optimizer.zero_grad()
                loss = replica.loss(model, teacher)
                loss.backward()
                optimizer.step()
            report(manager, loss.item(), began)


def report(manager: Any, loss: float, began: float) -> None:
    """Of a step that may have failed; then its number stays the same."""
    if int(os.environ["RANK"]) == 0:
        took, groups = time.monotonic() - began, manager.num_participants()
        print(f"step {manager.current_step()} loss {loss:.4f} in {took:.3f} s, groups {groups}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=("ddp", "hsdp", "local-sgd", "diloco"), default="ddp")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=30, help="seconds an operation may take")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    teacher = network(WIDTH)
    replica = Replica(options.method, options.timeout)
    torch.manual_seed(100 + int(os.environ["REPLICA_GROUP_ID"]) + 1000 * int(os.environ["RANK"]))
    train = train_between_exchanges if options.method in ("local-sgd", "diloco") else train_every_step
    train(replica, options.method, options.steps, teacher)
    print(
        f"rank {os.environ['RANK']} of group {os.environ['REPLICA_GROUP_ID']}: digest {replica.digest():.6f}",
        flush=True,
    )
    with contextlib.suppress(RuntimeError):
        replica.manager.shutdown(wait=False)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
