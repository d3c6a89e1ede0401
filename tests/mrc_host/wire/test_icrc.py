"""The ICRC against an implementation that is not ours, and the two shortcuts against the long way."""

import random
from zlib import crc32

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from mrc_host.wire import icrc


@pytest.mark.parametrize("size", [0, 1, 2, 63, 1000, 4096])
def test_the_icrc_matches_scapy_for_rocev2_over_ipv6(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    packet = bytes(
        IPv6(src="fd00::1", dst="fd00::2", fl=0x12345, tc=4, hlim=9)
        / UDP(sport=77, dport=4791, chksum=0)
        / BTH(opcode=0x0A, dqpn=0x1234, psn=7)
        / Raw(payload)
    )
    ours = icrc.compute(packet[:48], packet[48:-4])
    assert icrc.pack_trailer(ours) == packet[-4:]


def test_the_icrc_matches_scapy_for_rocev2_over_ipv4() -> None:
    packet = bytes(
        IP(src="10.0.1.1", dst="10.0.2.1", tos=2, ttl=9, flags="DF", id=0)
        / UDP(sport=77, dport=4791, chksum=0)
        / BTH(opcode=0x0A, dqpn=0x1234, psn=7)
        / Raw(b"x" * 100)
    )
    assert icrc.pack_trailer(icrc.compute(packet[:28], packet[28:-4])) == packet[-4:]
    changed = bytearray(packet)
    changed[1], changed[8], changed[10], changed[11] = 0xFE, 1, 2, 3
    assert icrc.compute(bytes(changed[:28]), packet[28:-4]) == icrc.compute(packet[:28], packet[28:-4])
    changed[15] ^= 1
    assert icrc.compute(bytes(changed[:28]), packet[28:-4]) != icrc.compute(packet[:28], packet[28:-4])


@pytest.mark.parametrize("split", [12, 28, 36, 40])
def test_the_precomputed_seed_equals_the_masked_header_crc(split: int) -> None:
    rng = random.Random(split)
    header, body = rng.randbytes(48), bytearray(rng.randbytes(split + 500))
    body[4] = 0
    expected = icrc.compute(header, bytes(body))
    seed = icrc.header_seed(header)
    assert crc32(body, seed) ^ icrc.mask_constant(len(body)) == expected
    assert crc32(body[split:], crc32(body[:split], seed) ^ icrc.mask_constant(split)) == expected


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 1023])
def test_a_data_frame_is_padded_to_words_and_ends_with_its_icrc(length: int) -> None:
    rng = random.Random(length)
    ip_udp, head, payload = rng.randbytes(48), bytearray(rng.randbytes(28)), rng.randbytes(length)
    head[4] = 0
    prefix = b"Ethernet" + ip_udp
    mask = icrc.mask_constant(len(head))
    frame = icrc.data_frame(prefix, icrc.header_seed(ip_udp), bytes(head), mask, memoryview(payload))
    body = bytes(head) + payload + bytes(-length % 4)
    assert frame == prefix + body + icrc.pack_trailer(icrc.compute(ip_udp, body))


def test_the_icrc_ignores_only_fields_switches_change() -> None:
    rng = random.Random(5)
    header, body = rng.randbytes(48), rng.randbytes(64)
    before = icrc.compute(header, body)
    variant_bits = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF}
    for at in range(48):
        for bit in range(8):
            changed = bytearray(header)
            changed[at] ^= 1 << bit
            same = icrc.compute(bytes(changed), body) == before
            assert same == bool(variant_bits.get(at, 0) >> bit & 1), (at, bit)
    for at in range(64):
        changed = bytearray(body)
        changed[at] ^= 0x10
        assert (icrc.compute(header, bytes(changed)) == before) == (at == 4), at
