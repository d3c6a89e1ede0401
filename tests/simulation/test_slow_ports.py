"""A port that is slower than the NIC's others is reported once, its return to full rate too, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mrc_host.verbs.context import Context
from mrc_host.verbs_types import SlowPortEvent
from simulation.world import SimulatedWorld
from tests.fuzz.fuzz_slow_ports import Slowness, check
from tests.seeds import SEED
from tests.simulation.worlds import GIGA, Pair
from topologies.addressing import nic_address
from topologies.clos import multi_plane_clos
from topologies.queues import QueueProfile

MS = 1_000_000
RATE = 100 * GIGA


def _world(planes: int, seed: int, hosts: int = 2) -> SimulatedWorld:
    queues = QueueProfile(base_rtt_ns=12_000, least_frames=32, trimming=True, ecn=True)
    fabric = multi_plane_clos(planes=planes, t0=2, t1=4, hosts=hosts, rate_bps=RATE, queues=queues)
    return SimulatedWorld(fabric, seed=seed)


def _start(world: SimulatedWorld, source: str, target: str, outstanding: int = 16) -> Context:
    pair = Pair(world, source, target, length=1 << 18, attributes=world.attributes(ends=(source, target)))
    world.spawn(pair.write_without_end(outstanding))
    return pair.contexts[0]


def _events(context: Context) -> list[SlowPortEvent]:
    return [event for event in iter(context.poll_event, None) if isinstance(event, SlowPortEvent)]


def _next_events(world: SimulatedWorld, context: Context) -> list[SlowPortEvent]:
    """The next of them, and those of a fifth of a millisecond more."""
    begin = world.now
    while not (found := _events(context)):
        world.run(world.now + MS // 10)
        assert world.now < begin + 4 * MS, "no event"
    world.run(world.now + MS // 5)
    return found + _events(context)


@pytest.mark.parametrize("percent", [10, 25, 50])
@pytest.mark.parametrize("end", ["h1", "h2"])
@pytest.mark.parametrize("planes", [2, 4])
def test_a_slow_port_of_either_end_is_reported_until_it_is_fast_again(planes: int, end: str, percent: int) -> None:
    port, seed = planes - 1, planes + percent
    with _world(planes, seed) as world:
        near = _start(world, "h1", "h2")
        world.run(MS // 5)
        assert not _events(near)
        fault = world.faults.rate(f"{end}@p{port}", RATE * percent // 100)
        (event,) = _next_events(world, near)
        began, now = MS // 5, world.now
        assert (event.port, event.slow, event.local) == (port, True, end == "h1"), f"seed {seed}"
        assert event.peer == (b"" if end == "h1" else nic_address(world.fabric, world.fabric.nic("h2")).packed)
        counters = world.nic("h1").port_counters()
        slow = [counter["slow" if end == "h1" else "slow_peers"] for counter in counters]
        assert slow == [int(number == port) for number in range(planes)]
        waited = [counter["tx_plane_waited_ns"] for counter in counters]
        if end == "h1":  # the others could have sent for the time that it needs more than they do
            assert waited[port] > (now - began) * (100 - percent) // 100 * 9 // 10 > 10 * sum(waited[:port]), waited
        world.faults.clear(fault)
        (event,) = _next_events(world, near)
        assert (event.port, event.slow, event.local) == (port, False, end == "h1"), f"seed {seed}"
        assert not any(c["slow"] or c["slow_peers"] for c in world.nic("h1").port_counters())


@pytest.mark.parametrize("percent", [25, 50])
@pytest.mark.parametrize("end", ["h1", "h2"])
@pytest.mark.parametrize(("planes", "ports"), [(4, (1, 3)), (8, (0, 5)), (8, (2, 3, 7)), (8, (4, 5, 6, 7))])
def test_ports_that_are_as_slow_as_each_other_are_all_reported(
    planes: int, ports: tuple[int, ...], end: str, percent: int
) -> None:
    with _world(planes, seed=percent) as world:
        near = _start(world, "h1", "h2")
        world.run(MS // 5)
        faults = [world.faults.rate(f"{end}@p{port}", RATE * percent // 100) for port in ports]
        events = _next_events(world, near)
        assert sorted((event.port, event.slow, event.local) for event in events) == [
            (port, True, end == "h1") for port in ports
        ]
        for fault in faults:
            world.faults.clear(fault)
        events = _next_events(world, near)
        assert sorted((event.port, event.slow) for event in events) == [(port, False) for port in ports]


def test_own_ports_of_unlike_rates_are_all_reported() -> None:
    with _world(8, seed=1) as world:
        near = _start(world, "h1", "h2")
        world.run(MS // 5)
        for port, percent in ((1, 50), (2, 25), (6, 10)):
            world.faults.rate(f"h1@p{port}", RATE * percent // 100)
        events = _next_events(world, near)
        assert sorted((event.port, event.slow, event.local) for event in events) == [
            (port, True, True) for port in (1, 2, 6)
        ]


def test_a_slow_port_of_a_peer_is_reported_with_short_packets_too() -> None:
    """These use up the range of PSNs, and not the window, while the slow port keeps the first of them."""
    with _world(7, seed=1) as world:
        attributes = replace(world.attributes(ends=("h1", "h2")), path_mtu=1024)
        pair = Pair(world, "h1", "h2", length=1 << 18, attributes=attributes)
        world.spawn(pair.write_without_end(16))
        world.run(MS // 5)
        world.faults.rate("h2@p1", RATE // 4)
        (event,) = _next_events(world, pair.contexts[0])
        assert (event.port, event.slow, event.local) == (1, True, False)


def test_healthy_ports_are_not_reported() -> None:
    """Whatever else slows them down: an incast, messages of any size, a link of the fabric, a plane that is cut."""
    for seed in range(6):
        rng = Random(seed)
        planes = rng.choice((2, 4))
        with _world(planes, seed, hosts=6) as world:
            sources = rng.sample(("h1", "h2", "h4", "h5", "h6"), rng.randrange(1, 5))
            contexts = [_start(world, source, "h3", rng.choice((1, 2, 16))) for source in sources]
            world.run(MS // 10)
            link = rng.choice((f"t0-0:t1-{rng.randrange(4)}@p0", "h1@p1"))
            fault = world.faults.rate(link, RATE // 10) if "t1" in link else world.faults.link_down(link)
            world.run(MS // 2)
            world.faults.clear(fault)
            world.run(MS)
            assert not [event for context in contexts for event in _events(context)], f"seed {seed}: {link}"


def test_queue_pairs_that_take_turns_at_some_ports_and_share_another_make_none_slow() -> None:
    """In this world one queue pair has two ports to itself while the other waits for the third, which they share."""
    slowness = Slowness(3, 2, 25, False, 4096, 2, 4, False, "link slow", {2: 50})
    check(slowness, 4189697230)


def test_a_slow_port_is_found_if_and_only_if_it_is_there() -> None:
    """In a random world; `make soak` tries for longer."""
    print(f"seed {SEED}")
    chance = Random(SEED)
    slowness = Slowness.random(chance)
    check(slowness, chance.getrandbits(32))
