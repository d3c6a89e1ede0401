"""Selective acknowledgements, NACKs, probes and endpoint operations (docs/protocol.md §1.7 to §1.9).

Each is ``BTH 12 | one header`` and has no payload. ``pack_*`` give the bytes from the BTH on, without ICRC;
``parse_*`` read a buffer from the offset just after the BTH. Context ids (spdcid, dpdcid) carry the low 16 bits of
source and destination QPN, as all known implementations do.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mrc_host.wire import opcodes
from mrc_host.wire.fields import BTH, CCSTATE, EETH, ERTH, NETH, PETH, REASONS, SETH, layout
from mrc_host.wire.headers import PKEY, TS_TICK_1US

MARK_NONE: Final = 0
MARK_SKIP_ONCE: Final = 1  # the forward packet was ECN-marked
MARK_ALWAYS_SKIP: Final = 2  # the responder considers the path bad

SACK_BITS: Final = 64
RCVD_UNIT: Final = 256  # bytes per unit of rcvd_bytes
_NOMINAL: Final = 40 + 8 + 4  # an IPv6 header, the UDP header and the ICRC

NACK_TRIMMED: Final = 0x01
NACK_TRIMMED_LASTHOP: Final = 0x02
NACK_NO_BITMAP: Final = 0x06
NACK_NO_PKT_BUFFER: Final = 0x07
NACK_NO_RESOURCE: Final = 0x0A
NACK_PSN_OOR_WINDOW: Final = 0x0B
NACK_UNEXP_EVENT: Final = 0x19

NACK_NAMES: Final = {reason: name.lower() for reason, name in REASONS.items()}

OP_PORT_STATUS_UPDATE: Final = 0
OP_EV_PROBE: Final = 1
OP_PATH_PROBE: Final = 2  # ours (docs/protocol.md §10): never answered, counted where it arrives
OP_NO_QP: Final = 3  # ours (docs/protocol.md §12.1): never answered

NO_ENTROPY: Final = 0xFFFFFFFF  # in a SACK of a sweep, which answers no packet in particular
MAX_SERVICE_TIME: Final = 0xFFFFFFFF  # ns; longer times are not reported

_CC_NSCC: Final = 0
_CC_NACK: Final = 2

_sack_body: Final = struct.Struct(layout(SETH, CCSTATE))
_sack: Final = struct.Struct(layout(BTH, SETH, CCSTATE))
_pack_sack: Final = _sack.pack
_unpack_sack: Final = _sack_body.unpack_from
_nack: Final = struct.Struct(layout(BTH, NETH))
_nack_body: Final = struct.Struct(layout(NETH))
_probe: Final = struct.Struct(layout(BTH, PETH))
_probe_body: Final = struct.Struct(layout(PETH))
_request: Final = struct.Struct(layout(BTH, ERTH))
_request_body: Final = struct.Struct(layout(ERTH))
_response: Final = struct.Struct(layout(BTH, EETH))
_response_body: Final = struct.Struct(layout(EETH))

SACK_LENGTH: Final = _sack_body.size
NACK_LENGTH: Final = _nack_body.size
PROBE_LENGTH: Final = _probe_body.size
REQUEST_LENGTH: Final = _request_body.size
RESPONSE_LENGTH: Final = _response_body.size


class Nack(NamedTuple):
    """NETH: one packet is missing at the responder, and why."""

    reason: int
    entropy: int
    source_id: int
    destination_id: int
    psn: int
    timestamp: int


class Probe(NamedTuple):
    """PETH: asks for a SACK with `probe` set."""

    probe_id: int
    source_id: int
    destination_id: int
    timestamp: int


class EndpointRequest(NamedTuple):
    """ERTH: `port_mask` has the usable ports for OP_PORT_STATUS_UPDATE, the round for OP_PATH_PROBE, else nothing.

    For OP_NO_QP it is a QPN, and `timestamp` is that of the packet that was sent there.
    """

    op: int
    port_mask: int
    timestamp: int


class EndpointResponse(NamedTuple):
    """EETH: echoes the request's operation and timestamp; `service_time` in ns, 0 when not reported (§10)."""

    op: int
    timestamp: int
    service_time: int = 0


def nominal_size(length: int) -> int:
    """Size at which rcvd_bytes counts a packet: UDP length + 40, rounded up to whole units (docs/protocol.md §4).

    `length` is the packet's from the BTH to before the ICRC.
    """
    return (length + _NOMINAL + RCVD_UNIT - 1) & -RCVD_UNIT


def pack_nack(qpn: int, nack: Nack) -> bytes:
    """NACK (32 bytes) to `qpn`; the BTH's PSN is the nacked one."""
    return _nack.pack(
        opcodes.NACK,
        0,
        PKEY,
        qpn,
        nack.psn,
        0,
        nack.reason,
        0,
        nack.entropy,
        nack.source_id,
        nack.destination_id,
        nack.psn,
        _CC_NACK << 4,
        0,
        nack.timestamp,
    )


def parse_nack(buffer: bytes | memoryview, offset: int) -> Nack:
    """NETH at `offset`; struct.error when too short."""
    _t, reason, _v, entropy, source, destination, psn, _c, _r, timestamp = _nack_body.unpack_from(buffer, offset)
    return Nack(reason, entropy, source, destination, psn & 0xFFFFFF, timestamp)


def pack_probe(qpn: int, probe: Probe) -> bytes:
    """Reliability probe (28 bytes); it uses no PSN."""
    return _probe.pack(
        opcodes.PROBE,
        0,
        PKEY,
        qpn,
        0,
        0,
        probe.probe_id,
        0,
        probe.source_id,
        probe.destination_id,
        probe.timestamp,
        TS_TICK_1US,
    )


def parse_probe(buffer: bytes | memoryview, offset: int) -> Probe:
    """PETH at `offset`; struct.error when too short."""
    _type, probe_id, _reserved, source, destination, timestamp, _unit = _probe_body.unpack_from(buffer, offset)
    return Probe(probe_id, source, destination, timestamp)


def pack_endpoint_request(request_id: int, request: EndpointRequest) -> bytes:
    """Endpoint request (28 bytes) to the reserved QPN; the low 16 bits of the PSN carry `request_id`."""
    return _request.pack(
        opcodes.ENDPOINT_REQUEST,
        0,
        PKEY,
        opcodes.ENDPOINT_QPN,
        request_id & 0xFFFF,
        request.op & 3,
        0,
        0,
        request.port_mask,
        0,
        request.timestamp,
        TS_TICK_1US,
    )


def parse_endpoint_request(buffer: bytes | memoryview, offset: int) -> EndpointRequest:
    """ERTH at `offset`; struct.error when too short."""
    first, _r, _v, mask, _res, timestamp, _ts = _request_body.unpack_from(buffer, offset)
    return EndpointRequest(first & 3, mask, timestamp)


def pack_endpoint_response(request_id: int, response: EndpointResponse, op_shift: int = 2) -> bytes:
    """Endpoint response (48 bytes). `op_shift` is the position of the operation: sources say bits 3:2 or 5:4."""
    return _response.pack(
        opcodes.ENDPOINT_RESPONSE,
        0,
        PKEY,
        opcodes.ENDPOINT_QPN,
        request_id & 0xFFFF,
        (response.op & 3) << op_shift,
        response.timestamp,
        0,
        response.service_time,
    )


def parse_endpoint_response(buffer: bytes | memoryview, offset: int, op_shift: int = 2) -> EndpointResponse:
    """EETH at `offset`; struct.error when too short."""
    first, timestamp, _reserved, service_time = _response_body.unpack_from(buffer, offset)
    return EndpointResponse(first >> op_shift & 3, timestamp, service_time)


# generated by scripts/wire_forms.py: SACKs


class Sack:
    """SETH and CC_STATE. PSNs are 24 bit; `ack_offset` is the probe id when `probe` is set. Fields not given are 0.

    A class with slots, since it is created and read for every few packets: compiled, a named tuple would take twice as
    long as everything else in packing and parsing.
    """

    __slots__ = (
        "ack_offset",
        "bitmap",
        "bitmap_offset",
        "cack_psn",
        "cwnd_penalty",
        "destination_id",
        "entropy",
        "mark",
        "mpr",
        "ooo_count",
        "probe",
        "rcvd_units",
        "restore_cwnd",
        "source_id",
        "timestamp",
    )

    def __init__(
        self,
        *,
        mark: int = 0,
        probe: bool = False,
        ack_offset: int = 0,
        entropy: int = 0,
        source_id: int = 0,
        destination_id: int = 0,
        cack_psn: int = 0,
        mpr: int = 0,
        bitmap_offset: int = 0,
        bitmap: int = 0,
        timestamp: int = 0,
        ooo_count: int = 0,
        restore_cwnd: bool = False,
        cwnd_penalty: int = 0,
        rcvd_units: int = 0,
    ) -> None:
        self.mark: Final = mark
        self.probe: Final = probe
        self.ack_offset: Final = ack_offset
        self.entropy: Final = entropy
        self.source_id: Final = source_id
        self.destination_id: Final = destination_id
        self.cack_psn: Final = cack_psn
        self.mpr: Final = mpr
        self.bitmap_offset: Final = bitmap_offset
        self.bitmap: Final = bitmap
        self.timestamp: Final = timestamp
        self.ooo_count: Final = ooo_count
        self.restore_cwnd: Final = restore_cwnd
        self.cwnd_penalty: Final = cwnd_penalty
        self.rcvd_units: Final = rcvd_units


def pack_sack(qpn: int, sack: Sack) -> bytes:
    """SACK (48 bytes) to `qpn`; the BTH's PSN is cack_psn."""
    return _pack_sack(
        opcodes.SACK,
        0,
        PKEY,
        qpn,
        sack.cack_psn,
        (sack.mark & 0x3) << 5 | sack.probe << 1,
        sack.ack_offset,
        sack.entropy,
        sack.source_id,
        sack.destination_id,
        sack.cack_psn & 0xFFFFFF,
        0,
        sack.mpr,
        sack.bitmap_offset,
        sack.bitmap,
        sack.timestamp,
        sack.ooo_count & 0x7FFF,
        sack.restore_cwnd << 31 | (sack.cwnd_penalty & 0x7F) << 24 | sack.rcvd_units & 0xFFFFFF,
    )


def parse_sack(buffer: bytes | memoryview, offset: int) -> Sack:
    """SETH and CC_STATE at `offset`; struct.error when too short."""
    number0: int  # struct returns Any
    number5: int  # struct returns Any
    number11: int  # struct returns Any
    number12: int  # struct returns Any
    (
        number0,
        ack_offset,
        entropy,
        source_id,
        destination_id,
        number5,
        _6,
        mpr,
        bitmap_offset,
        bitmap,
        timestamp,
        number11,
        number12,
    ) = _unpack_sack(buffer, offset)
    return Sack(
        mark=number0 >> 5 & 0x3,
        probe=bool(number0 >> 1 & 1),
        ack_offset=ack_offset,
        entropy=entropy,
        source_id=source_id,
        destination_id=destination_id,
        cack_psn=number5 & 0xFFFFFF,
        mpr=mpr,
        bitmap_offset=bitmap_offset,
        bitmap=bitmap,
        timestamp=timestamp,
        ooo_count=number11 & 0x7FFF,
        restore_cwnd=bool(number12 >> 31 & 1),
        cwnd_penalty=number12 >> 24 & 0x7F,
        rcvd_units=number12 & 0xFFFFFF,
    )


# end of SACKs
