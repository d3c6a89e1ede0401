"""uSID and plain forwarding, classes, the hop limit, the controller's port, and what is refused."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from mrc_common.p4_match import GroupRef, Lpm
from tests.p4src.device import CPU_PORT, HOP_LIMIT, MALFORMED, NO_ROUTE, NO_USID, Device
from tests.p4src.packets import NIC_A, NIC_B, Ip6, Packet, Seen, mrc, plain, usids
from tests.p4src.scene import CONTROL, NEXT, OWN, RETX, route
from tests.seeds import SEED
from topologies import paths
from topologies.addressing import mac
from topologies.clos import multi_plane_clos
from topologies.entries import TableAction, TableEntry, switch_entries
from topologies.fabric import Fabric, LinkEnd, Tier

RETURN = 0x6001  # the sender's own uSID


def test_a_usid_is_shifted_out_and_the_next_one_selects_the_port(device: Device) -> None:
    packet = mrc(OWN, 0x4001, 0x2002, 0x6001)
    expected = packet.forwarded(usids(0x4001, 0x2002, 0x6001), 2)
    assert device.pass_through(1, packet.pack()) == {2: [expected.pack()]}


def test_six_usids_are_shifted_one_by_one(device: Device) -> None:
    packet = mrc(OWN, 0x6001, 3, 4, 5, 6)
    assert device.pass_through(1, packet.pack()) == {4: [packet.forwarded(usids(0x6001, 3, 4, 5, 6), 4).pack()]}


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4096])
@pytest.mark.parametrize("inner", [True, False])
def test_all_sizes_and_both_encapsulations_pass_unchanged(device: Device, size: int, inner: bool) -> None:
    packet = mrc(OWN, 0x4002, size=size)
    if not inner:
        packet = dataclasses.replace(packet, inner=None)
    assert device.pass_through(1, packet.pack()) == {3: [packet.forwarded(usids(0x4002), 3).pack()]}


def test_other_headers_and_trailing_padding_pass_unchanged(device: Device) -> None:
    strange = dataclasses.replace(mrc(OWN, 0x4001), udp=None, other=43)
    assert device.pass_through(1, strange.pack()) == {2: [strange.forwarded(usids(0x4001), 2).pack()]}
    padded = mrc(OWN, 0x4001)
    expected = padded.forwarded(usids(0x4001), 2).pack()
    assert device.pass_through(1, padded.pack() + bytes(7)) == {2: [expected + bytes(7)]}


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (mrc(OWN), NO_USID),
        (mrc(OWN, 0x4003), NO_USID),
        (mrc(0x2002, 0x4001), NO_ROUTE),
        (plain(), NO_ROUTE),
        (dataclasses.replace(mrc(OWN, 0x4001), ether_type=0x0800), MALFORMED),
        (mrc(OWN, 0x4001).with_outer(version=4), MALFORMED),
        (dataclasses.replace(mrc(OWN, 0x4001), cut=1), MALFORMED),
        (mrc(OWN, 0x4001).with_outer(hops=1), HOP_LIMIT),
        (mrc(OWN, 0x4001).with_outer(hops=0), HOP_LIMIT),
    ],
)
def test_drops_are_counted_by_reason(device: Device, packet: Packet, reason: int) -> None:
    out = device.pass_through(1, packet.pack())
    assert out.keys() <= {CPU_PORT}
    assert device.drops() == {reason: 1}
    assert device.counter("drop_reasons", reason).bytes == len(packet.pack())
    assert device.port_drops() == {(1, reason): 1}


def test_frames_truncated_anywhere_are_dropped_and_counted(device: Device) -> None:
    whole = mrc(OWN, 0x4001).pack()
    for length in range(14, len(whole)):
        assert device.pass_through(1, whole[:length]) == {}
    assert device.drops() == {MALFORMED: len(whole) - 14}


def test_random_bytes_are_dropped_and_counted(device: Device) -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(500):
        frame = bytes(12) + rng.choice((b"\x86\xdd", b"\x08\x00")) + rng.randbytes(rng.randrange(0, 200))
        if device.pass_through(1, frame).keys() - {CPU_PORT}:
            pytest.fail(f"{frame.hex()} was forwarded")
    assert sum(device.drops().values()) == 500


def test_plain_ipv6_uses_the_longest_prefix_match(device: Device) -> None:
    device.write(route(NIC_B & ~0xFFFF, 2, 112), route(NIC_B, 3), route(0, 4, 0))
    assert list(device.pass_through(1, plain(NIC_B).pack())) == [3]
    assert list(device.pass_through(1, plain(NIC_B + 1).pack())) == [2]
    packet = plain(1)
    assert device.pass_through(1, packet.pack()) == {4: [packet.forwarded(1, 4).pack()]}


def flows(device: Device, count: int, **fixed: int) -> list[int]:
    """Ports that many flows take."""
    out = []
    for number in range(count):
        packet = plain(sport=number & 0xFFFF, label=number * 7919 & 0xFFFFF, **fixed)
        ((port, _),) = device.pass_through(1, packet.pack()).items()
        out.append(port)
    return out


def test_ecmp_spreads_flows_by_weight_and_keeps_each_flow_on_one_path(device: Device) -> None:
    device.group({}, {1: {2: 1, 3: 1}, 2: {2: 3, 3: 1}})
    device.write(
        TableEntry("ipv6_route", (Lpm(NIC_B, 128),), GroupRef(1)),
        TableEntry("ipv6_route", (Lpm(NIC_A, 128),), GroupRef(2)),
    )
    even = flows(device, 2000)
    assert even == flows(device, 2000)
    assert 800 < Counter(even)[2] < 1200
    assert 1350 < Counter(flows(device, 2000, dst=NIC_A))[2] < 1650


def test_the_hash_seed_changes_the_ecmp_choice(device: Device) -> None:
    device.group({}, {1: {2: 1, 3: 1}})
    device.write(TableEntry("ipv6_route", (Lpm(NIC_B, 128),), GroupRef(1)))
    without = flows(device, 500)
    device.write(TableEntry("ecmp_seed", (Lpm(0, 0),), TableAction("set_seed", (("seed", 12345),))))
    seeded = flows(device, 500)
    assert 150 < sum(a != b for a, b in zip(without, seeded, strict=True)) < 350


def test_control_overtakes_retransmissions_overtake_data(device: Device) -> None:
    for number, dscp in enumerate((0, RETX, CONTROL, 0, CONTROL, RETX)):
        device.send(1, mrc(OWN, 0x4001, dscp=dscp, mark=number).pack())
    left = [Seen.of(frame) for frame in device.take(2)]
    assert [seen.dscp for seen in left] == [CONTROL, CONTROL, RETX, RETX, 0, 0]
    assert [seen.frame[14 + 40 + 40 + 8 + 3] for seen in left] == [2, 4, 1, 5, 0, 3]


def test_an_expired_hop_limit_sends_the_packet_to_the_controller(device: Device) -> None:
    packet = mrc(OWN, 0x4001, size=1000).with_outer(hops=1).pack()
    header = (3 << 7 | HOP_LIMIT).to_bytes(2, "big")
    assert device.pass_through(3, packet) == {CPU_PORT: [header + packet]}


def test_a_packet_out_leaves_on_any_port(device: Device) -> None:
    packet = mrc(0x9999).pack()
    for port in (1, 2, 3, 4):
        assert device.pass_through(CPU_PORT, (port << 7).to_bytes(2, "big") + packet) == {port: [packet]}
    assert device.pass_through(CPU_PORT, b"\x01") == {}
    assert device.drops() == {MALFORMED: 1}


# Many switches


class Fabrics:
    """Every switch of a fabric, and frames carried from port to port."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.devices = {switch.name: Device((*switch.ports, CPU_PORT)) for switch in fabric.switches}
        for switch in fabric.switches:
            self.devices[switch.name].program(switch_entries(fabric, switch))

    def carry(self, start: LinkEnd, frame: bytes) -> tuple[list[str], LinkEnd | None, bytes]:
        """Names of the switches passed, where the frame came out (None: at a controller), and the frame."""
        passed: list[str] = []
        here = self.fabric.peer(start)
        while here is not None and here.node in self.devices:
            passed.append(here.node)
            ((port, frames),) = self.devices[here.node].pass_through(here.port, frame).items()
            (frame,) = frames
            if port == CPU_PORT:
                return passed, None, frame
            here = self.fabric.peer(LinkEnd(here.node, port))
        return passed, here, frame


@pytest.fixture(scope="module")
def small() -> Fabrics:
    return Fabrics(multi_plane_clos(planes=2, t0=2, t1=2, hosts=4))


def from_nic(fabric: Fabric, name: str, plane: int, address: bytes, hops: int = 64) -> tuple[LinkEnd, bytes]:
    start = LinkEnd(name, plane)
    gateway = fabric.peer(start)
    assert gateway is not None
    outer = Ip6(int.from_bytes(address, "big"), hops=hops)
    dmac, smac = (int.from_bytes(mac(fabric, end), "big") for end in (gateway, start))
    return start, Packet(outer, Ip6(NIC_B), dmac=dmac, smac=smac).pack()


def test_packets_on_every_path_arrive_with_the_nics_address(small: Fabrics) -> None:
    fabric = small.fabric
    for source in fabric.nics:
        for target in fabric.nics:
            if source == target:
                continue
            route_to = paths.destination(fabric, source, target)
            for ev in route_to.evs:
                plane = route_to.template.plane(ev)
                start, frame = from_nic(fabric, source.name, plane, route_to.template.address(ev))
                passed, end, out = small.carry(start, frame)
                assert end == LinkEnd(target.name, plane)
                sender = fabric.peer(end)
                assert sender is not None
                assert out[:12] == mac(fabric, end) + mac(fabric, sender)
                assert Seen.of(out).hops == 64 - len(passed)
                if source.t0 != target.t0:
                    assert passed[1] == f"t1-{route_to.template.uplink(ev)}@p{plane}"


@pytest.mark.parametrize("to_t1", [False, True])
def test_a_probe_to_a_switch_returns(small: Fabrics, to_t1: bool) -> None:
    fabric = small.fabric
    for nic in fabric.nics:
        template = paths.probe_template(fabric, nic, Tier.T1 if to_t1 else Tier.T0)
        for plane in range(fabric.planes):
            for uplink in range(fabric.t1_count if to_t1 else 1):
                start, frame = from_nic(fabric, nic.name, plane, template.address(plane << 10 | uplink))
                passed, end, out = small.carry(start, frame)
                t0 = f"t0-{nic.t0}@p{plane}"
                assert passed == ([t0, f"t1-{uplink}@p{plane}", t0] if to_t1 else [t0])
                assert end == start
                assert out[:6] == mac(fabric, start)


def test_a_traceroute_names_every_switch_of_a_path(small: Fabrics) -> None:
    fabric = small.fabric
    source, target = fabric.nics[0], fabric.nics[-1]
    route_to = paths.destination(fabric, source, target)
    for ev in route_to.evs:
        plane, uplink = route_to.template.plane(ev), route_to.template.uplink(ev)
        expected = [f"t0-0@p{plane}", f"t1-{uplink}@p{plane}", f"t0-1@p{plane}"]
        for hops in (1, 2, 3):
            start, frame = from_nic(fabric, source.name, plane, route_to.template.address(ev), hops)
            passed, end, packet_in = small.carry(start, frame)
            assert (passed, end) == (expected[:hops], None)
            assert packet_in[:2][1] & 0x7F == HOP_LIMIT
            assert Seen.of(packet_in[2:]).hops == 1


def test_all_neighbours_of_the_test_switch_are_reachable(device: Device) -> None:
    for usid, port in NEXT.items():
        assert list(device.pass_through(1, mrc(OWN, usid).pack())) == [port]
