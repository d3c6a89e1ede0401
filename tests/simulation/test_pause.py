"""Priority flow control between the devices of a world: nothing is lost at an incast, and others pay for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpType
from simulation.errors import SimulationError
from simulation.world import SimulatedWorld, switch_drops
from tests.simulation.worlds import GIGA, Transfer, transfer
from topologies.clos import multi_plane_clos
from topologies.queues import QueueProfile

FREE = TransportSettings(rc_congestion="none")  # windows without bound: queues are what stops a sender
PAIRS = (("h2", "h1"), ("h3", "h1"), ("h4", "h1"), ("h5", "h1"), ("h6", "h1"))


def world_of(pfc: bool, *, delay: int = 1_000, seed: int = 1) -> SimulatedWorld:
    """Two racks of four hosts on one plane, one T1."""
    queues = QueueProfile(pfc=pfc, trimming=False)
    fabric = multi_plane_clos("pfc", planes=1, t0=2, t1=1, hosts=8, rate_bps=100 * GIGA, queues=queues)
    return SimulatedWorld(fabric, seed=seed, delay=delay, transport=FREE)


def move(world: SimulatedWorld, pairs: Sequence[tuple[str, str]], length: int = 1 << 20) -> list[Transfer]:
    async def all_of_them() -> list[Transfer]:
        jobs = (transfer(world, *pair, length=length, kind=QpType.RC) for pair in pairs)
        return await asyncio.gather(*jobs)

    return world.run(all_of_them())  # type: ignore[return-value]


def drops(world: SimulatedWorld) -> int:
    """What queues lost: by the program's limit on data, or the traffic manager's."""
    dropped = switch_drops(world)
    return dropped["ingress"] + dropped["queue_full"] + dropped["no_headroom"] + dropped["no_buffer"]


def pauses(world: SimulatedWorld, switch: str) -> tuple[int, int]:
    ports = world.switch(switch).stats().ports.values()
    return sum(port.pauses_sent for port in ports), sum(port.pauses_received for port in ports)


def test_an_incast_loses_nothing_with_flow_control_and_packets_without() -> None:
    lost = {}
    for pfc in (True, False):
        with world_of(pfc) as world:
            done = move(world, PAIRS)
            assert all(one.equal for one in done)
            lost[pfc] = drops(world)
            assert (sum(one.counters.retransmitted for one in done) > 0) is not pfc
            assert (sum(pauses(world, "t0-0@p0")) > 0) is pfc
            if pfc:
                assert world.nic("h2").nic_counters()["pauses_received"] > 0
    assert lost[True] == 0
    assert lost[False] > 0


def test_long_links_get_enough_headroom() -> None:
    with world_of(True, delay=20_000) as world:
        move(world, PAIRS)
        assert drops(world) == 0


def test_pauses_slow_down_uninvolved_flows() -> None:
    """h7>h4 shares only the way from T0 to T0 with one flow of the incast on h1; pauses hold that line for both."""
    shared = (("h8", "h1"), ("h7", "h4"))
    with world_of(True) as world:
        alone = move(world, shared)[-1].took
    with world_of(True) as world:
        beside = move(world, (*PAIRS, *shared))[-1].took
        assert pauses(world, "t0-0@p0")[0] > 0
        assert pauses(world, "t1-0@p0")[0] > 0  # which was paused, and paused others
        assert pauses(world, "t0-1@p0")[1] > 0
        assert drops(world) == 0
    assert beside > 1.5 * alone


def test_after_the_traffic_no_port_is_paused() -> None:
    with world_of(True) as world:
        move(world, PAIRS)
        world.run()  # to rest: no pause is repeated for ever
        again = move(world, (("h2", "h1"),))[0]
        assert again.took < 1.2 * again.counters.data_sent * 4262 * 8 // 100


def test_the_same_seed_gives_the_same_run() -> None:
    def times() -> list[int]:
        with world_of(True, seed=3) as world:
            return [one.took for one in move(world, PAIRS, 1 << 18)]

    assert times() == times()


def test_a_link_that_needs_more_headroom_than_a_profile_can_say_is_refused() -> None:
    fabric = multi_plane_clos("long", planes=1, t0=2, t1=1, hosts=2, queues=QueueProfile(pfc=True, trimming=False))
    with pytest.raises(SimulationError, match=r"needs room for .* bytes in a queue, more than 10000 %"):
        SimulatedWorld(fabric, seed=1, rate=100 * GIGA, delay=10_000_000)
