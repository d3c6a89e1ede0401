"""IP headers against scapy's, and everything that is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting

from mrc_host.wire import ip

V4 = [ip.MAPPED + bytes((10, 0, i, 1)) for i in (1, 2)]


@given(st.integers(0, 63), st.integers(0, 3), st.integers(0, 60000), st.integers(0, 255))
def test_ipv4_headers_match_scapy_and_survive_decoding(dscp: int, ecn: int, length: int, hops: int) -> None:
    header = ip.ipv4_header(dscp, ecn, length, 17, hops, *V4)
    packet = IP(src="10.0.1.1", dst="10.0.2.1", tos=dscp << 2 | ecn, ttl=hops, flags="DF", id=0, proto=17)
    packet.len = 20 + length
    assert header == bytes(packet)
    assert ip.parse_ipv4(header, 0) == (dscp, ecn, 0, length, 17, *V4)


@pytest.mark.parametrize(
    "change", [{"ihl": 6, "options": b"\1\1\1\1"}, {"flags": "MF"}, {"frag": 5}, {"chksum": 1}, {"version": 6}], ids=str
)
def test_invalid_ipv4_headers_are_refused(change: dict[str, object]) -> None:
    fields = {"src": "10.0.1.1", "dst": "10.0.2.1", "flags": "DF", "len": 100, **change}
    assert ip.parse_ipv4(bytes(IP(**fields)), 0) is None


def test_every_flipped_bit_of_an_ipv4_header_is_detected() -> None:
    header = ip.ipv4_header(5, 2, 100, 17, 64, *V4)
    for bit in range(160):
        changed = bytearray(header)
        changed[bit // 8] ^= 1 << bit % 8
        assert ip.parse_ipv4(bytes(changed), 0) is None


def test_the_routing_header_matches_scapy() -> None:
    segment = bytes.fromhex("fc000000200140026003") + bytes(6)
    for left in (0, 1):
        expected = IPv6ExtHdrSegmentRouting(
            nh=41, addresses=["fc00:0:2001:4002:6003::"], segleft=left, lastentry=0, len=2
        )
        assert ip.routing_header(segment, left) == bytes(expected)[:24]
    whole = bytes(IPv6(nh=43)) + ip.routing_header(segment, 0)
    assert ip.skip_routing_header(whole, 40) == 64
    assert ip.skip_routing_header(bytes(IPv6(nh=43)) + ip.routing_header(segment, 1), 40) == -1
    for at, value in ((0, 17), (2, 2)):
        changed = bytearray(whole)
        changed[40 + at] = value
        assert ip.skip_routing_header(bytes(changed), 40) == -1


def test_ipv6_is_distinguished_from_ipv4() -> None:
    assert ip.is_ipv4(V4[0])
    assert not ip.is_ipv4(bytes(15) + b"\1")
    assert ip.parse_ipv6(ip.ipv4_header(0, 0, 100, 17, 64, *V4) + bytes(20), 0) is None
