"""Frames as MRC and RoCE send them: how they are built, what a NIC makes of them, and their ICRC.

The model of mrc_host/datapath/{template,prefixes,icrc}.h: a frame at a time, with nothing cached.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from mrc_host.config import EvFormat, EvOrder, NicConfig, UsidTemplate
from mrc_host.wire.encap import Drop, Flow

SRV6_PREFIX = 14 + 40 + 40 + 8
SRH_PREFIX = SRV6_PREFIX + 24
PLAIN_PREFIX = 14 + 40 + 8
IPV4_PREFIX = 14 + 20 + 8
MAPPED = bytes(10) + b"\xff\xff"  # the beginning of an IPv4 address in IPv6 form
BTH = 12
ICRC = 4
UDP, IPV6, ROUTING = 17, 41, 43  # what follows an IP header
KIND_BYTE = 20  # tells the encapsulations apart
PREFIX_LENGTHS = {IPV6: SRV6_PREFIX, ROUTING: SRH_PREFIX, 0x00: IPV4_PREFIX, 0x40: IPV4_PREFIX}
_CE = 3
_MIN_TRIMMED_BODY = 20


def bth_offset(frame: bytes | bytearray | memoryview) -> int:
    """Where the BTH of a frame begins that a NIC accepts."""
    return PREFIX_LENGTHS.get(frame[KIND_BYTE], PLAIN_PREFIX)


# ---- ICRC ---------------------------------------------------------------------------------------------------------


def icrc(ip_udp: bytes, body: bytes) -> int:
    """The ICRC of a packet: its inner IP and UDP headers, and everything from the BTH to before the ICRC."""
    header, covered = bytearray(ip_udp), bytearray(body)
    if len(header) == 28:  # type of service, time to live, checksum
        header[1] = header[8] = header[10] = header[11] = 0xFF
    else:  # traffic class, flow label, hop limit
        header[0] |= 0x0F
        header[1] = header[2] = header[3] = header[7] = 0xFF
    header[-2] = header[-1] = 0xFF  # the UDP checksum
    covered[4] = 0xFF
    return crc32(b"\xff" * 8 + header + covered)


def trailer(crc: int) -> bytes:
    """An ICRC as it is sent."""
    return crc.to_bytes(ICRC, "little")


def sealed(frame: bytes | bytearray, inner: int, start: int, end: int | None = None) -> bytes:
    """A frame whose ICRC, at `end` (None: its last four bytes), is made right for the inner packet from `inner` on."""
    end = len(frame) - ICRC if end is None else end
    crc = icrc(bytes(frame[inner:start]), bytes(frame[start:end]))
    return bytes(frame[:end]) + trailer(crc) + bytes(frame[end + ICRC :])


# ---- frames out ---------------------------------------------------------------------------------------------------


def build(
    config: NicConfig, port: int, template: UsidTemplate, destination: bytes, ev: int, dscp: int, ecn: int, body: bytes
) -> bytes:
    """The frame of an MRC packet with these bytes from the BTH on, on the path `ev`, in the format of the settings."""
    ev_format, outer = config.settings.ev_format, template.address(ev)
    segment = None
    if ev_format is EvFormat.SRV6_SRH:
        segment = (outer, 0) if template.segment is None else (template.segment, 1)
    sport, label = split(ev, config.settings.ev_order)
    if ev_format is EvFormat.UDP:
        sport, label = ev, 0
    return assemble(
        config, port, outer if ev_format.routed else b"", segment, destination, label, sport, dscp, ecn, body
    )


def assemble(
    config: NicConfig, port: int, outer: bytes, segment: tuple[bytes, int] | None, destination: bytes, label: int,
    sport: int, dscp: int, ecn: int, body: bytes,
) -> bytes:  # fmt: skip
    """A frame with these fields; `outer` is empty without an outer header."""
    settings, own = config.settings, config.address
    length = 8 + len(body) + ICRC
    udp = struct.pack("!HHHH", sport, settings.udp_port, length, 0)
    if own[:12] == MAPPED:
        inner = _ipv4_header(dscp, ecn, length, settings.hop_limit, own, destination)
    else:
        inner = _ipv6_header(dscp, ecn, label, length, UDP, settings.hop_limit, own, destination)
    packet = inner + udp + body + trailer(icrc(inner + udp, body))
    following = IPV6
    if segment is not None:
        packet = struct.pack("!BBBBBBH", IPV6, 2, 4, segment[1], 0, 0, 0) + segment[0] + packet
        following = ROUTING
    if outer:
        packet = _ipv6_header(dscp, ecn, 0, len(packet), following, settings.hop_limit, own, outer) + packet
    ethernet = config.ports[port].gateway_mac + config.ports[port].mac
    return ethernet + (b"\x08\x00" if own[:12] == MAPPED else b"\x86\xdd") + packet


def split(ev: int, order: EvOrder) -> tuple[int, int]:
    """UDP source port and flow label of an entropy value."""
    low, high = ev & 0xFFFF, ev >> 16
    return (low, high) if order is EvOrder.LOW_IN_SOURCE_PORT else (high, low)


def _ipv6_header(
    dscp: int, ecn: int, label: int, length: int, following: int, hops: int, src: bytes, dst: bytes
) -> bytes:
    return struct.pack("!IHBB16s16s", 6 << 28 | dscp << 22 | ecn << 20 | label, length, following, hops, src, dst)


def _ipv4_header(dscp: int, ecn: int, length: int, hops: int, src: bytes, dst: bytes) -> bytes:
    fields = [0x45, dscp << 2 | ecn, 20 + length, 0, 0x4000, hops, UDP, 0, src[12:], dst[12:]]
    fields[7] = 0xFFFF - _sum(struct.pack("!BBHHHBBH4s4s", *fields))
    return struct.pack("!BBHHHBBH4s4s", *fields)


def _sum(header: bytes) -> int:
    """Ones' complement sum of an IPv4 header; 0xFFFF when its checksum is right."""
    total: int = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


# ---- frames in ----------------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    size: int
    dscp: int
    ecn: int
    label: int
    length: int  # of what follows
    following: int
    source: bytes
    destination: bytes


def receive(config: NicConfig, port: int, frame: bytes) -> Flow | Drop:
    """What a NIC makes of a frame that arrives at a port: its prefix, if that and the ICRC are right."""
    found = _parse(config, port, frame)
    if isinstance(found, Drop):
        return found
    flow, inner = found
    if flow.trimmed:
        return flow
    sent = int.from_bytes(frame[flow.end : flow.end + ICRC], "little")
    return flow if icrc(frame[inner : flow.start], frame[flow.start : flow.end]) == sent else Drop.ICRC


def _parse(config: NicConfig, port: int, frame: bytes) -> tuple[Flow, int] | Drop:
    """The prefix, and where the inner IP header begins."""
    ipv4 = config.address[:12] == MAPPED
    if len(frame) <= KIND_BYTE:
        return Drop.MALFORMED
    if len(frame) < IPV4_PREFIX + BTH + ICRC:
        return Drop.SHORT
    if frame[:6] != config.ports[port].mac:
        return Drop.MAC
    if frame[12:14] != (b"\x08\x00" if ipv4 else b"\x86\xdd"):
        return Drop.ETHERTYPE
    if not ipv4 and len(frame) < PLAIN_PREFIX + BTH + ICRC:
        return Drop.SHORT
    header = _read_ipv4(frame) if ipv4 else _read_ipv6(frame, 14)
    if header is None:
        return Drop.IP_HEADER
    if not ipv4 and header.following in (IPV6, ROUTING):
        return _parse_outer(config, port, frame, header)
    return _parse_inner(config, frame, 14, header, header)


def _parse_outer(config: NicConfig, port: int, frame: bytes, outer: _Header) -> tuple[Flow, int] | Drop:
    trimmed = _is_trimmed(config, outer)
    if outer.destination[:6] != config.block.to_bytes(4, "big") + config.ports[port].usid.to_bytes(2, "big"):
        return Drop.ADDRESS
    if not trimmed and 54 + outer.length > len(frame):
        return Drop.LENGTH
    at = 54
    if outer.following == ROUTING:
        if frame[54:58] != bytes((IPV6, 2, 4, 0)):
            return Drop.IP_HEADER
        at += 24
    if len(frame) < at + 40 + 8 + BTH:
        return Drop.SHORT
    inner = _read_ipv6(frame, at)
    if inner is None:
        return Drop.IP_HEADER
    if not trimmed and outer.length != at - 54 + 40 + inner.length:
        return Drop.LENGTH
    return _parse_inner(config, frame, at, outer, inner)


def _parse_inner(config: NicConfig, frame: bytes, at: int, outer: _Header, inner: _Header) -> tuple[Flow, int] | Drop:
    settings, trimmed = config.settings, _is_trimmed(config, outer)
    start = at + inner.size + 8
    if not trimmed and start - 8 + inner.length > len(frame):
        return Drop.LENGTH
    if inner.following != UDP:
        return Drop.IP_HEADER
    if inner.destination != config.address:
        return Drop.ADDRESS
    sport, dport, length, _checksum = struct.unpack_from("!HHHH", frame, start - 8)
    if dport != settings.udp_port:
        return Drop.UDP_PORT
    ev = sport
    if settings.ev_format is not EvFormat.UDP:
        low_first = settings.ev_order is EvOrder.LOW_IN_SOURCE_PORT
        ev = inner.label << 16 | sport if low_first else sport << 16 | inner.label
    if trimmed and len(frame) < start + _MIN_TRIMMED_BODY:
        return Drop.SHORT
    if not trimmed and (length != inner.length or length < 8 + BTH + ICRC):
        return Drop.LENGTH
    end = len(frame) if trimmed else start + length - 8 - ICRC
    return Flow(inner.source, ev, outer.dscp, outer.ecn == _CE, trimmed, outer is not inner, start, end), at


def _is_trimmed(config: NicConfig, outer: _Header) -> bool:
    return outer.dscp in (config.settings.dscp.trimmed, config.settings.dscp.trimmed_lasthop)


def _read_ipv6(frame: bytes, at: int) -> _Header | None:
    first, length, following, _hops, source, destination = struct.unpack_from("!IHBB16s16s", frame, at)
    if first >> 28 != 6:
        return None
    return _Header(40, first >> 22 & 63, first >> 20 & 3, first & 0xFFFF, length, following, source, destination)


def _read_ipv4(frame: bytes) -> _Header | None:
    first, tos, length, _id, flags, _ttl, following, _sum16, source, destination = struct.unpack_from(
        "!BBHHHBBH4s4s", frame, 14
    )
    if first != 0x45 or flags & ~0x4000 or _sum(frame[14:34]) != 0xFFFF or length < 20:
        return None
    return _Header(20, tos >> 2, tos & 3, 0, length - 20, following, MAPPED + source, MAPPED + destination)
