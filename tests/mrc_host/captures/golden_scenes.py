"""What happens in each golden capture, packet by packet, in terms of ``make_golden``'s builders."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.contrib import roce
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Packet, Raw

from mrc_host.captures import scapy_layers as mrc
from mrc_host.captures.scapy_layers import AETH, METH, RETH, ImmDt, MrcBTH
from tests.mrc_host.captures.make_golden import (
    ADDRESS,
    BLOCK,
    CE,
    H1,
    H2,
    MESSAGE,
    MTU,
    QP1,
    QP2,
    RETRANSMIT,
    RKEY,
    TRIMMED,
    TRIMMED_LASTHOP,
    Capture,
    Step,
    control,
    ethernet,
    nack,
    plain4,
    plain6,
    probe,
    rc,
    request,
    response,
    sack,
    segment,
    srv6,
    transport_ack,
    trim,
    usids,
    write_message,
    write_only,
)

EV_A, EV_B, EV_C = 0x0003, 0x0405, 0x0002  # plane 0 uplink 3, plane 1 uplink 5, plane 0 uplink 2
EV_HIGH = 0x00070401  # a value whose high half is not zero


def opcodes() -> Iterator[Step]:
    first, middle, _, last = write_message(0x100, time=0x1000)
    yield Step(bytes(srv6(first, EV_A)), "C6 WRITE First")
    yield Step(bytes(srv6(middle, EV_B)), "C7 WRITE Middle")
    yield Step(bytes(srv6(last, EV_A)), "C8 WRITE Last: 233 bytes and 3 of padding")
    with_imm = segment(mrc.WRITE_LAST_IMM, 0x107, 768, 1001, msn=1, rqmsn=1, time=0x1007, imm=0xCAFE0001)
    yield Step(bytes(srv6(with_imm, EV_C)), "C9 WRITE Last with immediate")
    yield Step(bytes(srv6(write_only(0x108, msn=2, rqmsn=1), EV_B)), "CA WRITE Only")
    only_imm = write_only(0x109, imm=0xCAFE0002, msn=3, rqmsn=2, ack_req=1, se=1)
    yield Step(bytes(srv6(only_imm, EV_A)), "CB WRITE Only with immediate, acknowledge request, solicited event")
    yield Step(control(transport_ack(0x109, 4), EV_A), "D1 Transport ACK")
    yield Step(bytes(srv6(request(0x2001, 1, time=0x55), EV_A)), "D8 Endpoint Request")
    yield Step(control(response(0x2001, 1, time=0x55), EV_A), "D9 Endpoint Response")
    yield Step(control(sack(0x109, 0x109, EV_A, rcvd=9), EV_B), "DC Reliability SACK")
    yield Step(control(nack(0x07, 0x10A, EV_B), EV_B), "DD Reliability NACK")
    yield Step(bytes(srv6(probe(0x0042, time=0x77), EV_C)), "DE Reliability Probe")


def write_with_sacks() -> Iterator[Step]:
    packets = write_message(0xFFFFFE, time=0xFFFE)
    for packet in packets:
        packet[MrcBTH].psn &= 0xFFFFFF
        packet[mrc.TSETH].timestamp &= 0xFFFF
    yield Step(bytes(srv6(packets[0], EV_A)), "PSN FFFFFE")
    yield Step(bytes(srv6(packets[1], EV_B)), "PSN FFFFFF; this one will be lost")
    yield Step(bytes(srv6(packets[2], EV_C, ecn=CE)), "PSN 0, marked CE on its way: the PSN wraps")
    hole = sack(0xFFFFFE, 0x1000000, EV_C, m=1, sack_offset=1, bitmap=0b10, time=0, ooo=1, rcvd=2)
    yield Step(control(hole, EV_A), "SACK at once because of CE: SKIP_ONCE for that path, PSN FFFFFF is a hole")
    yield Step(bytes(srv6(packets[3], EV_A)), "PSN 1")
    last = sack(0xFFFFFE, 0x1000001, EV_A, sack_offset=1, bitmap=0b110, time=1, ooo=2, rcvd=3)
    yield Step(control(last, EV_B), "SACK: PSN 0 and 1 arrived, FFFFFF still missing")
    again = segment(mrc.WRITE_MIDDLE, 0xFFFFFF, MTU, 2 * MTU, time=2, rtx=1)
    yield Step(bytes(srv6(again, EV_C, dscp=RETRANSMIT)), "PSN FFFFFF again: RTX, another path, the retransmit class")
    whole = sack(1, -1, EV_C, sack_offset=1, time=2, rcvd=4)
    yield Step(control(whole, EV_A), "SACK because of RTX: all arrived, the cause lies before the cumulative PSN")
    yield Step(control(transport_ack(1, 1), EV_A), "Transport ACK: the message is carried out")
    slow = sack(1, 1, EV_A, m=2, time=2, rcvd=4, restore_cwnd=1, rcv_cwnd_pen=64)
    yield Step(control(slow, EV_B), "SACK of a slow responder: ALWAYS_SKIP, window penalty 64, restore_cwnd")


def trimmed() -> Iterator[Step]:
    packets = write_message(0x200, time=0x300)
    whole = bytes(srv6(packets[0], EV_A))
    yield Step(whole, "The packet before its trim")
    yield Step(trim(whole, keep=124, dscp=TRIMMED), "Trimmed at a switch: headers to the RETH are left")
    yield Step(control(nack(0x01, 0x200, EV_A, time=0x300), EV_A), "NACK TRIMMED")
    bare = trim(bytes(srv6(packets[1], EV_B)), keep=108, dscp=TRIMMED)
    yield Step(bare, "Trimmed to the least: up to the TSETH")
    yield Step(control(nack(0x01, 0x201, EV_B, time=0x301), EV_B), "NACK TRIMMED")
    last_hop = trim(bytes(srv6(packets[2], EV_C, hops=3)), keep=124, dscp=TRIMMED_LASTHOP)
    yield Step(last_hop, "Trimmed on the last hop, the uSID list is used up to the NIC's own")
    yield Step(control(nack(0x02, 0x202, EV_C, time=0x302), EV_A), "NACK TRIMMED_LASTHOP")
    again = segment(mrc.WRITE_FIRST, 0x200, 0, MTU, time=0x310, rtx=1)
    yield Step(bytes(srv6(again, EV_B, dscp=RETRANSMIT)), "The first one again, on another path")


def nacks() -> Iterator[Step]:
    for number, (reason, name) in enumerate(mrc.NACK_REASONS.items()):
        yield Step(control(nack(reason, 0x400 + number, EV_A + number, time=0x500), EV_A), f"NACK {name}")
    yield Step(control(nack(0x7F, 0x4FF, EV_HIGH, vendor=9), EV_B), "NACK of unknown reason with a vendor's byte")


def probes() -> Iterator[Step]:
    yield Step(bytes(srv6(probe(0x0001, time=0x600), EV_A)), "Probe 1 on plane 0")
    yield Step(control(sack(0x700, 0, EV_A, pr=1, probe_id=1, time=0x600), EV_A), "Its SACK: the path works")
    yield Step(bytes(srv6(probe(0x9ABC, time=0x601), EV_B, ecn=CE)), "Probe 9ABC on plane 1, marked CE")
    marked = sack(0x700, 0, EV_B, m=1, pr=1, probe_id=0x9ABC, time=0x601, bitmap=1 << 63 | 1, ooo=2)
    yield Step(control(marked, EV_B), "Its SACK: SKIP_ONCE; the bitmap's ends are set; the id's top bit is set")
    back = sack(0x700, 0, EV_C, pr=1, probe_id=2, sack_offset=-63, bitmap=(1 << 64) - 1, time=0x602)
    yield Step(control(back, EV_A), "A SACK whose bitmap ends at the cumulative PSN: a negative offset")


def endpoint() -> Iterator[Step]:
    down = request(0x3001, 0, port_mask=0b10, time=0x800)
    yield Step(bytes(srv6(down, EV_B)), "PORT_STATUS_UPDATE: port 0 is down, port 1 usable")
    yield Step(control(response(0x3001, 0, time=0x800), EV_B), "Its response")
    yield Step(bytes(srv6(request(0x3002, 1, time=0x801), EV_C)), "EV_PROBE")
    yield Step(control(response(0x3002, 1, time=0x801, service_time=2_500), EV_C), "Its response, after 2.5 us")


def modes() -> Iterator[Step]:
    for hop in range(4):
        yield Step(bytes(srv6(write_only(0x800 + hop), EV_B, hops=hop)), f"SRv6, after {hop} of 4 switches")
    with_srh = srv6(write_only(0x804), EV_A)
    outer = with_srh[IPv6]
    payload = outer.payload
    outer.remove_payload()
    address = mrc.usid_address(BLOCK, usids(H1, H2, EV_A))
    header = IPv6ExtHdrSegmentRouting(addresses=[H2.address, address], segleft=1, lastentry=1, nh=41)
    yield Step(bytes(ethernet(H1, EV_A) / outer / header / payload), "SRv6 with a segment routing header")
    yield Step(plain6(write_only(0x805), EV_HIGH), "Structured EV: both halves, plain IPv6")
    yield Step(plain4(write_only(0x806), EV_B), "EV in the UDP source port alone, over IPv4")
    yield Step(plain4(write_only(0x807), EV_B, dport=4971), "The same on UDP port 4971")
    yield Step(bytes(srv6(write_only(0x808), 53)), "An EV whose UDP source port is that of DNS")
    without = MrcBTH(opcode=mrc.WRITE_ONLY, dest_qp=QP2, psn=0x809) / METH(msn=9)
    without /= RETH(address=ADDRESS, rkey=RKEY, length=8) / Raw(MESSAGE[:8])
    yield Step(bytes(srv6(without, EV_A)), "A write without TSETH")


def roce_baseline() -> Iterator[Step]:
    def reth(length: int) -> Packet:
        return RETH(address=ADDRESS, rkey=RKEY, length=length)

    def ack(psn: int, syndrome: int) -> bytes:
        bth = roce.BTH(opcode=roce.opcode("RC", "ACKNOWLEDGE")[0], dqpn=QP1, psn=psn)
        return plain6(bth / AETH(syndrome=syndrome, msn=1), 0xC001, source=H2)

    ev = 0xC000
    data = [Raw(MESSAGE[i : i + MTU]) for i in range(0, 1000, MTU)]
    yield Step(plain6(rc("RDMA_WRITE_FIRST", 0) / reth(768) / data[0], ev), "WRITE First")
    yield Step(plain6(rc("RDMA_WRITE_MIDDLE", 1) / data[1], ev), "WRITE Middle: no RETH")
    yield Step(plain6(rc("RDMA_WRITE_LAST", 2, ack=1) / data[2], ev), "WRITE Last, acknowledge request")
    yield Step(ack(2, 0x1F), "ACK")
    last = rc("RDMA_WRITE_LAST_WITH_IMMEDIATE", 3) / ImmDt(data=0xCAFE0003) / data[2]
    yield Step(plain6(last, ev), "WRITE Last with immediate")
    yield Step(plain6(rc("RDMA_WRITE_ONLY", 5) / reth(256) / data[0], ev), "WRITE Only; PSN 4 is missing")
    yield Step(ack(4, 0x60), "NAK: PSN sequence error")
    only = rc("RDMA_WRITE_ONLY_WITH_IMMEDIATE", 4) / reth(256) / ImmDt(data=0xCAFE0004) / data[0]
    yield Step(plain4(only, ev), "WRITE Only with immediate, over IPv4")


def damaged() -> Iterator[Step]:
    flipped = bytearray(bytes(srv6(write_only(0x900), EV_A)))
    flipped[-20] ^= 0x10
    yield Step(bytes(flipped), "A bit of the payload is wrong: the ICRC does not match")
    short = sack(0x900, 0x900, EV_A)
    short[MrcBTH].remove_payload()
    yield Step(control(short / Raw(b"\0" * 20), EV_A), "A SACK that is 16 bytes short")
    long = nack(0x01, 0x900, EV_A) / Raw(b"\xff" * 4)
    yield Step(control(long, EV_A), "A NACK that is 4 bytes long")
    yield Step(bytes(srv6(MrcBTH(opcode=0xC0, dest_qp=QP2), EV_A)), "An opcode that does not exist")
    empty = write_only(0x901)
    empty[RETH].remove_payload()
    yield Step(bytes(srv6(empty, EV_B)), "A write without a byte of payload")
    cut = MrcBTH(opcode=mrc.WRITE_ONLY, dest_qp=QP2, ts=1) / Raw(b"\0" * 6)
    yield Step(bytes(srv6(cut, EV_B)), "A write that ends within its headers")
    wrong = write_only(0x902)
    wrong[RETH].length = 65
    yield Step(bytes(srv6(wrong, EV_A)), "A WRITE Only whose RETH announces more than it carries")
    yield Step(bytes(srv6(Raw(b"\xca\0\xff"), EV_A)), "UDP on the MRC port with three bytes")


_SHOWS = {
    opcodes: "one packet of each of the twelve opcodes, in SRv6 mode",
    write_with_sacks: "a WRITE of four packets across the PSN's wrap: one lost, one marked, SACKs, the retransmission",
    trimmed: "packets trimmed to 124 and 108 bytes after Ethernet, also on the last hop, and their NACKs",
    nacks: "a NACK of every reason, and one of an unknown reason",
    probes: "reliability probes and their SACKs, with signed and unsigned ends of the number ranges",
    endpoint: "endpoint requests and responses: PORT_STATUS_UPDATE and EV_PROBE",
    modes: "the uSID list at each hop, an SRH, plain IPv6 and IPv4, port 4971, a write without TSETH",
    roce_baseline: "the RoCEv2 RC baseline: writes with and without immediate, ACK and NAK",
    damaged: "packets that a receiver must drop: wrong ICRC, wrong lengths, unknown opcode",
}
CAPTURES = {scene.__name__: Capture(shows, scene) for scene, shows in _SHOWS.items()}
