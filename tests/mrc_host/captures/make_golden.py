"""Writes the golden captures: ``python -m tests.mrc_host.captures.make_golden`` (from the project's root).

Everything is fixed: two NICs, h1 (T0 1, downlink 0) and h2 (T0 2, downlink 3), two planes, queue pairs 0x11 and 0x22,
a path MTU of 256 bytes so that the files stay small. ``CAPTURES`` maps a file name to what it shows and to a function
that makes its packets; README.md is written from the same table. Every packet carries a comment that Wireshark shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter

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
)

GOLDEN = Path(__file__).with_name("golden")

BLOCK = 0xFC000000
MTU = 256
QP1, QP2 = 0x11, 0x22  # queue pairs of h1 and h2
RKEY, ADDRESS = 0x00ABCDEF, 0x0000_7F00_0010_0000
MESSAGE = bytes((7 * i + 3) & 0xFF for i in range(1001))
TRIMMABLE, RETRANSMIT, TRIMMED, TRIMMED_LASTHOP, CONTROL = 4, 8, 12, 16, 46
ECT0, CE = 2, 3


class Nic(NamedTuple):
    """What the captures need to know of one NIC."""

    t0: int
    downlink: int
    address: str
    address4: str

    def mac(self, plane: int) -> str:
        return f"02:3{plane}:00:{self.t0:02x}:00:{plane:02x}"


H1 = Nic(1, 0, "fd00:6d:7263:1::1", "10.1.0.1")
H2 = Nic(2, 3, "fd00:6d:7263:2::4", "10.2.0.4")


class Step(NamedTuple):
    """One packet of a capture and what is to be seen in it."""

    frame: bytes
    comment: str


def usids(source: Nic, target: Nic, ev: int) -> list[int]:
    """Path over the T1 that `ev` names: T0, T1, T0, NIC (docs/protocol.md §5)."""
    plane, uplink = ev >> 10 & 7, ev & 0x3FF
    t0 = 0x2000 | plane << 10
    return [t0 | source.t0, 0x4000 | plane << 10 | uplink, t0 | target.t0, 0x6000 | plane << 10 | target.downlink]


def ethernet(source: Nic, ev: int) -> Packet:
    plane = ev >> 10 & 7
    return Ether(src=source.mac(plane), dst=f"02:1{plane}:00:{source.t0:02x}:00:01")


def udp(ev: int, *, dport: int = 4791) -> Packet:
    return UDP(sport=ev & 0xFFFF, dport=dport, chksum=0)


def inner(source: Nic, target: Nic, ev: int, dscp: int, ecn: int) -> Packet:
    return IPv6(src=source.address, dst=target.address, fl=ev >> 16, tc=dscp << 2 | ecn, hlim=64)


def srv6(
    transport: Packet, ev: int, *, source: Nic = H1, dscp: int = TRIMMABLE, ecn: int = ECT0, hops: int = 0
) -> Packet:
    """`transport` in SRv6 mode, as seen after `hops` switches: that many uSIDs are shifted out."""
    target = H2 if source is H1 else H1
    path = mrc.usid_address(BLOCK, usids(source, target, ev)[hops:])
    outer = IPv6(src=source.address, dst=path, tc=dscp << 2 | ecn, hlim=64 - hops)
    return ethernet(source, ev) / outer / inner(source, target, ev, dscp, ecn) / udp(ev) / transport


def control(transport: Packet, ev: int, *, source: Nic = H2) -> bytes:
    """A packet of the control class, from h2 unless `source` says otherwise."""
    return bytes(srv6(transport, ev, source=source, dscp=CONTROL, ecn=0))


def segment(
    opcode: int, psn: int, offset: int, end: int, *,
    msn: int = 0, rqmsn: int = 0, time: int = 0, imm: int | None = None, **bth: int,
) -> Packet:  # fmt: skip
    """One packet of the WRITE of MESSAGE, padded to four bytes."""
    payload = MESSAGE[offset:end]
    pad = -len(payload) % 4
    packet = MrcBTH(opcode=opcode, dest_qp=QP2, psn=psn, ts=1, pad=pad, **bth) / METH(rqmsn=rqmsn, msn=msn)
    packet /= TSETH(timestamp=time, unit=1) / RETH(address=ADDRESS + offset, rkey=RKEY, length=len(MESSAGE))
    if imm is not None:
        packet /= ImmDt(data=imm)
    return packet / Raw(payload + b"\0" * pad)


def write_message(first_psn: int, time: int) -> list[Packet]:
    """The WRITE of MESSAGE: first, two in the middle, last."""
    bounds = [*range(0, len(MESSAGE), MTU), len(MESSAGE)]
    opcodes = [mrc.WRITE_FIRST, mrc.WRITE_MIDDLE, mrc.WRITE_MIDDLE, mrc.WRITE_LAST]
    return [segment(opcode, first_psn + i, bounds[i], bounds[i + 1], time=time + i) for i, opcode in enumerate(opcodes)]


def write_only(psn: int, *, imm: int | None = None, msn: int = 1, rqmsn: int = 0, time: int = 0, **bth: int) -> Packet:
    """A message of 64 bytes in one packet."""
    opcode = mrc.WRITE_ONLY if imm is None else mrc.WRITE_ONLY_IMM
    packet = MrcBTH(opcode=opcode, dest_qp=QP2, psn=psn, ts=1, **bth) / METH(rqmsn=rqmsn, msn=msn)
    packet /= TSETH(timestamp=time, unit=1) / RETH(address=ADDRESS + 0x1000, rkey=RKEY, length=64)
    return (packet if imm is None else packet / ImmDt(data=imm)) / Raw(MESSAGE[:64])


def sack(
    cack: int, cause: int, ev: int, *,
    m: int = 0, pr: int = 0, probe_id: int = 0, sack_offset: int = 1, bitmap: int = 0,
    time: int = 0, ooo: int = 0, rcvd: int = 0, **cc: int,
) -> Packet:  # fmt: skip
    """A SACK from h2: `cause` is the PSN that triggered it."""
    what = {"probe_id": probe_id} if pr else {"ack_psn_offset": cause - cack}
    seth = SETH(
        m=m, pr=pr, ev=ev, spdcid=QP2, dpdcid=QP1, cack_psn=cack, mpr=8, sack_offset=sack_offset, bitmap=bitmap, **what
    )
    state = CCState(timestamp=time, ooo_count=ooo, rcvd_bytes=rcvd, **cc)
    return MrcBTH(opcode=mrc.SACK, dest_qp=QP1, psn=cack & 0xFFFFFF) / seth / state


def nack(reason: int, psn: int, ev: int, *, time: int = 0, vendor: int = 0) -> Packet:
    """A NACK from h2."""
    neth = NETH(reason=reason, vendor=vendor, ev=ev, spdcid=QP2, dpdcid=QP1, nack_psn=psn, timestamp=time)
    return MrcBTH(opcode=mrc.NACK, dest_qp=QP1, psn=psn) / neth


def transport_ack(psn: int, msn: int, syndrome: int = 0x1F) -> Packet:
    """A transport ACK from h2: message `msn` is carried out."""
    return MrcBTH(opcode=mrc.TRANSPORT_ACK, dest_qp=QP1, psn=psn) / AETH(syndrome=syndrome, msn=msn)


def probe(probe_id: int, *, time: int) -> Packet:
    """A reliability probe from h1."""
    peth = PETH(probe_id=probe_id, spdcid=QP1, dpdcid=QP2, timestamp=time, unit=1)
    return MrcBTH(opcode=mrc.PROBE, dest_qp=QP2) / peth


def request(request_id: int, operation: int, *, port_mask: int = 0, time: int = 0) -> Packet:
    erth = ERTH(operation=operation, port_mask=port_mask, timestamp=time, unit=1)
    return MrcBTH(opcode=mrc.ENDPOINT_REQUEST, dest_qp=mrc.ENDPOINT_QPN, psn=request_id) / erth


def response(request_id: int, operation: int, *, time: int = 0, service_time: int = 0) -> Packet:
    eeth = EETH(operation=operation, timestamp=time, service_time=service_time)
    return MrcBTH(opcode=mrc.ENDPOINT_RESPONSE, dest_qp=mrc.ENDPOINT_QPN, psn=request_id) / eeth


def trim(frame: bytes, *, keep: int, dscp: int) -> bytes:
    """What a trimming switch leaves of an SRv6 frame: `keep` bytes after Ethernet and the outer DSCP changed."""
    outer = bytearray(frame[: 14 + keep])
    outer[14] = 0x60 | dscp >> 2
    outer[15] = (dscp & 3) << 6 | outer[15] & 0x3F
    return bytes(outer)


def rc(opcode: str, psn: int, *, ack: int = 0) -> Packet:
    """BTH of the RoCEv2 baseline, from h1."""
    return roce.BTH(opcode=roce.opcode("RC", opcode)[0], dqpn=QP2, psn=psn, ackreq=ack)


def plain6(transport: Packet, ev: int, *, source: Nic = H1, dscp: int = 0, ecn: int = ECT0) -> bytes:
    target = H2 if source is H1 else H1
    return bytes(ethernet(source, ev) / inner(source, target, ev, dscp, ecn) / udp(ev) / transport)


def plain4(transport: Packet, ev: int, *, source: Nic = H1, dport: int = 4791) -> bytes:
    target = H2 if source is H1 else H1
    ip = IP(src=source.address4, dst=target.address4, tos=ECT0, id=1, flags="DF")
    return bytes(ethernet(source, ev) / ip / udp(ev, dport=dport) / transport)


class Capture(NamedTuple):
    """One file: what it shows, and the function that makes its packets."""

    shows: str
    steps: Callable[[], Iterator[Step]]


def captures() -> dict[str, Capture]:
    """All golden captures by file name without suffix."""
    from tests.mrc_host.captures import golden_scenes  # it is written in terms of this module

    return golden_scenes.CAPTURES


def write(name: str, capture: Capture, directory: Path) -> None:
    """Write one pcapng file; packets are 10 us apart."""
    writer = PcapNgWriter(str(directory / f"{name}.pcapng"))
    for number, step in enumerate(capture.steps()):
        packet = Ether(step.frame[:14]) / Raw(step.frame[14:])
        packet.comment = step.comment.encode()
        # half a microsecond more, because the writer cuts the fraction off
        packet.time = 1_000_000 + number * 1e-5 + 5e-7
        writer.write(packet)
    writer.close()


def readme() -> str:
    """README.md of the golden captures."""
    lines = [
        "# Golden captures",
        "",
        "Written by `python -m tests.mrc_host.captures.make_golden`; the struct codec, the scapy layers and the",
        "Wireshark dissector must read them alike. Each packet has a comment. How to open them: docs/captures.md.",
        "",
    ]
    return "\n".join([*lines, *(f"- `{name}.pcapng`: {capture.shows}" for name, capture in captures().items()), ""])


def main() -> None:
    """Write every capture and the README."""
    GOLDEN.mkdir(exist_ok=True)
    for name, capture in captures().items():
        write(name, capture, GOLDEN)
    (GOLDEN / "README.md").write_text(readme())


if __name__ == "__main__":
    main()
