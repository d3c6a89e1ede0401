"""Who is asked when; the rest of the nodes' work shows in every other test of this room."""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace

import pytest

from mrc_host.datapath.native import Outbox
from mrc_host.wire import pause
from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.core.native import Channel, Clock, NicPorts
from simulation.hardware_timing import IDEAL, HardwareTiming
from simulation.nodes import NicNode, SwitchNode
from tests.models.channel import ModelChannel
from tests.models.clock import ModelClock
from tests.models.nic_ports import ModelNicPorts
from tests.p4runtime_shim import programs
from tests.seeds import SEED
from topologies.fabric import LinkEnd

RATE = 10**11


class Sink:
    def __init__(self):
        self.got = []

    def receive(self, port, frame):
        self.got.append(frame)


def channel(clock, port, rate=RATE):
    return Channel(clock, f"n:{port}>", LinkEnd("n", port), LinkEnd("sink", port), rate, 0)


def join(channels, node):
    """Sinks at the ends of channels, by port."""
    sinks = {}
    for channel in channels:
        sinks[channel.port] = Sink()
        channel.join(node.ports, sinks[channel.port])
    return sinks


# ---- switches -----------------------------------------------------------------------------------------------------


@pytest.fixture
def switch():
    """It sends frames to port 1; as each leaves there, a copy goes to port 5, and to port 6, which has no channel."""
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0) as made:
        made.control_plane.replication.session_set(6, CloneSession((Replica(5), Replica(6))))
        yield made


COPIED = bytes([2, 1, 0, 0]) + bytes(60)


def around(calls):
    """Wraps a verb that is noted whenever it is called."""

    def wrap(verb):
        def observed(*arguments):
            calls.append((verb.__name__, arguments[0]))
            return verb(*arguments)

        return observed

    return wrap


@pytest.mark.parametrize("observed", [False, True], ids=["", "observed"])
def test_copies_made_while_sending_leave_their_own_ports(switch, observed):
    clock, calls = Clock(), []
    channels = {port: channel(clock, port) for port in (1, 5)}
    node = SwitchNode(clock, "s", switch, channels)
    sinks = join(channels.values(), node)
    if observed:
        node.wrap(around(calls), around(calls))
    for _ in range(3):
        node.ports.receive(3, COPIED)
    clock.run()
    assert [len(sinks[port].got) for port in (1, 5)] == [3, 3]
    assert calls.count(("receive", 3)) == 3 * observed
    assert calls.count(("transmit", 5)) >= 3 * observed


def test_two_observers_of_a_switch_both_see_its_frames(switch):
    clock, first, second = Clock(), [], []
    channels = {1: channel(clock, 1)}
    node = SwitchNode(clock, "s", switch, channels)
    join(channels.values(), node)
    for calls in (first, second):
        node.wrap(around(calls), around(calls))
    node.ports.receive(3, bytes([0, 1, 0, 0]) + bytes(60))
    clock.run()
    assert first == [("receive", 3), ("transmit", 1), ("transmit", 1)]
    assert second == [("observed", port) for _, port in first]


# ---- NICs ---------------------------------------------------------------------------------------------------------


class FakeNic:
    """Sends one frame on port 1; that makes one ready on port 0, which had reported nothing before."""

    def __init__(self):
        self.datapath = SimpleNamespace(outbox=SimpleNamespace(keep_payloads=lambda: None))
        self.left = {1: 1, 0: 0}
        self.kick = False
        self.alarm = None
        self.ticks = []
        self.asked = 0
        self.got = []

    def receive(self, port, frame, now):
        self.got.append(frame)

    def transmit(self, port, now):
        self.asked += 1
        if not self.left[port]:
            return None
        self.left[port] -= 1
        if port == 1:
            self.left[0] += 1
            self.kick = True
        return bytes(100)

    def wakeup(self):
        return -5 if self.kick else self.alarm

    def tick(self, now):
        self.kick = False
        if self.alarm is not None and self.alarm <= now:
            self.ticks.append(now)
            self.alarm = None


def nic_node(timing=IDEAL):
    clock, nic = Clock(), FakeNic()
    channels = [channel(clock, port) for port in (1, 0)]
    node = NicNode(clock, "n", nic, channels, timing)
    return clock, node, nic, join(channels, node)


def test_a_port_made_ready_by_another_is_polled_again():
    clock, node, _, sinks = nic_node()
    node.poke()
    clock.run()
    assert [len(sink.got) for sink in sinks.values()] == [1, 1]


def test_only_the_earliest_deadline_is_scheduled():
    clock, node, nic, _ = nic_node()
    clock.run(10)
    nic.alarm = 5_000
    for _ in range(50):
        node.poke()
    assert sum(when == 5_000 for when, *_ in clock.queued()) == 1
    nic.alarm = 3_000
    node.poke()
    clock.run()
    assert nic.ticks == [3_000]


def test_an_idle_nic_is_not_polled():
    clock, node, nic, _ = nic_node()
    node.poke()
    clock.run()
    asked = nic.asked
    clock.run(10**9)
    assert nic.asked == asked


def test_a_deadline_beyond_all_time_is_none():
    clock, node, nic, _ = nic_node()
    nic.alarm = 1 << 80
    node.poke()
    clock.run()
    assert clock.now < 1_000


def test_watchers_see_what_leaves_the_device_and_the_one_after_it():
    clock, node, _, _ = nic_node()
    first, second = [], []
    node.watch(first.append)
    node.watch(second.append)
    node.poke()
    clock.run()
    node.replace(FakeNic())
    node.poke()
    clock.run()
    assert first == second == [bytes(100)] * 4


def test_a_filter_ends_with_the_device():
    _, node, nic, _ = nic_node()
    node.filter(lambda frame: frame[0] == 1)
    node.filter(lambda frame: frame[1] == 1)
    for frame in (b"\1\1", b"\1\0", b"\0\1"):
        node.ports.receive(0, frame)
    assert nic.got == [b"\1\1"]
    node.replace(other := FakeNic())
    node.ports.receive(0, b"\0\0")
    assert (nic.got, other.got) == ([b"\1\1"], [b"\0\0"])


def test_whoever_is_announced_to_hears_of_each_input_until_the_device_is_replaced():
    _, node, _, _ = nic_node()
    heard = []
    node.announce = lambda: heard.append(1)
    node.ports.receive(0, bytes(60))
    node.poke()
    assert len(heard) == 2
    node.replace(FakeNic())
    node.poke()
    assert len(heard) == 2


@pytest.mark.parametrize("what", ["frame", 7, bytearray(60)])
def test_a_nic_that_answers_with_something_else_than_a_frame_ends_the_run(what):
    _, node, nic, _ = nic_node()
    nic.transmit = lambda port, now: what
    node.replace(nic)
    with pytest.raises(TypeError, match="a frame is bytes, not"):
        node.poke()


def test_ports_of_a_nic_are_in_order_and_not_too_many():
    clock = Clock()
    for ports in ((1, 0), (3, 3), (62,)):
        with pytest.raises(ValueError, match="in the order of its ports, 0 to 61"):
            NicPorts(clock, [channel(clock, port) for port in ports], 0, 0)


class Carries:
    """Stands for a datapath that carries all frames, or none. The name of a capsule is not copied, so it is kept."""

    _NAME = b"mrc_host.datapath.native.carry_frame"

    def __init__(self, all_frames):
        self.carried = 0

        def carry(_receiver, _port, _frame, _due):
            self.carried += all_frames
            return int(all_frames)

        function = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_void_p] * 2)(carry)
        self._pointer = ctypes.c_void_p(ctypes.cast(function, ctypes.c_void_p).value)
        self._function = function
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = make(ctypes.addressof(self._pointer), self._NAME, None)

    def shorten(self, node, nic):
        """Give a node's ports all their short cuts."""
        node.ports.shorten(nic.transmit_first, lambda: True, None, self.capsule, None, Outbox())


def test_a_nic_that_has_something_due_now_receives_the_frame_itself():
    """It is asked for what is due as soon as any frame has arrived, before others act at the same time."""
    clock, node, nic, _ = nic_node()
    nic.transmit_first = lambda ports, now: None
    carries = Carries(all_frames=True)
    carries.shorten(node, nic)
    for when in (4_000, 5_000, 6_000):
        clock.at(when, lambda frame, _: node.ports.receive(0, frame), when.to_bytes(60, "big"))
    nic.alarm = 5_000
    node.poke()
    clock.run()
    assert nic.got == [(5_000).to_bytes(60, "big")]
    assert nic.ticks == [5_000]
    assert carries.carried == 2


class RandomNic:
    """Answers frames at random, at once or some time later."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._queues: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self._later: list[tuple[int, int]] = []
        self.log: list[tuple[object, ...]] = []

    def receive(self, port, frame, now):
        self.log.append(("receive", port, frame, now))
        for _ in range(self._chance.choice((0, 1, 1, 2))):
            when = now + self._chance.choice((0, 0, 1, 70, 900))
            self._later.append((when, self._chance.randrange(3)))
        self._wake(now)

    def _wake(self, now):
        for when, port in [due for due in self._later if due[0] <= now]:
            self._later.remove((when, port))
            self._queues[port].append(bytes(self._chance.randrange(60, 4_000)))

    def transmit(self, port, now):
        frame = self._queues[port].pop(0) if self._queues[port] else None
        self.log.append(("transmit", port, frame and len(frame), now))
        return frame

    def transmit_first(self, ports, now):
        for port in range(3):
            if ports >> port & 1 and self._queues[port]:
                return port, self.transmit(port, now)
        return None

    def wakeup(self):
        return min((when for when, _ in self._later), default=None)

    def tick(self, now):
        self.log.append(("tick", now))
        self._wake(now)


def arrivals(seed):
    """Frames that arrive at the NIC, PAUSE frames among them."""
    chance = random.Random(f"{seed} arrivals")
    for _ in range(60):
        kind = pause.ETHER_TYPE if chance.random() < 0.1 else b"\x86\xdd"
        yield chance.randrange(20_000), chance.randrange(3), bytes(12) + kind + bytes(chance.randrange(46, 4_000))


TIMINGS = (IDEAL, HardwareTiming(packet=700), HardwareTiming(pcie_rate=3 * 10**10, packet=30))


def what_happened(log):
    """Without questions in vain, which short cuts spare."""
    return [what for what in log if what[0] != "transmit" or what[2] is not None]


@pytest.mark.parametrize("short", [False, True], ids=("", "with short cuts"))
@pytest.mark.parametrize("timing", TIMINGS, ids=("ideal", "by the packet", "by the byte"))
@pytest.mark.parametrize("number", range(8))
def test_ports_ask_a_nic_as_the_model_does(number, timing, short):
    seed = SEED + number
    clock, nic = Clock(), RandomNic(seed)
    channels = [channel(clock, port) for port in range(3)]
    node = NicNode(clock, "n", nic, channels, timing)
    join(channels, node)
    carries = Carries(all_frames=False)
    if short:
        carries.shorten(node, nic)
    for when, port, frame in arrivals(seed):
        clock.at(when, lambda port, frame, node=node: node.ports.receive(port, frame), port, frame)
    clock.run()

    expected, model = ModelClock(), RandomNic(seed)
    lines = {port: ModelChannel(expected, RATE, 0) for port in range(3)}
    ports = ModelNicPorts(expected, model, lines, timing.packet, timing.pcie_rate)
    for when, port, frame in arrivals(seed):
        expected.at(when, lambda port=port, frame=frame: ports.receive(port, frame))
    expected.run()

    if short:
        assert what_happened(nic.log) == what_happened(model.log), f"seed {seed}"
    else:
        assert nic.log == model.log, f"seed {seed}"
    assert (clock.now, clock.events) == (expected.now, expected.events)
    assert sum(what[0] == "transmit" and what[2] is not None for what in nic.log) > 20
