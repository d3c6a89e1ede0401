"""MRC as scapy layers, for tests, captures and tools, where clarity matters more than speed.

Importing this module registers UDP port 4791 (and 4971, docs/protocol.md §1.2) in scapy as MRC when the top three bits
of the first byte are 110, and as RoCEv2 otherwise. RoCEv2's own headers come from ``scapy.contrib.roce``; what that
lacks for the RC writes of the baseline (RETH, immediate data) is added here. For example::

    Ether() / IPv6(dst=usid_address(0xFC000000, [0x2001, 0x4002, 0x2003, 0x6004])) / IPv6(dst="fd00::1")
        / UDP(sport=7, chksum=0) / MrcBTH(opcode=0xCA, ts=1) / METH() / TSETH() / RETH() / Raw(b"data")

The headers after the BTH follow from its opcode and its TS bit. The ICRC is a field of the BTH, as in scapy's RoCE
layer, although it is at the end of the packet; left at None it is computed. Packets whose outermost IP header has
the DSCP of a trimmed packet (the default roles of ``mrc_host.config.Dscp``) have no ICRC and may end after any header.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Any

from scapy.contrib import roce
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FCSField,
    IntField,
    ShortField,
    SignedShortField,
    StrFixedLenField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_layers, bind_top_down, split_layers

from mrc_host.config import Dscp, EvOrder

UDP_PORT = 4791
UDP_PORTS = (4791, 4971)
ENDPOINT_QPN = 2

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(0xC6, 0xCC)
TRANSPORT_ACK, ENDPOINT_REQUEST, ENDPOINT_RESPONSE, SACK, NACK, PROBE = 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE

OPCODES = {
    WRITE_FIRST: "WRITE First",
    WRITE_MIDDLE: "WRITE Middle",
    WRITE_LAST: "WRITE Last",
    WRITE_LAST_IMM: "WRITE Last with Immediate",
    WRITE_ONLY: "WRITE Only",
    WRITE_ONLY_IMM: "WRITE Only with Immediate",
    TRANSPORT_ACK: "Transport ACK",
    ENDPOINT_REQUEST: "Endpoint Request",
    ENDPOINT_RESPONSE: "Endpoint Response",
    SACK: "Reliability SACK",
    NACK: "Reliability NACK",
    PROBE: "Reliability Probe",
}
NACK_REASONS = {
    0x01: "TRIMMED",
    0x02: "TRIMMED_LASTHOP",
    0x06: "NO_BITMAP",
    0x07: "NO_PKT_BUFFER",
    0x0A: "NO_RESOURCE",
    0x0B: "PSN_OOR_WINDOW",
    0x19: "UNEXP_EVENT",
}
PATH_MARKS = {0: "NONE", 1: "SKIP_ONCE", 2: "ALWAYS_SKIP"}
ENDPOINT_OPERATIONS = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE", 2: "PATH_PROBE"}
TIMESTAMP_UNITS = {0: "128 ns", 1: "implementation defined (ours: 1 us)"}

_DATA_OPCODES = frozenset(range(WRITE_FIRST, WRITE_ONLY_IMM + 1))
_TRIMMED = (Dscp().trimmed, Dscp().trimmed_lasthop)


# ---- what lies below the transport ---------------------------------------------------------------------------------


def usid_address(block: int, usids: Sequence[int]) -> str:
    """IPv6 address of a uSID list in format F3216: a 32-bit block and up to six 16-bit uSIDs (docs/protocol.md §5)."""
    if not 1 <= len(usids) <= 6:
        raise ValueError(f"a uSID list holds 1 to 6 uSIDs, not {len(usids)}: split the path")
    words = list(usids) + [0] * (6 - len(usids))
    return str(IPv6Address(block.to_bytes(4, "big") + b"".join(word.to_bytes(2, "big") for word in words)))


def usid_list(address: str) -> tuple[int, tuple[int, ...]]:
    """Block and remaining uSIDs of an outer destination address; the first zero ends the list."""
    packed = IPv6Address(address).packed
    words = [int.from_bytes(packed[i : i + 2], "big") for i in range(4, 16, 2)]
    end = words.index(0) if 0 in words else len(words)
    return int.from_bytes(packed[:4], "big"), tuple(words[:end])


def describe_usid(usid: int) -> str:
    """A uSID described by this project's plan (docs/protocol.md §5): kind, plane and number, such as ``T1@p2 #5``."""
    kind = {1: "T0", 2: "T1", 3: "NIC"}.get(usid >> 13, f"kind {usid >> 13}")
    return f"{kind}@p{usid >> 10 & 7} #{usid & 0x3FF}"


def ip_layers(packet: Packet) -> list[Packet]:
    """All IP headers above the UDP header of `packet`, outermost first, whichever layer of it is given."""
    layer = packet[UDP] if packet.haslayer(UDP) else packet
    found: list[Packet] = []
    while layer is not None:
        if isinstance(layer, (IP, IPv6)):
            found.insert(0, layer)
        layer = layer.underlayer
    return found


def dscp(ip: Packet) -> int:
    """DSCP of an IPv4 or IPv6 header."""
    return int(ip.tos if isinstance(ip, IP) else ip.tc) >> 2


def is_trimmed(packet: Packet) -> bool:
    """Whether the outermost IP header carries the DSCP of a trimmed packet (docs/protocol.md §1.10)."""
    layers = ip_layers(packet)
    return bool(layers) and dscp(layers[0]) in _TRIMMED


def entropy_value(packet: Packet, order: EvOrder = EvOrder.LOW_IN_SOURCE_PORT) -> int:
    """Entropy value a packet carries in UDP source port and inner flow label (docs/protocol.md §1.3)."""
    ip = ip_layers(packet)[-1]
    port, label = int(packet[UDP].sport), int(ip.fl) & 0xFFFF if isinstance(ip, IPv6) else 0
    return label << 16 | port if order is EvOrder.LOW_IN_SOURCE_PORT else port << 16 | label


def icrc(udp: Packet, transport: bytes) -> int:
    """ICRC by RoCEv2's rule on the innermost IP packet; `transport` is everything from the BTH to before the ICRC.

    The fields that change on the way count as ones: traffic class, hop limit, flow label, checksums, and byte 4 of the
    BTH. On the wire the value is stored least significant byte first.
    """
    ip: Any = udp.underlayer
    length = 8 + len(transport) + 4
    header: Any
    if isinstance(ip, IP):
        header = IP(
            tos=0xFF, ttl=0xFF, chksum=0xFFFF, proto=17, len=ip.len, id=ip.id, flags=ip.flags, frag=ip.frag,
            src=ip.src, dst=ip.dst, options=ip.options,
        )  # fmt: skip
        header.len = ip.len if ip.len is not None else len(bytes(header)) + length
    else:
        plen = ip.plen if ip.plen is not None else length
        header = IPv6(tc=0xFF, fl=0xFFFFF, hlim=0xFF, nh=17, plen=plen, src=ip.src, dst=ip.dst)
    ports = UDP(sport=udp.sport, dport=udp.dport, len=udp.len if udp.len is not None else length, chksum=0xFFFF)
    masked = b"\xff" * 8 + bytes(header) + bytes(ports) + transport[:4] + b"\xff" + transport[5:]
    return zlib.crc32(masked)


def icrc_is_right(packet: Packet) -> bool:
    """Whether the ICRC of a dissected MRC or RoCEv2 packet is right; always False for a trimmed one."""
    udp = packet[UDP]
    transport = bytes(udp.payload.original)
    return len(transport) > 16 and icrc(udp, transport[:-4]).to_bytes(4, "little") == transport[-4:]


# ---- headers -------------------------------------------------------------------------------------------------------


class MrcBTH(Packet):
    """Base transport header, 12 bytes (docs/protocol.md §1.5), and the ICRC at the end of the packet."""

    name = "MRC BTH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("opcode", WRITE_ONLY, OPCODES),
        BitField("m", 0, 1),
        BitField("se", 0, 1),
        BitField("pad", 0, 2),
        BitField("tver", 0, 4),
        XShortField("pkey", 0xFFFF),
        XByteField("reserved", 0),
        BitField("dest_qp", 0, 24),
        BitField("ack_req", 0, 1),
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", 0, 1),
        BitField("reserved2", 0, 4),
        BitField("psn", 0, 24),
        ConditionalField(FCSField("icrc", None, fmt="<I"), lambda packet: not is_trimmed(packet)),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_kwargs: Any) -> type[Packet]:
        """Opcodes whose top three bits are not 110 are RoCEv2's."""
        return roce.BTH if _pkt and _pkt[0] >> 5 != 0b110 else cls

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the ICRC unless it was given."""
        whole = pkt + pay
        if self.icrc is None and not is_trimmed(self) and isinstance(self.underlayer, UDP):
            whole = whole[:-4] + icrc(self.underlayer, whole[:-4]).to_bytes(4, "little")
        return whole

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Header after the BTH, by opcode."""
        if self.opcode in _DATA_OPCODES:
            return METH
        return _CONTROL_HEADERS.get(self.opcode, Raw)

    def mysummary(self) -> str:
        """Opcode, queue pair and PSN."""
        name = OPCODES.get(self.opcode, hex(self.opcode))
        return f"MRC {name} qp {self.dest_qp} psn {self.psn}" + (" RTX" if self.rtx else "")


class METH(Packet):
    """Message header, 4 bytes, in every data packet (docs/protocol.md §1.6)."""

    name = "MRC METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]  # noqa: RUF012

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """TSETH where the BTH announces it."""
        bth = self.underlayer
        return TSETH if isinstance(bth, MrcBTH) and bth.ts else RETH


class TSETH(Packet):
    """Transmit timestamp, 4 bytes, present when the BTH's TS bit is set (docs/protocol.md §1.6)."""

    name = "MRC TSETH"
    fields_desc = [  # noqa: RUF012
        ShortField("timestamp", 0),
        BitEnumField("unit", 0, 1, TIMESTAMP_UNITS),
        BitField("reserved", 0, 11),
        BitField("type", 1, 4),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """RETH follows."""
        return RETH


class RETH(Packet):
    """RDMA header, 16 bytes: where the payload goes, and the length of the whole message (docs/protocol.md §1.6)."""

    name = "RETH"
    fields_desc = [  # noqa: RUF012
        XLongField("address", 0),
        XIntField("rkey", 0),
        IntField("length", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Immediate data for the opcodes that carry it; RC shares the low five bits of the opcode with MRC."""
        layer = self.underlayer
        while layer is not None and not isinstance(layer, (MrcBTH, roce.BTH)):
            layer = layer.underlayer
        with_immediate = (WRITE_LAST_IMM & 0x1F, WRITE_ONLY_IMM & 0x1F)
        return ImmDt if layer is not None and layer.opcode & 0x1F in with_immediate else Raw


class ImmDt(Packet):
    """Immediate data, 4 bytes."""

    name = "ImmDt"
    fields_desc = [XIntField("data", 0)]  # noqa: RUF012


class SETH(Packet):
    """Selective acknowledgement without its congestion state: 28 bytes (docs/protocol.md §1.7)."""

    name = "MRC SETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitEnumField("m", 0, 2, PATH_MARKS),
        BitField("reserved", 0, 3),
        BitField("pr", 0, 1),
        BitField("reserved2", 0, 1),
        # a signed distance, or the id of the probe that is answered
        ConditionalField(SignedShortField("ack_psn_offset", 0), lambda packet: not packet.pr),
        ConditionalField(ShortField("probe_id", 0), lambda packet: packet.pr),
        XIntField("ev", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("reserved3", 0),
        BitField("cack_psn", 0, 24),
        BitField("cc_type", 0, 4),
        BitField("cc_flags", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 0),
        XLongField("bitmap", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """CC_STATE follows."""
        return CCState

    def received(self) -> list[int]:
        """PSNs that the bitmap reports as arrived."""
        base = self.cack_psn + self.sack_offset
        return [(base + bit) & 0xFFFFFF for bit in range(64) if self.bitmap >> bit & 1]


class CCState(Packet):
    """Congestion state of NSCC at the end of a SACK, 8 bytes (docs/protocol.md §1.7)."""

    name = "MRC CC_STATE"
    fields_desc = [  # noqa: RUF012
        ShortField("timestamp", 0),
        BitField("reserved", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        BitField("rcvd_bytes", 0, 24),
    ]


class NETH(Packet):
    """Negative acknowledgement, 20 bytes (docs/protocol.md §1.8)."""

    name = "MRC NETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitField("reserved", 0, 7),
        ByteEnumField("reason", 0, NACK_REASONS),
        ByteField("vendor", 0),
        XIntField("ev", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("reserved2", 0),
        BitField("nack_psn", 0, 24),
        BitField("cc_type", 2, 4),
        BitField("cc_flags", 0, 4),
        ByteField("reserved3", 0),
        ShortField("timestamp", 0),
    ]


class PETH(Packet):
    """Reliability probe, 16 bytes (docs/protocol.md §1.9)."""

    name = "MRC PETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitField("reserved", 0, 15),
        ByteField("vendor", 0),
        ShortField("probe_id", 0),
        ShortField("reserved2", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ShortField("timestamp", 0),
        BitEnumField("unit", 0, 1, TIMESTAMP_UNITS),
        BitField("reserved3", 0, 11),
        BitField("ftype", 1, 4),
    ]


class ERTH(Packet):
    """Endpoint request, 16 bytes (docs/protocol.md §1.9)."""

    name = "MRC ERTH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitField("reserved", 0, 5),
        BitEnumField("operation", 0, 2, ENDPOINT_OPERATIONS),
        ByteField("reserved2", 0),
        ByteField("vendor", 0),
        XIntField("port_mask", 0),
        XIntField("reserved3", 0),
        ShortField("timestamp", 0),
        BitEnumField("unit", 0, 1, TIMESTAMP_UNITS),
        BitField("reserved4", 0, 11),
        BitField("ftype", 1, 4),
    ]


class EETH(Packet):
    """Endpoint response, 36 bytes; the operation in bits 3:2 of the first two bytes (docs/protocol.md §1.9, §10)."""

    name = "MRC EETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitField("reserved", 0, 3),
        BitEnumField("operation", 0, 2, ENDPOINT_OPERATIONS),
        BitField("reserved2", 0, 2),
        StrFixedLenField("reserved3", b"\0" * 26, 26),
        ShortField("timestamp", 0),
        XShortField("reserved4", 0),
        IntField("service_time", 0),
    ]


AETH = roce.AETH
"""Transport acknowledgement, 4 bytes: syndrome and 24-bit MSN; the same header in MRC and RC."""

_CONTROL_HEADERS: dict[int, type[Packet]] = {
    TRANSPORT_ACK: AETH,
    ENDPOINT_REQUEST: ERTH,
    ENDPOINT_RESPONSE: EETH,
    SACK: SETH,
    NACK: NETH,
    PROBE: PETH,
}


# ---- bindings ------------------------------------------------------------------------------------------------------

for _header, _opcode in ((AETH, TRANSPORT_ACK), (ERTH, ENDPOINT_REQUEST), (EETH, ENDPOINT_RESPONSE),
                         (SETH, SACK), (NETH, NACK), (PETH, PROBE)):  # fmt: skip
    bind_top_down(MrcBTH, _header, opcode=_opcode)

# scapy.contrib.roce claims the port for itself; here the first byte decides. Any source port may come with it, also 53,
# so these bindings go before those of other protocols.
split_layers(UDP, roce.BTH, dport=UDP_PORT)
bind_top_down(UDP, roce.BTH, dport=UDP_PORT)
bind_top_down(UDP, MrcBTH, dport=UDP_PORT)
UDP.payload_guess = [({"dport": port}, MrcBTH) for port in UDP_PORTS] + UDP.payload_guess

for _name in ("RDMA_WRITE_FIRST", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY_WITH_IMMEDIATE"):
    bind_layers(roce.BTH, RETH, opcode=roce.opcode("RC", _name)[0])
bind_layers(roce.BTH, ImmDt, opcode=roce.opcode("RC", "RDMA_WRITE_LAST_WITH_IMMEDIATE")[0])
