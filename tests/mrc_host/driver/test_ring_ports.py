"""A driver whose port has shared-memory rings, and the loop that waits for them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

import pytest

from mrc_common.link_monitor import LinkState
from mrc_host.driver.loop import Loop
from tests.mrc_host.driver.rig import FakePort, Rig
from tests.waiting import until


class FakeRing:
    """A FrameRing; the test is its other end."""

    def __init__(self) -> None:
        self.arrived: deque[bytes] = deque()
        self.written: list[bytes] = []
        self.flushed: list[bytes] = []
        self.aside = True
        self.armed = False
        self.sent = 0
        self.room: int | None = None  # frames; None: any number
        self.refused = 0
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._bell

    def send(self, frame: bytes) -> int:
        if self.room == 0:
            self.refused = len(frame)
            raise BlockingIOError
        if self.room is not None:
            self.room -= 1
        self.refused = 0
        self.written.append(frame)
        return len(frame)

    def full(self) -> bool:
        if self.room != 0:
            self.refused = 0
        return bool(self.refused)

    def flush(self) -> None:
        self.flushed += self.written
        self.written.clear()

    def receive_into(self, buffer: memoryview) -> int:
        if not self.arrived:
            return 0
        frame = self.arrived.popleft()
        buffer[: len(frame)] = frame
        return len(frame)

    def release(self) -> None:
        pass

    def pending(self) -> bool:
        return bool(self.arrived)

    def stand_aside(self, on: bool) -> None:
        self.aside = on

    def arm(self) -> bool:
        self.armed = True
        return not self.arrived and (not self.refused or self.full())

    def disarm(self) -> None:
        self.armed = False

    def hear(self) -> bool:
        os.eventfd_read(self._bell)
        return True

    def make_room(self, frames: int) -> None:
        """The other end takes frames, and wakes who sleeps."""
        self.room = frames
        if self.armed:
            os.eventfd_write(self._bell, 1)

    def arrive(self, frame: bytes) -> None:
        """A frame comes, and wakes who sleeps."""
        self.arrived.append(frame)
        if self.armed:
            os.eventfd_write(self._bell, 1)


@pytest.fixture
def ringed(rigs: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, FakeRing]:
    """A rig whose port 0 has a ring."""
    ring = FakeRing()
    made = FakePort.__init__

    def make(port: FakePort, interface: str, mac: bytes, max_frame: int, rate_bps: int) -> None:
        made(port, interface, mac, max_frame, rate_bps)
        if interface == "eth0":
            port.ring = ring  # type: ignore[assignment]
            port.send = ring.send  # type: ignore[method-assign]

    monkeypatch.setattr(FakePort, "__init__", make)
    return rigs(), ring


def test_frames_come_and_go_through_the_ring(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    rig.nic.offered[0] += [b"a" * 100, b"b" * 100]
    ring.arrived += [b"one", b"two"]
    rig.step()
    assert [(port, frame) for port, frame, _ in rig.nic.received] == [(0, b"one"), (0, b"two")]
    rig.time += 1_000_000
    rig.step()
    assert ring.flushed == [b"a" * 100, b"b" * 100]
    assert not ring.written
    status = rig.driver.ports()[0]
    assert (status.rx_frames, status.rx_bytes, status.tx_frames) == (2, 6, 2)


def test_the_ring_stands_aside_while_the_interface_is_not_plain(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    assert not ring.aside
    rig.monitor.on_change(LinkState("eth0", 2, True, 4500, plain=False))
    assert ring.aside
    rig.monitor.on_change(LinkState("eth0", 2, True, 4500))
    assert not ring.aside
    rig.monitor.on_change(LinkState("eth0", 0, False))
    assert ring.aside


def test_what_comes_while_the_interface_is_gone_is_discarded(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    rig.monitor.on_change(LinkState("eth0", 0, False))
    ring.arrived.append(b"lost")
    rig.step()
    assert not ring.arrived
    assert not rig.nic.received
    rig.monitor.on_change(LinkState("eth0", 9, True, 4500))
    ring.arrived.append(b"seen")
    rig.step()
    assert [frame for _, frame, _ in rig.nic.received] == [b"seen"]


def test_a_full_ring_holds_up_its_port_and_loses_nothing(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    frames = [bytes([number]) * 100 for number in range(5)]
    rig.nic.offered[0] += frames
    rig.nic.offered[1].append(b"elsewhere")
    ring.room = 2
    rig.run_until(rig.time + 10_000_000)
    assert ring.flushed == frames[:2]
    assert rig.opened[1].sent == [b"elsewhere"]
    assert len(rig.nic.offered[0]) == 2, "the third is held"
    assert rig.step() is None, "nothing is due until there is room"
    ring.room = 1
    assert not ring.arm(), "there is room: no time to sleep"
    rig.run_until(rig.time + 10_000_000)
    assert ring.flushed == frames[:3]
    ring.room = None
    rig.run_until(rig.time + 10_000_000)
    assert ring.flushed == frames
    assert rig.driver.ports()[0].tx_dropped == 0


def test_a_frame_held_for_a_full_ring_is_lost_with_the_link(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    rig.nic.offered[0] += [b"held" * 20, b"next" * 20]
    ring.room = 0
    rig.step()
    rig.monitor.on_change(LinkState("eth0", 2, False, 4500))
    assert rig.driver.ports()[0].tx_dropped == 1
    rig.monitor.on_change(LinkState("eth0", 2, True, 4500))
    ring.room = None
    rig.step()
    assert ring.flushed == [b"next" * 20]


def test_delays_are_measured_from_when_frames_were_sent(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    rig.driver.measure_delays(True)
    ring.sent = rig.time - 5000
    ring.arrived.append(b"late")
    rig.step()
    assert rig.driver.delays()[0].arrivals.total_ns == 5000


def test_a_frame_wakes_a_loop_that_sleeps() -> None:
    loop, ring = Loop(), FakeRing()
    seen: list[bytes] = []

    def turn(_now: int) -> None:
        buffer = memoryview(bytearray(100))
        while length := ring.receive_into(buffer):
            seen.append(bytes(buffer[:length]))
        if len(seen) == 100:
            loop.stop()

    loop.add_ring(ring)
    loop.add_turn(turn)
    thread = threading.Thread(target=loop.run)
    thread.start()
    for number in range(100):
        until(lambda: ring.armed, "the loop to sleep, or to be about to")
        ring.arrive(bytes([number]))
        until(lambda: not ring.arrived, "the frame to be read")
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [bytes([number]) for number in range(100)]
    assert not ring.armed
    loop.remove_ring(ring)
    loop.close()


def test_room_in_a_full_ring_wakes_a_loop_that_sleeps(ringed: tuple[Rig, FakeRing]) -> None:
    rig, ring = ringed
    frames = [bytes([number]) * 100 for number in range(20)]
    rig.nic.offered[0] += frames
    ring.room = 0

    def turn(_now: int) -> None:
        rig.time += 1_000_000
        if len(ring.flushed) == len(frames):
            rig.loop.stop()

    rig.loop.add_turn(turn)
    thread = threading.Thread(target=rig.loop.run)
    thread.start()
    for _ in frames:
        until(lambda: ring.armed, "the loop to sleep, or to be about to")
        ring.make_room(1)
        until(lambda: ring.room == 0, "the room to be used")
    thread.join(10)
    assert not thread.is_alive()
    assert ring.flushed == frames
