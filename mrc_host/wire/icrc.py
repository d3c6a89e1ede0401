"""Invariant CRC: the RoCEv2 rule applied to the inner packet (docs/protocol.md §1.1; IBTA RoCEv2 annex A17).

The CRC-32 of Ethernet covers eight bytes of ones (in place of InfiniBand's LRH), the inner IP header, UDP, BTH, the
other headers and the payload. Fields that switches may change are replaced by ones first: traffic class, flow label and
hop limit of the inner IPv6 header (type of service, time to live and checksum of an IPv4 header), the UDP checksum and
byte 4 of the BTH. The outer header is not covered, since switches rewrite it. The result is sent least significant byte
first.

Two shortcuts keep this cheap. The part before the BTH depends only on the path and the length, so its CRC is a *seed*
computed once. And since CRC is linear, masking BTH byte 4 in n bytes is the same as XORing the result with a constant
that depends only on n (``mask_constant``), provided that byte is zero, as MRC sends it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from mrc_host.checksum import crc32

LENGTH: Final = 4
_IPV4_UDP: Final = 28
_PSEUDO_LRH: Final = b"\xff" * 8
VARIANT: Final = 4  # of the BTH: this byte counts as ones
_PADS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by the last two bits of the payload's length
_trailer: Final = struct.Struct("<I")
_crc32: Final = crc32
pack_trailer: Final = _trailer.pack
unpack_trailer_from = _trailer.unpack_from


def header_seed(ip_udp: bytes) -> int:
    """CRC state after the inner IP header (IPv6, or IPv4 without options) and UDP header, variant fields masked."""
    masked = bytearray(ip_udp)
    if len(masked) == _IPV4_UDP:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    else:
        masked[0] |= 0x0F
        masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    masked[-2] = masked[-1] = 0xFF
    return crc32(masked, crc32(_PSEUDO_LRH))


@lru_cache(maxsize=1024)
def mask_constant(length: int) -> int:
    """Effect of masking BTH byte 4 on the CRC of `length` bytes that start with a BTH whose byte 4 is zero."""
    zeros = bytearray(length)
    plain = crc32(zeros)
    zeros[VARIANT] = 0xFF
    return plain ^ crc32(zeros)


def data_frame(prefix: bytes, seed: int, head: bytes, mask: int, payload: memoryview) -> bytes:
    """A whole data packet: everything before the BTH, headers, payload, padding to words, ICRC.

    `seed` is the CRC state after `prefix`, `head` is everything from the BTH to the payload, `mask` its
    ``mask_constant``.
    """
    crc = _crc32(payload, _crc32(head, seed) ^ mask)
    rest = len(payload) & 3
    if rest:
        pad = _PADS[rest]
        return b"".join((prefix, head, payload, pad, pack_trailer(_crc32(pad, crc))))
    return b"".join((prefix, head, payload, pack_trailer(crc)))


def compute(ip_udp: bytes, body: bytes) -> int:
    """ICRC of a whole inner packet, without shortcuts: `body` is everything from the BTH to before the ICRC."""
    masked = bytearray(body)
    masked[VARIANT] = 0xFF
    return crc32(masked, header_seed(ip_udp))
