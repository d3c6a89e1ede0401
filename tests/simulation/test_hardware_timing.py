"""Times of hosts, NICs and switches: each value lengthens what it should, by what it says, and nothing by default."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from itertools import pairwise

import pytest

from mrc_host.verbs_types import QpType
from simulation.errors import SimulationError
from simulation.hardware_timing import IDEAL, PROFILES, PUBLISHED_TESTBED, HardwareTiming
from simulation.trace import Trace
from simulation.transport_timers import timing
from simulation.world import SimulatedWorld, switch_drops
from tests.simulation.worlds import GIGA, US, Pair, small_world, transfer
from topologies.clos import multi_plane_clos
from topologies.queues import QueueProfile

LONG = 200 * US
FABRIC = multi_plane_clos("sim", planes=2, t0=2, t1=2, hosts=4, rate_bps=100 * GIGA)


def completion(hardware: HardwareTiming, *, target: str = "h3", length: int = 64) -> int:
    """From posting a write of `length` bytes until its completion is seen, in ns."""
    with small_world(hardware=hardware) as world:
        return world.run(transfer(world, "h1", target, length=length)).took


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("doorbell", 1),
        ("dma_read", 2),
        ("dma_write", 1),
        ("message", 1),
        ("transmit", 2),
        ("receive", 2),
        ("switch", 6),
    ],
)
def test_each_delay_is_added_once_per_occurrence_in_a_round_trip(name: str, times: int) -> None:
    """Across a T1 there are three switches each way, and a packet leaves and enters a NIC each way."""
    value = 500
    took = completion(replace(IDEAL, **{name: value}))
    assert took - completion(IDEAL) == times * value


def test_below_one_t0_a_round_trip_crosses_one_switch_each_way() -> None:
    assert completion(HardwareTiming(switch=500), target="h2") - completion(IDEAL, target="h2") == 2 * 500


def test_published_latencies_are_reproduced() -> None:
    """Section 5.2.1: half of the time from posting 2 bytes to their completion, below one T0 and across a T1."""
    for target, published in (("h2", 5.09), ("h3", 6.54)):
        with small_world(delay=125, hardware=PUBLISHED_TESTBED) as world:
            took = world.run(transfer(world, "h1", target, length=2)).took
        assert took / 2 / US == pytest.approx(published, rel=0.01)


def test_pcie_and_packet_rate_limit_the_throughput_of_all_ports() -> None:
    length = 1 << 20

    def rate(hardware: HardwareTiming) -> float:
        with small_world(hardware=hardware) as world:
            return 8 * length / world.run(transfer(world, length=length)).took * GIGA

    assert rate(IDEAL) > 150 * GIGA  # two ports of 100 Gb/s
    by_the_byte = 8 * (4096 + 142) / 80  # ns a packet
    for hardware, packet in ((HardwareTiming(pcie_rate=80 * GIGA), by_the_byte), (HardwareTiming(packet=400), 400)):
        bound = 8 * 4096 / packet * GIGA
        assert 0.85 * bound < rate(hardware) <= bound
    assert rate(HardwareTiming(pcie_rate=900 * GIGA, packet=4)) > 150 * GIGA


def test_ports_share_a_slow_pcie_evenly() -> None:
    with small_world(hardware=HardwareTiming(pcie_rate=80 * GIGA)) as world:
        world.run(transfer(world, length=1 << 20, kind=QpType.MRC))
        links = [world.link_stats(link.name)[0].bytes for link in world.fabric.links_of("h1")]
    assert min(links) > 0.9 * max(links)


def test_the_base_rtt_of_congestion_control_includes_device_delays() -> None:
    hardware = HardwareTiming(transmit=700, receive=900, switch=600)
    with small_world(hardware=hardware) as world:
        took = world.run(transfer(world, length=4096)).took
        assert took == pytest.approx(world.timing.round_trip, rel=0.05)
        assert world.timing.round_trip - timing(FABRIC, 1000, 256).round_trip == 2 * (700 + 900 + 3 * 600)


def test_completions_are_delayed_one_by_one_and_in_order() -> None:
    late = HardwareTiming(dma_write=LONG, message=300)
    with small_world(hardware=late) as world:
        pair = Pair(world, length=64)
        for number in range(4):
            pair.write(wr_id=number)
        world.run(LONG)
        assert pair.cq.poll() == []  # the NIC has them all by now

        async def look() -> tuple[int, int]:
            return (await pair.cq.next()).wr_id, world.now

        numbers, times = zip(*[world.run(look()) or (0, 0) for _ in range(4)], strict=True)
        assert numbers == (0, 1, 2, 3)
        assert all(after - before >= 300 for before, after in pairwise(times))
        pair.close()


def test_blocking_waits_and_notifications_see_delayed_completions() -> None:
    with small_world(hardware=HardwareTiming(dma_write=LONG)) as world:
        pair = Pair(world, length=64)
        pair.write(wr_id=7)
        world.run(LONG)  # complete for the NIC, not for the application
        pair.cq.req_notify()
        assert pair.cq.poll() == []
        pair.cq.wait_notified(timeout_s=1)
        assert [entry.wr_id for entry in pair.cq.poll()] == [7]
        pair.write(wr_id=8)
        assert pair.cq.wait(timeout_s=1).wr_id == 8
        assert world.now >= 2 * LONG
        pair.close()


def test_destroying_a_queue_or_restarting_a_nic_discards_delayed_completions() -> None:
    for end in ("close", "restart"):
        with small_world(hardware=HardwareTiming(dma_write=LONG)) as world:
            pair = Pair(world, length=64)
            pair.write()
            world.run(LONG)
            if end == "close":
                pair.close()
            else:
                world.restart_nic("h1")
            world.run()  # until nothing is left
            assert world.run(transfer(world, "h2", "h4", length=64)).equal


def test_flow_control_headroom_covers_device_delays() -> None:
    queues = QueueProfile(pfc=True, trimming=False)
    fabric = multi_plane_clos("pfc", planes=1, t0=2, t1=1, hosts=8, rate_bps=100 * GIGA, queues=queues)
    hardware = HardwareTiming(transmit=4 * US, receive=4 * US, switch=2 * US)
    with SimulatedWorld(fabric, seed=1, hardware=hardware) as world:

        async def incast() -> list[bool]:
            jobs = (transfer(world, f"h{n}", "h1", length=1 << 19, kind=QpType.RC) for n in range(2, 7))
            return [done.equal for done in await asyncio.gather(*jobs)]

        assert all(world.run(incast()))  # type: ignore[arg-type]
        assert sum(port.pauses_sent for port in world.switch("t0-0@p0").stats().ports.values()) > 0
        dropped = switch_drops(world)
        assert dropped["no_headroom"] == dropped["queue_full"] == dropped["no_buffer"] == 0


def test_a_busy_nic_obeys_a_pause_immediately() -> None:
    """Frames queue before a NIC that takes long with each; a PAUSE frame does not."""
    queues = QueueProfile(pfc=True, trimming=False)
    fabric = multi_plane_clos("pfc", planes=1, t0=2, t1=1, hosts=4, rate_bps=100 * GIGA, queues=queues)
    with SimulatedWorld(fabric, seed=1, hardware=HardwareTiming(packet=300)) as world:
        done = world.run(transfer(world, "h1", "h3", length=1 << 18, kind=QpType.RC))
        assert done.equal
        assert switch_drops(world)["no_headroom"] == 0


def lost_packet(hardware: HardwareTiming, kind: QpType) -> int:
    """How long a transfer takes whose link loses one packet in a hundred."""
    with small_world(3, hardware=hardware) as world:
        world.faults.loss("h3@p0", 0.01)
        world.faults.loss("h3@p1", 0.01)
        done = world.run(transfer(world, length=1 << 20, kind=kind))
        assert done.equal
        assert done.counters.lost > 0
        return done.took


@pytest.mark.parametrize("kind", [QpType.MRC, QpType.RC])
def test_a_loss_takes_at_least_the_recovery_time(kind: QpType) -> None:
    assert lost_packet(HardwareTiming(recovery=LONG), kind) > lost_packet(IDEAL, kind) + LONG // 2


def test_nothing_new_is_sent_for_a_while_after_a_retransmission() -> None:
    paused = HardwareTiming(retransmission=LONG)
    assert lost_packet(paused, QpType.MRC) > lost_packet(IDEAL, QpType.MRC) + LONG // 2
    assert lost_packet(paused, QpType.RC) == lost_packet(IDEAL, QpType.RC)


def test_a_lost_last_packet_is_detected_no_sooner_than_the_tail_probe() -> None:
    def took(hardware: HardwareTiming) -> int:
        """For a write whose only packet is lost, when round trips are known already."""
        with small_world(hardware=hardware) as world:
            pair = Pair(world, length=64)
            pair.write()
            world.run(pair.cq.next())
            began = world.now
            for plane in range(2):
                world.faults.loss(f"h1@p{plane}", 1.0, until=began + 5 * US)
            pair.write()
            world.run(pair.cq.next())
            when = world.now
            pair.close()
            return when - began

    assert took(IDEAL) < LONG < took(HardwareTiming(tail_probe=LONG)) < LONG + 50 * US


def test_the_ack_timeout_is_rounded_up_to_a_power_of_two() -> None:
    for least, exponent in ((2_097_152, 11), (2_097_153, 12), (8_000_000, 13)):
        fit = timing(FABRIC, 1000, 256, HardwareTiming(ack_timeout=least))
        assert fit.timeout == exponent
    assert timing(FABRIC, 1000, 256, HardwareTiming(ack_timeout=1)).timeout == timing(FABRIC, 1000, 256).timeout


def test_the_ideal_profile_equals_no_profile() -> None:
    def trace(**arguments: HardwareTiming) -> str:
        kept = Trace()
        with small_world(5, trace=kept, **arguments) as world:
            world.run(transfer(world, length=1 << 18))
            return kept.cut().hash

    assert trace() == trace(hardware=PROFILES["ideal"])
    assert trace() != trace(hardware=PUBLISHED_TESTBED)


def test_negative_times_are_refused_by_name() -> None:
    for field in fields(HardwareTiming):
        with pytest.raises(SimulationError, match=field.name):
            HardwareTiming(**{field.name: -1})
