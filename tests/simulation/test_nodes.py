"""Who is asked when; the rest of the nodes' work shows in every other test of this room."""

from types import SimpleNamespace

from simulation.channel import Channel
from simulation.clock import Clock
from simulation.nodes import NicNode, SwitchNode
from topologies.fabric import LinkEnd


class Sink:
    def __init__(self):
        self.got = []

    def receive(self, port, frame):
        self.got.append(frame)

    def pull(self, line, _):
        raise AssertionError


class FakeSwitch:
    """Echoes a frame to port 1; when it leaves there, a copy goes to port 2 (as an egress clone does)."""

    def __init__(self):
        primitive = SimpleNamespace(op="clone_egress_pkt_to_egress")
        self.pipeline = SimpleNamespace(program=SimpleNamespace(actions=[SimpleNamespace(primitives=[primitive])]))
        self.queues = {1: [], 2: [], 9: []}
        self.news = []

    def receive(self, port, frame, now):
        self.queues[1].append(frame)
        self.queues[9].append(frame)  # a port without a line, as the CPU port is
        self.news += [1, 9]

    def transmit(self, port, now):
        if not self.queues[port]:
            return None
        if port == 1:
            self.queues[2].append(b"copy" * 20)
            self.news.append(2)
        return self.queues[port].pop(0)

    def ready(self):
        news, self.news = self.news, []
        return news


def line(clock, name, port, node, sink):
    made = Channel(clock, name, LinkEnd(name, port), LinkEnd("sink", 1), 10**11, 0, 1)
    made.join(node, sink, 0, None)
    return made


def test_copies_made_while_sending_leave_their_own_ports():
    clock, sinks, lines = Clock(), {1: Sink(), 2: Sink()}, {}
    node = SwitchNode(clock, "s", FakeSwitch(), lines)
    lines.update({port: line(clock, "s", port, node, sinks[port]) for port in (1, 2)})
    for _ in range(3):
        node.receive(1, b"data" * 20)
    clock.run()
    assert sinks[1].got == [b"data" * 20] * 3
    assert sinks[2].got == [b"copy" * 20] * 3


class FakeNic:
    """Sends one frame on port 0; that makes one ready on port 1, which had reported nothing before."""

    def __init__(self):
        self.left = {0: 1, 1: 0}
        self.kick = False
        self.alarm = None
        self.ticks = []
        self.asked = 0

    def receive(self, port, frame, now):
        self.left[0] += 1

    def transmit(self, port, now):
        self.asked += 1
        if not self.left[port]:
            return None
        self.left[port] -= 1
        if port == 0:
            self.left[1] += 1
            self.kick = True
        return bytes(100)

    def wakeup(self):
        return 0 if self.kick else self.alarm

    def tick(self, now):
        self.kick = False
        if self.alarm is not None and self.alarm <= now:
            self.ticks.append(now)
            self.alarm = None


def nic_node():
    clock, sink, lines = Clock(), Sink(), []
    nic = FakeNic()
    node = NicNode(clock, "n", nic, lines)
    lines.extend(reversed([line(clock, "n", port, node, sink) for port in (0, 1)]))  # port 1 is asked first
    return clock, node, nic, sink


def test_a_port_made_ready_by_another_is_polled_again():
    clock, node, _, sink = nic_node()
    node.poke()
    clock.run()
    assert len(sink.got) == 2


def test_only_the_earliest_deadline_is_scheduled():
    clock, node, nic, _ = nic_node()
    clock.run(10)
    nic.alarm = 5_000
    for _ in range(50):
        node.poke()
    assert sum(event[0] == 5_000 for event in clock.heap) == 1
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
