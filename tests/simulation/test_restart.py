"""A NIC that restarts forgets everything, and a new connection to it works at once."""

import pytest

from mrc_host.verbs_types import CompletionStatus
from simulation.errors import SimulationError
from tests.simulation.worlds import GIGA, Pair, small_world, transfer
from topologies.errors import FabricError


def test_a_restarted_nic_forgets_its_queue_pairs():
    with small_world(rate=100 * GIGA) as world:
        pair = Pair(world, length=64)
        before = world.nic("h3")
        world.restart_nic("h3")
        assert world.nic("h3") is not before
        pair.region.buffer[:] = b"x" * 64
        pair.write()
        assert pair.cq.wait(100).status is not CompletionStatus.SUCCESS
        assert bytes(pair.region_far.buffer) == bytes(64)


def test_a_restarted_nic_works_and_the_run_is_repeatable():
    def play():
        with small_world(rate=100 * GIGA) as world:
            assert world.run(transfer(world)).equal
            world.restart_nic("h1")
            world.restart_nic("h3")
            result = world.run(transfer(world))
            assert result.equal
            return world.now, result.counters

    assert play() == play()


def test_a_restarted_nic_knows_which_ports_have_carrier():
    with small_world(rate=100 * GIGA) as world:
        world.faults.link_down("h1@p0")
        assert not world.faults.has_carrier("h1@p0")
        world.restart_nic("h1")
        assert [port.up for port in world.nic("h1").control.port_states()] == [False, True]
        assert world.run(transfer(world)).equal


def test_frame_taps_survive_a_nic_restart():
    with small_world(rate=100 * GIGA) as world:
        seen = []
        world.nic_node("h1").watch(seen.append)
        world.restart_nic("h1")
        assert world.run(transfer(world, length=100)).equal
        assert seen


def test_only_nics_can_be_restarted():
    with small_world() as world, pytest.raises((FabricError, SimulationError)):
        world.restart_nic("t0-0@p0")
