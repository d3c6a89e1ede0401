"""Everything before the BTH: made by us, read by scapy and by our NIC; each reason to drop a prefix."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether

from mrc_host import datapath
from mrc_host.config import EvFormat, EvOrder, NicConfig, ProtocolSettings
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.wire import encap
from mrc_host.wire.encap import Drop, Encapsulation, Flow
from tests.models.frames import MAPPED, SRV6_PREFIX, sealed
from tests.mrc_host.nic_world import BLOCK, address, make_config, nic_usid

BODY = 36 + 100
V4 = [MAPPED + bytes((10, 0, number, 1)) for number in (1, 2)]


def frame_to(number: int = 1, ev: int = 0x00020401, dscp: int = 0, ecn: int = 2, plane: int = 1) -> bytes:
    """A frame from NIC 0 as it reaches NIC `number`, uSID list used up."""
    outer = BLOCK.to_bytes(4, "big") + nic_usid(plane, number).to_bytes(2, "big") + bytes(10)
    template = Encapsulation(make_config(0, 2, 2, 4)).srv6(plane, outer, address(number), ev, dscp, ecn)
    mac = bytes((2, 0, 0, 0, number, plane))
    return mac + datapath.load().frame(template, bytes(BODY))[6:]


def received(port: int, frame: bytes, number: int = 1) -> object:
    return NativeDatapath(make_config(number, 2, 2, 4)).receive(port, frame)


def config(ev_format: EvFormat, own: bytes) -> NicConfig:
    return replace(make_config(0, 2, 2, 4), address=own, settings=ProtocolSettings(ev_format=ev_format, hop_limit=9))


def test_scapy_reads_the_headers_we_write() -> None:
    packet = Ether(frame_to())
    outer, inner, udp = packet[IPv6], packet[IPv6].payload, packet[UDP]
    assert outer.nh == 41
    assert outer.plen == 40 + 8 + BODY + 4
    assert inner.plen == udp.len == 8 + BODY + 4
    assert (udp.sport, inner.fl, udp.dport, udp.chksum) == (0x0401, 0x2, 4791, 0)
    assert outer.tc == inner.tc == 2
    assert inner.dst == "fd00:6d:7263::2"


def test_scapy_writes_the_ipv4_headers_that_we_do() -> None:
    template = Encapsulation(config(EvFormat.UDP, V4[0])).hashed(0, V4[1], 77, 46, 3)
    frame = datapath.load().frame(template, bytes(BODY))
    ip = IP(src="10.0.1.1", dst="10.0.2.1", tos=46 << 2 | 3, ttl=9, flags="DF", id=0, proto=17, len=28 + BODY + 4)
    assert frame[12:34] == b"\x08\x00" + bytes(ip)
    assert frame[34:42] == bytes(UDP(sport=77, dport=4791, len=8 + BODY + 4, chksum=0))


@pytest.mark.parametrize(("segment", "left"), [(None, 0), (7, 1)])
def test_scapy_writes_the_segment_routing_header_that_we_do(segment: int | None, left: int) -> None:
    made = config(EvFormat.SRV6_SRH, address(0))
    to = made.destinations[0]
    repeated = replace(to.template, segment=None if segment is None else bytes(15) + bytes((segment,)))
    outer = to.template.address(to.evs[0])
    template = Encapsulation(made).path(0, repeated, outer, to.address, to.evs[0], 0, 0)
    frame = datapath.load().frame(template, bytes(BODY))
    header = IPv6ExtHdrSegmentRouting(nh=41, addresses=["::7"], segleft=left, lastentry=0)
    expected = bytearray(bytes(header)[:8] + (outer if segment is None else bytes(15) + b"\x07"))
    assert frame[54:78] == expected
    assert frame[20] == 43
    assert int.from_bytes(frame[18:20], "big") == 24 + 40 + 8 + BODY + 4


def test_the_nic_reads_what_we_write() -> None:
    flow = received(1, frame_to(ev=0xABCD1234, dscp=8, ecn=3))
    assert isinstance(flow, Flow)
    assert (flow.ev, flow.dscp, flow.ce, flow.trimmed, flow.srv6) == (0xABCD1234, 8, True, False, True)
    assert (flow.start, flow.end) == (SRV6_PREFIX, SRV6_PREFIX + BODY)
    assert flow.source == address(0)


@given(st.integers(0, 0xFFFFFFFF), st.sampled_from(EvOrder))
def test_entropy_values_survive_in_either_order(ev: int, order: EvOrder) -> None:
    sport, label = encap.split_ev(ev, order)
    assert encap.join_ev(sport, label, order) == ev


def test_the_low_half_can_be_in_the_source_port() -> None:
    config = replace(make_config(0, 2, 2, 4), settings=ProtocolSettings(ev_order=EvOrder.HIGH_IN_SOURCE_PORT))
    template = Encapsulation(config).srv6(0, bytes(16), address(1), 0x11112222, 0, 0)
    frame = datapath.load().frame(template, bytes(20))
    assert frame[94:96] == b"\x11\x11"
    prefix = encap.read_prefix(frame, EvOrder.HIGH_IN_SOURCE_PORT)
    assert prefix == (54, SRV6_PREFIX, 0x11112222, address(0), address(1))


def test_a_frame_without_ip_has_no_prefix() -> None:
    frame = frame_to()
    assert encap.read_prefix(frame, None) is not None
    for wrong in (b"", frame[:20], frame[:101], frame[:54] + b"\x40" + frame[55:], bytes(60), frame[:12] + b"\x08\x00"):
        assert encap.read_prefix(wrong, None) is None


def test_trimmed_frames_need_no_valid_lengths() -> None:
    cut = frame_to(dscp=12)[: 14 + 108]
    flow = received(1, cut)
    assert isinstance(flow, Flow)
    assert flow.trimmed
    assert received(1, cut[:-1]) is Drop.SHORT


def at(offset: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda frame: frame[:offset] + value + frame[offset + len(value) :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (at(0, b"\x02\xff"), Drop.MAC),
        (at(12, b"\x08\x00"), Drop.ETHERTYPE),
        (at(14, b"\x40"), Drop.IP_HEADER),
        (at(18, b"\x7f\xff"), Drop.LENGTH),
        (at(18, b"\x00\x10"), Drop.LENGTH),
        (at(20, b"\x06"), Drop.IP_HEADER),
        (at(38, b"\xfd"), Drop.ADDRESS),
        (at(43, b"\x77"), Drop.ADDRESS),
        (at(54, b"\x40"), Drop.IP_HEADER),
        (at(60, b"\x06"), Drop.IP_HEADER),
        (at(93, b"\x77"), Drop.ADDRESS),
        (at(96, b"\x00\x01"), Drop.UDP_PORT),
        (at(98, b"\x00\x0c"), Drop.LENGTH),
        (at(120, b"\x01"), Drop.ICRC),
        (lambda frame: frame[:20], Drop.MALFORMED),
        (lambda frame: frame[:60], Drop.SHORT),
        (lambda frame: frame[:110], Drop.LENGTH),
    ],
)
def test_invalid_frames_are_dropped_with_their_reason(change: Callable[[bytes], bytes], reason: Drop) -> None:
    assert received(1, change(frame_to())) is reason


def test_packets_to_another_udp_port_are_dropped() -> None:
    assert received(0, frame_to()) is Drop.MAC


def test_the_byte_of_the_bth_that_switches_may_change_is_not_covered() -> None:
    frame = bytearray(frame_to())
    frame[SRV6_PREFIX + 4] = 0x40
    assert sealed(frame, 54, SRV6_PREFIX) == frame
    assert isinstance(received(1, bytes(frame)), Flow)
