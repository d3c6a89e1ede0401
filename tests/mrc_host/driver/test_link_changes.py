"""Links that go down and come up, and interfaces that vanish, return or do not suit."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from mrc_common.link_monitor import LinkState
from mrc_host.driver.packet_port import NicDriverError
from tests.mrc_host.driver.rig import Rig


def test_links_down_at_the_start_are_reported(rigs: Callable[..., Rig]) -> None:
    rig = rigs(links=[LinkState("eth0", 2, True, 4500), LinkState("eth1", 3, False, 9000)])
    assert rig.nic.changes == [(1, False)]
    rig.nic.offered[1].append(b"x" * 60)
    rig.step()
    assert rig.opened[1].sent == []
    rig.monitor.on_change(LinkState("eth1", 3, True, 9000))
    rig.step()
    assert rig.nic.changes == [(1, False), (1, True)]
    assert len(rig.opened[1].sent) == 1


def test_other_interfaces_are_ignored(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.monitor.on_change(LinkState("lo", 1, False))
    rig.monitor.on_change(LinkState("eth0", 2, True, 4500))
    assert rig.nic.changes == []


def test_an_interface_that_disappears_and_returns_is_reopened(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.nic.offered[0].append(b"x" * 60)
    rig.step()
    rig.monitor.on_change(LinkState("eth0", 0, False))
    assert rig.opened[0].closed
    assert rig.nic.changes == [(0, False)]
    assert not rig.driver.ports()[0].up
    rig.nic.offered[0].append(b"x" * 60)
    rig.step()
    rig.monitor.on_change(LinkState("eth0", 9, True, 4500))
    rig.time += 1_000_000
    rig.step()
    assert rig.nic.changes == [(0, False), (0, True)]
    assert len(rig.opened[2].sent) == 1
    assert rig.driver.ports()[0].tx_frames == 2, "counters go on over both sockets"


def test_a_port_that_is_not_enabled_is_down_whatever_its_link_does(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.driver.enable_port(1, False)
    assert rig.nic.changes == [(1, False)]
    assert [port.up for port in rig.driver.ports()] == [True, False]
    rig.nic.offered[1].append(b"x" * 60)
    rig.opened[1].arrive(b"y" * 60)
    rig.ready(1)
    rig.step()
    assert (rig.opened[1].sent, rig.nic.received) == ([], [])
    for up in (False, True):
        rig.monitor.on_change(LinkState("eth1", 3, up, 4500))
    assert rig.nic.changes == [(1, False)]
    rig.driver.enable_port(1, True)
    assert rig.nic.changes == [(1, False), (1, True)]
    rig.opened[1].arrive(b"z" * 60)
    rig.ready(1)
    rig.step()
    assert (len(rig.opened[1].sent), [frame for _, frame, _ in rig.nic.received]) == (1, [b"z" * 60])
    rig.driver.enable_port(0, False)
    rig.monitor.on_change(LinkState("eth0", 2, False, 4500))
    rig.driver.enable_port(0, True)
    assert not rig.driver.ports()[0].up, "it has no link"


@pytest.mark.parametrize("index", [0, 2])
def test_a_held_frame_is_dropped_on_link_down(rigs: Callable[..., Rig], index: int) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.EAGAIN
    rig.nic.offered[0].extend([b"x" * 60, b"y" * 60])
    rig.step()
    rig.monitor.on_change(LinkState("eth0", index, False, 4500))
    assert rig.driver.ports()[0].tx_dropped == 1
    rig.monitor.on_change(LinkState("eth0", 7, True, 4500))
    rig.step()
    assert rig.opened[-1].sent == [b"y" * 60]
    assert rig.driver.ports()[0].tx_dropped == 1


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([LinkState("eth0", 2, True, 4500)], "Interface 'eth1' of port 1 does not exist"),
        ([LinkState("eth0", 2, True, 1500), LinkState("eth1", 3, True, 4500)], "has MTU 1500, the NIC needs 4500"),
    ],
)
def test_unsuitable_interfaces_are_refused_and_all_sockets_closed(links: list[LinkState], message: str) -> None:
    rig = Rig(links=links)
    with pytest.raises(NicDriverError, match=message):
        rig.driver.start()
    assert all(port.closed for port in rig.opened)
    rig.close()
