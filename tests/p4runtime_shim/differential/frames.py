"""Random frames for the test programs: mostly what the program expects, some of it damaged or cut."""

from __future__ import annotations

import random
import struct

HOSTS = tuple(0x02_0000_0000_00 | number for number in range(1, 7))
NETWORKS = tuple(0x0A00_0000 | number << 8 for number in range(1, 5))


def ethernet(rng: random.Random, ether_type: int) -> bytes:
    """A header between known hosts, or to anybody."""
    dst = rng.choice((*HOSTS, 0xFFFF_FFFF_FFFF))
    return dst.to_bytes(6, "big") + rng.choice(HOSTS).to_bytes(6, "big") + struct.pack("!H", ether_type)


def address(rng: random.Random) -> int:
    """An address in one of the networks that tables know, or elsewhere."""
    return rng.choice((*NETWORKS, 0xC0A8_0000)) | rng.randrange(4)


def internet_sum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(rng: random.Random, payload: bytes, *, protocol: int | None = None, options: bytes = b"") -> bytes:
    """An IPv4 packet, most with a right checksum."""
    protocol = rng.choice((6, 17, 1)) if protocol is None else protocol
    words = 5 + len(options) // 4
    length = min(0xFFFF, 4 * words + len(payload))
    first = (0x40 | words) << 8 | rng.getrandbits(8)
    ttl = rng.choice((64, 64, 2, 1, 0))
    head = struct.pack("!HHHHBB", first, length, rng.getrandbits(16), 0, ttl, protocol)
    ends = struct.pack("!II", address(rng), address(rng))
    checksum = internet_sum(head + ends + options) if rng.randrange(8) else rng.getrandbits(16)
    return head + struct.pack("!H", checksum) + ends + options + payload


def tcp(rng: random.Random, payload: bytes = b"") -> bytes:
    """A TCP header between few ports."""
    ports = (rng.choice((80, 443, 1024)), rng.choice((80, 443, 1024)))
    flags = 5 << 12 | rng.choice((2, 18, 16, 1))
    return struct.pack("!HHIIHHHH", *ports, 1, 2, flags, 512, rng.getrandbits(16), 0) + payload


def body(rng: random.Random) -> bytes:
    """Some bytes."""
    return bytes(rng.getrandbits(8) for _ in range(rng.choice((0, 1, 7, 26, 60))))


def damaged(rng: random.Random, frame: bytes) -> bytes:
    """One in six is cut or has bytes changed; never empty."""
    fate = rng.randrange(12)
    if fate == 0:
        return frame[: rng.randrange(1, len(frame))]
    if fate == 1:
        changed = bytearray(frame)
        changed[rng.randrange(len(frame))] = rng.getrandbits(8)
        return bytes(changed)
    return frame


def over_ipv4(rng: random.Random) -> bytes:
    """Ethernet with an IPv4 packet, TCP in half of them; one in ten is something else."""
    if rng.randrange(10) == 0:
        return ethernet(rng, rng.choice((0x86DD, 0x0806, 1))) + body(rng)
    inside = ipv4(rng, tcp(rng, body(rng)), protocol=6) if rng.randrange(2) else ipv4(rng, body(rng))
    return ethernet(rng, 0x0800) + inside
