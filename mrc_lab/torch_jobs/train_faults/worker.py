"""A rank of the fault lab's job: it trains, and when an operation fails goes on with the ranks that are left.

Recovery is the same for all stacks: end the old group, agree with the others on who goes on (``survivors``), form a
group of these (``stacks``), take the state of one that is furthest if some are not, and repeat the step that was
interrupted. If that fails, too, it is tried again until the time is over. What happens is printed as ``events``.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What
from mrc_lab.torch_jobs.train_faults.gpt_example import batch, new_training
from mrc_lab.torch_jobs.train_faults.stacks import GlooGroup, LabGroup, MrcGroup
from mrc_lab.torch_jobs.train_faults.survivors import agree

_STORE_S = 120.0  # within which all ranks have imported torch


@dataclass(frozen=True, slots=True)
class RankLimits:
    """Seconds: of an operation, which is also that of the last call, and of a recovery."""

    operation: float
    recovery: float


class TrainingRank:
    """The rank of this process: its training, and the group that it has or last had."""

    def __init__(self, store: Any, group: LabGroup, rank: int, members: Sequence[int], limits: RankLimits) -> None:
        self.training = new_training()
        gc.freeze()  # so that a collection looks at what comes later alone
        self._store, self._group, self._limits = store, group, limits
        self._rank, self._members, self._round = rank, tuple(members), 0

    def train(self, steps: int) -> bool:
        """Until so many steps are complete: True; False if others go on without this rank, or nobody does."""
        self._form()
        self.print(What.READY)
        while self.training.step < steps:
            try:
                self.training.take_step(batch(self._rank, self.training.step))
            except RuntimeError as error:
                words = str(error)
            else:
                self.print(What.STEP)
                continue
            self.print(What.FAILED, words)  # behind the handler, which holds the frames of the old group's model
            if not self._recover():
                return False
        return True

    def print(self, what: What, words: str = "") -> None:
        """Report an event, in one write, since hooks run on other threads."""
        event = RankEvent(what, self._rank, time.monotonic_ns(), self.training.step, self._members, words[:500])
        os.write(1, event.line().encode())

    def _recover(self) -> bool:
        """A new group in which steps can be taken; False if there is none with this rank."""
        until = time.monotonic() + self._limits.recovery
        while time.monotonic() < until:
            self.training.release()
            gc.collect()  # what holds the old group: gloo closes its connections when nothing does
            self._group.abort()
            self._round += 1
            own = self._group.report(self._members)
            members = agree(self._store, self._round, self._members, own, self._limits.operation)
            if self._rank not in members:
                self.print(What.OUT)
                return False
            self._members = members
            self.print(What.AGREED)
            try:
                self._form()
            except RuntimeError as error:
                self.print(What.FAILED, str(error))
            else:
                self.print(What.FORMED)
                return True
        self.print(What.GAVE_UP)
        return False

    def _form(self) -> None:
        """A group of the members, with the state of the one that is furthest."""
        self._group.form(self._round, self._members)
        self._take_state()
        self.training.distribute()

    def _take_state(self) -> None:
        step = torch.tensor([self.training.step])
        steps = [torch.zeros_like(step) for _ in self._members]
        dist.all_gather(steps, step)
        done = torch.stack(steps)
        if bool((done == done[0]).all()):
            return  # the same weights everywhere
        state = list(state_of(self.training))
        flat = torch.cat([tensor.flatten() for tensor in state])
        dist.broadcast(flat, int(done.argmax()))
        for tensor, part in zip(state, flat.split([tensor.numel() for tensor in state]), strict=True):
            tensor.copy_(part.view_as(tensor))
        self.training.step = int(done.max())


def state_of(training: Any) -> Iterator[torch.Tensor]:
    """Weights, and what AdamW keeps of each, in the same order in every process; it is made if need be."""
    for weights in training.model.parameters():
        yield weights.detach()
        kept = training.optimizer.state[weights]
        if not kept:  # before the first step
            kept["step"] = torch.tensor(0.0)
            kept |= {name: torch.zeros_like(weights) for name in ("exp_avg", "exp_avg_sq")}
        for name in sorted(kept):
            yield kept[name]


def main() -> None:
    """The rank of this host; it stays, when it has ended, until it is killed, as others may still need its NIC."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("gloo", "mrc"), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--operation", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--recovery", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, is_master=rank == 0, timeout=timedelta(seconds=_STORE_S))
    timeout = timedelta(seconds=options.operation)

    def aborted() -> None:
        this.print(What.ABORTED)

    group: LabGroup
    if options.backend == "gloo":
        group = GlooGroup(store, rank, timeout, aborted)
    else:
        group = MrcGroup(store, rank, world, timeout, aborted)
    this = TrainingRank(store, group, rank, range(world), RankLimits(options.operation, options.recovery))
    if this.train(options.steps):
        np.save(options.weights / f"{rank}.npy", this.training.weights().numpy())
        this.print(What.DONE)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
