"""With `slow_port_retry`, ports that are slower than the others carry no data until they are fast again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mrc_host.verbs_types import QpType
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos
from topologies.queues import QueueProfile

MS = 1_000_000
RATE = 100 * GIGA
QUARTER = RATE // 4
PLANES = 4
PAYLOAD = 4096 / (4096 + 146 + 20)  # of what a link carries
RETRY = MS


class Running:
    """A world in which h1 writes to h2 without end."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.pair = Pair(world, "h1", "h2", length=1 << 18, attributes=world.attributes(ends=("h1", "h2")))
        world.spawn(self.pair.write_without_end(16))

    def run(self, ns: int) -> float:
        """Run for so long; goodput, in ports at full rate."""
        before = self.pair.qp_far.counters().data_received
        self.world.run(self.world.now + ns)
        return (self.pair.qp_far.counters().data_received - before) * 4096 * 8e9 / ns / RATE / PAYLOAD

    def retired(self, of: str = "retired") -> list[int]:
        """Ports of h1 that are retired for themselves, or `retired_peers`."""
        return [port for port, counters in enumerate(self.world.nic("h1").port_counters()) if counters[of]]


@contextlib.contextmanager
def running(retry: int, hosts: int = 2, seed: int = 1) -> Iterator[Running]:
    queues = QueueProfile(base_rtt_ns=12_000, least_frames=32, trimming=True, ecn=True)
    fabric = multi_plane_clos(planes=PLANES, t0=2, t1=4, hosts=hosts, rate_bps=RATE, queues=queues)
    transport = replace(fabric.settings.transport, slow_port_retry=retry)
    fabric = replace(fabric, settings=replace(fabric.settings, transport=transport))
    with SimulatedWorld(fabric, seed=seed) as world:
        yield Running(world)


@pytest.mark.parametrize(("end", "counter"), [("h1", "retired"), ("h2", "retired_peers")])
def test_the_other_ports_remain_when_one_is_slow_and_all_when_it_is_fast_again(end: str, counter: str) -> None:
    with running(RETRY) as flow:
        flow.run(MS // 5)
        fault = flow.world.faults.rate(f"{end}@p3", QUARTER)
        flow.run(2 * MS)
        while not flow.retired(counter):  # it may be on trial
            flow.run(MS // 10)
        assert flow.retired(counter) == [3]
        assert flow.run(RETRY // 2) == pytest.approx(PLANES - 1, rel=0.03)
        assert not flow.world.nic("h2").port_counters()[3]["slow"], "nobody is notified"
        flow.world.faults.clear(fault)
        flow.run(5 * RETRY)
        assert not flow.retired(counter)
        assert flow.run(MS // 2) == pytest.approx(PLANES, rel=0.03)
        assert not any(c["slow"] or c["slow_peers"] for c in flow.world.nic("h1").port_counters())


def test_by_default_all_wait_for_a_slow_port() -> None:
    with running(0) as flow:
        flow.run(MS // 5)
        flow.world.faults.rate("h1@p3", QUARTER)
        flow.run(2 * MS)
        assert (flow.retired(), flow.run(MS // 2)) == ([], pytest.approx(PLANES / 4, rel=0.05))


def test_two_slow_ports_of_unlike_rates_are_retired_one_after_the_other() -> None:
    with running(20 * RETRY) as flow:
        flow.run(MS // 5)
        flow.world.faults.rate("h1@p2", QUARTER)
        flow.world.faults.rate("h1@p3", RATE // 2)
        flow.run(3 * MS)
        assert (flow.retired(), flow.run(MS // 2)) == ([2, 3], pytest.approx(PLANES - 2, rel=0.03))


@pytest.mark.second_ring
@pytest.mark.parametrize(("end", "counter"), [("h1", "retired"), ("h2", "retired_peers")])
def test_two_ports_that_are_equally_slow_are_retired_and_the_others_stay_balanced(end: str, counter: str) -> None:
    with running(20 * RETRY) as flow:
        flow.run(MS // 5)
        faults = [flow.world.faults.rate(f"{end}@p{port}", QUARTER) for port in (0, 2)]
        flow.run(3 * MS)
        before = [port["tx_bytes"] for port in flow.world.nic("h1").port_counters()]
        assert (flow.retired(counter), flow.run(MS // 2)) == ([0, 2], pytest.approx(PLANES - 2, rel=0.03))
        after = [port["tx_bytes"] for port in flow.world.nic("h1").port_counters()]
        loads = [b - a for a, b in zip(before, after, strict=True)]
        assert loads[1] == pytest.approx(loads[3], rel=0.02)
        assert loads[0] + loads[2] < loads[1] // 50, "acknowledgements only"
        for fault in faults:
            flow.world.faults.clear(fault)
        flow.run(42 * RETRY)
        assert (flow.retired(counter), flow.run(MS // 2)) == ([], pytest.approx(PLANES, rel=0.03))


def test_ports_that_are_all_slow_stay_in_use() -> None:
    with running(RETRY) as flow:
        for port in range(PLANES):
            flow.world.faults.rate(f"h1@p{port}", QUARTER)
        flow.run(2 * MS)
        assert (flow.retired(), flow.run(MS // 2)) == ([], pytest.approx(PLANES / 4, rel=0.05))


def test_ports_that_become_slow_in_turn_until_all_are_alike_are_all_used_again() -> None:
    with running(RETRY) as flow:
        flow.run(MS // 5)
        for port in range(PLANES):
            flow.world.faults.rate(f"h1@p{port}", QUARTER)
            flow.run(MS)
        flow.run(10 * RETRY)
        assert (flow.retired(), flow.run(MS // 2)) == ([], pytest.approx(PLANES / 4, rel=0.05))


def test_retired_ports_carry_data_when_all_others_lose_their_link() -> None:
    with running(1000 * RETRY) as flow:
        flow.run(MS // 5)
        flow.world.faults.rate("h1@p3", QUARTER)
        flow.run(2 * MS)
        assert flow.retired() == [3]
        faults = [flow.world.faults.link_down(f"h1@p{port}") for port in range(3)]
        flow.run(MS // 5)
        assert flow.run(MS // 2) == pytest.approx(1 / 4, rel=0.05)
        for fault in faults:
            flow.world.faults.clear(fault)
        flow.run(MS // 5)
        assert (flow.retired(), flow.run(MS // 2)) == ([3], pytest.approx(PLANES - 1, rel=0.03))


def test_a_retired_port_that_loses_its_link_is_used_again_when_it_is_back() -> None:
    with running(1000 * RETRY) as flow:
        flow.run(MS // 5)
        slow = flow.world.faults.rate("h1@p3", QUARTER)
        flow.run(2 * MS)
        assert flow.retired() == [3]
        down = flow.world.faults.link_down("h1@p3")
        flow.world.faults.clear(slow)
        flow.run(MS // 5)
        flow.world.faults.clear(down)
        flow.run(MS // 5)
        assert (flow.retired(), flow.run(MS // 2)) == ([], pytest.approx(PLANES, rel=0.03))


def test_queue_pairs_that_wait_for_the_port_go_on() -> None:
    """Also those that learn of it from another one, to the same NIC or another, and RC, which stays on its port."""
    with running(20 * RETRY, hosts=4) as flow:
        world = flow.world
        kinds = (("h2", QpType.MRC), ("h3", QpType.MRC), ("h4", QpType.MRC), ("h2", QpType.RC))
        pairs = [
            Pair(world, "h1", to, length=1 << 14, kind=kind, attributes=world.attributes(ends=("h1", to)))
            for to, kind in kinds
        ]
        for pair in pairs:
            world.spawn(pair.write_without_end(1))
        flow.run(MS // 5)
        world.faults.rate("h1@p3", QUARTER)
        flow.run(3 * MS)
        assert flow.retired() == [3]
        before = [pair.qp_far.counters().data_received for pair in pairs]
        flow.run(MS)
        assert all(pair.qp_far.counters().data_received > b + 4 for pair, b in zip(pairs, before, strict=True)), before
