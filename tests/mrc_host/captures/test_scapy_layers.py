"""The scapy layers against bytes written by hand from docs/protocol.md §1, and against scapy's own RoCE layer."""

from __future__ import annotations

import pytest
from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mrc_host.captures import scapy_layers as mrc
from mrc_host.captures.scapy_layers import (
    AETH,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    CCState,
    ImmDt,
    MrcBTH,
)  # fmt: skip
from mrc_host.config import EvOrder
from tests.mrc_host.captures import make_golden as golden

# Each: a header with a value in every field, and its bytes by docs/protocol.md §1.5 to §1.9.
BY_HAND: list[tuple[Packet, str]] = [
    (
        MrcBTH(opcode=0xCB, se=1, m=0, pad=2, tver=0, pkey=0x8001, dest_qp=0x123456, ack_req=1, rtx=1, psn=0xABCDEF),
        "cb 60 8001 00 123456 a0 abcdef",
    ),
    (MrcBTH(opcode=0xC6, se=0, m=1, r=1, ts=1, psn=1), "c6 80 ffff 00 000000 50 000001"),
    (METH(rqmsn=0x0102, msn=0x0304), "0102 0304"),
    (TSETH(timestamp=0xBEEF, unit=1), "beef 8001"),
    (TSETH(timestamp=1, unit=0), "0001 0001"),
    (RETH(address=0x0102030405060708, rkey=0x11223344, length=0x01000000), "0102030405060708 11223344 01000000"),
    (ImmDt(data=0xCAFEBABE), "cafebabe"),
    (
        SETH(m=1, pr=0, ack_psn_offset=-2, ev=0x00010002, spdcid=3, dpdcid=4, cack_psn=0x050607, mpr=8,
             sack_offset=-63, bitmap=1),
        "0020 fffe 00010002 0003 0004 00 050607 00 08 ffc1 0000000000000001",
    ),
    (
        SETH(m=2, pr=1, probe_id=0x9ABC, cack_psn=1, sack_offset=1, bitmap=1 << 63),
        "0042 9abc 00000000 0000 0000 00 000001 00 00 0001 8000000000000000",
    ),
    (
        CCState(timestamp=0x1234, ooo_count=0x7FFF, restore_cwnd=1, rcv_cwnd_pen=0x40, rcvd_bytes=0x010203),
        "1234 7fff c0 010203",
    ),
    (
        NETH(reason=0x0B, vendor=7, ev=0x01020304, spdcid=5, dpdcid=6, nack_psn=0x070809, timestamp=0x0A0B),
        "0000 0b 07 01020304 0005 0006 00 070809 20 00 0a0b",
    ),
    (
        PETH(vendor=1, probe_id=0x0203, spdcid=4, dpdcid=5, timestamp=0x0607, unit=1),
        "000000 01 0203 0000 0004 0005 0607 8001",
    ),
    (ERTH(operation=1, vendor=2, port_mask=0x80000001, timestamp=3), "0001 00 02 80000001 00000000 0003 0001"),
    (EETH(operation=1, timestamp=0x0102), "0004" + "00" * 26 + "0102" + "00" * 6),
    (AETH(syndrome=0x1F, msn=0x010203), "1f 010203"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "text"), BY_HAND, ids=lambda value: getattr(value, "name", ""))
def test_headers_match_handwritten_bytes(header: Packet, text: str) -> None:
    expected = bytes.fromhex(text)
    if isinstance(header, MrcBTH):
        expected += bytes(4)  # the ICRC, which needs the layers below
    assert bytes(header) == expected
    again = type(header)(expected)
    for name in header.fields:
        assert again.getfieldval(name) == header.getfieldval(name), name


# The table of docs/protocol.md §1.1: bytes on the wire with Ethernet and its FCS, which captures do not have.
@pytest.mark.parametrize(
    ("transport", "size"),
    [
        (golden.write_only(1), 146 + 64),
        (golden.write_only(1, imm=1), 150 + 64),
        (golden.sack(1, 1, 0), 158),
        (golden.nack(1, 1, 0), 142),
        (golden.probe(1, time=1), 138),
        (golden.request(1, 1), 138),
        (golden.response(1, 1), 158),
    ],
)
def test_packet_sizes_match_the_protocol_page(transport: Packet, size: int) -> None:
    assert len(bytes(golden.srv6(transport, 0))) + 4 == size


@pytest.mark.parametrize("ip", [IPv6(src="fd00::1", dst="fd00::2", fl=5, tc=0xB8, hlim=3), IP(src="10.0.0.1", tos=3)])
def test_the_icrc_matches_scapys_roce_layer(ip: Packet) -> None:
    bth = roce.BTH(opcode=0x0A, dqpn=7, psn=9, fecn=1, becn=1)
    packet = Ether(bytes(Ether() / ip / UDP(sport=77, chksum=0) / bth / RETH(length=4) / Raw(b"data")))
    assert isinstance(packet[UDP].payload, roce.BTH)
    assert mrc.icrc_is_right(packet)
    packet[Raw].load = b"dbta"
    assert not mrc.icrc_is_right(Ether(bytes(packet)))


def test_the_icrc_ignores_only_fields_that_switches_change() -> None:
    packet = Ether(bytes(golden.srv6(golden.write_only(1), 0x405)))
    ip = mrc.ip_layers(packet)[-1]
    ip.tc, ip.hlim, ip.fl = 0xFF, 1, 0xABCDE
    packet[UDP].chksum = 0x1234
    packet[MrcBTH].reserved = 0xC0
    assert mrc.icrc_is_right(Ether(bytes(packet)))
    for layer, name in ((UDP, "sport"), (MrcBTH, "psn"), (METH, "msn"), (RETH, "rkey")):
        changed = packet.copy()
        changed[layer].setfieldval(name, changed[layer].getfieldval(name) ^ 1)
        assert not mrc.icrc_is_right(Ether(bytes(changed))), name


def test_a_trimmed_packet_has_no_icrc_and_keeps_its_remaining_bytes() -> None:
    whole = bytes(golden.srv6(golden.write_only(0x42), 3))
    for keep, last in ((124, RETH), (108, TSETH)):
        packet = Ether(golden.trim(whole, keep=keep, dscp=12))
        assert mrc.is_trimmed(packet)
        assert packet[MrcBTH].psn == 0x42
        assert packet[MrcBTH].getfieldval("icrc") is None
        assert isinstance(packet.lastlayer(), last)
    assert not mrc.is_trimmed(Ether(whole))


@pytest.mark.parametrize("sport", [0, 53, 4791, 4971, 0xFFFF])
@pytest.mark.parametrize("dport", [4791, 4971])
def test_any_source_port_is_decoded(sport: int, dport: int) -> None:
    frame = bytes(golden.srv6(golden.write_only(1), 3))
    packet = Ether(frame)
    packet[UDP].sport, packet[UDP].dport = sport, dport
    assert Ether(bytes(packet))[UDP].payload.opcode == mrc.WRITE_ONLY


def test_usid_lists_convert_to_addresses_and_back() -> None:
    address = mrc.usid_address(0xFC000000, [0x2401, 0x4405, 0x2402, 0x6403])
    assert address == "fc00:0:2401:4405:2402:6403::"
    assert mrc.usid_list(address) == (0xFC000000, (0x2401, 0x4405, 0x2402, 0x6403))
    assert [mrc.describe_usid(usid) for usid in (0x2401, 0x4405, 0x6403)] == ["T0@p1 #1", "T1@p1 #5", "NIC@p1 #3"]
    with pytest.raises(ValueError, match="1 to 6"):
        mrc.usid_address(0xFC000000, [1] * 7)


def test_entropy_value_in_both_orders() -> None:
    packet = Ether(golden.plain6(golden.write_only(1), 0x00070401))
    assert mrc.entropy_value(packet) == 0x00070401
    assert mrc.entropy_value(packet, EvOrder.HIGH_IN_SOURCE_PORT) == 0x04010007
    assert mrc.entropy_value(Ether(golden.plain4(golden.write_only(1), 0x0405))) == 0x0405


def test_bitmaps_are_shown_as_psns() -> None:
    seth = SETH(cack_psn=0xFFFFFE, sack_offset=1, bitmap=0b111)
    assert seth.received() == [0xFFFFFF, 0, 1]
