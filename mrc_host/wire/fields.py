"""Headers of MRC packets from the BTH on, field by field, in the order of their bits (docs/protocol.md §1.5 to §1.9).

This table is the home of the format. From it come the struct formats with which the NIC packs and parses headers
(``layout``), Scapy's layers (``mrc_host.captures.scapy_layers``), and what ``scripts.wire_forms`` writes: the value and
codec of a SACK, the places of its fields in C, the rows of Wireshark's dissector, and the table of docs/protocol.md.
All numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mrc_host.wire import opcodes

OPCODES: Final = {
    opcodes.WRITE_FIRST: "WRITE First",
    opcodes.WRITE_MIDDLE: "WRITE Middle",
    opcodes.WRITE_LAST: "WRITE Last",
    opcodes.WRITE_LAST_IMM: "WRITE Last with Immediate",
    opcodes.WRITE_ONLY: "WRITE Only",
    opcodes.WRITE_ONLY_IMM: "WRITE Only with Immediate",
    opcodes.TRANSPORT_ACK: "Transport ACK",
    opcodes.ENDPOINT_REQUEST: "Endpoint Request",
    opcodes.ENDPOINT_RESPONSE: "Endpoint Response",
    opcodes.SACK: "Reliability SACK",
    opcodes.NACK: "Reliability NACK",
    opcodes.PROBE: "Reliability Probe",
}
REASONS: Final = {
    0x01: "TRIMMED",
    0x02: "TRIMMED_LASTHOP",
    0x06: "NO_BITMAP",
    0x07: "NO_PKT_BUFFER",
    0x0A: "NO_RESOURCE",
    0x0B: "PSN_OOR_WINDOW",
    0x19: "UNEXP_EVENT",
}
MARKS: Final = {0: "NONE", 1: "SKIP_ONCE", 2: "ALWAYS_SKIP"}
OPERATIONS: Final = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE", 2: "PATH_PROBE"}
UNITS: Final = {0: "128 ns", 1: "implementation defined (ours: 1 us)"}

VALUES: Final[Mapping[str, Mapping[int, str]]] = {
    "OPCODES": OPCODES, "REASONS": REASONS, "MARKS": MARKS, "OPERATIONS": OPERATIONS, "UNITS": UNITS,
}  # fmt: skip
"""Names of values, by the name of their table."""


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of `bits`: its name in captures, what it says, the table of names of its values, and how it is shown."""

    name: str
    bits: int
    label: str
    values: str = ""  # a key of VALUES
    hex: bool = False
    signed: bool = False
    default: int = 0  # of a packet that Scapy builds
    also: tuple[str, str] = ("", "")  # name and meaning of the same bits in other packets of the kind
    attribute: str = ""  # its name in the values that are packed and parsed, unless that is `name`


@dataclass(frozen=True, slots=True)
class WireHeader:
    """A header; `prefix` begins the names of its fields in Wireshark."""

    name: str
    title: str
    prefix: str
    section: str
    fields: tuple[WireField, ...]

    @property
    def length(self) -> int:
        """Length in bytes."""
        return sum([each.bits for each in self.fields]) // 8

    def placed(self) -> Iterator[tuple[WireField, int, int, int]]:
        """Each field with the bytes that hold it, as offset and length, and its mask in them; 0: all of their bits."""
        first = 0
        for each in self.fields:
            offset, end = first // 8, -(-(first + each.bits) // 8)
            whole = each.bits == 8 * (end - offset)
            mask = 0 if whole else (1 << each.bits) - 1 << 8 * end - first - each.bits
            yield each, offset, end - offset, mask
            first += each.bits


def _reserved(bits: int, number: int = 1) -> WireField:
    return WireField("reserved" if number == 1 else f"reserved{number}", bits, "Reserved", hex=True)


_TYPE: Final = (WireField("type", 4, "Type"), WireField("nh", 5, "Next header"))
_CONTEXTS: Final = (
    WireField("spdcid", 16, "Source context id", hex=True, attribute="source_id"),
    WireField("dpdcid", 16, "Destination context id", hex=True, attribute="destination_id"),
)


def _congestion(kind: int = 0) -> tuple[WireField, ...]:
    return (
        WireField("cc_type", 4, "Congestion control type", default=kind),
        WireField("cc_flags", 4, "Congestion control flags", hex=True),
    )


_STAMP: Final = WireField("timestamp", 16, "Transmit timestamp")
_UNIT: Final = WireField("unit", 1, "Unit", "UNITS")
_ECHO: Final = WireField("timestamp", 16, "Echoed transmit timestamp")

BTH: Final = WireHeader(
    "BTH", "BTH", "bth.", "1.5",
    (
        WireField("opcode", 8, "Opcode", "OPCODES", hex=True, default=opcodes.WRITE_ONLY),
        WireField("m", 1, "M"),
        WireField("se", 1, "Solicited event"),
        WireField("pad", 2, "Pad count"),
        WireField("tver", 4, "Transport version"),
        WireField("pkey", 16, "Partition key", hex=True, default=0xFFFF),
        _reserved(8),
        WireField("dest_qp", 24, "Destination QP", hex=True),
        WireField("ack_req", 1, "Acknowledge request"),
        WireField("r", 1, "R"),
        WireField("rtx", 1, "Retransmission"),
        WireField("ts", 1, "TSETH present"),
        _reserved(4, 2),
        WireField("psn", 24, "PSN"),
    ),
)  # fmt: skip
METH: Final = WireHeader("METH", "METH", "meth.", "1.6", (WireField("rqmsn", 16, "RQMSN"), WireField("msn", 16, "MSN")))
TSETH: Final = WireHeader(
    "TSETH", "TSETH", "tseth.", "1.6", (_STAMP, _UNIT, _reserved(11), WireField("type", 4, "Type", default=1))
)
RETH: Final = WireHeader(
    "RETH", "RETH", "reth.", "1.6",
    (
        WireField("address", 64, "Virtual address", hex=True),
        WireField("rkey", 32, "Remote key", hex=True),
        WireField("length", 32, "Message length"),
    ),
)  # fmt: skip
IMMDT: Final = WireHeader(
    "IMMDT", "Immediate data", "immdt.", "1.6", (WireField("data", 32, "Immediate data", hex=True),)
)
AETH: Final = WireHeader(
    "AETH", "AETH", "aeth.", "2", (WireField("syndrome", 8, "Syndrome", hex=True), WireField("msn", 24, "MSN"))
)
SETH: Final = WireHeader(
    "SETH", "SETH", "seth.", "1.7",
    (
        *_TYPE,
        WireField("m", 2, "Path mark", "MARKS", attribute="mark"),
        _reserved(3),
        WireField("pr", 1, "Answer to a probe", attribute="probe"),
        _reserved(1, 2),
        WireField(
            "ack_psn_offset", 16, "Distance to the PSN that caused this", signed=True,
            also=("probe_id", "Probe id, where pr is set"), attribute="ack_offset",
        ),
        WireField("ev", 32, "Entropy value of the packet that caused this", hex=True, attribute="entropy"),
        *_CONTEXTS,
        _reserved(8, 3),
        WireField("cack_psn", 24, "Cumulative PSN"),
        *_congestion(),
        WireField("mpr", 8, "MPR (units of 128 PSNs)"),
        WireField("sack_offset", 16, "Bitmap offset", signed=True, attribute="bitmap_offset"),
        WireField("bitmap", 64, "Bitmap", hex=True),
    ),
)  # fmt: skip
CCSTATE: Final = WireHeader(
    "CCSTATE", "CC_STATE", "ccstate.", "1.7",
    (
        _ECHO,
        WireField("reserved", 1, "Reserved"),
        WireField("ooo_count", 15, "Out-of-order count"),
        WireField("restore_cwnd", 1, "Restore cwnd"),
        WireField("rcv_cwnd_pen", 7, "Receiver's window penalty", attribute="cwnd_penalty"),
        WireField("rcvd_bytes", 24, "Bytes received (units of 256)", attribute="rcvd_units"),
    ),
)  # fmt: skip
NETH: Final = WireHeader(
    "NETH", "NETH", "neth.", "1.8",
    (
        *_TYPE,
        _reserved(7),
        WireField("reason", 8, "Reason", "REASONS", hex=True),
        WireField("vendor", 8, "Vendor", hex=True),
        WireField("ev", 32, "Entropy value of the refused packet", hex=True),
        *_CONTEXTS,
        _reserved(8, 2),
        WireField("nack_psn", 24, "Refused PSN"),
        *_congestion(2),
        _reserved(8, 3),
        _ECHO,
    ),
)  # fmt: skip
PETH: Final = WireHeader(
    "PETH", "PETH", "peth.", "1.9",
    (
        *_TYPE,
        _reserved(15),
        WireField("vendor", 8, "Vendor", hex=True),
        WireField("probe_id", 16, "Probe id", hex=True),
        _reserved(16, 2),
        *_CONTEXTS,
        _STAMP,
        _UNIT,
        _reserved(11, 3),
        WireField("ftype", 4, "Type", default=1),
    ),
)  # fmt: skip
ERTH: Final = WireHeader(
    "ERTH", "ERTH", "erth.", "1.9",
    (
        *_TYPE,
        _reserved(5),
        WireField("operation", 2, "Operation", "OPERATIONS"),
        _reserved(8, 2),
        WireField("vendor", 8, "Vendor", hex=True),
        WireField("port_mask", 32, "Usable ports", hex=True),
        _reserved(32, 3),
        _STAMP,
        _UNIT,
        _reserved(11, 4),
        WireField("ftype", 4, "Type", default=1),
    ),
)  # fmt: skip
EETH: Final = WireHeader(
    "EETH", "EETH", "eeth.", "1.9",
    (
        *_TYPE,
        _reserved(3),
        WireField("operation", 2, "Operation", "OPERATIONS"),
        _reserved(2, 2),
        _reserved(208, 3),
        _ECHO,
        _reserved(16, 4),
        WireField("service_time", 32, "Service time (ns)"),
    ),
)  # fmt: skip

HEADERS: Final = (BTH, METH, TSETH, RETH, IMMDT, AETH, SETH, CCSTATE, NETH, PETH, ERTH, EETH)

_CODES: Final = {8: "B", 16: "H", 32: "I", 64: "Q"}


def layout(*headers: WireHeader) -> str:
    """The struct format of these headers behind each other: a number for each field or group of fields.

    Fields that share bytes are one number, as is a byte with the 24 bits after it; more than 64 reserved bits are
    skipped.
    """
    return "!" + "".join([code for header in headers for code, _ in numbers(header)])


def numbers(header: WireHeader) -> Iterator[tuple[str, tuple[WireField, ...]]]:
    """The numbers of :func:`layout`: the code of each, and the fields in it, the highest first; none if skipped."""
    bits, first, fields = 0, 0, header.fields
    for number, each in enumerate(fields):
        if not bits and each.bits > 64:
            yield f"{each.bits // 8}x", ()
            first = number + 1
            continue
        bits += each.bits
        joined = bits == 8 and number + 1 < len(fields) and fields[number + 1].bits == 24
        if bits in _CODES and not joined:
            yield _CODES[bits].lower() if each.signed else _CODES[bits], fields[first : number + 1]
            bits, first = 0, number + 1
