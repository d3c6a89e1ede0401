"""Queues and counters of switches, put beside the links they belong to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controller.values import Count, PortCounters, SwitchCounters
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import FabricLayout, Problem, QueueState, SignalState, StateSection
from mrc_lab.web.switch_sampler import SwitchSampler
from p4runtime_shim.proto import switch_v1_pb2 as pb
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)
LINK = FABRIC.link("t0-0:t1-1@p0")
T0, T1 = FABRIC.switch("t0-0@p0"), FABRIC.switch("t1-1@p0")
SECOND = 10**9


class World:
    def __init__(self) -> None:
        self.now = 0
        self.feed = Feed(FabricLayout(FABRIC))
        controller: Any = None
        self.sampler = SwitchSampler(
            FABRIC, self.feed, controller, "unix:/nowhere", ThreadPoolExecutor(1), lambda: self.now
        )

    def sample(self, at: int, byte_ns_up: int, byte_ns_down: int) -> None:
        ends = ((T0, LINK.lower.port, byte_ns_up), (T1, LINK.upper.port, byte_ns_down))
        self.sampler.publish_queues(
            pb.SwitchSample(device_id=switch.device_id, time_ns=at, ports=[pb.PortSample(port=port, byte_ns=byte_ns)])
            for switch, port, byte_ns in ends
        )

    def count(self, at: int, **counts: int) -> None:
        self.now = at
        ports = (
            PortCounters(
                LINK.lower.port,
                LINK.name,
                tuple(Count(n.replace("_", " ") if "packets" not in n else n, v, 0) for n, v in counts.items()),
            ),
        )
        self.sampler.publish_counters([SwitchCounters(T0.name, (), ports)], [])

    def signals(self) -> SignalState:
        value = self.feed.section(StateSection.SIGNALS)[LINK.name]
        assert isinstance(value, SignalState)
        return value


def test_queue_of_a_link_is_the_mean_since_the_last_sample_in_each_direction() -> None:
    world = World()
    world.sample(SECOND, byte_ns_up=5 * SECOND, byte_ns_down=0)
    world.sample(3 * SECOND, byte_ns_up=5 * SECOND + 2 * SECOND * 4500, byte_ns_down=2 * SECOND * 90)
    assert world.feed.section(StateSection.QUEUES)[LINK.name] == QueueState(4500, 90)


def test_switch_that_was_restarted_has_no_negative_queue() -> None:
    world = World()
    world.sample(SECOND, byte_ns_up=10**15, byte_ns_down=0)
    world.sample(2 * SECOND, byte_ns_up=7, byte_ns_down=0)
    assert world.feed.section(StateSection.QUEUES) == {}


def test_marks_trims_and_drops_are_rates_and_drops_are_named() -> None:
    world = World()
    world.count(0, marked_packets=10, trimmed_packets=0, queue_full=1)
    world.count(2 * SECOND, marked_packets=30, trimmed_packets=4, queue_full=5, arrival_loss=2)
    assert world.signals() == SignalState(10, 2, 3, {"queue full": 5, "arrival loss": 2})


def test_drops_of_a_switchs_own_ports_are_added() -> None:
    world = World()
    port = pb.Port(port=LINK.upper.port, drops={"port_down": 6})
    own = [pb.Switch(device_id=T1.device_id, ports=[port])]
    world.sampler.publish_counters([], [])
    world.now = SECOND
    world.sampler.publish_counters([], own)
    assert world.signals() == SignalState(0, 0, 6, {"port down": 6})


def test_switch_that_cannot_be_read_is_named_until_it_can_be() -> None:
    world = World()
    world.sampler.publish_counters([SwitchCounters(T0.name, problem="Switch t0-0@p0 is not reachable.")], [])
    assert world.feed.section(StateSection.SWITCHES) == {T0.name: Problem("Switch t0-0@p0 is not reachable.")}
    world.sampler.publish_counters([SwitchCounters(T0.name)], [])
    assert world.feed.section(StateSection.SWITCHES) == {}
