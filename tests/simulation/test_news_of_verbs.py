"""What a verb itself makes happen, by room in a full queue or by flushed receives, happens when it is called."""

import asyncio

import pytest

from mrc_host.verbs_types import CompletionStatus, QpState, QpType
from p4runtime_shim.errors import SwitchClosed
from simulation.errors import SimulationError
from simulation.world import SimulatedWorld
from tests.simulation.worlds import US, connected, small_world

KINDS = [QpType.MRC, QpType.RC]


def test_a_message_that_waited_for_room_is_acknowledged_when_there_is():
    with small_world() as world:  # with RC it would be refused, and sent again later
        qp, qp_far, cq, cq_far, region, region_far = connected(world, QpType.MRC, 1)
        for imm in (1, 2):
            qp.write(region, region_far.remote, length=64, imm=imm)
        full = world.now
        world.run(full + 20 * US + 3)
        assert len(cq.poll()) == 1, "the second waits"
        polled = world.now
        assert [entry.imm for entry in cq_far.poll()] == [1]
        world.run(polled + 6 * US)  # there and back take less
        assert [entry.status for entry in cq.poll()] == [CompletionStatus.SUCCESS]
        assert [entry.imm for entry in cq_far.poll()] == [2]
        counters = qp_far.hw_counters()
        assert counters["cq_full_events"] == 1
        assert polled - full - 6 * US < counters["cq_full_ns"] <= polled - full


@pytest.mark.parametrize("kind", KINDS)
def test_a_receive_posted_in_error_wakes_who_waits_for_it(kind):
    with small_world() as world:
        _qp, qp_far, _cq, cq_far, *_ = connected(world, kind, 16)

        async def waiter():
            entry = await cq_far.next()
            return world.now, entry.wr_id, entry.status

        async def post():
            waiting = asyncio.ensure_future(waiter())
            await asyncio.sleep(20e-6)
            qp_far.modify(QpState.ERROR)
            qp_far.post_recv(7)
            return world.now, await waiting

        now, found = world.run(post())
        assert found == (now, 7, CompletionStatus.FLUSHED)


def test_a_world_is_not_closed_while_it_runs():
    with small_world() as world:

        async def close():
            world.close()

        with pytest.raises(SimulationError, match="The world runs: close it when `run` has ended"):
            world.run(close())
        refusals = []
        world.clock.at(world.now + 1, lambda *_: refusals.append(refused(world)))
        world.run(world.now + 2)
        assert refusals == [True]
        qp, _qp_far, cq, *_, region, region_far = connected(world, QpType.MRC, 16)
        qp.write(region, region_far.remote)
        world.run()
        assert len(cq.poll()) == 1
        switches = [world.node(description.name).switch for description in world.fabric.switches]
    for switch in switches:
        with pytest.raises(SwitchClosed):
            assert switch.handle


def refused(world: SimulatedWorld) -> bool:
    with pytest.raises(SimulationError, match="The world runs"):
        world.close()
    return True
