"""The training that all runs share: ``examples/gpt.py``, imported from its file, in float64 and on one thread.

In float64 another order of addition changes digits that do not matter, so that a lost or doubled gradient shows.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from mrc_lab.torch_jobs.demo_run import GPT
from mrc_lab.torch_jobs.train_faults.cases import MAX_HOSTS

_SEED = 1


def new_training() -> Any:
    """A `Training` of the example, the same in every process."""
    spec = importlib.util.spec_from_file_location("gpt", GPT)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    spec.loader.exec_module(example)
    torch.manual_seed(_SEED)
    return example.Training(None)


def batch(rank: int, step: int) -> torch.Generator:
    """What chooses the batch of a rank (by its number at the beginning of the job) in a step, from 0.

    Torch's generator of a CPU takes 32 bits of a seed.
    """
    return torch.Generator().manual_seed(step * MAX_HOSTS + rank)
