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
from mrc_host.wire import fields, opcodes

UDP_PORT = 4791
UDP_PORTS = (4791, 4971)
ENDPOINT_QPN = opcodes.ENDPOINT_QPN

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST = opcodes.WRITE_FIRST, opcodes.WRITE_MIDDLE, opcodes.WRITE_LAST
WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = opcodes.WRITE_LAST_IMM, opcodes.WRITE_ONLY, opcodes.WRITE_ONLY_IMM
TRANSPORT_ACK, SACK, NACK, PROBE = opcodes.TRANSPORT_ACK, opcodes.SACK, opcodes.NACK, opcodes.PROBE
ENDPOINT_REQUEST, ENDPOINT_RESPONSE = opcodes.ENDPOINT_REQUEST, opcodes.ENDPOINT_RESPONSE

OPCODES = fields.OPCODES
NACK_REASONS = fields.REASONS
PATH_MARKS = fields.MARKS
ENDPOINT_OPERATIONS = fields.OPERATIONS
TIMESTAMP_UNITS = fields.UNITS

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

_SIZED = {8: ByteField, 16: ShortField, 32: IntField}
_SIZED_HEX = {8: XByteField, 16: XShortField, 32: XIntField, 64: XLongField}


def _fields(header: fields.WireHeader) -> list[Any]:
    """Scapy's fields of a header."""
    return [made for field, _offset, _length, mask in header.placed() for made in _field(field, mask)]


def _field(field: fields.WireField, mask: int) -> list[Any]:
    """A field, of whole bytes if its `mask` is 0; two where its bits mean something else in an answer to a probe."""
    name, default, bits = field.name, field.default, field.bits
    if bits > 64:
        return [StrFixedLenField(name, bytes(bits // 8), bits // 8)]
    if field.values:
        names = dict(fields.VALUES[field.values])
        return [ByteEnumField(name, default, names) if bits == 8 else BitEnumField(name, default, bits, names)]
    if field.signed:
        made = SignedShortField(name, default)
        if not field.also[0]:
            return [made]
        other = ShortField(field.also[0], 0)
        return [ConditionalField(made, lambda packet: not packet.pr), ConditionalField(other, lambda packet: packet.pr)]
    sized = (_SIZED_HEX if field.hex and not name.startswith("reserved") else _SIZED).get(bits)
    return [BitField(name, default, bits) if sized is None or mask else sized(name, default)]


class MrcBTH(Packet):
    """Base transport header, 12 bytes (docs/protocol.md §1.5), and the ICRC at the end of the packet."""

    name = "MRC BTH"
    fields_desc = [  # noqa: RUF012
        *_fields(fields.BTH),
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
    fields_desc = _fields(fields.METH)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """TSETH where the BTH announces it."""
        bth = self.underlayer
        return TSETH if isinstance(bth, MrcBTH) and bth.ts else RETH


class TSETH(Packet):
    """Transmit timestamp, 4 bytes, present when the BTH's TS bit is set (docs/protocol.md §1.6)."""

    name = "MRC TSETH"
    fields_desc = _fields(fields.TSETH)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """RETH follows."""
        return RETH


class RETH(Packet):
    """RDMA header, 16 bytes: where the payload goes, and the length of the whole message (docs/protocol.md §1.6)."""

    name = "RETH"
    fields_desc = _fields(fields.RETH)

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
    fields_desc = _fields(fields.IMMDT)


class SETH(Packet):
    """Selective acknowledgement without its congestion state: 28 bytes (docs/protocol.md §1.7)."""

    name = "MRC SETH"
    fields_desc = _fields(fields.SETH)

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
    fields_desc = _fields(fields.CCSTATE)


class NETH(Packet):
    """Negative acknowledgement, 20 bytes (docs/protocol.md §1.8)."""

    name = "MRC NETH"
    fields_desc = _fields(fields.NETH)


class PETH(Packet):
    """Reliability probe, 16 bytes (docs/protocol.md §1.9)."""

    name = "MRC PETH"
    fields_desc = _fields(fields.PETH)


class ERTH(Packet):
    """Endpoint request, 16 bytes (docs/protocol.md §1.9)."""

    name = "MRC ERTH"
    fields_desc = _fields(fields.ERTH)


class EETH(Packet):
    """Endpoint response, 36 bytes; the operation in bits 3:2 of the first two bytes (docs/protocol.md §1.9, §10)."""

    name = "MRC EETH"
    fields_desc = _fields(fields.EETH)


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
