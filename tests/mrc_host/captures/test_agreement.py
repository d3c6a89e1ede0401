"""Struct codec, scapy layers and Wireshark dissector read the golden captures alike, field by field."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrc_host.captures import scapy_layers as mrc
from mrc_host.config import NicConfig, PortConfig
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.wire import control, encap, headers
from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.canonical import codec_fields, scapy_fields, transport_of
from tests.mrc_host.captures.make_golden import BLOCK, GOLDEN, captures
from tests.mrc_host.captures.tshark import needs_tshark
from tests.mrc_host.datapath.module import native

SOUND = sorted(set(captures()) - {"damaged", "roce_baseline"})

# what the dissector adds to the fields of the packet itself
DERIVED = {
    "mrc.ev", "mrc.ev.plane", "mrc.ev.uplink", "mrc.role", "mrc.trimmed", "mrc.srv6.block", "mrc.srv6.usid",
    "mrc.payload", "mrc.payload.length", "mrc.padding", "mrc.icrc.status", "mrc.icrc.expected",
    "mrc.seth.psn", "mrc.seth.received",
}  # fmt: skip


def frames(name: str) -> list[bytes]:
    return [step.frame for step in captures()[name].steps()]


def trimmed(frame: bytes) -> bool:
    return mrc.is_trimmed(Ether(frame)[UDP])


# ---- scapy and the struct codec --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOUND)
def test_codec_reads_what_scapy_reads(name: str) -> None:
    for frame in frames(name):
        body, _ = transport_of(frame)
        by_codec = codec_fields(body, trimmed=trimmed(frame))
        by_scapy = scapy_fields(frame)
        assert by_codec == {field: by_scapy[field] for field in by_codec}


@pytest.mark.parametrize("name", SOUND)
def test_codec_computes_the_same_icrc(name: str) -> None:
    for frame in frames(name):
        packet = Ether(frame)
        if trimmed(frame):
            continue
        body, start = transport_of(frame)
        inner = frame[start - (28 if isinstance(mrc.ip_layers(packet)[-1], IP) else 48) : start]
        assert native().icrc(inner, body[:-4]) == packet[mrc.MrcBTH].icrc


@pytest.mark.parametrize("name", SOUND)
def test_codec_writes_control_packets_byte_for_byte(name: str) -> None:
    for frame in frames(name):
        body, at = transport_of(frame)[0], headers.BTH_LENGTH
        packet = Ether(frame)
        bth = packet[mrc.MrcBTH]
        if bth.opcode == mrc.SACK:
            written = control.pack_sack(bth.dest_qp, control.parse_sack(body, at))
        elif bth.opcode == mrc.NACK and packet[mrc.NETH].vendor == 0:
            written = control.pack_nack(bth.dest_qp, control.parse_nack(body, at))
        elif bth.opcode == mrc.PROBE:
            written = control.pack_probe(bth.dest_qp, control.parse_probe(body, at))
        elif bth.opcode == mrc.ENDPOINT_REQUEST:
            written = control.pack_endpoint_request(bth.psn, control.parse_endpoint_request(body, at))
        elif bth.opcode == mrc.ENDPOINT_RESPONSE:
            written = control.pack_endpoint_response(bth.psn, control.parse_endpoint_response(body, at))
        elif bth.opcode == mrc.TRANSPORT_ACK:
            aeth = packet[mrc.AETH]
            written = headers.pack_aeth(bth.opcode, bth.dest_qp, bth.psn, aeth.syndrome, aeth.msn)
        else:
            continue
        assert written == body[:-4]


def nic_config(ethernet: Ether, source: str, usid: int, *, plane: int, receiving: bool) -> NicConfig:
    """A NIC that would send, or take, this very frame on its only port."""
    ends = [bytes.fromhex(mac.replace(":", "")) for mac in (ethernet.src, ethernet.dst)]
    mac, gateway = reversed(ends) if receiving else ends
    port = PortConfig(plane=plane, mac=mac, gateway_mac=gateway, usid=usid, rate_bps=10**9, interface="eth0")
    return NicConfig(
        name="h", address=IPv6Address(source).packed, block=BLOCK, ports=(port,), destinations=(), mtu=4500
    )


@pytest.mark.parametrize("name", SOUND)
def test_codec_reads_the_encapsulation(name: str) -> None:
    for frame in frames(name):
        packet = Ether(frame)
        ips = mrc.ip_layers(packet)
        if isinstance(ips[0], IP) or packet[UDP].dport != mrc.UDP_PORT or ips[0].nh not in (17, 41):
            continue
        usid = mrc.usid_list(ips[0].dst)[1][0] if len(ips) == 2 else 0
        config = nic_config(packet[Ether], ips[-1].dst, usid, plane=0, receiving=True)
        flow = NativeDatapath(config).receive(0, frame)
        assert isinstance(flow, encap.Flow), flow
        assert flow.ev == mrc.entropy_value(packet)
        assert (flow.dscp, flow.ce) == (mrc.dscp(ips[0]), ips[0].tc & 3 == 3)
        assert (flow.trimmed, flow.srv6) == (trimmed(frame), len(ips) == 2)
        assert flow.source == IPv6Address(ips[-1].src).packed
        assert flow.start == transport_of(frame)[1]
        assert flow.end == len(frame) - (0 if flow.trimmed else 4)


@pytest.mark.parametrize("name", SOUND)
def test_codec_writes_the_encapsulation_byte_for_byte(name: str) -> None:
    for frame in frames(name):
        packet = Ether(frame)
        ips = mrc.ip_layers(packet)
        body, _ = transport_of(frame)
        if trimmed(frame) or isinstance(ips[0], IP) or ips[0].hlim != 64 or ips[0].nh not in (17, 41):
            continue
        ev, dscp, ecn = mrc.entropy_value(packet), mrc.dscp(ips[0]), ips[0].tc & 3
        target = IPv6Address(ips[-1].dst).packed
        config = nic_config(packet[Ether], ips[-1].src, 0, plane=0, receiving=False)
        label, sport = ev >> 16, ev & 0xFFFF
        outer = IPv6Address(ips[0].dst).packed if len(ips) == 2 else b""
        ethernet, settings = config.ports[0].gateway_mac + config.ports[0].mac, config.settings
        template = native().Template(
            ethernet, outer, b"", 0, config.address, target, label, sport, settings.udp_port, dscp, ecn, 64
        )
        assert native().frame(template, body[:-4]) == frame


def test_codec_reads_the_roce_baseline() -> None:
    layouts = {0x06: headers.rc_first, 0x0A: headers.rc_first, 0x0B: headers.rc_only_imm, 0x09: headers.rc_last_imm}
    for frame in frames("roce_baseline"):
        bth = Ether(frame)[roce.BTH]
        body, _ = transport_of(frame)
        values = list(layouts.get(bth.opcode, headers.bth).unpack_from(body, 0))
        assert values[:4] == [bth.opcode, 0, 0xFFFF, bth.dqpn]
        assert values[4] == bth.ackreq << 31 | bth.psn
        expected = []
        if bth.haslayer(mrc.RETH):
            expected += [bth[mrc.RETH].address, bth[mrc.RETH].rkey, bth[mrc.RETH].length]
        if bth.haslayer(mrc.ImmDt):
            expected.append(bth[mrc.ImmDt].data)
        assert values[5:] == expected


# ---- scapy and the dissector -----------------------------------------------------------------------------------------


def as_scapy_has_it(name: str, text: str) -> int | bytes:
    return bytes.fromhex(text.replace(":", "")) if name == "mrc.eeth.reserved3" else tshark.number(text)


@needs_tshark
@pytest.mark.parametrize("name", SOUND)
def test_dissector_reads_what_scapy_reads(name: str) -> None:
    shown = tshark.fields(GOLDEN / f"{name}.pcapng", tshark.known_fields())
    assert len(shown) == len(frames(name))
    for frame, packet in zip(frames(name), shown, strict=True):
        by_dissector = {
            field: as_scapy_has_it(field, values[0]) for field, values in packet.items() if field not in DERIVED
        }
        assert by_dissector == scapy_fields(frame)


@needs_tshark
@pytest.mark.parametrize("name", SOUND)
def test_dissector_derives_what_scapy_derives(name: str) -> None:
    shown = tshark.fields(GOLDEN / f"{name}.pcapng", sorted(DERIVED))
    for frame, packet in zip(frames(name), shown, strict=True):
        parsed = Ether(frame)
        ips = mrc.ip_layers(parsed)
        ev = mrc.entropy_value(parsed)
        assert [tshark.number(value) for value in packet["mrc.ev"]] == [ev]
        assert tshark.number(packet["mrc.ev.plane"][0]) == ev >> 10 & 7
        assert tshark.number(packet["mrc.ev.uplink"][0]) == ev & 0x3FF
        assert ("mrc.trimmed" in packet) is trimmed(frame)
        block, usids = mrc.usid_list(ips[0].dst) if len(ips) == 2 else (None, ())
        assert tuple(tshark.number(value) for value in packet.get("mrc.srv6.usid", ())) == usids
        assert [tshark.number(value) for value in packet.get("mrc.srv6.block", ())] == ([block] if usids else [])
        assert packet.get("mrc.icrc.status") == (None if trimmed(frame) else ["1"])
        assert "mrc.icrc.expected" not in packet
        if parsed.haslayer(mrc.SETH):
            seth = parsed[mrc.SETH]
            assert expanded(packet["mrc.seth.received"][0]) == seth.received()
            cause = None if seth.pr else [str((seth.cack_psn + seth.ack_psn_offset) & 0xFFFFFF)]
            assert packet.get("mrc.seth.psn") == cause
        payload = packet.get("mrc.payload", [""])[0].replace(":", "")
        padding = packet.get("mrc.padding", [""])[0].replace(":", "")
        after_headers = bytes(parsed.lastlayer()) if parsed.haslayer("Raw") else b""
        assert bytes.fromhex(payload + padding) == after_headers
        assert len(padding) // 2 == parsed[mrc.MrcBTH].pad


def expanded(text: str) -> list[int]:
    """The PSNs in a list such as ``5 16777214-1``, in order."""
    found: list[int] = []
    for run in text.split():
        first, _, last = run.partition("-")
        count = (int(last or first) - int(first)) & 0xFFFFFF
        found += [(int(first) + i) & 0xFFFFFF for i in range(count + 1)]
    return found


@needs_tshark
def test_roce_packets_use_wiresharks_own_dissector() -> None:
    names = {
        "infiniband.bth.opcode": lambda p: p.opcode, "infiniband.bth.destqp": lambda p: p.dqpn,
        "infiniband.bth.a": lambda p: p.ackreq, "infiniband.bth.psn": lambda p: p.psn,
        "infiniband.reth.va": lambda p: p[mrc.RETH].address if p.haslayer(mrc.RETH) else None,
        "infiniband.reth.r_key": lambda p: p[mrc.RETH].rkey if p.haslayer(mrc.RETH) else None,
        "infiniband.reth.dmalen": lambda p: p[mrc.RETH].length if p.haslayer(mrc.RETH) else None,
        "infiniband.aeth.syndrome": lambda p: p[mrc.AETH].syndrome if p.haslayer(mrc.AETH) else None,
        "infiniband.aeth.msn": lambda p: p[mrc.AETH].msn if p.haslayer(mrc.AETH) else None,
        "infiniband.invariant.crc": lambda p: p.icrc,
    }  # fmt: skip
    shown = tshark.fields(GOLDEN / "roce_baseline.pcapng", [*names, "infiniband.immdt", "mrc.bth.opcode"])
    for frame, packet in zip(frames("roce_baseline"), shown, strict=True):
        bth = Ether(frame)[roce.BTH]
        assert "mrc.bth.opcode" not in packet
        for name, value in names.items():
            values = [tshark.number(text) for text in packet.get(name, ())]
            assert values == ([] if value(bth) is None else [value(bth)]), name
        immediate = {f"{bth[mrc.ImmDt].data:08x}"} if bth.haslayer(mrc.ImmDt) else set()
        assert set(packet.get("infiniband.immdt", ())) == immediate


def test_golden_captures_contain_every_case_tested_here() -> None:
    packets = [Ether(frame) for name in SOUND for frame in frames(name)]
    assert sum(packet.haslayer(IPv6) and len(mrc.ip_layers(packet)) == 2 for packet in packets) > 30
    assert sum(mrc.is_trimmed(packet) for packet in packets) == 3
