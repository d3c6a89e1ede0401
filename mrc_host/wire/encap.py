"""Everything before the BTH: Ethernet, IP and UDP, built once per path and parsed once per flow.

There are four encapsulations (docs/protocol.md §1.1, §1.3). *SRv6*: Ethernet, outer IPv6 whose destination is the uSID
list, optionally a Segment Routing Header, inner IPv6 to the NIC's own address, UDP: 102 or 126 bytes. *Plain IPv6*: 62
bytes, *plain IPv4*: 42 bytes; the structured and UDP formats of MRC and the RoCE baseline use these. The entropy value
is in the UDP source port and in the low 16 bits of the (inner) flow label; in SRv6 too, because there the uSID list is
consumed on the way, and the receiver must echo the value.

Sending: ``Encapsulation`` builds the *prefix* of a frame and the seed of its ICRC. They depend only on path, class and
length, so the caller caches them. Receiving: ``FrameParser.parse`` checks a prefix completely and describes it in a
``Flow``; the NIC caches flows by the bytes of their prefix, so a prefix seen before costs one dictionary lookup.

UDP checksums are zero, as in RoCEv2 over IPv6; the ICRC protects the inner packet.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from mrc_host.config import EvFormat, EvOrder, NicConfig, ProtocolSettings, UsidTemplate
from mrc_host.errors import InvalidArgumentError
from mrc_host.wire import icrc, ip
from mrc_host.wire.control import RCVD_UNIT, nominal_size
from mrc_host.wire.headers import BTH_LENGTH
from mrc_host.wire.ip import IPV4_LENGTH, IPV6_LENGTH, NEXT_IPV6, NEXT_ROUTING, NEXT_UDP, SRH_LENGTH
from mrc_host.wire.usid import UsidAddresses

ETHERNET_LENGTH: Final = 14
UDP_LENGTH: Final = 8
SRV6_PREFIX: Final = ETHERNET_LENGTH + IPV6_LENGTH + IPV6_LENGTH + UDP_LENGTH
SRH_PREFIX: Final = SRV6_PREFIX + SRH_LENGTH
PLAIN_PREFIX: Final = ETHERNET_LENGTH + IPV6_LENGTH + UDP_LENGTH
IPV4_PREFIX: Final = ETHERNET_LENGTH + IPV4_LENGTH + UDP_LENGTH
ETHERTYPE_IPV6: Final = b"\x86\xdd"
ETHERTYPE_IPV4: Final = b"\x08\x00"
ECT0: Final = 2
CE: Final = 3
MIN_TRIMMED_BODY: Final = 20  # BTH, METH, TSETH: what a trimming switch must keep (docs/protocol.md §1.10)
_SHORTEST: Final = IPV4_PREFIX + BTH_LENGTH + icrc.LENGTH

KIND_BYTE: Final = 20
"""Offset of the byte that distinguishes the encapsulations: IPv6's next header, or IPv4's flags."""

PREFIX_LENGTHS: Final = tuple(
    {NEXT_IPV6: SRV6_PREFIX, NEXT_ROUTING: SRH_PREFIX, 0x00: IPV4_PREFIX, 0x40: IPV4_PREFIX}.get(byte, PLAIN_PREFIX)
    for byte in range(256)
)
"""Length of a prefix by that byte; only right for what ``FrameParser`` accepts, anything else is parsed each time."""

_udp = struct.Struct("!HHHH")


class Drop(enum.Enum):
    """Why a frame was dropped before any queue pair saw it; the value names the counter ``drop_<value>``."""

    PORT_DOWN = "port_down"
    SHORT = "short"
    MAC = "mac"
    ETHERTYPE = "ethertype"
    IP_HEADER = "ip_header"
    ADDRESS = "address"
    UDP_PORT = "udp_port"
    LENGTH = "length"
    ICRC = "icrc"
    OPCODE = "opcode"
    PKEY = "pkey"  # of a partition that is not ours
    UNKNOWN_QP = "unknown_qp"
    WRONG_SOURCE = "wrong_source"
    WRONG_TRANSPORT = "wrong_transport"
    QP_STATE = "qp_state"
    MALFORMED = "malformed"
    UNKNOWN_PEER = "unknown_peer"
    STALE_RESPONSE = "stale_response"
    OTHER_LIFE = "other_life"  # PSNs that the queue pair has not used, and does not expect, since it was connected
    INTERNAL_ERROR = "internal_error"


class Prefix(NamedTuple):
    """The parsed prefix of a frame that is known to be well formed."""

    start: int  # offset of the BTH
    ev: int
    source: bytes  # of the inner packet, 16 bytes
    destination: bytes


class Flow:
    """A received prefix, parsed once and shared by every frame that starts with the same bytes."""

    __slots__ = ("ce", "dscp", "end", "ev", "inner", "mask", "seed", "source", "srv6", "start", "trimmed", "units")

    def __init__(
        self, source: bytes, ev: int, dscp: int, ce: bool, trimmed: bool, srv6: bool, inner: int, start: int, end: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.source = source
        self.ev = ev
        self.dscp = dscp
        self.ce = ce
        self.trimmed = trimmed
        self.srv6 = srv6
        self.inner = inner  # offset of the inner IP header
        self.start = start  # offset of the BTH
        self.end = end  # offset of the ICRC
        self.seed = seed
        self.units = nominal_size(end - start) // RCVD_UNIT  # what rcvd_bytes counts a data packet as
        self.mask = 0 if trimmed else icrc.mask_constant(end - start)


_LOW_IN_SOURCE_PORT: Final = EvOrder.LOW_IN_SOURCE_PORT  # looked up once, not for each packet


def split_ev(ev: int, order: EvOrder) -> tuple[int, int]:
    """UDP source port and flow label half (16 bits each) of an entropy value."""
    low, high = ev & 0xFFFF, ev >> 16 & 0xFFFF
    return (low, high) if order is _LOW_IN_SOURCE_PORT else (high, low)


def join_ev(sport: int, label: int, order: EvOrder) -> int:
    """Entropy value from the UDP source port and the low 16 bits of the flow label."""
    return label << 16 | sport if order is _LOW_IN_SOURCE_PORT else sport << 16 | label


def read_prefix(frame: bytes | memoryview, order: EvOrder | None) -> Prefix:
    """Parse the prefix of a frame built by ``Encapsulation``; with `order` None, the label carries nothing."""
    start = PREFIX_LENGTHS[frame[KIND_BYTE]]
    if frame[12:14] == ETHERTYPE_IPV4:
        header = ip.parse_ipv4(frame, start - UDP_LENGTH - IPV4_LENGTH)
    else:
        header = ip.parse_ipv6(frame, start - UDP_LENGTH - IPV6_LENGTH)
    assert header is not None
    sport = _udp.unpack_from(frame, start - UDP_LENGTH)[0]
    ev = sport if order is None else join_ev(sport, header.label, order)
    return Prefix(start, ev, header.source, header.destination)


def check_format(config: NicConfig) -> None:
    """InvalidArgumentError when the NIC's addresses or entropy values do not fit its entropy format."""
    ev_format = config.settings.ev_format
    ipv4 = ip.is_ipv4(config.address)
    if ipv4 and ev_format is not EvFormat.UDP:
        raise InvalidArgumentError(f"{config.name} has an IPv4 address, so its ev_format must be 'udp'.")
    for destination in config.destinations:
        if ip.is_ipv4(destination.address) != ipv4:
            raise InvalidArgumentError(f"{config.name} and {destination.name} have addresses of different kinds.")
        if ev_format is EvFormat.UDP and any(ev >> 16 for ev in destination.evs):
            raise InvalidArgumentError(f"An entropy value towards {destination.name} does not fit a UDP source port.")


class Encapsulation:
    """Builds prefixes for one NIC's ports. `body` is always the bytes from BTH to payload, without ICRC."""

    def __init__(self, config: NicConfig) -> None:
        self._address = config.address
        self._settings: ProtocolSettings = config.settings
        self._routed = config.settings.ev_format.routed
        self._udp = config.settings.ev_format is EvFormat.UDP
        self._ipv4 = ip.is_ipv4(config.address)
        ethertype = ETHERTYPE_IPV4 if self._ipv4 else ETHERTYPE_IPV6
        self._ethernet = [p.gateway_mac + p.mac + ethertype for p in config.ports]

    def _inner(self, destination: bytes, sport: int, label: int, dscp: int, ecn: int, body: int) -> bytes:
        settings = self._settings
        length = UDP_LENGTH + body + icrc.LENGTH
        own, hops = self._address, settings.hop_limit
        if self._ipv4:
            header = ip.ipv4_header(dscp, ecn, length, NEXT_UDP, hops, own, destination)
        else:
            header = ip.ipv6_header(dscp, ecn, label, length, NEXT_UDP, hops, own, destination)
        return header + _udp.pack(sport, settings.udp_port, length, 0)

    def path(
        self, port: int, template: UsidTemplate, destination: bytes, ev: int, dscp: int, ecn: int, body: int
    ) -> tuple[bytes, int]:
        """Prefix and ICRC seed of an MRC frame on the path `ev`, in the format given by the settings."""
        ev_format = self._settings.ev_format
        if ev_format is EvFormat.SRV6:
            return self.srv6(port, template.address(ev), destination, ev, dscp, ecn, body)
        if ev_format is EvFormat.SRV6_SRH:
            outer = template.address(ev)
            segment, left = (outer, 0) if template.segment is None else (template.segment, 1)
            routing = ip.routing_header(segment, left)
            return self.srv6(port, outer, destination, ev, dscp, ecn, body, routing)
        if ev_format is EvFormat.STRUCTURED:
            return self.plain(port, destination, ev, dscp, ecn, body)
        return self.hashed(port, destination, ev, dscp, ecn, body)

    def varying(self, addresses: UsidAddresses, ev: int) -> tuple[bytes, bytes, int, int]:
        """All in which prefixes of one destination and class differ by path; `addresses` are the destination's.

        Ethernet header, outer destination (empty without an outer header), the flow label's low 16 bits and UDP source
        port.
        """
        outer = addresses.of(ev) if self._routed else b""
        return self._ethernet[addresses.plane(ev)], outer, *self.entropy(ev)

    def entropy(self, ev: int) -> tuple[int, int]:
        """All that differs by entropy value on one path: the flow label's low 16 bits and UDP source port."""
        sport, label = (ev, 0) if self._udp else split_ev(ev, self._settings.ev_order)
        return label, sport

    def srv6(
        self, port: int, outer: bytes, destination: bytes, ev: int, dscp: int, ecn: int, body: int, routing: bytes = b""
    ) -> tuple[bytes, int]:
        """Prefix and ICRC seed of an SRv6 frame; `routing` is its Segment Routing Header, if any."""
        inner = self._inner(destination, *split_ev(ev, self._settings.ev_order), dscp, ecn, body)
        length = len(routing) + len(inner) + body + icrc.LENGTH
        following = NEXT_ROUTING if routing else NEXT_IPV6
        head = ip.ipv6_header(dscp, ecn, 0, length, following, self._settings.hop_limit, self._address, outer)
        return self._ethernet[port] + head + routing + inner, icrc.header_seed(inner)

    def plain(self, port: int, destination: bytes, ev: int, dscp: int, ecn: int, body: int) -> tuple[bytes, int]:
        """Prefix and ICRC seed of a frame without outer header, entropy in flow label and source port."""
        inner = self._inner(destination, *split_ev(ev, self._settings.ev_order), dscp, ecn, body)
        return self._ethernet[port] + inner, icrc.header_seed(inner)

    def hashed(self, port: int, destination: bytes, sport: int, dscp: int, ecn: int, body: int) -> tuple[bytes, int]:
        """Prefix and ICRC seed of a frame without outer header, entropy (16 bits) in the source port alone."""
        inner = self._inner(destination, sport, 0, dscp, ecn, body)
        return self._ethernet[port] + inner, icrc.header_seed(inner)


class FrameParser:
    """Checks and parses prefixes that arrive on one NIC's ports."""

    def __init__(self, config: NicConfig) -> None:
        settings = config.settings
        self._address = config.address
        self._ipv4 = ip.is_ipv4(config.address)
        self._udp_port = settings.udp_port
        self._order = settings.ev_order
        self._label_counts = settings.ev_format is not EvFormat.UDP
        self._trimmed = (settings.dscp.trimmed, settings.dscp.trimmed_lasthop)
        self._macs = [p.mac for p in config.ports]
        block = config.block.to_bytes(4, "big")
        self._locators = [block + p.usid.to_bytes(2, "big") for p in config.ports]

    def parse(self, port: int, frame: bytes | memoryview) -> Flow | Drop:
        """Describe the prefix of `frame`, or return why it is not for us. The ICRC is not checked here.

        The datapath in C knows what is accepted with an outer header and without a Segment Routing Header, too
        (datapath/prefixes.h).
        """
        if len(frame) < _SHORTEST:
            return Drop.SHORT
        if frame[0:6] != self._macs[port]:
            return Drop.MAC
        if frame[12:14] != (ETHERTYPE_IPV4 if self._ipv4 else ETHERTYPE_IPV6):
            return Drop.ETHERTYPE
        at = ETHERNET_LENGTH
        if self._ipv4:
            header = ip.parse_ipv4(frame, at)
            return Drop.IP_HEADER if header is None else self._inner(frame, at, IPV4_LENGTH, header, header, False)
        if len(frame) < PLAIN_PREFIX + BTH_LENGTH + icrc.LENGTH:
            return Drop.SHORT
        header = ip.parse_ipv6(frame, at)
        if header is None:
            return Drop.IP_HEADER
        if header.following in (NEXT_IPV6, NEXT_ROUTING):
            return self._outer(port, frame, header)
        return self._inner(frame, at, IPV6_LENGTH, header, header, False)

    def _outer(self, port: int, frame: bytes | memoryview, outer: ip.IpHeader) -> Flow | Drop:
        """Parse a frame with an outer header: the current uSID must be ours."""
        if outer.destination[:6] != self._locators[port]:
            return Drop.ADDRESS
        trimmed = outer.dscp in self._trimmed
        at = start = ETHERNET_LENGTH + IPV6_LENGTH
        if not trimmed and start + outer.length > len(frame):
            return Drop.LENGTH
        if outer.following == NEXT_ROUTING:
            at = ip.skip_routing_header(frame, at)
            if at != start + SRH_LENGTH:
                return Drop.IP_HEADER
        if len(frame) < at + IPV6_LENGTH + UDP_LENGTH + BTH_LENGTH:
            return Drop.SHORT
        inner = ip.parse_ipv6(frame, at)
        if inner is None:
            return Drop.IP_HEADER
        if not trimmed and outer.length != at - start + IPV6_LENGTH + inner.length:
            return Drop.LENGTH
        return self._inner(frame, at, IPV6_LENGTH, outer, inner, True)

    def _inner(
        self, frame: bytes | memoryview, at: int, size: int, outer: ip.IpHeader, inner: ip.IpHeader, srv6: bool
    ) -> Flow | Drop:
        """Parse the IP header at `at`, `size` bytes long, and UDP after it; ECN mark and class are those of `outer`."""
        trimmed = outer.dscp in self._trimmed
        if not trimmed and at + size + inner.length > len(frame):
            return Drop.LENGTH
        if inner.following != NEXT_UDP:
            return Drop.IP_HEADER
        if inner.destination != self._address:
            return Drop.ADDRESS
        start = at + size + UDP_LENGTH
        sport, dport, udp_length, _checksum = _udp.unpack_from(frame, start - UDP_LENGTH)
        if dport != self._udp_port:
            return Drop.UDP_PORT
        ev = join_ev(sport, inner.label, self._order) if self._label_counts else sport
        ce = outer.ecn == CE
        if trimmed:
            if len(frame) < start + MIN_TRIMMED_BODY:
                return Drop.SHORT
            return Flow(inner.source, ev, outer.dscp, ce, True, srv6, at, start, len(frame), 0)
        if udp_length != inner.length or udp_length < UDP_LENGTH + BTH_LENGTH + icrc.LENGTH:
            return Drop.LENGTH
        end = start + udp_length - UDP_LENGTH - icrc.LENGTH
        seed = icrc.header_seed(bytes(frame[at:start]))
        return Flow(inner.source, ev, outer.dscp, ce, False, srv6, at, start, end, seed)
