"""Every entropy format and every disputed detail, between two whole NICs, seen by scapy too."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether

from mrc_host.captures import DISSECTOR
from mrc_host.captures import scapy_layers as mrc
from mrc_host.config import (
    BthOrder,
    Destination,
    Dscp,
    EvFormat,
    EvOrder,
    NicConfig,
    OutOfWindow,
    PortConfig,
    ProbeMark,
    ProtocolSettings,
    UsidTemplate,
)
from mrc_host.errors import InvalidArgumentError
from mrc_host.nic import Nic
from mrc_host.verbs_types import (
    Access,
    CompletionStatus,
    EvField,
    EvMode,
    EvProfile,
    PathState,
    QpAddress,
    QpAttributes,
    QpType,
    WorkRequest,
    WrOpcode,
)
from tests.models.frames import MAPPED

BLOCK = 0xFC000000
V6 = tuple(bytes.fromhex("fd00006d7263") + bytes(9) + bytes([n]) for n in (1, 2))
V4 = tuple(MAPPED + bytes((10, 0, 0, n)) for n in (1, 2))
FORMATS = [(f, V6) for f in EvFormat] + [(EvFormat.UDP, V4)]
IDS = ["srv6", "srv6_srh", "structured", "udp_ipv6", "udp_ipv4"]
EVS = tuple(p << 10 | u for p in range(2) for u in range(8))
WIDE = tuple(u << 16 | p << 10 for p in range(2) for u in range(8))


def config(number: int, addresses: tuple[bytes, ...], settings: ProtocolSettings, evs: tuple[int, ...]) -> NicConfig:
    far = 1 - number
    ports = tuple(
        PortConfig(p, bytes((2, 0, 0, 0, number, p)), bytes((2, 1, 0, 0, number, p)), 0x6000 | p << 10 | number, 0, "")
        for p in range(2)
    )
    template = UsidTemplate(BLOCK << 96 | 0x2000 << 80 | (0x6000 | far) << 64, (90, 74), None)
    destination = Destination(f"n{far}", addresses[far], template, evs)
    return NicConfig(f"n{number}", addresses[number], BLOCK, ports, (destination,), settings=settings)


class Wire:
    """Two NICs and what passes between them; `lose` decides what gets lost."""

    def __init__(
        self,
        ev_format: EvFormat = EvFormat.SRV6,
        addresses: tuple[bytes, ...] = V6,
        evs: tuple[int, ...] = EVS,
        **settings: Any,
    ) -> None:
        chosen = ProtocolSettings(ev_format=ev_format, **settings)
        self.nics = [Nic(config(n, addresses, chosen, evs), seed=n + 1) for n in (0, 1)]
        self.addresses = addresses
        self.now = 1_000_000
        self.seen: list[tuple[int, int, bytes]] = []
        self.lose: Callable[[int, int, bytes], bool] = lambda nic, port, frame: False
        self.change: Callable[[bytes], bytes] = lambda frame: frame
        rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
        self.buffers = [bytearray(random.Random(5).randbytes(1 << 18)), bytearray(1 << 18)]
        self.regions = [nic.register_memory(0, memoryview(b), rights) for nic, b in zip(self.nics, self.buffers)]  # noqa: B905
        self.cqs = [nic.create_cq(256) for nic in self.nics]
        self.qpns: list[int] = []

    def connect(self, kind: QpType = QpType.MRC, attributes: QpAttributes | None = None) -> None:
        given = attributes or QpAttributes()
        self.qpns = [nic.create_qp(0, kind, cq, cq, given) for nic, cq in zip(self.nics, self.cqs)]  # noqa: B905
        for n in (0, 1):
            self.nics[n].connect_qp(self.qpns[n], self.nics[1 - n].qp_address(self.qpns[1 - n]), self.now)

    def write(self, length: int = 1 << 18, **more: Any) -> None:
        a, b = self.regions
        opcode = WrOpcode.WRITE_WITH_IMM if "imm" in more else WrOpcode.WRITE
        request = WorkRequest(1, opcode, a.address, a.lkey, length, b.address, b.rkey, **more)
        self.nics[0].post_send(self.qpns[0], request, self.now)

    def run(self, duration: int) -> None:
        """A frame each way on each port every microsecond, arriving ten later."""
        end = self.now + duration
        waiting: list[tuple[int, int, int, bytes]] = []
        while self.now < end:
            for n, nic in enumerate(self.nics):
                due = nic.wakeup()
                if due is not None and due <= self.now:
                    nic.tick(self.now)
                for port in range(2):
                    frame = nic.transmit(port, self.now)
                    if frame is not None:
                        self.seen.append((n, port, frame))
                        if not self.lose(n, port, frame):
                            waiting.append((self.now + 10_000, 1 - n, port, self.carry(1 - n, port, frame)))
            self.now += 1000
            while waiting and waiting[0][0] <= self.now:
                _when, to, port, frame = waiting.pop(0)
                self.nics[to].receive(port, frame, self.now)

    def carry(self, to: int, port: int, frame: bytes) -> bytes:
        frame = self.change(frame)
        if frame[20] in (41, 43) and frame[12:14] == b"\x86\xdd":
            locator = BLOCK.to_bytes(4, "big") + (0x6000 | port << 10 | to).to_bytes(2, "big") + bytes(10)
            frame = frame[:38] + locator + frame[54:]
        return bytes((2, 0, 0, 0, to, port)) + frame[6:]

    def finish(self) -> None:
        """Until the write completes, and the bytes are there."""
        for _ in range(200):
            self.run(1_000_000)
            done = self.nics[0].poll_cq(self.cqs[0], 16, self.now)
            if done:
                assert done[0].status is CompletionStatus.SUCCESS, done
                assert self.buffers[1] == self.buffers[0]
                return
        raise AssertionError("the write did not complete")

    def packets(self, nic: int, *opcodes: int) -> list[Ether]:
        found = [Ether(frame) for n, _port, frame in self.seen if n == nic]
        return [p for p in found if p.haslayer(mrc.MrcBTH) and (not opcodes or p[mrc.MrcBTH].opcode in opcodes)]


DATA = range(0xC6, 0xCC)


@pytest.mark.parametrize(("ev_format", "addresses"), FORMATS, ids=IDS)
def test_writes_arrive_and_scapy_agrees_on_every_packet(ev_format: EvFormat, addresses: tuple[bytes, ...]) -> None:
    wire = Wire(ev_format, addresses)
    wire.connect()
    wire.write()
    wire.finish()
    packets = wire.packets(0) + wire.packets(1)
    assert len(packets) == len(wire.seen)
    assert all(mrc.icrc_is_right(p) for p in packets)
    layers = {
        EvFormat.SRV6: lambda p: p[IPv6].nh == 41 and not p.haslayer(IPv6ExtHdrSegmentRouting),
        EvFormat.SRV6_SRH: lambda p: p.haslayer(IPv6ExtHdrSegmentRouting) and len(mrc.ip_layers(p)) == 2,
        EvFormat.STRUCTURED: lambda p: p[IPv6].nh == 17,
        EvFormat.UDP: lambda p: p.haslayer(IP if addresses is V4 else IPv6) and len(mrc.ip_layers(p)) == 1,
    }
    assert all(layers[ev_format](p) for p in packets)
    used = Counter(mrc.entropy_value(p) for p in wire.packets(0, *DATA))
    assert set(used) <= set(EVS)
    assert len(used) > 10
    echoed = {p[mrc.SETH].ev for p in wire.packets(1, mrc.SACK)} - {0xFFFFFFFF}
    assert echoed <= set(used)
    for nic in wire.nics:
        assert not any(value for name, value in nic.nic_counters().items() if name.startswith("drop_"))


@pytest.mark.parametrize(("ev_format", "addresses"), FORMATS, ids=IDS)
def test_a_dead_path_is_identified_by_its_echoed_value_and_avoided(
    ev_format: EvFormat, addresses: tuple[bytes, ...]
) -> None:
    wire = Wire(ev_format, addresses)
    wire.lose = lambda nic, port, frame: (
        nic == 0 and (p := Ether(frame)).haslayer(mrc.METH) and mrc.entropy_value(p) == 0x403
    )
    wire.connect()
    for _ in range(3):
        wire.write()
        wire.finish()
    states = {p.ev: p.state for p in wire.nics[0].qp_paths(wire.qpns[0])}
    assert {ev for ev, state in states.items() if state is not PathState.GOOD} <= {0x403}
    assert states[0x403] is PathState.ASSUMED_BAD


@pytest.mark.parametrize(("ev_format", "addresses"), FORMATS, ids=IDS)
def test_trims_and_ecn_marks_are_handled(ev_format: EvFormat, addresses: tuple[bytes, ...]) -> None:
    wire = Wire(ev_format, addresses)
    rng = random.Random(3)

    def trim(frame: bytes) -> bytes:
        packet = Ether(frame)
        if not packet.haslayer(mrc.METH) or rng.random() > 0.1:
            return frame
        ip = mrc.ip_layers(packet)[0]
        body = len(frame) - len(bytes(packet[mrc.MrcBTH]))
        if isinstance(ip, IP):
            ip.tos, ip.chksum = 12 << 2 | 2, None
            return frame[:14] + bytes(ip)[:20] + frame[34 : body + 20]
        return frame[:14] + (6 << 12 | 12 << 6 | 2 << 4).to_bytes(2, "big") + frame[16 : body + 20]

    wire.change = trim
    wire.connect()
    wire.write()
    wire.finish()
    reasons = {p[mrc.NETH].reason for p in wire.packets(1, mrc.NACK)}
    assert reasons == {1}
    assert wire.nics[0].qp_counters(wire.qpns[0]).timeouts == 0
    assert sum(p.trimmed for p in wire.nics[0].qp_paths(wire.qpns[0])) > 0


@pytest.mark.parametrize("addresses", [V6, V4], ids=["ipv6", "ipv4"])
def test_the_roce_baseline_runs_over_ipv4_and_ipv6(addresses: tuple[bytes, ...]) -> None:
    wire = Wire(EvFormat.UDP, addresses, ev_order=EvOrder.HIGH_IN_SOURCE_PORT)
    wire.connect(QpType.RC)
    wire.write()
    wire.finish()
    sports = {Ether(frame)[UDP].sport for _n, _p, frame in wire.seen}
    assert len(sports) == 1
    assert min(sports) >= 0xC000


def test_the_srh_segment_is_the_path_or_the_next_hop() -> None:
    wire = Wire(EvFormat.SRV6_SRH)
    wire.connect()
    wire.write()
    wire.run(100_000)
    packet = wire.packets(0, *DATA)[0]
    routing = packet[IPv6ExtHdrSegmentRouting]
    assert (routing.segleft, routing.addresses) == (0, [packet[IPv6].dst])
    nic = config(0, V6, ProtocolSettings(ev_format=EvFormat.SRV6_SRH), EVS)
    far = nic.destinations[0]
    onward = replace(far, template=replace(far.template, segment=bytes.fromhex("fc000000") + bytes(12)))
    one = Nic(replace(nic, destinations=(onward,)), seed=1)
    cq = one.create_cq(4)
    one.connect_qp(one.create_qp(0, QpType.MRC, cq, cq, QpAttributes()), QpAddress(V6[1], 77, 0), 1)
    frame = one.transmit(0, 2) or one.transmit(1, 2)
    assert frame is not None
    routing = Ether(frame)[IPv6ExtHdrSegmentRouting]
    assert (routing.segleft, routing.addresses) == (1, ["fc00::"])


def test_the_path_mtu_leaves_room_for_the_routing_header() -> None:
    for ev_format, largest in ((EvFormat.SRV6, 4368), (EvFormat.SRV6_SRH, 4344)):
        nic = Wire(ev_format).nics[0]
        cq = nic.create_cq(4)
        nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(path_mtu=largest))
        with pytest.raises(InvalidArgumentError, match="path_mtu"):
            nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(path_mtu=largest + 4))


@pytest.mark.parametrize("order", EvOrder)
def test_wide_values_use_both_halves_in_either_order(order: EvOrder) -> None:
    wire = Wire(EvFormat.STRUCTURED, evs=WIDE, ev_order=order)
    wire.connect()
    wire.write()
    wire.finish()
    packets = wire.packets(0, *DATA)
    assert {mrc.entropy_value(p, order) for p in packets} <= set(WIDE)
    sports, labels = ({p[UDP].sport for p in packets}, {p[IPv6].fl for p in packets})
    low, high = (sports, labels) if order is EvOrder.LOW_IN_SOURCE_PORT else (labels, sports)
    assert low == {0, 0x400}
    assert high <= set(range(8))
    assert len(high) > 4


def test_generated_profiles_draw_new_values_on_hashed_fabrics() -> None:
    wire = Wire(EvFormat.STRUCTURED)
    fields = (EvField(16, 0, 0, 0xFFFF, 0xFFFF), EvField(16, 0, 0, 0x7FF, 0x7FF))
    profile = EvProfile(EvMode.GENERATED, fields=fields, size=64)
    for nic in wire.nics:
        assert nic.control.create_ev_profile(profile) == 1
    wire.connect(attributes=QpAttributes(ev_profile=1))
    wire.write()
    wire.finish()
    paths = wire.nics[0].qp_paths(wire.qpns[0])
    assert Counter(p.plane for p in paths) == {0: 32, 1: 32}
    assert any(p.ev >> 16 for p in paths)
    assert {mrc.entropy_value(p) for p in wire.packets(0, *DATA)} <= {p.ev for p in paths}
    assert len({p[IPv6].fl for p in wire.packets(0, *DATA)}) > 20


@pytest.mark.parametrize(
    ("ev_format", "addresses", "evs", "words"),
    [
        (EvFormat.SRV6, V4, EVS, "must be 'udp'"),
        (EvFormat.STRUCTURED, V4, EVS, "must be 'udp'"),
        (EvFormat.UDP, (V4[0], V6[1]), EVS, "different kinds"),
        (EvFormat.UDP, V6, WIDE, "does not fit"),
    ],
)
def test_incompatible_settings_are_refused(
    ev_format: EvFormat, addresses: tuple[bytes, ...], evs: tuple[int, ...], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Nic(config(0, addresses, ProtocolSettings(ev_format=ev_format), evs), seed=1)


def test_nics_with_different_formats_do_not_communicate() -> None:
    srv6, plain = Wire(EvFormat.SRV6), Wire(EvFormat.STRUCTURED)
    for wire in (srv6, plain):
        wire.connect()
        wire.write()
        wire.run(100_000)
    for source, target in ((srv6, plain), (plain, srv6)):
        before = target.nics[1].nic_counters()
        for n, port, frame in source.seen:
            if n == 0:
                target.nics[1].receive(port, target.carry(1, port, frame), target.now)
        after = target.nics[1].nic_counters()
        dropped = sum(after[name] - before[name] for name in after if name.startswith("drop_"))
        assert dropped == sum(n == 0 for n, _p, _f in source.seen)
        assert target.nics[1].qp_counters(target.qpns[1]).data_received <= 64


# ---- disputed details, both ways (docs/protocol.md §10) --------------------------------------------------------------


@pytest.mark.parametrize("udp_port", [4791, 4971])
def test_the_udp_port_is_configurable(udp_port: int) -> None:
    wire = Wire(udp_port=udp_port)
    wire.connect()
    wire.write()
    wire.finish()
    assert {p[UDP].dport for p in wire.packets(0) + wire.packets(1)} == {udp_port}
    other = 4791 + 4971 - udp_port
    wire.change = lambda frame: frame[:96] + other.to_bytes(2, "big") + frame[98:]
    wire.write()
    wire.run(1_000_000)
    assert wire.nics[1].nic_counters()["drop_udp_port"] > 0


@pytest.mark.parametrize("shift", [2, 4])
def test_position_of_the_operation_in_an_endpoint_response(shift: int) -> None:
    wire = Wire(endpoint_op_shift=shift)
    wire.connect()
    number = wire.nics[0].control.probe(V6[1], 1, wire.now)
    wire.run(1_000_000)
    events = [e for e in wire.nics[0].async_events() if getattr(e, "probe_id", 0) == number]
    assert [e.rtt is not None for e in events] == [True]  # type: ignore[union-attr]
    probes = [f for n, _p, f in wire.seen if n == 1 and f[102] == 0xD9 and int.from_bytes(f[114:116], "big")]
    assert {int.from_bytes(f[114:116], "big") for f in probes} == {1 << shift}


@pytest.mark.parametrize("order", BthOrder)
def test_order_of_solicited_event_and_migration(order: BthOrder) -> None:
    wire = Wire(bth_order=order)
    wire.connect()
    wire.write(imm=1, solicited=True)
    wire.finish()
    flags = [f[103] & 0xC0 for n, _p, f in wire.seen if n == 0 and f[102] in DATA]
    expected = 0x80 if order is BthOrder.SE_FIRST else 0x40
    assert sorted(flags) == [0] * (len(flags) - 1) + [expected]
    last = wire.packets(0, 0xC9)[0]
    assert (last[mrc.MrcBTH].m, last[mrc.MrcBTH].se) == (expected >> 7, expected >> 6 & 1)


def test_migration_is_the_first_bit_by_default() -> None:
    wire = Wire()
    wire.connect()
    wire.write(imm=1, solicited=True)
    wire.finish()
    last = wire.packets(0, 0xC9)[0]
    assert (last[mrc.MrcBTH].m, last[mrc.MrcBTH].se) == (0, 1)
    assert bytes(last[mrc.MrcBTH])[1] & 0xC0 == 0x40


def test_dscp_defaults_match_the_dissector_and_another_emulator() -> None:
    roles = {"no_trim": 0, "trimmable": 4, "retransmit": 8, "trimmed": 12, "trimmed_lasthop": 16, "control": 46}
    assert asdict(Dscp()) == {**roles, "adaptive": 24}, "which is no role of MRC's"
    default = [
        int(number) for _, _, number in re.findall(r'\{"(dscp_\w+)", "([\w ]+)", (\d+)\}', DISSECTOR.read_text())
    ]
    assert default == [Dscp().trimmable, Dscp().no_trim, *list(roles.values())[2:]], "the dissector's are the same"


@pytest.mark.parametrize("answer", OutOfWindow)
def test_response_to_packets_outside_the_window(answer: OutOfWindow) -> None:
    """Sent again long after: ancient packets. And sent by a peer that believes in a wider range: too far ahead."""
    wire = Wire(out_of_window=answer)
    wire.connect()
    wire.write()
    wire.finish()
    old = [(n, port, frame) for n, port, frame in wire.seen if n == 0 and frame[102] in DATA][:10]
    wire.seen.clear()
    for _n, port, frame in old:
        wire.nics[1].receive(port, wire.carry(1, port, frame), wire.now)
    wire.run(100_000)
    answers = wire.packets(1, mrc.SACK)
    assert bool(answers) == (answer is OutOfWindow.ANSWER)
    assert wire.nics[1].qp_counters(wire.qpns[1]).duplicates_received == 10

    ahead = Wire(out_of_window=answer)
    window = 1 << 19
    ahead.connect(attributes=QpAttributes(mpr=1, mpr_dest=8, path_mtu=256, congestion_window=window, timeout=8))
    until = ahead.now + 400_000
    ahead.lose = lambda nic, port, frame: nic == 0 and frame[102] == 0xC6 and ahead.now < until
    ahead.write()
    ahead.finish()
    reasons = {p[mrc.NETH].reason for p in ahead.packets(1, mrc.NACK)}
    assert (0x0B in reasons) == (answer is OutOfWindow.ANSWER)


@pytest.mark.parametrize("mark", ProbeMark)
def test_a_marked_answer_to_a_reliability_probe(mark: ProbeMark) -> None:
    wire = Wire(probe_mark=mark)

    def congested(frame: bytes) -> bytes:
        """All data is lost behind the first write, and every probe comes out marked."""
        return frame[:15] + bytes((frame[15] | 0x30,)) + frame[16:] if frame[102] == 0xDE else frame

    wire.change = congested
    wire.connect()
    wire.write()
    wire.finish()
    wire.lose = lambda nic, port, frame: nic == 0 and frame[102] in DATA
    wire.write(4096)
    wire.run(5_000_000)
    answers = [p for p in wire.packets(1, mrc.SACK) if p[mrc.SETH].pr]
    assert answers
    assert {p[mrc.SETH].m for p in answers} == {1}
    marked = sum(p.marked for p in wire.nics[0].qp_paths(wire.qpns[0]))
    assert (marked > 0) == (mark is ProbeMark.SKIP)
