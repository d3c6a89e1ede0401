"""Frames that the peer sends, and what it reads in those of the NIC under test.

A frame that was read is a :class:`Packet`: its kind and its fields as plain numbers, by the names that scripts use.
PSNs count from the first of their direction and addresses from the first byte of the region, so a script names the same
numbers whatever the two ends chose.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from mrc_host import datapath
from mrc_host.config import NicConfig
from mrc_host.wire import control, encap, headers, opcodes
from mrc_host.wire.psn import HALF, MASK
from mrc_lab.conformance.nic_under_test import pattern

ANSWERS: Final = {opcodes.SACK: "sack", opcodes.NACK: "nack", opcodes.TRANSPORT_ACK: "ack"}
KINDS: Final = {
    **dict.fromkeys(range(opcodes.WRITE_FIRST, opcodes.WRITE_ONLY_IMM + 1), "data"),
    **ANSWERS,
    opcodes.PROBE: "probe",
    opcodes.ENDPOINT_REQUEST: "request",
    opcodes.ENDPOINT_RESPONSE: "response",
}
TRIMMED_BODY: Final = 36  # BTH, METH, TSETH and RETH: what a switch leaves of a packet it trims
_IMM = (opcodes.WRITE_LAST_IMM, opcodes.WRITE_ONLY_IMM)
_bth = struct.Struct("!BBHII")
_words = struct.Struct("!HH")
_reth = struct.Struct("!QII")
_u32 = struct.Struct("!I")
_OUTER: Final = 14  # offset of the outermost IP header


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame of the NIC under test: when it came, on which port, and its fields by name."""

    time_ns: int
    port: int
    frame: bytes
    kind: str
    fields: Mapping[str, int]

    def __str__(self) -> str:
        return " ".join((self.kind, *(f"{name}={value}" for name, value in self.fields.items())))


@dataclass(frozen=True, slots=True)
class Numbering:
    """Where the two ends of a connection begin to count.

    `sent_psn` is the first PSN of the peer, `received_psn` that of the NIC under test; `address` is the first byte that
    the NIC writes to here. `qpn` is the queue pair that the peer plays.
    """

    qpn: int
    sent_psn: int
    received_psn: int
    address: int

    def sent(self, psn: int) -> int:
        """A PSN of the peer's direction, counted from its first."""
        return _signed(psn - self.sent_psn)

    def received(self, psn: int) -> int:
        """A PSN of the NIC's direction, counted from its first."""
        return _signed(psn - self.received_psn)


def _signed(difference: int) -> int:
    return (difference + HALF & MASK) - HALF


class PacketWriter:
    """Builds frames as the NIC that `config` describes would send them to `destination`, one of its destinations."""

    def __init__(self, config: NicConfig, destination: bytes) -> None:
        self.config = config
        (self._to,) = (one for one in config.destinations if one.address == destination)
        self._encapsulation = encap.Encapsulation(config)
        self._frame = datapath.load().frame
        dscp = config.settings.dscp
        self.dscp = {"data": dscp.trimmable, "probe": dscp.no_trim, "request": dscp.no_trim}
        self.trimmed = {1: dscp.trimmed, 2: dscp.trimmed_lasthop}

    def evs(self, port: int) -> list[int]:
        """Entropy values towards the NIC under test that use a port."""
        return [ev for ev in self._to.evs if self._to.template.plane(ev) == port] or list(self._to.evs)

    def frame(self, kind: str, body: bytes, port: int, given: Mapping[str, int]) -> bytes:
        """A whole frame around `body`, from the BTH to the padding.

        `given` may name ev, dscp, ecn, outer_ecn (of the outer header alone), trimmed (1, or 2 at the last hop) and
        icrc (0 for a wrong one).
        """
        control_class = kind in ("sack", "nack", "ack", "response")
        dscp = given.get("dscp", self.config.settings.dscp.control if control_class else self.dscp.get(kind, 0))
        trimmed = given.get("trimmed", 0)
        if trimmed:
            dscp = self.trimmed[trimmed]
        ecn = given.get("ecn", 0 if control_class else encap.ECT0)
        ev = given.get("ev", self.evs(port)[0])
        to = self._to
        outer = to.template.address(ev)
        template = self._encapsulation.path(port, to.template, outer, to.address, ev, dscp, ecn)
        whole = bytearray(self._frame(template, body))
        if "outer_ecn" in given:
            whole[15] = whole[15] & 0xCF | given["outer_ecn"] << 4
        if not given.get("icrc", 1):
            whole[-encap.ICRC_LENGTH] ^= 1
        if trimmed:
            del whole[len(whole) - encap.ICRC_LENGTH - len(body) + TRIMMED_BODY :]
        return bytes(whole)


class PacketReader:
    """Reads frames of the NIC under test that concern one connection, or endpoint operations."""

    def __init__(self, config: NicConfig, numbering: Numbering, source: bytes) -> None:
        """`source` is the address of the NIC under test, and the MAC addresses of its ports are our gateways'."""
        self._settings = config.settings
        self._numbering = numbering
        self._source = source
        self._macs = [port.gateway_mac for port in config.ports]

    def read(self, time_ns: int, port: int, frame: bytes) -> Packet | None:
        """What the frame is; None if it is nothing of MRC's. A frame that ends too early is of kind ``malformed``."""
        prefix = encap.read_prefix(frame, self._settings.ev_order)
        if prefix is None or len(frame) < prefix.start + headers.BTH_LENGTH:
            return None
        (udp_port,) = struct.unpack_from("!H", frame, prefix.start - 6)
        opcode, flags, pkey, qpn, word = _bth.unpack_from(frame, prefix.start)
        if udp_port != self._settings.udp_port or opcode not in KINDS:
            return None
        kind = KINDS[opcode]
        if qpn & MASK != (opcodes.ENDPOINT_QPN if kind in ("request", "response") else self._numbering.qpn):
            return None
        body = frame[prefix.start + headers.BTH_LENGTH : -encap.ICRC_LENGTH]
        common = {"opcode": opcode, "pkey": pkey, "plane": port, "ev": prefix.ev, **_classes(frame, prefix.inner)}
        common["icrc"] = int(_icrc_is_right(frame, prefix))
        common["source"] = int(prefix.source == self._source)
        common["outer_source"] = int(_may_send(_outer_source(frame)))
        common["mac"] = int(frame[6:12] == self._macs[port])
        packet = Packet(time_ns, port, frame, kind, common)
        try:
            return self._with_fields(packet, opcode, flags, word, body)
        except struct.error:
            return replace(packet, kind="malformed")

    def _with_fields(self, packet: Packet, opcode: int, flags: int, word: int, body: bytes) -> Packet:
        if packet.kind == "data":
            return self._data(packet, opcode, flags, word, body)
        numbers, psn = self._numbering, word & MASK
        fields: Mapping[str, int]
        if packet.kind == "sack":
            sack = control.parse_sack(body, 0)
            fields = {
                "cack": numbers.sent(sack.cack_psn), "psn": numbers.sent(psn), "probe": int(sack.probe),
                "distance": sack.ack_offset, "mark": sack.mark, "echo": sack.entropy, "base": sack.bitmap_offset,
                "bitmap": sack.bitmap, "stamp": sack.timestamp, "out_of_order": sack.ooo_count, "mpr": sack.mpr,
                "restore": int(sack.restore_cwnd), "penalty": sack.cwnd_penalty, "units": sack.rcvd_units,
            }  # fmt: skip
        elif packet.kind == "nack":
            nack = control.parse_nack(body, 0)
            fields = {
                "psn": numbers.sent(nack.psn), "reason": nack.reason, "echo": nack.entropy, "stamp": nack.timestamp
            }  # fmt: skip
        elif packet.kind == "ack":
            (last,) = _u32.unpack_from(body)
            fields = {"psn": numbers.sent(psn), "syndrome": last >> 24, "messages": last & 0xFFFFFF}
        elif packet.kind == "probe":
            probe = control.parse_probe(body, 0)
            fields = {"id": probe.probe_id, "stamp": probe.timestamp}
        elif packet.kind == "request":
            request = control.parse_endpoint_request(body, 0)
            fields = {"id": psn, "operation": request.op, "mask": request.port_mask, "stamp": request.timestamp}
        else:
            response = control.parse_endpoint_response(body, 0, self._settings.endpoint_op_shift)
            fields = {
                "id": psn,
                "operation": response.op,
                "stamp": response.timestamp,
                "service": response.service_time,
            }
        return replace(packet, fields={**packet.fields, **fields})

    def _data(self, packet: Packet, opcode: int, flags: int, word: int, body: bytes) -> Packet:
        rqmsn, msn = _words.unpack_from(body)
        at, stamp, tick = 4, 0, 0
        if word & headers.TS_PRESENT:
            stamp, tick = _words.unpack_from(body, at)
            at += 4
        address, rkey, length = _reth.unpack_from(body, at)
        at += 16
        imm = 0
        if opcode in _IMM:
            (imm,) = _u32.unpack_from(body, at)
            at += 4
        pad = flags >> headers.PAD_SHIFT & 3
        payload = body[at : len(body) - pad]
        fields = {
            "psn": self._numbering.received(word & MASK), "segment": opcode - opcodes.WRITE_FIRST,
            "a": int(bool(word & headers.ACK_REQUEST)), "rtx": int(bool(word & headers.RTX)),
            "timestamped": int(bool(word & headers.TS_PRESENT)), "stamp": stamp, "tick": tick, "rqmsn": rqmsn,
            "msn": msn, "address": address - self._numbering.address, "rkey": rkey, "length": length, "imm": imm,
            "pad": pad, "size": len(payload),
        }  # fmt: skip
        fields["pattern"] = int(payload == pattern(fields["address"], len(payload)))
        return replace(packet, fields={**packet.fields, **fields})


def _outer_source(frame: bytes) -> IPv4Address | IPv6Address:
    """The source of the outermost IP header."""
    if frame[_OUTER] >> 4 == 4:
        return IPv4Address(frame[26:30])
    return IPv6Address(frame[22:38])


def _may_send(address: IPv4Address | IPv6Address) -> bool:
    """Whether a packet on a wire may come from an address (RFC 4291 sections 2.5.2, 2.5.3 and 2.7)."""
    return not (address.is_multicast or address.is_unspecified or address.is_loopback)


def _classes(frame: bytes, at: int) -> dict[str, int]:
    """DSCP and ECN of the outermost header, and of the inner one at `at`."""
    outer, inner = _traffic_class(frame, _OUTER), _traffic_class(frame, at)
    return {"dscp": outer >> 2, "ecn": outer & 3, "inner_dscp": inner >> 2, "inner_ecn": inner & 3}


def _traffic_class(frame: bytes, at: int) -> int:
    if frame[at] >> 4 == 4:
        return frame[at + 1]
    return (frame[at] << 8 | frame[at + 1]) >> 4 & 0xFF


def _icrc_is_right(frame: bytes, prefix: encap.Prefix) -> bool:
    body = frame[prefix.start : -encap.ICRC_LENGTH]
    if len(body) < headers.BTH_LENGTH:
        return False
    right: int = datapath.load().icrc(frame[prefix.inner : prefix.start], body)
    return right == int.from_bytes(frame[-encap.ICRC_LENGTH :], "little")
