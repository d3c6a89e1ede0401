"""The P4 program on BMv2: the same as on the embedded switch, packet by packet, and under overload.

Randomness in the program is excluded by probabilities of 0 and 1.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import finsy
import pytest

from mrc_common.p4_match import GroupRef, Lpm
from tests.integration.bmv2 import CPU_PORT, Bmv2, bmv2, needs_bmv2
from tests.p4src.device import HOP_LIMIT, Device
from tests.p4src.packets import NIC_A, NIC_B, Packet, Seen, mrc, plain, usids
from tests.p4src.scene import (
    CONTROL,
    DMAC,
    LASTHOP,
    NO_TRIM,
    OWN,
    RETX,
    SMAC,
    TRIMMED,
    arrival,
    departure,
    entry,
    forwarding,
    path_loss,
    route,
    trim,
    trimmable,
)
from tests.seeds import SEED
from topologies.entries import Group, Member, SwitchEntries, TableAction, TableEntry

pytestmark = needs_bmv2

ROOT = Path(__file__).parents[2]
ALWAYS = 10**9


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Bmv2]:
    with bmv2(tmp_path) as switch:
        yield switch


def tables() -> SwitchEntries:
    """Something in every table."""
    members = tuple(
        Member("ecmp", port, TableAction("set_egress", (("port", port), ("dmac", DMAC[port]), ("smac", SMAC[port]))))
        for port in range(1, 5)
    )
    groups = (Group("ecmp", 1, ((2, 1), (3, 1), (4, 1))), Group("ecmp", 2, ((1, 1), (3, 1))))
    entries = (
        *forwarding(),
        TableEntry("ipv6_route", (Lpm(NIC_B & ~0xFFFF, 112),), GroupRef(1)),
        TableEntry("ipv6_route", (Lpm(NIC_A & ~0xFFFF, 112),), GroupRef(2)),
        route(NIC_B + 7, 2),
        TableEntry("ecmp_seed", (Lpm(0, 0),), TableAction("set_seed", (("seed", 0xDEADBEEF),))),
        TableEntry("ecmp_seed", (Lpm(NIC_B & ~0xFF, 120),), TableAction("set_seed", (("seed", 77),))),
        arrival(3, loss=ALWAYS),
        arrival(2, loss=0, corruption=0),
        departure(4, loss=0),
        path_loss(usids(OWN, 0x4002, 9), ALWAYS),
        path_loss(usids(OWN, 0x4001, 9), ALWAYS, src=NIC_A + 1),
        *trimmable(0, RETX),
        trim(2, 2000, 2500),  # a packet of more than 2500 bytes may never wait
        trim(4, 0, 4000, dscp=LASTHOP, keep=124),  # everything is trimmed
        entry("queue_profile", 3, "tail_drop", limit=1000),
        entry("ecn_profile", 2, "mark_between", start=0, width=1),
    )
    return SwitchEntries("diff", members, groups, entries)


def some_packet(rng: random.Random) -> bytes:
    """Mostly good packets of every kind, some damaged."""
    dscp, ecn = rng.choice((0, 0, NO_TRIM, RETX, CONTROL, TRIMMED, 63)), rng.randrange(4)
    size = rng.choice((0, 15, 16, 17, 20, 21, 64, 900, 1100, 2100, 2600, 4096))
    if rng.random() < 0.6:
        hops = rng.choice(((OWN, 0x4001), (OWN, 0x4002), (OWN, 0x6001), (OWN,), (OWN, 7), (0x2002, 0x4001)))
        packet: Packet = mrc(*hops, rng.choice((0, 9)), size=size, dscp=dscp, ecn=ecn, sport=rng.randrange(1 << 16))
    else:
        dst = rng.choice((NIC_B, NIC_B + 7, NIC_B + rng.randrange(1000), NIC_A + 3, 1))
        label = rng.randrange(1 << 20)
        packet = plain(dst, size=size, dscp=dscp, ecn=ecn, sport=rng.randrange(1 << 16), label=label)
    if rng.random() < 0.2:
        packet = packet.with_outer(src=NIC_A + 1)
    if rng.random() < 0.1:
        packet = packet.with_outer(hops=rng.choice((0, 1, 2, 255)))
    frame = packet.pack()
    if rng.random() < 0.1:
        frame = frame[: rng.randrange(14, len(frame))]
    if rng.random() < 0.1:
        damaged = bytearray(frame)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(12, min(len(frame), 118))] = rng.randrange(256)
        frame = bytes(damaged)
    return frame + bytes(rng.choice((0, 0, 0, 3)))


def passes_both(device: Device, real: Bmv2, port: int, frame: bytes, what: str) -> list[int]:
    """Send a frame through both, wait for what should come out, and compare; returns the ports it comes out of."""
    expected = device.pass_through(port, frame)
    expected.pop(CPU_PORT, None)
    real.wires[port - 1].send(frame)
    got = {out: [real.wires[out - 1].receive(10) for _ in frames] for out, frames in expected.items()}
    assert got == expected, f"{what}: {frame.hex()}"
    return list(expected)


def test_bmv2_and_the_embedded_switch_forward_and_count_alike(real: Bmv2) -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    device = Device()
    device.program(tables())
    real.program(tables())
    marker = plain(NIC_B + 7, dscp=CONTROL).pack()
    for number in range(1500):
        port, frame = rng.choice((1, 1, 1, 2, 3, 4)), some_packet(rng)
        # One at a time: BMv2 must not queue packets that the hand-driven switch does not.
        if not passes_both(device, real, port, frame, f"packet {number} on port {port}"):
            # Nothing shows when it has dropped a packet, but when the next one comes out it has.
            assert passes_both(device, real, 1, marker, "marker") == [2]
    assert real.collect() == {}, "nothing else came out"
    assert real.drops() == device.drops()
    assert len(device.drops()) >= 7
    entries = tables().entries
    assert real.hits(entries) == [device.hits(item).packets for item in entries]


def test_bmv2_spreads_flows_by_weight(real: Bmv2) -> None:
    # Which flow goes where differs from the embedded switch: BMv2's P4Runtime server makes copies of weighted members.
    members = tables().members
    group = Group("ecmp", 1, ((1, 3), (3, 1)))
    real.program(SwitchEntries("weights", members, (group,), (TableEntry("ipv6_route", (Lpm(0, 0),), GroupRef(1)),)))
    for number in range(400):
        real.wires[1].send(plain(sport=number, label=number * 7919 & 0xFFFFF).pack())
        time.sleep(0.001)
    out = real.collect()
    assert len(out[1]) + len(out[3]) == 400
    assert 250 < len(out[1]) < 350


def test_packet_ins_and_packet_outs_are_the_same(real: Bmv2) -> None:
    device = Device()
    device.write(*forwarding())
    real.write(*forwarding())
    packet = mrc(OWN, 0x4001, size=500).with_outer(hops=1).pack()
    ((_, (packet_in,)),) = device.pass_through(3, packet).items()
    port_and_reason = int.from_bytes(packet_in[:2], "big")
    received = []

    async def work(switch: finsy.Switch) -> None:
        real.wires[2].send(packet)
        async for message in switch.read_packets():
            received.append((message["ingress_port"], message["reason"], message.payload))
            break
        await switch.write(finsy.P4PacketOut(packet, egress_port=4, padding=0))

    real.control(work)
    assert received == [(port_and_reason >> 7, port_and_reason & 0x7F, packet_in[2:])] == [(3, HOP_LIMIT, packet)]
    assert real.collect() == device.pass_through(CPU_PORT, (4 << 7).to_bytes(2, "big") + packet) == {4: [packet]}
    assert real.drops() == device.drops() == {HOP_LIMIT: 1}


def test_a_blackhole_on_bmv2_forwards_nothing(real: Bmv2) -> None:
    fault = arrival(None, blackhole=True)
    real.write(*forwarding(), fault)
    for wire in real.wires:
        wire.send(mrc(OWN, 0x4001).pack())
    assert real.collect() == {}
    real.delete(fault)
    real.wires[0].send(mrc(OWN, 0x4001).pack())
    assert list(real.collect()) == [2]


# Overload: the queue of port 2 is served slowly, so that most packets find more data waiting than the threshold


def overload(count: int) -> list[bytes]:
    return [mrc(OWN, 0x4001, size=4096, mark=number).pack() for number in range(count)]


def mark_of(frame: bytes) -> int:
    number: int = struct.unpack_from("!I", frame, 14 + 40 + 40 + 8)[0]
    return number


def check_trimming(out: list[bytes], count: int, threshold: int) -> None:
    """Nothing is missing, whole packets are in order, and what is trimmed overtakes the data that waits."""
    assert sorted(map(mark_of, out)) == list(range(count))
    whole = [mark_of(frame) for frame in out if len(frame) > 122]
    trimmed = [mark_of(frame) for frame in out if len(frame) <= 122]
    assert whole == sorted(whole)
    assert trimmed == sorted(trimmed)
    assert threshold <= len(whole) < count / 2
    assert {Seen.of(frame).dscp for frame in out if len(frame) <= 122} == {TRIMMED}
    assert {Seen.of(frame).dscp for frame in out if len(frame) > 122} == {0}
    # no whole packet that was sent `threshold` packets or more before a trimmed one is still behind it
    position = {mark_of(frame): index for index, frame in enumerate(out)}
    overtaken = [sum(1 for mark in whole if mark < cut and position[mark] > position[cut]) for cut in trimmed]
    assert min(overtaken) >= 1
    assert max(overtaken) <= threshold + 1


THRESHOLD = 10


def test_under_overload_bmv2_trims_and_sends_trimmed_packets_first(real: Bmv2) -> None:
    frames = overload(400)
    length = len(frames[0])
    real.write(*forwarding(), trim(2, THRESHOLD * length, 40 * length), *trimmable(0))
    with real.thrift() as client:
        client.set_queue_depth(2, 256)
        client.set_queue_rate(2, 0, 100)
    for frame in frames:
        real.wires[0].send(frame)
        time.sleep(0.002)
    check_trimming(real.collect(1.0)[2], len(frames), THRESHOLD)
    assert real.queued(2) == 0


def test_under_overload_the_embedded_switch_trims_alike() -> None:
    device = Device()
    frames = overload(400)
    length = len(frames[0])
    device.write(*forwarding(), trim(2, THRESHOLD * length, 40 * length), *trimmable(0))
    device.switch.set_port_rate(2, 100 * length * 8)
    out: list[bytes] = []
    for number, frame in enumerate(frames):
        device.now = number * 2_000_000
        out += device.take(2)
        device.send(1, frame)
    while (when := device.switch.wakeup()) is not None:
        device.now = max(device.now, when)
        out += device.take(2)
    check_trimming(out, len(frames), THRESHOLD)
    assert device.queued(2) == 0


def test_untrimmable_data_queues_up_to_the_limit_and_the_count_returns_to_zero(real: Bmv2) -> None:
    packet = mrc(OWN, 0x4001, size=4096, dscp=NO_TRIM).pack()
    real.write(*forwarding(), trim(2, 5 * len(packet), 20 * len(packet)), *trimmable(0))
    with real.thrift() as client:
        client.set_queue_depth(2, 256)
        client.set_queue_rate(2, 0, 100)
    for _ in range(200):
        real.wires[0].send(packet)
        time.sleep(0.001)
    out = real.collect(1.0)[2]
    assert {len(frame) for frame in out} == {len(packet)}
    (dropped,) = real.drops().values()
    assert len(out) + dropped == 200
    assert dropped > 100
    assert real.queued(2) == 0


def test_bmv2_marks_ecn_by_queue_depth(real: Bmv2) -> None:
    real.write(*forwarding(), entry("ecn_profile", 2, "mark_between", start=5, width=1))
    with real.thrift() as client:
        client.set_queue_rate(2, 0, 50)
    for number in range(20):
        real.wires[0].send(mrc(OWN, 0x4001, mark=number).pack())
    marked = [Seen.of(frame).ecn == 3 for frame in real.collect(1.0)[2]]
    assert len(marked) == 20
    assert marked == sorted(marked)  # those that came later found more
    assert 10 <= sum(marked) <= 14


FABRIC = ROOT / "tests" / "integration" / "bmv2_fabric.py"


@pytest.mark.parametrize("kind", ["bmv2", "embedded"])
def test_a_bmv2_fabric_comes_up_forwards_on_every_path_and_supports_faults(kind: str) -> None:
    # Inside a network namespace, for BMv2's Thrift ports would be open to everybody.
    command = ["unshare", "--net", sys.executable, str(FABRIC), kind]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    print(result.stdout)
