import asyncio

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mrc_lab.workloads.collectives.ring import RingSettings
from mrc_lab.workloads.training.data import digits
from mrc_lab.workloads.training.sgd import Trainer, TrainingPlan, train_alone
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.mrc_lab.workloads.collectives.test_ring import join, run

PLAN = TrainingPlan(steps=30, batch=40, hidden=(32, 16), seed=5)


@pytest.fixture(scope="module")
def data():
    return digits()


async def train_on_ranks(plan, data, world):
    trainers = [Trainer(plan, data) for _ in range(world)]
    settings = RingSettings(max_bytes=8 * trainers[0].vector_size, chunk_bytes=4096, tail_bytes=1024)
    rings = await join(FakeNetwork(plan.seed), world, settings)

    async def one(rank):
        results = []
        for step in range(plan.steps):
            vector = trainers[rank].contribution(step, rank, world)
            await rings[rank].all_reduce(vector)
            results.append(trainers[rank].apply(vector))
        return results

    return trainers, await asyncio.gather(*(one(rank) for rank in range(world)))


@pytest.mark.parametrize("world", [2, 3, 4])
def test_distributed_training_gives_the_weights_of_one_process(data, world):
    with threadpool_limits(1):
        trainers, results = run(train_on_ranks(PLAN, data, world))
        alone = train_alone(PLAN, data)
        same_order = []
        ordered = train_alone(PLAN, data, shards=world, on_step=lambda step, result: same_order.append(result))
    for rank in range(world):
        assert np.abs(trainers[rank].parameters - alone).max() < 1e-6
        np.testing.assert_array_equal(trainers[rank].parameters, ordered)
        assert results[rank] == same_order


def test_training_reduces_the_loss(data):
    losses = []
    plan = TrainingPlan(steps=150, hidden=(64,), seed=2)
    weights = train_alone(plan, data, on_step=lambda step, result: losses.append(result.loss))
    assert losses[-1] < losses[0] / 4
    trainer = Trainer(plan, data)
    before = trainer.held_out().correct
    trainer.parameters = weights
    assert trainer.held_out().correct > 0.85 * len(data.test_labels) > before


def test_a_corrupted_sum_changes_its_crc_and_the_weights(data):
    first, second = Trainer(PLAN, data), Trainer(PLAN, data)
    vector = first.contribution(0, 0, 1)
    wrong = vector.copy()
    wrong[17] += 1e-9
    assert first.apply(vector).crc != second.apply(wrong).crc
    assert (first.parameters != second.parameters).any()
