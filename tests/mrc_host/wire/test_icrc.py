"""The ICRC against an implementation that is not ours, and against the model."""

import random

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from tests.models import frames
from tests.mrc_host.datapath.module import native


def icrc(headers: bytes, body: bytes) -> int:
    """As the datapath and the model calculate it."""
    found: int = native().icrc(headers, body)
    assert found == frames.icrc(headers, body)
    return found


@pytest.mark.parametrize("size", [0, 1, 2, 63, 1000, 4096])
def test_the_icrc_matches_scapy_for_rocev2_over_ipv6(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    packet = bytes(
        IPv6(src="fd00::1", dst="fd00::2", fl=0x12345, tc=4, hlim=9)
        / UDP(sport=77, dport=4791, chksum=0)
        / BTH(opcode=0x0A, dqpn=0x1234, psn=7)
        / Raw(payload)
    )
    assert frames.trailer(icrc(packet[:48], packet[48:-4])) == packet[-4:]


def test_the_icrc_matches_scapy_for_rocev2_over_ipv4() -> None:
    packet = bytes(
        IP(src="10.0.1.1", dst="10.0.2.1", tos=2, ttl=9, flags="DF", id=0)
        / UDP(sport=77, dport=4791, chksum=0)
        / BTH(opcode=0x0A, dqpn=0x1234, psn=7)
        / Raw(b"x" * 100)
    )
    assert frames.trailer(icrc(packet[:28], packet[28:-4])) == packet[-4:]
    changed = bytearray(packet)
    changed[1], changed[8], changed[10], changed[11] = 0xFE, 1, 2, 3
    assert icrc(bytes(changed[:28]), packet[28:-4]) == icrc(packet[:28], packet[28:-4])
    changed[15] ^= 1
    assert icrc(bytes(changed[:28]), packet[28:-4]) != icrc(packet[:28], packet[28:-4])


def test_the_icrc_ignores_only_fields_switches_change() -> None:
    rng = random.Random(5)
    header, body = rng.randbytes(48), rng.randbytes(64)
    before = icrc(header, body)
    variant_bits = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF}
    for at in range(48):
        for bit in range(8):
            changed = bytearray(header)
            changed[at] ^= 1 << bit
            same = icrc(bytes(changed), body) == before
            assert same == bool(variant_bits.get(at, 0) >> bit & 1), (at, bit)
    for at in range(64):
        changed = bytearray(body)
        changed[at] ^= 0x10
        assert (icrc(header, bytes(changed)) == before) == (at == 4), at


def test_what_is_no_packet_has_no_icrc() -> None:
    for headers, body in ((bytes(47), bytes(12)), (b"", bytes(12)), (bytes(48), bytes(11))):
        with pytest.raises(ValueError, match="28 or 48 bytes of headers and 12 or more"):
            native().icrc(headers, body)
