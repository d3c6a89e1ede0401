"""Switches in the native core against the reference: priority flow control, and leaving the core at any moment."""

from __future__ import annotations

import random

import pytest

from mrc_host.config import TransportSettings
from mrc_host.values import QpType
from simulation import native_core
from simulation.native_core import VARIABLE
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.simulation.test_native_core import HARDWARE, SEED, on_each
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.queues import QueueProfile

pytestmark = pytest.mark.skipif(bool(native_core.unavailable()), reason="no extension can be compiled here")


def paused(seed: int, leave: int | None = None) -> tuple[object, ...]:
    """An incast under flow control in which links go down and lose packets; a switch leaves the core at a time."""
    chance = random.Random(seed)
    queues = QueueProfile(pfc=True, trimming=False)
    planes, t1 = chance.choice((1, 2)), chance.choice((1, 2))
    fabric = multi_plane_clos("pfc", planes=planes, t0=2, t1=t1, hosts=8, rate_bps=100 * GIGA, queues=queues)
    trace, transport = Trace(), TransportSettings(rc_congestion="none")
    delay, hardware = chance.choice((0, 1, 1_000)), chance.choice(HARDWARE[:2])  # with others NICs are too slow
    with SimulatedWorld(fabric, seed=seed, delay=delay, transport=transport, trace=trace, hardware=hardware) as world:
        names = [link.name for link in fabric.links]
        for kind in (LinkDown, LinkDown, Loss):
            begin = chance.randrange(10_000, 100_000)
            fault = kind(link=chance.choice(names), **({"probability": 0.05} if kind is Loss else {}))
            world.faults.add(fault, at=begin, until=begin + chance.randrange(1, 60_000))
        for number in range(2, 8):
            pair = Pair(world, f"h{number}", "h1", length=1 << 18, kind=QpType.RC)
            world.spawn(pair.write_without_end(2))
        if leave is not None:
            switch = world.node(chance.choice([switch.name for switch in fabric.switches]))
            world.clock.at(leave, lambda _a, _b: switch.leave_native())
        world.run(300_000)
        ports = [world.switch(switch.name).stats().ports for switch in fabric.switches]
        sent = sum(port.pauses_sent for stats in ports for port in stats.values())
        return sent, ports, trace.cut(), world.clock.events - (leave is not None), len(world.clock.heap)


@pytest.mark.parametrize("number", range(6))
def test_worlds_under_flow_control_run_alike(monkeypatch, number):
    native, reference = on_each(monkeypatch, lambda: paused(SEED + number))
    assert native == reference, f"seed {SEED + number}"
    assert native[0] > 10, "pauses"


@pytest.mark.parametrize("number", range(6))
def test_a_switch_that_pauses_leaves_the_core_with_what_it_has_due(monkeypatch, number):
    """Its wake-ups are in the queue then."""
    monkeypatch.setenv(VARIABLE, "native")
    left = paused(SEED + number, leave=random.Random(SEED + number).randrange(20_000, 120_000))
    monkeypatch.setenv(VARIABLE, "reference")
    assert left == paused(SEED + number), f"seed {SEED + number}"


class LeavesTheCore:
    """A watcher that makes a switch leave the core while it serves its ports."""

    def __init__(self, node, port, losses):
        self._node, self._port, self._losses = node, port, losses

    def lost(self, frame, why):
        self._losses[0] -= 1
        if not self._losses[0]:
            self._node.leave_native()

    def arrived(self, frame, deliver):
        deliver(self._port, frame)


def left_inside(seed: int, pfc: bool) -> tuple[object, ...]:
    """A switch leaves the core when one of its frames is lost, in the middle of its work."""
    queues = QueueProfile(pfc=pfc, trimming=False)
    fabric = multi_plane_clos("pfc", planes=1, t0=2, t1=1, hosts=8, rate_bps=100 * GIGA, queues=queues)
    trace, transport = Trace(), TransportSettings(rc_congestion="none")
    with SimulatedWorld(fabric, seed=seed, delay=1, transport=transport, trace=trace) as world:
        node, losses, chance = world.node(fabric.switches[0].name), [seed % 20 + 1], random.Random(seed)
        for number in range(2, 8):
            world.spawn(Pair(world, f"h{number}", "h1", length=1 << 17, kind=QpType.RC).write_without_end(2))
        for end in [end for link in fabric.links for end in (link.lower, link.upper) if end.node == node.name]:
            channel = world.channel(end)
            for _ in range(20):  # a moment in which frames are lost as they are sent
                begin = chance.randrange(1, 60_000)
                world.clock.at(begin, lambda channel, _: channel.set_up(False), channel)
                world.clock.at(begin + 300, lambda channel, _: channel.set_up(True), channel)
            channel.watch(LeavesTheCore(node, channel.target.port, losses))
        world.run(60_000)
        return trace.cut(), world.clock.events, len(world.clock.heap)


@pytest.mark.parametrize("pfc", [True, False], ids=("flow control", ""))
def test_a_switch_leaves_the_core_in_the_middle_of_its_work(monkeypatch, pfc):
    for seed in range(6, 12):
        native, reference = on_each(monkeypatch, lambda seed=seed: left_inside(seed, pfc))
        assert native == reference, f"seed {seed}"
