"""The uninterrupted job is the same every time, and another one if a single rank is missing in a single step."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch

from mrc_lab.torch_jobs.train_faults.gpt_example import batch
from mrc_lab.torch_jobs.train_faults.reference import weights
from mrc_lab.torch_jobs.train_faults.worker import state_of


@pytest.fixture(autouse=True)
def _types_as_before() -> object:
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def test_every_rank_has_a_part_in_every_step() -> None:
    whole = weights([[0, 1, 2], [0, 1, 2]])
    assert torch.equal(whole, weights([[0, 1, 2], [0, 1, 2]]))
    for other in ([[0, 1, 2], [0, 1]], [[0, 2], [0, 1, 2]], [[0, 1, 2]], [[0, 1, 3], [0, 1, 2]]):
        assert len(whole) == len(weights(other))
        assert (whole - weights(other)).abs().max() > 1e-6, other


def test_batches_of_all_ranks_and_steps_differ() -> None:
    drawn = {int(torch.randint(1 << 60, (1,), generator=batch(rank, step))) for rank in range(8) for step in range(50)}
    assert len(drawn) == 400


def test_the_state_before_the_first_step_is_that_which_adamw_makes() -> None:
    from mrc_lab.torch_jobs.train_faults.gpt_example import new_training

    made, stepped = new_training(), new_training()
    stepped.take_step(batch(0, 0))
    assert [(t.shape, t.dtype) for t in state_of(made)] == [(t.shape, t.dtype) for t in state_of(stepped)]
    made.take_step(batch(0, 0))
    assert all(torch.equal(one, other) for one, other in zip(state_of(made), state_of(stepped), strict=True))
