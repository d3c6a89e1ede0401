"""A NIC under priority flow control: what a PAUSE holds, for how long, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.config import PausePriorities, TransportSettings
from mrc_host.nic import Nic
from mrc_host.verbs_types import PathState, QpAttributes, QpType
from mrc_host.wire import opcodes, pause
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, US, End, World, address, connect, make_config

QUANTUM = 512  # ns at the assumed rate of 1 Gb/s
PEER = bytes(6)


def world_with_pauses(planes: int = 1) -> World:
    world = World(planes=planes)
    world.nics = [Nic(replace(make_config(i, 2, planes, 4), pause=PausePriorities()), seed=i) for i in range(2)]
    world.record = True
    return world


def pair(planes: int = 1, kind: QpType = QpType.RC) -> tuple[World, End, End]:
    world = world_with_pauses(planes)
    a, b = connect(world, kind=kind)
    return world, a, b


def stop(world: World, quanta: int, *, priority: int = 0, port: int = 0) -> None:
    world.nics[0].receive(port, pause.build(PEER, {priority: quanta}), world.now)
    world.pump(0)


def data_sent(world: World, port: int = 0) -> list[int]:
    """Times at which the first NIC sent data on a port."""
    return [time for time, nic, at, frame in world.sent if nic == 0 and at == port and len(frame) > 500]


def test_a_paused_port_sends_no_data_until_the_pause_expires() -> None:
    world, a, b = pair()
    stop(world, 100)
    began = world.now
    a.write(b, 20_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert b.buffer[:20_000] == a.buffer[:20_000]
    assert min(data_sent(world)) == began + 100 * QUANTUM
    counters = world.nics[0].nic_counters()
    assert counters["pauses_received"] == 1
    assert counters["paused_ns"] == 100 * QUANTUM


def test_a_pause_of_zero_resumes_at_once() -> None:
    world, a, b = pair()
    stop(world, 65535)
    a.write(b, 20_000)
    world.run(duration=5_000)
    assert not data_sent(world)
    stop(world, 0)
    assert data_sent(world) == [world.now]


def test_a_longer_pause_replaces_a_shorter_one() -> None:
    world, a, b = pair()
    began = world.now
    stop(world, 10)
    stop(world, 50)
    a.write(b, 5_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert min(data_sent(world)) == began + 50 * QUANTUM


def test_a_pause_stops_frames_not_yet_begun() -> None:
    world, a, b = pair()
    a.write(b, 100_000)
    world.run(duration=3_500)
    before = len(data_sent(world))
    assert 0 < before < 20
    stop(world, 1000)
    world.run(duration=200_000)
    assert len(data_sent(world)) == before
    assert world.run(until=lambda: bool(a.poll()))
    assert b.buffer[:100_000] == a.buffer[:100_000]


def test_a_pause_does_not_affect_other_priorities_ports_and_responses() -> None:
    world, a, b = pair(planes=2, kind=QpType.MRC)
    stop(world, 65535, port=1)
    stop(world, 65535, priority=5, port=0)
    a.write(b, 10_000)
    world.run(duration=20_000)
    assert data_sent(world, 0)
    assert not data_sent(world, 1)
    b.write(a, 10_000)
    world.run(duration=60_000)
    answers = [frame for _, nic, port, frame in world.sent if nic == 0 and port == 1 and len(frame) < 500]
    assert answers  # the control class of the paused port


def test_the_control_class_can_be_paused_too() -> None:
    world, a, b = pair()
    stop(world, 65535, priority=7)
    b.write(a, 10_000)
    world.run(duration=200_000)
    assert not [frame for _, nic, _, frame in world.sent if nic == 0]
    stop(world, 0, priority=7)
    assert world.run(until=lambda: bool(b.poll()))


@pytest.mark.parametrize("kind", QpType)
def test_a_request_completes_if_its_lost_packets_arrive_while_they_wait_to_be_sent_again(kind: QpType) -> None:
    """Its last acknowledgement is lost, and nothing leaves any more that would bring another by itself."""
    world = world_with_pauses()
    a, b = connect(world, kind=kind, attributes=QpAttributes(timeout=8))
    late: list[bytes] = []

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0:
            return frame
        late.append(frame)
        return None

    world.tap = tap
    a.write(b, 1000)
    world.run(duration=50 * US)
    (first, *_lost) = late
    stop(world, 65535)
    assert world.run(20 * MS, until=lambda: a.nic.qp_counters(a.qpn).lost > 0)
    world.tap = None
    world.carry(1, 0, first)
    assert world.run(200 * MS, until=lambda: bool(a.poll()))


def probes(world: World, opcode: int, since: int, priority: int) -> list[int]:
    """When the first NIC sent small packets of an opcode in the class that stands for a priority."""
    dscp = {0: 0, 7: 46}[priority]
    return [
        time
        for time, nic, _, frame in world.sent
        if nic == 0 and time >= since and frame[SRV6_PREFIX] == opcode and frame[14] << 2 & 60 | frame[15] >> 6 == dscp
    ]


def test_a_reliability_probe_obeys_the_pause_of_data() -> None:
    world, a, b = pair(kind=QpType.MRC)
    a.write(b, 20_000)
    assert world.run(until=lambda: bool(a.poll()))
    world.tap = lambda nic, port, to, frame, now: frame if nic == 0 else None  # nobody answers
    a.write(b, 20_000)
    world.run(duration=10_000)
    began = world.now
    stop(world, 1000)
    world.run(duration=1000 * QUANTUM + 10_000)
    sent = probes(world, opcodes.PROBE, began, 0)
    assert sent[0] == began + 1000 * QUANTUM  # it was due long before


def test_bad_path_probes_obey_a_data_pause_and_reverse_path_probes_do_not() -> None:
    world, a, b = pair(kind=QpType.MRC)
    world.faults.dead_paths = {(0, 0)}
    a.write(b, 200_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert a.nic.qp_paths(a.qpn)[0].state is PathState.ASSUMED_BAD
    began = world.now
    stop(world, 65535)
    a.nic.control.probe(address(1), 1, world.now, 1000 * MS)
    world.run(duration=65535 * QUANTUM + 10_000)
    assert probes(world, opcodes.ENDPOINT_REQUEST, began, 7)[0] == began
    sent = probes(world, opcodes.ENDPOINT_REQUEST, began, 0)
    assert sent[0] == began + 65535 * QUANTUM
    assert TransportSettings().probe_interval < 65535 * QUANTUM, "they were due before"


def test_link_down_clears_the_pause() -> None:
    world, a, b = pair()
    stop(world, 65535)
    world.set_port(0, 0, False)
    world.set_port(0, 0, True)
    a.write(b, 5_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert world.nics[0].nic_counters()["paused_ns"] == 0


def test_without_flow_control_pause_frames_are_dropped() -> None:
    world = World(planes=1)
    world.record = True
    a, b = connect(world, kind=QpType.RC)
    before = world.nics[0].nic_counters()
    stop(world, 65535)
    a.write(b, 5_000)
    assert world.run(until=lambda: bool(a.poll()))
    after = world.nics[0].nic_counters()
    assert "pauses_received" not in after
    assert sum(after.values()) > sum(before.values())
    assert [name for name in before if name.startswith("drop_") and after[name] == before[name] + 1]
