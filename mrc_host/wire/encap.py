"""Everything before the BTH: Ethernet, IP and UDP, which the datapath in C writes and reads.

There are four encapsulations (docs/protocol.md §1.1, §1.3): SRv6, with an outer header, with or without a Segment
Routing Header; plain IPv6; and plain IPv4. The entropy value is in the UDP source port and in the low 16 bits of the
(inner) flow label; in SRv6 too, because there the uSID list is consumed on the way, and the receiver must echo it.

Sending: ``Encapsulation`` gives the datapath the fields of a *template* (``datapath/template.h``), from which it makes
the frames of one path and class. Receiving: the datapath checks everything before the BTH and the ICRC
(``datapath/prefixes.h``), and says what came in a ``Flow``, or why it was dropped in a ``Drop``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from mrc_host import datapath
from mrc_host.config import EvFormat, EvOrder, NicConfig, ProtocolSettings, UsidTemplate
from mrc_host.errors import InvalidArgumentError
from mrc_host.wire.control import RCVD_UNIT, nominal_size

if TYPE_CHECKING:
    from mrc_host.datapath import native

ICRC_LENGTH: Final = 4
SRH_LENGTH: Final = 24  # a Segment Routing Header with one segment
ECT0: Final = 2
_IPV4_IN_IPV6: Final = bytes(10) + b"\xff\xff"  # RFC 4291 section 2.5.5.2


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


PREFIX_DROPS: Final = (
    Drop.MALFORMED, Drop.SHORT, Drop.MAC, Drop.ETHERTYPE, Drop.IP_HEADER, Drop.ADDRESS, Drop.UDP_PORT, Drop.LENGTH,
    Drop.ICRC,
)  # fmt: skip
"""The reasons that the datapath gives, in the order of its ``enum drop``."""


class Flow:
    """What is before the BTH of a received frame, shared by every frame that starts with the same bytes."""

    __slots__ = ("ce", "dscp", "end", "ev", "source", "srv6", "start", "trimmed", "units")

    def __init__(
        self, source: bytes, ev: int, dscp: int, ce: bool, trimmed: bool, srv6: bool, start: int, end: int
    ) -> None:
        self.source = source  # of the inner packet, 16 bytes; IPv4 addresses are in their IPv6 form, ::ffff:a.b.c.d
        self.ev = ev
        self.dscp = dscp
        self.ce = ce
        self.trimmed = trimmed
        self.srv6 = srv6
        self.start = start  # offset of the BTH
        self.end = end  # offset of the ICRC; where the frame ends if it was trimmed
        self.units = nominal_size(end - start) // RCVD_UNIT  # what rcvd_bytes counts a data packet as


class Prefix(NamedTuple):
    """What is before the BTH of a frame that may be for anybody."""

    inner: int  # offset of the inner IP header
    start: int  # offset of the BTH
    ev: int
    source: bytes  # of the inner packet, 16 bytes
    destination: bytes


_LOW_IN_SOURCE_PORT: Final = EvOrder.LOW_IN_SOURCE_PORT  # looked up once, not for each packet


def split_ev(ev: int, order: EvOrder) -> tuple[int, int]:
    """UDP source port and flow label half (16 bits each) of an entropy value."""
    low, high = ev & 0xFFFF, ev >> 16 & 0xFFFF
    return (low, high) if order is _LOW_IN_SOURCE_PORT else (high, low)


def join_ev(sport: int, label: int, order: EvOrder) -> int:
    """Entropy value from the UDP source port and the low 16 bits of the flow label."""
    return label << 16 | sport if order is _LOW_IN_SOURCE_PORT else sport << 16 | label


def read_prefix(frame: bytes | memoryview, order: EvOrder | None) -> Prefix | None:
    """The prefix of a frame, None if it is none; with `order` None, the label carries nothing."""
    found = datapath.load().read_prefix(frame)
    if found is None:
        return None
    inner, start, sport, label, source, destination = found
    return Prefix(inner, start, sport if order is None else join_ev(sport, label, order), source, destination)


def check_format(config: NicConfig) -> None:
    """InvalidArgumentError when the NIC's addresses or entropy values do not fit its entropy format."""
    ev_format = config.settings.ev_format
    ipv4 = _is_ipv4(config.address)
    if ipv4 and ev_format is not EvFormat.UDP:
        raise InvalidArgumentError(f"{config.name} has an IPv4 address, so its ev_format must be 'udp'.")
    for destination in config.destinations:
        if _is_ipv4(destination.address) != ipv4:
            raise InvalidArgumentError(f"{config.name} and {destination.name} have addresses of different kinds.")
        if ev_format is EvFormat.UDP and any(ev >> 16 for ev in destination.evs):
            raise InvalidArgumentError(f"An entropy value towards {destination.name} does not fit a UDP source port.")


def _is_ipv4(address: bytes) -> bool:
    return address[:12] == _IPV4_IN_IPV6


class Encapsulation:
    """The templates of one NIC's frames; `dscp` and `ecn` are those of all IP headers.

    Raises ValueError for a value that does not fit its field.
    """

    def __init__(self, config: NicConfig) -> None:
        self._make = datapath.load().Template
        self._address = config.address
        self._settings: ProtocolSettings = config.settings
        self._routed = config.settings.ev_format.routed
        self._with_segment = config.settings.ev_format is EvFormat.SRV6_SRH
        self._udp = config.settings.ev_format is EvFormat.UDP
        self._ethernet = [p.gateway_mac + p.mac for p in config.ports]

    def path(
        self, port: int, template: UsidTemplate, outer: bytes, destination: bytes, ev: int, dscp: int, ecn: int
    ) -> native.Template:
        """For MRC frames on the path `ev`, in the format given by the settings; `outer` is its outer address."""
        label, sport = self.entropy(ev)
        if not self._routed:
            return self._template(port, b"", b"", 0, destination, label, sport, dscp, ecn)
        if not self._with_segment:
            return self._template(port, outer, b"", 0, destination, label, sport, dscp, ecn)
        segment, left = (outer, 0) if template.segment is None else (template.segment, 1)
        return self._template(port, outer, segment, left, destination, label, sport, dscp, ecn)

    def entropy(self, ev: int) -> tuple[int, int]:
        """All that differs by entropy value on one path: the flow label's low 16 bits and UDP source port."""
        sport, label = (ev, 0) if self._udp else split_ev(ev, self._settings.ev_order)
        return label, sport

    def srv6(self, port: int, outer: bytes, destination: bytes, ev: int, dscp: int, ecn: int) -> native.Template:
        """For SRv6 frames without a Segment Routing Header, whatever the settings."""
        label, sport = self.entropy(ev)
        return self._template(port, outer, b"", 0, destination, label, sport, dscp, ecn)

    def hashed(self, port: int, destination: bytes, sport: int, dscp: int, ecn: int) -> native.Template:
        """For frames without outer header, entropy (16 bits) in the source port alone."""
        return self._template(port, b"", b"", 0, destination, 0, sport, dscp, ecn)

    def _template(
        self, port: int, outer: bytes, segment: bytes, left: int, destination: bytes, label: int, sport: int,
        dscp: int, ecn: int,
    ) -> native.Template:  # fmt: skip
        settings = self._settings
        made: native.Template = self._make(
            self._ethernet[port], outer, segment, left, self._address, destination, label, sport, settings.udp_port,
            dscp, ecn, settings.hop_limit,
        )  # fmt: skip
        return made
