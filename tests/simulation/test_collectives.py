"""The experiments' own coroutines, unchanged, in virtual time."""

import numpy as np
import pytest

from mrc_lab.workloads.collectives.communicator import Communicator
from mrc_lab.workloads.collectives.out_of_band import LocalMeeting
from mrc_lab.workloads.collectives.settings import StreamSettings
from simulation.trace import Trace
from tests.simulation.worlds import US, small_world


def all_reduce(seed, fault=lambda faults: None):
    trace = Trace()
    with small_world(seed, trace=trace) as world:
        fault(world.faults)
        meeting = LocalMeeting(4)
        sums = {}

        async def rank(number):
            with world.open(f"h{number + 1}") as context:
                settings = StreamSettings(attributes=world.attributes())
                ring = await Communicator.join(context, meeting.rank(number), settings)
                data = np.arange(50_000, dtype=np.float64) * (number + 1)
                await ring.all_reduce(data)
                sums[number] = data
                await meeting.rank(number).gather("done", None)
                await ring.leave()

        async def job():
            for task in [world.spawn(rank(number)) for number in range(4)]:
                await task

        world.run(job())
        world.run()
        for number in range(4):
            assert np.array_equal(sums[number], np.arange(50_000, dtype=np.float64) * 10)
        return world.now, trace.cut()


def test_a_ring_all_reduce_is_correct_and_repeatable():
    assert all_reduce(3) == all_reduce(3)


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_all_reduce_survives_a_link_down_and_a_lossy_link(seed):
    def fault(faults):
        faults.link_down("t0-0:t1-1@p0", at=30 * US, until=300 * US)
        faults.loss("h2@p1", 0.02)

    all_reduce(seed, fault)
