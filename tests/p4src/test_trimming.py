"""Trimming: when, what, how the trimmed packet looks, and that the count of waiting bytes is true on every way out."""

from __future__ import annotations

import random
import struct

import pytest

from tests.p4src.device import ARRIVAL_LOSS, CPU_PORT, DEPARTURE_LOSS, QUEUE_FULL, Device
from tests.p4src.packets import MRC_PORT, NIC_B, Packet, Seen, mrc, plain, usids
from tests.p4src.scene import (
    CONTROL,
    LASTHOP,
    NO_TRIM,
    OWN,
    RETX,
    TRIMMED,
    arrival,
    departure,
    entry,
    route,
    trim,
    trimmable,
)
from tests.seeds import SEED

ALWAYS = 10**9
DATA = mrc(OWN, 0x4001, size=4096)
LENGTH = len(DATA.pack())


@pytest.fixture
def trimming(device: Device) -> Device:
    """Port 2 trims from 3 full packets on and holds 6; port 4 faces a NIC."""
    device.write(trim(2, 3 * LENGTH, 6 * LENGTH), trim(4, 2 * LENGTH, 6 * LENGTH, dscp=LASTHOP), *trimmable(0, RETX))
    return device


def fill(device: Device, packet: Packet, count: int) -> None:
    for _ in range(count):
        device.send(1, packet.pack())


def lengths(frame: bytes) -> tuple[int, ...]:
    """Payload length of each IPv6 header, and UDP's length and checksum."""
    outer, following = struct.unpack_from("!HB", frame, 18)
    if following == 17:
        return outer, *struct.unpack_from("!HH", frame, 14 + 40 + 4)
    inner = struct.unpack_from("!H", frame, 58)[0]
    return outer, inner, *struct.unpack_from("!HH", frame, 14 + 80 + 4)


def test_below_the_threshold_packets_are_unchanged(trimming: Device) -> None:
    fill(trimming, DATA, 3)
    assert trimming.queued(2) == 3 * LENGTH
    assert trimming.take(2) == [DATA.forwarded(usids(0x4001), 2).pack()] * 3
    assert trimming.queued(2) == 0


def test_above_the_threshold_packets_are_trimmed_and_overtake_data(trimming: Device) -> None:
    fill(trimming, DATA, 5)
    out = trimming.take(2)
    assert [len(frame) for frame in out] == [14 + 108] * 2 + [LENGTH] * 3
    whole = DATA.forwarded(usids(0x4001), 2, dscp=TRIMMED).pack()
    # the trimmed packet is the beginning of the whole one but for the DSCP and what says how long it is
    for frame in out[:2]:
        assert lengths(frame) == (68, 28, 28, 0)
        expected = bytearray(whole[:122])
        expected[18:20], expected[58:60], expected[98:100] = (n.to_bytes(2, "big") for n in (68, 28, 28))
        assert frame == bytes(expected)
    assert trimming.queued(2) == 0
    assert trimming.counter("trimmed_packets", 2).packets == 2


def test_the_reth_can_be_kept(device: Device) -> None:
    device.write(trim(2, 1, 6 * LENGTH, keep=124), *trimmable(0))
    fill(device, DATA, 2)
    trimmed = device.take(2)[0]
    assert len(trimmed) == 14 + 124
    assert lengths(trimmed) == (84, 44, 44, 0)


def test_without_an_outer_header_40_bytes_fewer_are_kept(trimming: Device) -> None:
    trimming.write(route(NIC_B, 2))
    packet = plain(size=4096)
    fill(trimming, packet, 6)  # a little smaller than those with an outer header: four fit
    out = trimming.take(2)
    assert [len(frame) for frame in out] == [14 + 68] * 2 + [len(packet.pack())] * 4
    assert lengths(out[0]) == (28, 28, 0)
    assert Seen.of(out[0]).dscp == TRIMMED
    assert out[0][62:82] == packet.body[:20]


def test_the_last_hop_sets_its_own_trim_dscp(trimming: Device) -> None:
    fill(trimming, mrc(OWN, 0x6001, size=4096), 5)
    out = [Seen.of(frame) for frame in trimming.take(4)]
    assert [seen.dscp for seen in out] == [LASTHOP, LASTHOP, LASTHOP, 0, 0]
    assert trimming.queued(4) == 0


def test_a_trimmed_packet_passes_the_next_switch_unchanged(trimming: Device) -> None:
    fill(trimming, DATA, 5)
    trimmed = bytearray(trimming.take(2)[0])
    trimmed[38:54] = usids(OWN, 0x4001).to_bytes(16, "big")
    fill(trimming, DATA, 5)
    trimming.send(1, bytes(trimmed))
    seen = Seen.of(trimming.take(2)[2])  # behind the two that were trimmed just now
    assert (seen.dscp, seen.length, seen.payload_length) == (TRIMMED, 122, 68)
    assert trimming.drops() == {}


@pytest.mark.parametrize(
    "packet",
    [
        mrc(OWN, 0x4001, size=4096, dscp=NO_TRIM),
        mrc(OWN, 0x4001, size=4096, dscp=33),
        Packet(mrc(OWN, 0x4001).outer, mrc(OWN).inner, udp=None, body=bytes(4104)),
        Packet(mrc(OWN, 0x4001).outer, mrc(OWN).inner, udp=(1, MRC_PORT + 1), body=bytes(4096)),
    ],
    ids=["no trim", "unknown class", "not UDP", "not MRC's port"],
)
def test_untrimmable_packets_queue_up_to_the_limit_and_are_dropped_beyond(trimming: Device, packet: Packet) -> None:
    fill(trimming, packet, 9)
    assert len(packet.pack()) == LENGTH
    assert trimming.queued(2) == 6 * LENGTH
    assert trimming.take(2) == [packet.forwarded(usids(0x4001), 2).pack()] * 6
    assert trimming.drops() == {QUEUE_FULL: 3}
    assert trimming.port_drops() == {(2, QUEUE_FULL): 3}
    assert trimming.queued(2) == 0


def test_packets_no_longer_than_their_headers_are_not_trimmed(trimming: Device) -> None:
    fill(trimming, DATA, 3)
    fill(trimming, mrc(OWN, 0x4001, size=20), 1)  # 108 bytes after Ethernet
    fill(trimming, mrc(OWN, 0x4001, size=21), 1)
    assert [Seen.of(frame).dscp for frame in trimming.take(2)] == [TRIMMED, 0, 0, 0, 0]


def test_the_limit_applies_with_trimming_off(device: Device) -> None:
    device.write(entry("queue_profile", 2, "tail_drop", limit=2 * LENGTH), *trimmable(0))
    fill(device, DATA, 5)
    assert device.take(2) == [DATA.forwarded(usids(0x4001), 2).pack()] * 2
    assert device.drops() == {QUEUE_FULL: 3}
    assert device.queued(2) == 0


def test_without_a_profile_nothing_is_counted_or_trimmed(device: Device) -> None:
    device.write(*trimmable(0))
    fill(device, DATA, 20)
    assert device.queued(2) == 0
    assert [len(frame) for frame in device.take(2)] == [LENGTH] * 20


def test_control_traffic_is_neither_counted_nor_trimmed_nor_limited(trimming: Device) -> None:
    fill(trimming, mrc(OWN, 0x4001, size=4096, dscp=CONTROL), 20)
    assert trimming.queued(2, 7) == 0
    assert [len(frame) for frame in trimming.take(2)] == [LENGTH] * 20


def test_retransmissions_have_a_queue_of_their_own_and_are_trimmable(trimming: Device) -> None:
    fill(trimming, DATA, 3)
    fill(trimming, mrc(OWN, 0x4001, size=4096, dscp=RETX), 5)
    assert (trimming.queued(2), trimming.queued(2, 1)) == (3 * LENGTH, 3 * LENGTH)
    assert [Seen.of(frame).dscp for frame in trimming.take(2)] == [TRIMMED] * 2 + [RETX] * 3 + [0] * 3
    assert (trimming.queued(2), trimming.queued(2, 1)) == (0, 0)


# Ways out


def test_packets_dropped_in_egress_leave_the_count(trimming: Device) -> None:
    trimming.write(departure(2, loss=ALWAYS))
    fill(trimming, DATA, 5)
    assert trimming.queued(2) == 3 * LENGTH
    assert trimming.take(2) == []
    assert trimming.drops() == {DEPARTURE_LOSS: 5}
    assert trimming.queued(2) == 0


def test_packets_dropped_in_ingress_never_enter_the_count(trimming: Device) -> None:
    trimming.write(arrival(1, loss=ALWAYS))
    fill(trimming, DATA, 5)
    assert trimming.queued(2) == 0
    assert trimming.drops() == {ARRIVAL_LOSS: 5}


def test_losing_carrier_resets_the_count(trimming: Device) -> None:
    fill(trimming, DATA, 3)
    trimming.switch.port_changed(2, False, 0)
    assert trimming.queued(2) == 0
    fill(trimming, DATA, 10)  # none waits
    assert trimming.queued(2) == 0
    trimming.switch.port_changed(2, True, 0)
    fill(trimming, DATA, 4)
    assert [len(frame) for frame in trimming.take(2)] == [122] + [LENGTH] * 3
    assert trimming.queued(2) == 0


def test_packets_to_the_controller_or_a_missing_port_are_not_counted(trimming: Device) -> None:
    trimming.write(
        trim(CPU_PORT, 3 * LENGTH, 6 * LENGTH),
        trim(9, 3 * LENGTH, 6 * LENGTH),
        entry("usid_next", 0xFC0000004009, "set_egress", port=9, dmac=1, smac=2),
    )
    fill(trimming, mrc(OWN, 0x4001, size=4096).with_outer(hops=1), 10)
    fill(trimming, mrc(OWN, 0x4009, size=4096), 10)
    assert (trimming.queued(CPU_PORT), trimming.queued(9)) == (0, 0)
    assert len(trimming.take(CPU_PORT)) == 10


def test_tail_drops_leave_the_count_once_the_queue_is_empty() -> None:
    device = Device(queue_packets=2)
    device.write(
        entry("usid_local", 0xFC0000002001, "usid_shift"),
        entry("usid_next", 0xFC0000004001, "set_egress", port=2, dmac=1, smac=2),
        trim(2, 6 * LENGTH, 9 * LENGTH),
        *trimmable(0),
    )
    fill(device, DATA, 5)
    assert device.queued(2) == 5 * LENGTH  # three of them were dropped by the queue
    assert len(device.take(2)) == 2
    assert device.queued(2) == 0


def test_the_count_equals_the_queued_bytes_after_any_sequence(trimming: Device) -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    waiting: list[int] = []
    for _ in range(3000):
        if rng.random() < 0.55:
            size = rng.choice((0, 20, 300, 1400, 4096))
            packet = mrc(OWN, 0x4001, size=size, dscp=rng.choice((0, NO_TRIM, CONTROL)))
            before = trimming.queued(2)
            trimming.send(1, packet.pack())
            if trimming.queued(2) != before:
                waiting.append(len(packet.pack()))
        elif (frame := trimming.switch.transmit(2, 0)) is not None and Seen.of(frame).dscp in (0, NO_TRIM):
            assert waiting.pop(0) == len(frame)
        assert trimming.queued(2) == sum(waiting) <= 6 * LENGTH
    trimming.take(2)
    assert trimming.queued(2) == 0
    assert trimming.counter("trimmed_packets", 2).packets > 10
