"""Faults in the data plane: loss and corruption per port and direction, loss on one path, and a silent switch."""

from __future__ import annotations

import dataclasses

import pytest

from tests.p4src.device import ARRIVAL_LOSS, BLACKHOLE, CPU_PORT, DEPARTURE_LOSS, PATH_LOSS, Device
from tests.p4src.packets import NIC_A, NIC_B, Packet, mrc, plain, usids
from tests.p4src.scene import OWN, arrival, departure, path_loss, route

ALWAYS = 10**9
HALF = ALWAYS // 2
PACKET = mrc(OWN, 0x4001, 0x2002, 0x6001)
FORWARDED = PACKET.forwarded(usids(0x4001, 0x2002, 0x6001), 2).pack()


def survivors(device: Device, count: int, port: int = 1, packet: Packet = PACKET) -> int:
    return sum(bool(device.pass_through(port, packet.pack())) for _ in range(count))


def flipped(got: bytes, sent: bytes) -> list[int]:
    """Positions (byte) of the bits that differ, one for each bit."""
    assert len(got) == len(sent)
    return [index for index, (a, b) in enumerate(zip(got, sent, strict=True)) for bit in range(8) if (a ^ b) >> bit & 1]


def test_arrival_loss_affects_one_port_only(device: Device) -> None:
    fault = arrival(1, loss=ALWAYS)
    device.write(fault)
    assert survivors(device, 50) == 0
    assert survivors(device, 50, port=3) == 50
    assert device.drops() == {ARRIVAL_LOSS: 50}
    assert device.hits(fault).packets == 50
    device.delete(fault)
    assert survivors(device, 50) == 50


def test_departure_loss_affects_one_port_only(device: Device) -> None:
    device.write(departure(2, loss=ALWAYS))
    assert survivors(device, 50) == 0
    assert survivors(device, 50, packet=mrc(OWN, 0x4002)) == 50
    assert device.drops() == {DEPARTURE_LOSS: 50}


@pytest.mark.parametrize(
    ("fault", "cell"),
    [
        (arrival(1, loss=ALWAYS), (1, ARRIVAL_LOSS)),
        (arrival(None, blackhole=True), (1, BLACKHOLE)),
        (path_loss(PACKET.outer.dst, ALWAYS), (1, PATH_LOSS)),
        (departure(2, loss=ALWAYS), (2, DEPARTURE_LOSS)),
    ],
)
def test_fault_drops_are_counted_at_the_port_of_the_link(device: Device, fault: object, cell: tuple[int, int]) -> None:
    device.write(fault)  # type: ignore[arg-type]
    assert survivors(device, 5) == 0
    assert device.port_drops() == {cell: 5}


@pytest.mark.parametrize("fault", [arrival(1, loss=HALF), departure(2, loss=HALF), path_loss(PACKET.outer.dst, HALF)])
def test_random_loss_has_the_configured_rate(device: Device, fault: object) -> None:
    device.write(fault)  # type: ignore[arg-type]
    assert 1800 < survivors(device, 4000) < 2200


def test_zero_probability_has_no_effect(device: Device) -> None:
    device.write(arrival(1), departure(2), path_loss(PACKET.outer.dst, 0))
    assert all(device.pass_through(1, PACKET.pack()) == {2: [FORWARDED]} for _ in range(200))
    assert device.drops() == {}


@pytest.mark.parametrize("fault", [arrival(1, corruption=ALWAYS), departure(2, corruption=ALWAYS)], ids=["in", "out"])
def test_corruption_flips_one_bit_covered_by_the_icrc(device: Device, fault: object) -> None:
    device.write(fault)  # type: ignore[arg-type]
    hit = set()
    for _ in range(600):
        ((_, (frame,)),) = device.pass_through(1, PACKET.pack()).items()
        (position,) = flipped(frame, FORWARDED)
        hit.add(position)
    first = 14 + 40 + 40 + 8
    assert hit == set(range(first, first + 16))
    assert device.counter("arrival_corrupted", 1).packets + device.counter("departure_corrupted", 2).packets == 600


@pytest.mark.parametrize(
    ("packet", "source_at"),
    [
        (dataclasses.replace(PACKET, udp=None), 14 + 40 + 8),
        (dataclasses.replace(PACKET, body=bytes(15)), 14 + 40 + 8),
        (dataclasses.replace(plain(), udp=None, other=58), 14 + 8),
    ],
    ids=["no UDP", "short UDP", "ICMPv6"],
)
def test_packets_without_icrc_are_corrupted_in_the_source_address(
    device: Device, packet: Packet, source_at: int
) -> None:
    device.write(arrival(1, corruption=ALWAYS), route(NIC_B, 2))
    target = NIC_B if packet.inner is None else usids(0x4001, 0x2002, 0x6001)
    for _ in range(50):
        ((_, (frame,)),) = device.pass_through(1, packet.pack()).items()
        (position,) = flipped(frame, packet.forwarded(target, 2).pack())
        assert source_at <= position < source_at + 16


def test_corruption_has_the_configured_rate(device: Device) -> None:
    device.write(arrival(1, corruption=HALF))
    damaged = sum(device.pass_through(1, PACKET.pack()) != {2: [FORWARDED]} for _ in range(2000))
    assert 850 < damaged < 1150


def test_path_loss_affects_no_other_path(device: Device) -> None:
    device.write(path_loss(PACKET.outer.dst, ALWAYS))
    assert survivors(device, 20) == 0
    assert survivors(device, 20, packet=mrc(OWN, 0x4002, 0x2002, 0x6001)) == 20
    assert survivors(device, 20, packet=mrc(OWN, 0x4001, 0x2002, 0x6002)) == 20
    assert device.drops() == {PATH_LOSS: 20}


def test_path_loss_of_one_sender_affects_no_other_sender(device: Device) -> None:
    device.write(path_loss(PACKET.outer.dst, ALWAYS, src=NIC_A))
    assert survivors(device, 20) == 0
    other = dataclasses.replace(PACKET, outer=dataclasses.replace(PACKET.outer, src=NIC_A + 1))
    assert survivors(device, 20, packet=other) == 20


def test_a_mask_selects_many_paths(device: Device) -> None:
    through_one_t1 = ((1 << 64) - 1) << 64  # block, own uSID, T1
    device.write(path_loss(PACKET.outer.dst, ALWAYS, mask=through_one_t1))
    assert survivors(device, 20, packet=mrc(OWN, 0x4001, 0x2003, 0x6002)) == 0
    assert survivors(device, 20, packet=mrc(OWN, 0x4002, 0x2003, 0x6002)) == 20


def test_a_blackhole_drops_everything_and_sends_nothing_to_the_controller(device: Device) -> None:
    fault = arrival(None, blackhole=True)
    device.write(fault, arrival(1, loss=0))
    for port in (1, 2, 3, 4):
        assert device.pass_through(port, PACKET.pack()) == {}
        assert device.pass_through(port, PACKET.with_outer(hops=1).pack()) == {}
    assert device.drops() == {BLACKHOLE: 8}
    device.delete(fault)
    assert device.pass_through(1, PACKET.pack()) == {2: [FORWARDED]}
    assert list(device.pass_through(1, PACKET.with_outer(hops=1).pack())) == [CPU_PORT]


def test_a_blackhole_can_be_limited_to_one_port(device: Device) -> None:
    device.write(arrival(1, blackhole=True))
    assert survivors(device, 10) == 0
    assert survivors(device, 10, port=3) == 10
    assert device.drops() == {BLACKHOLE: 10}


def test_loss_is_repeatable_with_the_same_seed() -> None:
    from tests.p4src.scene import forwarding

    runs = []
    for seed in (7, 7, 8):
        device = Device(seed=seed)
        device.write(*forwarding(), arrival(1, loss=HALF))
        runs.append([bool(device.pass_through(1, PACKET.pack())) for _ in range(200)])
    assert runs[0] == runs[1] != runs[2]
