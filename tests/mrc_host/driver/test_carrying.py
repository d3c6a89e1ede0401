"""Frames that the datapath carries without Python, between those that the NIC receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mrc_common.link_monitor import LinkState
from mrc_host.driver.nic_driver import CARRY_BATCH, RECEIVE_BATCH
from tests.mrc_host.driver.rig import FakeDevice, Rig


@dataclass(frozen=True)
class FakeDatapath:
    receiver: str = "receiver"
    carry_frame: str = "capsule"


@pytest.fixture
def rig(rigs: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A rig whose NIC has a datapath, which carries what begins with `carried`."""
    monkeypatch.setattr(FakeDevice, "datapath", FakeDatapath())
    return rigs()


def received(rig: Rig) -> list[bytes]:
    return [frame for _, frame, _ in rig.nic.received]


def test_ports_give_their_frames_to_the_datapath_of_the_nic(rig: Rig) -> None:
    assert [port.carrier for port in rig.opened] == [("receiver", "capsule", 0), ("receiver", "capsule", 1)]


def test_carried_frames_do_not_reach_the_nic_and_all_are_counted(rig: Rig) -> None:
    rig.opened[0].arrive(b"carried", b"one", b"carried", b"carried", b"two", b"carried")
    rig.ready()
    assert received(rig) == [b"one", b"two"]
    assert not rig.opened[0].arrived
    status = rig.driver.ports()[0]
    assert (status.rx_frames, status.rx_bytes) == (6, 4 * 7 + 2 * 3)


def test_a_sack_that_is_due_is_reported_before_the_next_frame(rig: Rig) -> None:
    order: list[object] = []
    rig.nic.answer_due = lambda due, now: order.append((due[1], now))  # type: ignore[method-assign]
    rig.nic.receive = lambda port, frame, now: order.append(bytes(frame))  # type: ignore[method-assign]
    rig.opened[0].arrive(b"one", b"carried", b"carried\x05", b"two", b"carried\x06")
    rig.ready()
    assert order == [b"one", (5, rig.time), b"two", (6, rig.time)]
    assert rig.driver.ports()[0].rx_frames == 5


def test_a_batch_of_carried_frames_is_bounded(rig: Rig) -> None:
    rig.opened[0].arrive(*[b"carried"] * (2 * CARRY_BATCH))
    rig.ready()
    assert len(rig.opened[0].arrived) == CARRY_BATCH
    rig.opened[1].arrive(*[b"carried\x01"] * (2 * CARRY_BATCH))
    rig.ready(1)
    assert (len(rig.opened[1].arrived), len(rig.nic.due)) == (CARRY_BATCH, CARRY_BATCH)


def test_frames_for_the_nic_count_for_more_than_carried_ones(rig: Rig) -> None:
    rig.opened[0].arrive(*[b"seen", b"carried"] * CARRY_BATCH)
    rig.ready()
    assert 0 < len(rig.nic.received) < RECEIVE_BATCH
    assert rig.opened[0].arrived


def test_a_port_that_is_not_used_carries_nothing(rig: Rig) -> None:
    rig.driver.enable_port(0, False)
    rig.opened[0].arrive(b"carried", b"carried\x05")
    rig.ready()
    assert not rig.opened[0].arrived
    assert not rig.nic.due
    assert not rig.nic.received
    rig.driver.enable_port(0, True)
    rig.opened[0].arrive(b"carried\x05")
    rig.ready()
    assert rig.nic.due == [(5, rig.time)]


def test_the_delay_of_a_batch_is_measured_with_its_first_frame(rig: Rig) -> None:
    rig.driver.measure_delays(True)
    rig.opened[0].stamped = rig.clock()
    for _ in range(3):
        rig.opened[0].arrive(b"carried", b"carried", b"carried")
        rig.ready()
        rig.step()
    assert received(rig) == [b"carried"] * 3, "one of each batch, whose timestamp is read"
    assert rig.opened[0].asked == 3
    assert rig.driver.ports()[0].rx_frames == 9


def test_an_interface_that_returns_has_a_carrier_again(rig: Rig) -> None:
    rig.monitor.on_change(LinkState("eth0", 0, False))
    rig.monitor.on_change(LinkState("eth0", 9, True, 4500))
    assert rig.opened[-1].carrier == ("receiver", "capsule", 0)
    rig.opened[-1].arrive(b"carried\x07")
    rig.ready(len(rig.opened) - 1)
    assert rig.nic.due == [(7, rig.time)]
