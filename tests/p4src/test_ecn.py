"""ECN marking between two thresholds on the depth of the queue, for data that is capable of it."""

from __future__ import annotations

import pytest

from tests.p4src.device import Device
from tests.p4src.packets import Seen, mrc
from tests.p4src.scene import CONTROL, OWN, RETX, entry

CE = 3


def marks(device: Device, count: int, dscp: int = 0, ecn: int = 2) -> list[bool]:
    """Which of `count` packets that find 0, 1, 2, ... in the queue leave marked."""
    for _ in range(count):
        device.send(1, mrc(OWN, 0x4001, dscp=dscp, ecn=ecn).pack())
    return [Seen.of(frame).ecn == CE for frame in device.take(2)]


def marking(start: int, width: int, port: int = 2) -> tuple[object, ...]:
    return (entry("ecn_profile", port, "mark_between", start=start, width=width),)


def test_above_the_upper_threshold_every_packet_is_marked(device: Device) -> None:
    device.write(*marking(5, 1))
    assert marks(device, 10) == [False] * 6 + [True] * 4
    assert device.counter("marked_packets", 2).packets == 4


@pytest.mark.parametrize("ecn", [1, 2])
def test_both_ect_codepoints_are_marked(device: Device, ecn: int) -> None:
    device.write(*marking(1, 1))
    assert marks(device, 4, ecn=ecn) == [False, False, True, True]


def test_marking_probability_rises_linearly_between_the_thresholds(device: Device) -> None:
    device.write(*marking(10, 40))
    runs = [marks(device, 60) for _ in range(400)]
    share = [sum(run[depth] for run in runs) / len(runs) for depth in range(60)]
    assert share[:11] == [0.0] * 11
    assert share[50:] == [1.0] * 10
    for depth in (15, 20, 30, 40, 45):
        assert abs(share[depth] - (depth - 10) / 40) < 0.1
    assert sum(share[11:50]) == pytest.approx(19.5, abs=1.5)


def test_not_ect_packets_and_control_traffic_are_never_marked(device: Device) -> None:
    device.write(*marking(1, 1))
    assert not any(marks(device, 20, ecn=0))
    assert not any(marks(device, 20, dscp=CONTROL))


def test_retransmissions_are_marked_by_the_depth_of_their_own_queue(device: Device) -> None:
    device.write(*marking(2, 1))
    for dscp in (0, 0, 0, RETX, RETX, RETX, RETX):
        device.send(1, mrc(OWN, 0x4001, dscp=dscp).pack())
    out = [Seen.of(frame) for frame in device.take(2)]
    assert [(seen.dscp, seen.ecn == CE) for seen in out] == [(RETX, False)] * 3 + [(RETX, True)] + [(0, False)] * 3


def test_ports_without_a_profile_never_mark(device: Device) -> None:
    device.write(*marking(1, 1, port=3))
    assert not any(marks(device, 50))


def test_an_existing_mark_is_kept(device: Device) -> None:
    assert marks(device, 3, ecn=CE) == [True] * 3
    assert device.counter("marked_packets", 2).packets == 0
