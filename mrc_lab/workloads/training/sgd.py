"""Mini-batch gradient descent, split so that one process or many can do it.

A step is: each rank's :meth:`Trainer.contribution` over its shard of the global batch, the sum of all contributions,
:meth:`Trainer.apply`. The contribution carries the loss and the right answers as two further elements, so one
all-reduce brings everything. :func:`train_alone` does the same in one process: with one shard it is ordinary
training, with as many shards as ranks it adds in the ring's order and must give the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mrc_lab.workloads.collectives.ring import ring_sum
from mrc_lab.workloads.training.data import Dataset, batch_indices, shard
from mrc_lab.workloads.training.model import Mlp, Score, Vector

CLASSES = 10


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained and how: `batch` is the global batch, `hidden` the sizes of the hidden layers."""

    steps: int
    batch: int = 64
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 0.2
    seed: int = 1


@dataclass(frozen=True, slots=True)
class StepResult:
    """Mean loss and share of right answers over one global batch, and the CRC-32 of the summed gradient."""

    loss: float
    accuracy: float
    crc: int


class Trainer:
    """Parameters on their way through a plan; the same on every rank."""

    def __init__(self, plan: TrainingPlan, dataset: Dataset) -> None:
        self.plan = plan
        self._data = dataset
        self._model = Mlp((dataset.images.shape[1], *plan.hidden, CLASSES))
        self.parameters: Vector = self._model.initial(plan.seed)

    @property
    def vector_size(self) -> int:
        """Number of float64 elements in a contribution."""
        return self._model.parameters + 2

    def contribution(self, step: int, rank: int, world: int) -> Vector:
        """Rank's part of the mean gradient, loss and accuracy over global batch `step`."""
        plan = self.plan
        own = shard(batch_indices(len(self._data.labels), plan.batch, plan.seed, step), rank, world)
        vector = np.empty(self.vector_size)
        score = self._model.gradient(self.parameters, self._data.images[own], self._data.labels[own], vector[:-2])
        vector[-2], vector[-1] = score.loss, score.correct
        vector /= plan.batch
        return vector

    def apply(self, total: Vector) -> StepResult:
        """Take one step down the summed gradient."""
        self.parameters -= self.plan.learning_rate * total[:-2]
        return StepResult(float(total[-2]), float(total[-1]), zlib.crc32(total.tobytes()))

    def held_out(self) -> Score:
        """Score over the held-out samples."""
        return self._model.evaluate(self.parameters, self._data.test_images, self._data.test_labels)


def train_alone(
    plan: TrainingPlan, dataset: Dataset, *, shards: int = 1, on_step: Callable[[int, StepResult], None] | None = None
) -> Vector:
    """Final parameters of `plan` trained in this process, each batch's gradient summed over `shards` parts."""
    trainer = Trainer(plan, dataset)
    for step in range(plan.steps):
        total = ring_sum([trainer.contribution(step, rank, shards) for rank in range(shards)])
        result = trainer.apply(total)
        if on_step is not None:
            on_step(step, result)
    return trainer.parameters
