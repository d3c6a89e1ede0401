"""IP headers: built, and parsed one at a time (RFC 8200, RFC 791, RFC 8754).

IPv4 addresses are 16 bytes here too, in their IPv6 form ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2), so that callers
handle a single kind.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

IPV6_LENGTH: Final = 40
IPV4_LENGTH: Final = 20
SRH_LENGTH: Final = 24  # one segment
NEXT_IPV6: Final = 41
NEXT_UDP: Final = 17
NEXT_ROUTING: Final = 43
MAPPED: Final = bytes(10) + b"\xff\xff"

_ipv6 = struct.Struct("!IHBB16s16s")
_ipv4 = struct.Struct("!BBHHHBBH4s4s")
_srh = struct.Struct("!BBBBBBH16s")
_words = struct.Struct("!10H")
_DONT_FRAGMENT: Final = 0x4000
_SEGMENT_ROUTING: Final = 4


class IpHeader(NamedTuple):
    """Fields of an IP header. `length` is that of what follows, in bytes; `label` the flow label's low 16 bits."""

    dscp: int
    ecn: int
    label: int
    length: int
    following: int
    source: bytes
    destination: bytes


def is_ipv4(address: bytes) -> bool:
    """Whether a 16-byte address is an IPv4 address in IPv6 form."""
    return address[:12] == MAPPED


def ipv6_header(
    dscp: int, ecn: int, label: int, length: int, following: int, hops: int, src: bytes, dst: bytes
) -> bytes:
    """IPv6 header (40 bytes)."""
    return _ipv6.pack(6 << 28 | dscp << 22 | ecn << 20 | label, length, following, hops, src, dst)


def ipv4_header(dscp: int, ecn: int, length: int, following: int, hops: int, src: bytes, dst: bytes) -> bytes:
    """IPv4 header (20 bytes) with its checksum, not to be fragmented; `length` is what follows."""
    fields = [
        0x45, dscp << 2 | ecn, IPV4_LENGTH + length, 0, _DONT_FRAGMENT, hops, following, 0, src[12:], dst[12:],
    ]  # fmt: skip
    fields[7] = 0xFFFF - _sum(_ipv4.pack(*fields))
    return _ipv4.pack(*fields)


def routing_header(segment: bytes, segments_left: int) -> bytes:
    """Segment Routing Header with one segment (24 bytes), before an IPv6 header."""
    return _srh.pack(NEXT_IPV6, SRH_LENGTH // 8 - 1, _SEGMENT_ROUTING, segments_left, 0, 0, 0, segment)


def parse_ipv6(frame: bytes | memoryview, at: int) -> IpHeader | None:
    """The IPv6 header at `at`, None if it is none; struct.error when too short."""
    first, length, following, _hops, source, destination = _ipv6.unpack_from(frame, at)
    if first >> 28 != 6:
        return None
    return IpHeader(first >> 22 & 63, first >> 20 & 3, first & 0xFFFF, length, following, source, destination)


def parse_ipv4(frame: bytes | memoryview, at: int) -> IpHeader | None:
    """The IPv4 header at `at`; None with options, a wrong checksum, or for a fragment; struct.error if too short."""
    first, tos, length, _id, flags, _ttl, following, _sum16, source, destination = _ipv4.unpack_from(frame, at)
    if first != 0x45 or flags & ~_DONT_FRAGMENT or _sum(frame[at : at + IPV4_LENGTH]) != 0xFFFF or length < IPV4_LENGTH:
        return None
    return IpHeader(
        tos >> 2, tos & 3, 0, length - IPV4_LENGTH, following, MAPPED + source, MAPPED + destination
    )  # fmt: skip


def skip_routing_header(frame: bytes | memoryview, at: int) -> int:
    """Offset of the header after a Segment Routing Header at `at`; -1 unless it is IPv6 and no segment is left."""
    following, words, kind, left = frame[at], frame[at + 1], frame[at + 2], frame[at + 3]
    if following != NEXT_IPV6 or kind != _SEGMENT_ROUTING or left:
        return -1
    return at + 8 + 8 * int(words)


def _sum(header: bytes | memoryview) -> int:
    """Ones' complement sum of an IPv4 header; 0xFFFF when its checksum is right."""
    total: int = sum(_words.unpack(header))
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)
