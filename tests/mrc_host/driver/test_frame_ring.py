"""A NIC's end of rings (frame_ring.c), with another such end opposite."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from mrc_common.frame_rings import FrameRings
from tests.mrc_host.driver.rings import compiled_ring

Ends = tuple[Any, Any]


@pytest.fixture(scope="module")
def ring_class() -> Any:
    return compiled_ring()


@pytest.fixture
def ends(ring_class: Any) -> Iterator[Ends]:
    with FrameRings(1 << 14) as rings:
        made = [ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.ends]
        for ring in made:
            ring.connect(-1, 4000)
            ring.stand_aside(False)
        yield made[0], made[1]


def received(ring: Any) -> list[bytes]:
    buffer, frames = bytearray(5000), []
    while length := ring.receive_into(buffer):
        frames.append(bytes(buffer[:length]))
    return frames


def test_frames_arrive_when_they_are_flushed(ends: Ends) -> None:
    near, far = ends
    near.send(b"one")
    near.send(b"two" * 1000)
    assert not far.pending()
    near.flush()
    assert far.pending()
    assert received(far) == [b"one", b"two" * 1000]
    assert not far.pending()
    assert received(near) == []


def test_only_who_sleeps_is_woken(ends: Ends) -> None:
    near, far = ends
    assert select.select([far.fileno()], [], [], 0)[0], (
        "attaching rings, in case the end before died just before it did"
    )
    watch = select.epoll()
    watch.register(far.fileno(), select.EPOLLIN | select.EPOLLET)
    assert watch.poll(0)

    near.send(b"awake")
    near.flush()
    assert not watch.poll(0)
    assert not far.arm(), "there is a frame already"
    received(far)
    assert far.arm()
    near.send(b"asleep")
    near.flush()
    assert watch.poll(0)
    near.send(b"awake again")
    near.flush()
    assert not watch.poll(0)
    watch.close()


def test_a_sleeper_is_woken_however_often_it_was_before(ends: Ends) -> None:
    """More often than the pipe has bytes."""
    near, far = ends
    watch = select.epoll()
    watch.register(far.fileno(), select.EPOLLIN | select.EPOLLET)
    for _ in range(70_000):
        assert watch.poll(1)
        far.hear()
        received(far)
        assert far.arm()
        near.send(b"frame")
        near.flush()
    watch.close()


def test_an_end_that_is_not_heard_by_the_other_goes_on(ring_class: Any) -> None:
    """The other has filled the pipes and taken care that it waits in each itself."""
    with FrameRings(1 << 14) as rings:
        near, far = (ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.ends)
        for ring in (near, far):
            ring.connect(-1, 4000)
            ring.stand_aside(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(rings.ends[1].other_bell, bytes(4096))
        for _ in range(70_000):  # until its pipe is full, too
            far.arm()
            near.send(b"frame")
            near.flush()
            received(far)
        for descriptor in rings.ends[1].descriptors:
            os.set_blocking(descriptor, True)
        far.arm()
        near.send(b"last")
        near.flush()
        assert received(far) == [b"last"]
        while not near.hear():
            pass
        assert not select.select([near.fileno()], [], [], 0)[0]


def fill(ring: Any) -> int:
    """Send frames of 1000 bytes, numbered by their first, until one is refused; how many went."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while count < 20:
            ring.send(bytes([count]) * 1000)
            count += 1
    assert count < 20, "a ring of 16 KiB has no room for 20 frames of 1000 bytes"
    return count


def test_a_full_ring_refuses_frames_until_there_is_room(ends: Ends) -> None:
    near, far = ends
    count = fill(near)
    assert count > 10
    assert near.refused == 1000
    assert near.full()
    buffer = bytearray(5000)
    assert far.receive_into(buffer) == 1000, "what was sent before is there without a flush, or nobody could make room"
    far.release()
    assert not near.full()
    assert near.refused == 0
    near.send(bytes([count]) * 1000)
    near.flush()
    assert [frame[0] for frame in received(far)] == list(range(1, count + 1))


def test_who_waits_for_room_is_woken_once_half_of_the_ring_is_free(ends: Ends) -> None:
    near, far = ends
    watch = select.epoll()
    watch.register(near.fileno(), select.EPOLLIN | select.EPOLLET)
    watch.poll(0)
    count = fill(near)
    assert near.arm(), "it may sleep"
    buffer, taken = bytearray(5000), 0
    while not watch.poll(0):
        assert far.receive_into(buffer)
        far.release()
        taken += 1
    assert abs(taken - count / 2) <= 1.5
    assert not near.arm(), "there is room"
    assert not near.full()
    assert len(received(far)) == count - taken
    assert not watch.poll(0), "nobody waits any more"
    watch.close()


def test_who_waits_for_room_is_woken_when_the_other_end_is_started_again(ring_class: Any) -> None:
    with FrameRings(1 << 14) as rings:
        near, _dead = (ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.ends)
        for ring in (near, _dead):
            ring.connect(-1, 4000)
            ring.stand_aside(False)
        fill(near)
        watch = select.epoll()
        watch.register(near.fileno(), select.EPOLLIN | select.EPOLLET)
        watch.poll(0)
        assert near.arm()
        end = rings.ends[1]
        again = ring_class(end.map(), end.receiving, end.bell, end.other_bell)
        assert watch.poll(0)
        watch.close()
        again.stand_aside(False)
        assert not near.full()
        near.send(b"new")
        near.flush()
        assert received(again) == [b"new"]


def test_frames_for_a_full_ring_pass_through_the_interface_once_the_other_end_stands_aside(ends: Ends) -> None:
    near, far = ends
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        near.connect(here.fileno(), 4000)
        fill(near)
        assert near.full()
        far.stand_aside(True)
        assert not near.full()
        near.send(b"seen")
        assert there.recv(100) == b"seen"


def test_a_frame_that_no_ring_of_this_size_can_hold_is_refused_for_good(ring_class: Any) -> None:
    with FrameRings(1 << 12) as rings:
        end = rings.ends[0]
        ring = ring_class(end.map(), end.receiving, end.bell, end.other_bell)
        ring.connect(-1, 4000)
        ring.stand_aside(False)
        ring.send(bytes(2000))
        with pytest.raises(OSError, match="long") as error:
            ring.send(bytes(2040))
        assert error.value.errno == errno.EMSGSIZE
        assert ring.refused == 0


def test_a_frame_longer_than_the_interface_takes_is_refused(ends: Ends) -> None:
    with pytest.raises(OSError, match="long") as error:
        ends[0].send(bytes(4001))
    assert error.value.errno == errno.EMSGSIZE


@pytest.mark.parametrize("end", [0, 1])
def test_frames_pass_through_the_interface_while_either_end_stands_aside(ends: Ends, end: int) -> None:
    near, far = ends
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        near.connect(here.fileno(), 4000)
        ends[end].stand_aside(True)
        near.send(b"seen")
        near.flush()
        assert there.recv(100) == b"seen"
        ends[end].stand_aside(False)
        near.send(b"unseen")
        near.flush()
        assert received(far) == [b"unseen"]
        there.close()
        ends[end].stand_aside(True)
        with pytest.raises(ConnectionRefusedError):
            near.send(b"lost")


def test_what_waited_for_an_earlier_process_is_discarded(ring_class: Any) -> None:
    with FrameRings(1 << 14) as rings:
        near, far = (ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.ends)
        for ring in (near, far):
            ring.connect(-1, 4000)
            ring.stand_aside(False)
        near.send(b"old")
        near.flush()
        end = rings.ends[1]
        again = ring_class(end.map(), end.receiving, end.bell, end.other_bell)
        assert received(again) == []
        again.stand_aside(False)
        near.send(b"new")
        near.flush()
        assert received(again) == [b"new"]


def test_memory_that_is_none_is_refused(ring_class: Any) -> None:
    for size in (0, 1, 8192, 8194, 20480):
        with pytest.raises(ValueError, match="no memory of rings"):
            ring_class(bytearray(size), 0, 0, 0)
    with pytest.raises(ValueError, match="no memory of rings"):
        ring_class(bytearray(16384), 2, 0, 0)
