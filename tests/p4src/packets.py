"""Packets for tests of the P4 program, as bytes, and what a switch may change of them.

Built with struct alone, so that a test says every bit of what it sends and expects.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass

BLOCK = 0xFC00_0000
ETHERNET, IPV6, UDP = 14, 40, 8
NIC_A = 0xFD00_006D_7263_0000 << 64 | 1
NIC_B = 0xFD00_006D_7263_0001 << 64 | 1
SWITCH_MAC = 0x02_0000_0000_10
DMAC = {port: 0x02_AA00_0000_00 | port for port in range(1, 8)}  # of the neighbour at a port
SMAC = {port: 0x02_BB00_0000_00 | port for port in range(1, 8)}  # of the port itself
MRC_PORT = 4791


def usids(*hops: int) -> int:
    """A uSID list of up to six hops."""
    value = BLOCK
    for position in range(6):
        value = value << 16 | (hops[position] if position < len(hops) else 0)
    return value


@dataclass(frozen=True)
class Ip6:
    """An IPv6 header without its lengths."""

    dst: int
    src: int = NIC_A
    dscp: int = 0
    ecn: int = 2
    label: int = 0
    hops: int = 64
    next_header: int | None = None
    version: int = 6

    def pack(self, length: int, following: int) -> bytes:
        first = self.version << 28 | self.dscp << 22 | self.ecn << 20 | self.label
        following = following if self.next_header is None else self.next_header
        addresses = self.src.to_bytes(16, "big") + self.dst.to_bytes(16, "big")
        return struct.pack("!IHBB", first, length, following, self.hops) + addresses


@dataclass(frozen=True)
class Packet:
    """Ethernet, one or two IPv6 headers, UDP (unless `udp` is None) and `body`; `cut` bytes less on the wire."""

    outer: Ip6
    inner: Ip6 | None = None
    udp: tuple[int, int] | None = (0x1234, MRC_PORT)
    body: bytes = bytes(range(64))
    dmac: int = SWITCH_MAC
    smac: int = 0x02_0000_0000_11
    ether_type: int = 0x86DD
    checksum: int = 0
    cut: int = 0
    other: int = 59

    def pack(self) -> bytes:
        content, following = self.body, self.other
        if self.udp is not None:
            length = UDP + len(self.body)
            content, following = struct.pack("!HHHH", *self.udp, length, self.checksum) + self.body, 17
        if self.inner is not None:
            content, following = self.inner.pack(len(content), following) + content, 41
        header = self.outer.pack(len(content), following)
        frame = self.dmac.to_bytes(6, "big") + self.smac.to_bytes(6, "big") + struct.pack("!H", self.ether_type)
        frame += header + content
        return frame[: len(frame) - self.cut]

    def with_outer(self, **changes: int) -> Packet:
        """The same with other fields of the outer (or only) IPv6 header."""
        return dataclasses.replace(self, outer=dataclasses.replace(self.outer, **changes))

    def forwarded(self, dst: int, port: int, **outer: int) -> Packet:
        """As it leaves a switch by `port`: new destination, one hop less, to the neighbour's MAC from the port's."""
        moved = self.with_outer(dst=dst, hops=self.outer.hops - 1, **outer)
        return dataclasses.replace(moved, smac=SMAC[port], dmac=DMAC[port])


def mrc(*hops: int, size: int = 64, dscp: int = 0, ecn: int = 2, sport: int = 0x1234, mark: int = 0) -> Packet:
    """An MRC packet in uSID mode with `size` bytes behind UDP, the first four of which are `mark`."""
    body = (struct.pack("!I", mark) + bytes(i & 0xFF for i in range(size)))[:size]
    return Packet(
        Ip6(usids(*hops), dscp=dscp, ecn=ecn), Ip6(NIC_B, dscp=dscp, ecn=ecn), udp=(sport, MRC_PORT), body=body
    )


def plain(dst: int = NIC_B, *, size: int = 64, dscp: int = 0, ecn: int = 2, sport: int = 0x1234, label: int = 0,
          src: int = NIC_A) -> Packet:  # fmt: skip
    """A plain IPv6 packet: RoCE, or MRC with structured entropy values."""
    body = bytes(i & 0xFF for i in range(size))
    return Packet(Ip6(dst, src=src, dscp=dscp, ecn=ecn, label=label), udp=(sport, MRC_PORT), body=body)


@dataclass(frozen=True)
class Seen:
    """The fields of a received frame that tests look at."""

    dmac: int
    smac: int
    dscp: int
    ecn: int
    hops: int
    dst: int
    src: int
    payload_length: int
    length: int
    frame: bytes

    @staticmethod
    def of(frame: bytes) -> Seen:
        first, payload_length, _following, hops = struct.unpack_from("!IHBB", frame, ETHERNET)
        return Seen(
            dmac=int.from_bytes(frame[:6], "big"),
            smac=int.from_bytes(frame[6:12], "big"),
            dscp=first >> 22 & 63,
            ecn=first >> 20 & 3,
            hops=hops,
            src=int.from_bytes(frame[22:38], "big"),
            dst=int.from_bytes(frame[38:54], "big"),
            payload_length=payload_length,
            length=len(frame),
            frame=frame,
        )
