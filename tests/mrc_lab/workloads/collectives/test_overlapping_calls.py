"""Calls that overlap, on ranks that are not in step, one of which may give one up: every result is right.

Lengths are equal, so that whatever arrives would fit anywhere.
"""

import asyncio
import contextlib
import random

import numpy as np
import pytest

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import Communicator, HierarchicalCommunicator, LocalMeeting, StreamSettings
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.seeds import SEED

SETTINGS = StreamSettings(chunk_bytes=256, slots=3, tail_bytes=100)
LENGTH = 240
PATIENCE_S = 0.03  # of ranks of which one has given up


async def call(rank, name, value):
    """One operation, with `value` in all elements; the result, whose elements are the sum over all ranks."""
    array = np.full(LENGTH, value, np.int64)
    if name == "all_reduce":
        await rank.all_reduce(array)
        return array
    if name == "all_gather":
        rows = np.zeros(LENGTH * rank.world, np.int64)
        await rank.all_gather(array, rows)
        return rows.reshape(rank.world, LENGTH).sum(axis=0)
    part = np.zeros(LENGTH // rank.world, np.int64)
    await rank.reduce_scatter(array, part)
    return part


async def play(kind, seed):
    """Ranks call the same operations in the same order; returns how many calls came to their end."""
    chance = random.Random(seed)
    world, clusters = chance.choice([(2, 2), (3, 1), (4, 2), (6, 2), (6, 3)])
    names = [chance.choice(["all_reduce", "all_gather", "reduce_scatter"]) for _ in range(4)]
    giving_up = chance.choice([None, 0, world - 1])  # this rank cancels a call
    victim, moment = chance.randrange(len(names)), chance.randrange(1, 150)
    network, meeting = FakeNetwork(seed), LocalMeeting(world)
    finished = 0

    async def one(number):
        nonlocal finished
        device, exchange = network.device(number), meeting.rank(number)
        if kind == "hierarchical":
            rank = await HierarchicalCommunicator.join(device, exchange, SETTINGS, clusters=clusters)
        else:
            rank = await Communicator.join(device, exchange, SETTINGS)
        calls = []
        for k, name in enumerate(names):
            named = "all_reduce" if kind == "hierarchical" else name
            calls.append(asyncio.ensure_future(call(rank, named, (k + 1) * 10**number)))
            if number == giving_up and k == victim:
                for _ in range(moment):
                    await asyncio.sleep(0)
                calls[-1].cancel()
            for _ in range(chance.choice((0, 0, 1, 30, 150))):
                await asyncio.sleep(0)
        await asyncio.wait(calls, timeout=None if giving_up is None else PATIENCE_S)
        for k, task in enumerate(calls):
            if not task.done():
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, TransferError):
                result = await task
                assert set(result.tolist()) == {(k + 1) * int("1" * world)}, f"seed {seed}: call {k} of rank {number}"
                finished += 1

    await asyncio.gather(*(one(number) for number in range(world)))
    assert giving_up is not None or finished == world * len(names), f"seed {seed}"
    return finished


@pytest.mark.second_ring
@pytest.mark.parametrize("kind", ["flat", "hierarchical"])
def test_whoever_gets_a_result_has_the_right_one(kind):
    first = SEED
    print("first seed", first)
    finished = [asyncio.run(asyncio.wait_for(play(kind, seed), 60)) for seed in range(first, first + 60)]
    assert sum(finished) > 120
