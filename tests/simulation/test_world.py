import asyncio
import contextlib
import gc
import tracemalloc
from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl
from mrc_host.verbs.errors import RejectedError, WaitTimeoutError
from mrc_host.verbs_types import CompletionStatus, QpType
from mrc_lab.workloads.collectives.out_of_band import LocalMeeting
from p4runtime_shim.traffic_manager import QueueConfig
from simulation.errors import SimulationError, StalledError
from simulation.world import SimulatedWorld, switch_drops
from tests.simulation.worlds import GIGA, US, Pair, small_fabric, small_world, transfer
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.fabric_checks import MAX_MTU
from topologies.queues import QueueProfile


def test_a_write_crosses_the_fabric_at_nearly_line_rate():
    with small_world() as world:
        result = world.run(transfer(world, length=4 << 20))
        assert result.equal
        assert result.counters.lost == 0
        goodput = (4 << 20) * 8 / result.took  # Gb/s
        assert 0.9 * 2 * 100 < goodput < 2 * 100 * 4096 / 4262  # 96 % of two ports at most (docs/protocol.md §1.1)
        for plane in range(2):
            there, _ = world.link_stats(f"h1@p{plane}")
            assert there.lost == 0
        assert not any(switch_drops(world).values())


def test_one_small_write_takes_the_time_of_its_path():
    with SimulatedWorld(small_fabric(), seed=1, rate=100 * GIGA, delay=1 * US) as world:
        took = world.run(transfer(world, length=8)).took
        assert 8 * US < took < 10 * US  # four links there, four back
        local = world.run(transfer(world, "h1", "h2", length=8)).took
        assert 4 * US < local < 5 * US


@pytest.mark.parametrize("kind", list(QpType))
def test_every_pair_of_nics_reaches_each_other(kind):
    with small_world() as world:
        for source in world.fabric.nic_names:
            for target in world.fabric.nic_names:
                if source != target:
                    assert world.run(transfer(world, source, target, length=10_000, kind=kind)).equal


def test_an_incast_at_switches_of_the_kernel_is_dropped_instead_of_trimmed():
    """In simulation they are stood for by switches that do not trim."""

    def incast(kernel):
        fabric = small_fabric().with_kernel_switches(kernel)
        shallow = replace(fabric, queues=QueueProfile(base_rtt_ns=0, least_frames=4, limit=200))
        with SimulatedWorld(shallow, seed=1, rate=100 * GIGA) as world:

            async def both():
                return await asyncio.gather(transfer(world, "h1", "h3"), transfer(world, "h2", "h3"))

            results = world.run(both())
            assert all(result.equal for result in results)
            lost = sum(result.counters.lost for result in results)
            with contextlib.closing(world.open("h3")) as receiver:
                return receiver.hw_counters()["rx_trimmed_lasthop_packets"], lost

    trimmed, _ = incast([])
    assert trimmed > 0
    trimmed, lost = incast(["t0-1@*"])
    assert trimmed == 0
    assert lost > 0


def test_the_largest_mtu_of_a_fabric_is_that_of_its_switches():
    with SimulatedWorld(small_fabric(mtu=MAX_MTU), seed=1) as world:
        assert world.run(transfer(world)).took > 0
    with pytest.raises(FabricError, match=f"mtu is {MAX_MTU + 1}"):
        small_fabric(mtu=MAX_MTU + 1)


def test_frames_are_conserved():
    with small_world() as world:
        world.run(transfer(world))
        world.run()
        for switch in world.fabric.switches:
            stats = world.switch(switch.name).stats()
            assert sum(p.rx_packets for p in stats.ports.values()) == sum(p.tx_packets for p in stats.ports.values())
            assert all(p.queued_packets == 0 for p in stats.ports.values())
        for link in world.fabric.links:
            for end, stats in zip((link.lower, link.upper), world.link_stats(link.name), strict=True):
                if end.node not in world.fabric.nic_names:
                    assert stats.frames == world.switch(end.node).stats().ports[end.port].tx_packets


def test_an_incast_queues_in_the_switch_and_completes():
    fabric = small_fabric(planes=1, hosts=8)
    with SimulatedWorld(fabric, seed=1, rate=100 * GIGA, queues=QueueConfig(max_packets=16)) as world:
        tasks = [world.spawn(transfer(world, f"h{n}", "h1", length=1 << 19)) for n in range(2, 9)]
        results = [world.run(task) for task in tasks]
        assert all(result.equal for result in results)
        fair = 7 * (1 << 19) * 8 / 100  # ns that the last hop needs for all of it
        assert fair < max(result.took for result in results) < 3 * fair


def test_the_world_becomes_idle():
    with small_world() as world:
        world.run(transfer(world))
        world.run()
        assert not world.clock.queued()


def test_blocking_calls_advance_the_simulation():
    with small_world() as world, contextlib.closing(Pair(world, length=5000)) as pair:
        pair.region.buffer[:] = b"x" * 5000
        pair.write(imm=7)
        assert pair.cq_far.wait(1).imm == 7
        assert pair.cq.wait(1).status is CompletionStatus.SUCCESS
        assert pair.region_far.buffer == pair.region.buffer
        before = world.now
        with pytest.raises(WaitTimeoutError):
            pair.cq.wait(0.5)
        assert world.now == before + 500_000_000
        with pytest.raises(RejectedError, match="world is idle"):
            pair.cq.wait()


def test_a_deadlocked_coroutine_is_reported():
    with small_world() as world, world.open("h1") as context, pytest.raises(StalledError):
        world.run(context.create_cq().next())


def test_local_rendezvous_works_in_virtual_time():
    with small_world() as world:
        meeting = LocalMeeting(3)

        async def main():
            tasks = [world.spawn(meeting.rank(n).gather("x", n * n)) for n in range(3)]
            return [await task for task in tasks]

        assert world.run(main()) == [[0, 1, 4]] * 3


def reachable_memory():
    gc.collect()  # cycles wait for the collector for as long as it pleases
    return tracemalloc.get_traced_memory()[0]


def test_memory_does_not_grow_with_simulated_time():
    with small_world() as world:
        world.run(transfer(world, times=4))
        tracemalloc.start()
        world.run(transfer(world, times=4))
        before = reachable_memory()
        for _ in range(5):
            world.run(transfer(world, times=4))
        after = reachable_memory()
        tracemalloc.stop()
        assert after - before < 20_000


def test_64_nics_of_8_planes_fit():
    fabric = multi_plane_clos("large", planes=8, t0=8, t1=8, hosts=64)
    with SimulatedWorld(fabric, seed=1, rate=100 * GIGA) as world:
        tasks = [world.spawn(transfer(world, f"h{n}", f"h{(n + 8) % 64 + 1}", length=50_000)) for n in range(1, 65)]
        assert all(world.run(task).equal for task in tasks)


def test_unknown_names_are_refused():
    with small_world() as world:
        with pytest.raises(FabricError, match="did you mean"):
            world.provider("h9")
        with pytest.raises(FabricError, match="no switch"):
            world.switch("t3-0@p0")
        with pytest.raises(SimulationError, match="No link"):
            world.channel(LinkEnd("h1", 7))


def test_invalid_times_are_refused():
    with pytest.raises(SimulationError, match="0 to 1000000000 ns"):
        SimulatedWorld(small_fabric(), seed=1, delay=-1)
    with small_world() as world:
        world.run(100)
        with pytest.raises(SimulationError, match="cannot run to 50"):
            world.run(50)


def test_closing_a_world_twice_is_allowed():
    world = small_world()
    world.run(10)
    world.close()
    world.close()


def test_no_time_passes_in_a_closed_world():
    world = small_world()
    with world.open("h1") as context:
        cq = context.create_cq(8)
        world.close()
        for attempt in (
            lambda: world.run(),
            lambda: world.run(100),
            lambda: world.run(asyncio.sleep(0)),
            lambda: world.spawn(asyncio.sleep(0)),
            lambda: cq.wait(1),
        ):
            with pytest.raises(SimulationError, match="closed"):
                attempt()


def test_a_custom_congestion_control_is_in_every_nic_even_after_a_restart():
    made = []

    def make(line):
        made.append(CongestionControl(line.window))
        return made[-1]

    settings = TransportSettings(congestion="own", base_rtt=12_000)
    with small_world(transport=settings, congestion={"own": Algorithm(make)}) as world:
        assert world.run(transfer(world, length=1 << 16)).equal
        before = len(made)
        assert before >= 2, "one for each end"
        world.restart_nic("h1")
        assert world.run(transfer(world, length=1 << 16)).equal
        assert len(made) > before
    with pytest.raises(InvalidArgumentError, match="Unknown congestion control 'own'"):
        small_world(transport=settings)


def test_a_world_runs_while_another_loop_does() -> None:
    """As in a cell of a notebook: the coroutine's result is the same, and the outer loop goes on."""

    def outcome() -> tuple[int, int]:
        with SimulatedWorld(multi_plane_clos(planes=1, t0=1, t1=0, hosts=2), seed=1) as world:

            async def job() -> int:
                await asyncio.sleep(1e-6)
                return world.now

            when = world.run(job())
            world.run(world.now + 500)
            world.run()
            assert when is not None
            return when, world.now

    async def cell() -> tuple[int, int]:
        found = outcome()
        await asyncio.sleep(0)
        return found

    assert asyncio.run(cell()) == outcome()
