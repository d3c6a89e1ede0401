"""Frames that an interface refuses: too long, no memory, a full socket, a broken one."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from mrc_host.driver.loop import READABLE, WRITABLE
from tests.mrc_host.driver.rig import Rig


def test_frames_longer_than_the_mtu_are_refused(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.nic.offered[0].extend([bytes(4515), bytes(4514)])
    rig.step()
    assert [len(frame) for frame in rig.opened[0].sent] == [4514]
    assert rig.driver.ports()[0].tx_dropped == 1


def test_unexpected_send_errors_are_raised(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.EBADF
    rig.nic.offered[0].append(bytes(60))
    with pytest.raises(OSError, match="no"):
        rig.step()


def test_a_failed_send_queries_netlink_at_a_limited_rate(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.ENOBUFS
    for _ in range(30):
        rig.nic.offered[0].append(b"x" * 60)
        rig.time += 100_000
        rig.step()
    assert rig.monitor.queries == [2, 2, 2]
    status = rig.driver.ports()[0]
    assert (status.tx_dropped, status.rx_dropped) == (30, 2)


def test_a_full_socket_holds_back_one_frame(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    port, frames = rig.opened[0], [bytes([i]) * 60 for i in range(5)]
    watched: list[tuple[int, int]] = []
    rig.loop.modify = lambda fd, mask: watched.append((fd, mask))  # type: ignore[method-assign]
    rig.nic.offered[0].extend(frames)
    port.fail = errno.EAGAIN
    assert rig.step() is None, "nothing to do until the socket has room: no spinning"
    assert watched == [(port.fileno(), READABLE | WRITABLE)]
    for _ in range(3):
        rig.time += 1_000_000
        assert rig.step() is None
    assert len(rig.nic.offered[0]) == 4, "one frame is held, no more are taken"
    rig.nic.offered[1].append(b"y" * 60)
    rig.step()
    assert rig.opened[1].sent == [b"y" * 60], "the other port goes on"
    port.arrive(b"z" * 60)
    rig.ready()
    assert rig.nic.received[-1][1] == b"z" * 60, "and so does reception"
    port.fail = 0
    rig.ready(mask=WRITABLE)
    assert watched[-1] == (port.fileno(), READABLE)
    rig.run_until(rig.time + 1_000_000)
    assert port.sent == frames, "in order, none lost"
    status = rig.driver.ports()[0]
    assert (status.tx_frames, status.tx_dropped) == (5, 0)
    assert rig.monitor.queries == []
