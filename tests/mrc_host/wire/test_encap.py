"""Everything before the BTH: made by us, read by scapy and by our parser; each reason to drop a prefix."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrc_host.config import EvOrder, ProtocolSettings
from mrc_host.wire import encap
from mrc_host.wire.encap import Drop, Encapsulation, Flow, FrameParser
from tests.mrc_host.nic_world import BLOCK, address, make_config, nic_usid

BODY = 36 + 100


def frame_to(number: int = 1, ev: int = 0x00020401, dscp: int = 0, ecn: int = 2, plane: int = 1) -> bytes:
    """A frame from NIC 0 as it reaches NIC `number`, uSID list used up."""
    outer = BLOCK.to_bytes(4, "big") + nic_usid(plane, number).to_bytes(2, "big") + bytes(10)
    prefix, _seed = Encapsulation(make_config(0, 2, 2, 4)).srv6(plane, outer, address(number), ev, dscp, ecn, BODY)
    mac = bytes((2, 0, 0, 0, number, plane))
    return mac + prefix[6:] + bytes(BODY) + bytes(4)


def parser(number: int = 1) -> FrameParser:
    return FrameParser(make_config(number, 2, 2, 4))


def test_scapy_reads_the_headers_we_write() -> None:
    packet = Ether(frame_to())
    outer, inner, udp = packet[IPv6], packet[IPv6].payload, packet[UDP]
    assert outer.nh == 41
    assert outer.plen == 40 + 8 + BODY + 4
    assert inner.plen == udp.len == 8 + BODY + 4
    assert (udp.sport, inner.fl, udp.dport, udp.chksum) == (0x0401, 0x2, 4791, 0)
    assert outer.tc == inner.tc == 2
    assert inner.dst == "fd00:6d:7263::2"


def test_parser_reads_what_we_write() -> None:
    flow = parser().parse(1, frame_to(ev=0xABCD1234, dscp=8, ecn=3))
    assert isinstance(flow, Flow)
    assert (flow.ev, flow.dscp, flow.ce, flow.trimmed, flow.srv6) == (0xABCD1234, 8, True, False, True)
    assert (flow.start, flow.end) == (encap.SRV6_PREFIX, encap.SRV6_PREFIX + BODY)
    assert flow.source == address(0)


@given(st.integers(0, 0xFFFFFFFF), st.sampled_from(EvOrder))
def test_entropy_values_survive_in_either_order(ev: int, order: EvOrder) -> None:
    sport, label = encap.split_ev(ev, order)
    assert encap.join_ev(sport, label, order) == ev


def test_the_low_half_can_be_in_the_source_port() -> None:
    config = replace(make_config(0, 2, 2, 4), settings=ProtocolSettings(ev_order=EvOrder.HIGH_IN_SOURCE_PORT))
    prefix, _ = Encapsulation(config).srv6(0, bytes(16), address(1), 0x11112222, 0, 0, 20)
    assert prefix[94:96] == b"\x11\x11"


def test_trimmed_frames_need_no_valid_lengths() -> None:
    cut = frame_to(dscp=12)[: 14 + 108]
    flow = parser().parse(1, cut)
    assert isinstance(flow, Flow)
    assert flow.trimmed
    assert parser().parse(1, cut[:-1]) is Drop.SHORT


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
        (lambda frame: frame[:60], Drop.SHORT),
        (lambda frame: frame[:110], Drop.LENGTH),
    ],
)
def test_invalid_frames_are_dropped_with_their_reason(change: Callable[[bytes], bytes], reason: Drop) -> None:
    assert parser().parse(1, change(frame_to())) is reason


def test_packets_to_another_udp_port_are_dropped() -> None:
    assert parser().parse(0, frame_to()) is Drop.MAC
