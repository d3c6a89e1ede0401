"""The job without a network and without interruption: the same ranks take part in the same steps, in one process.

    python -m mrc_lab.torch_jobs.train_faults.reference FILE '[[0, 1, 2, 3], [0, 1, 3]]'

The list has the ranks of each step. Their gradients are averaged in the order of their numbers; a network's rings add
in other orders.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch

from mrc_common import strict_json
from mrc_lab.torch_jobs.train_faults.gpt_example import batch, new_training


def weights(schedule: Sequence[Sequence[int]]) -> torch.Tensor:
    """All weights, in one row, after a step with the ranks of each entry."""
    training = new_training()
    parameters = list(training.model.parameters())
    for step, members in enumerate(schedule):
        training.optimizer.zero_grad()
        for rank in members:
            training.loss(batch(rank, step)).backward()  # which adds to the gradients
        for parameter in parameters:
            parameter.grad /= len(members)
        training.optimizer.step()
    found: torch.Tensor = training.weights()
    return found


if __name__ == "__main__":
    np.save(sys.argv[1], weights(strict_json.loads(sys.argv[2])).numpy())
