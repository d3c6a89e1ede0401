"""Frames by reference come out as those by value, whatever the program does, and each payload is given up once."""

from __future__ import annotations

import random

import pytest

from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import QueueConfig
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.shared_frames import SharedFrames
from tests.seeds import SEED

PORTS = range(4)


def pair(pipeline: Pipeline, longest: int = 2000, buffers: int = 64) -> tuple[EmbeddedSwitch, EmbeddedSwitch]:
    queues = QueueConfig(max_frame=longest, buffer_packets=buffers, max_packets=8)
    return tuple(EmbeddedSwitch(pipeline, ports=PORTS, seed=7, queues=queues) for _ in range(2))


def random_frame(chance: random.Random) -> bytes:
    """Often one whose first bytes a program of the tests knows."""
    length = chance.choice((1, 14, 60, 99, 100, 101, 200, 256, 257, 1400, 2000, 2001))
    start = bytes((chance.randrange(8), chance.randrange(4))) if chance.random() < 0.7 else chance.randbytes(2)
    ethernet = bytes(12) + chance.choice((b"\x86\xdd\x60", b"\x08\x00\x45", b"\x12\x34"))
    return (chance.choice((start, ethernet)) + chance.randbytes(length))[:length]


@pytest.mark.second_ring
@pytest.mark.parametrize("longest", [2000, 100], ids=("", "short frames alone"))
def test_by_reference_as_by_value(longest):
    sent = {name: compare(name, longest) for name in (*programs.NAMES, "fabric")}
    print(f"seed {SEED}: frames sent {sent}")
    assert sent["copies"] > 10
    assert sum(sent.values()) > 100


def compare(name: str, longest: int) -> int:
    """Drive two switches with a program alike; how many frames they sent."""
    pipeline = Pipeline.load(programs.FABRIC.read_text()) if name == "fabric" else programs.pipeline(name)
    chance, sent = random.Random(f"{SEED}/{name}"), 0
    by_value, by_reference = pair(pipeline, longest)
    with by_value, by_reference:
        frames = SharedFrames(by_reference)
        for switch in (by_value, by_reference):
            give_replicas(switch)
        for now in range(1000):
            frame, port = random_frame(chance), chance.choice(PORTS)
            by_value.receive(port, frame, now)
            frames.receive(port, frame, now, chance.choice((0, 1, 14, 60, 192, 1999)))
            if chance.random() < 0.05:
                up = chance.random() < 0.5
                by_value.port_changed(port, up, now)
                by_reference.port_changed(port, up, now)
            for out in chance.sample(PORTS, 2):
                expected = by_value.transmit(out, now)
                assert frames.transmit(out, now) == expected, f"seed {SEED}, {name}"
                sent += expected is not None
            assert by_reference.stats() == by_value.stats(), f"seed {SEED}, {name}"
        assert len(frames.owned) <= 64
    assert not frames.owned
    return sent


def give_replicas(switch: EmbeddedSwitch) -> None:
    for number in range(4):
        replicas = tuple(Replica(port, port) for port in range(number))
        switch.control_plane.replication.session_set(number + 1, CloneSession(replicas, number * 50))
        switch.control_plane.replication.group_set(number + 1, replicas)


def test_payloads_of_queued_frames_are_given_up_with_the_program_and_the_switch():
    switch, other = pair(programs.pipeline("forward"))
    other.close()
    frames = SharedFrames(switch)
    queued = programs.pipeline("copies")
    switch.set_pipeline(queued)
    send = bytes((0, 1)) + bytes(500)
    for now in range(5):
        frames.receive(0, send, now, 60)
    held = len(frames.owned)
    switch.set_pipeline(programs.pipeline("forward"))
    assert not frames.owned
    switch.set_pipeline(queued)
    for now in range(5):
        frames.receive(0, send, now, 60)
    assert len(frames.owned) == held
    switch.close()
    assert not frames.owned
    assert held, "nothing was queued by reference"


def test_a_short_pool_gives_up_what_it_refuses():
    switch, other = pair(programs.pipeline("copies"), buffers=2)
    other.close()
    with switch:
        frames = SharedFrames(switch)
        for now in range(10):
            frames.receive(0, bytes((0, 1)) + bytes(500), now, 60)
        assert len(frames.owned) <= 2
        assert switch.stats().drops["no_buffer"] >= 8
