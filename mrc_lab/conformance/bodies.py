"""Packets of the conformance kit, from the BTH to the padding, made from the fields that a script names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrc_host.config import ProtocolSettings
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.psn import MASK
from mrc_lab.conformance.nic_under_test import Connected
from mrc_lab.conformance.packets import Numbering

REMOTE: Final = 0x10000  # address and key of the memory that the NIC writes to; nobody looks into it
RKEY: Final = 0x77
SIZE: Final = 1000  # bytes of a data packet that names no other length
STAMP: Final = 0x1234


def body_of(
    kind: str, given: Mapping[str, int], numbers: Numbering, nic: Connected, settings: ProtocolSettings
) -> bytes:
    """The bytes of a packet; PSNs in `given` count from the first of their direction."""
    get = given.get
    if kind == "data":
        return _data(given, numbers, nic)
    if kind == "sack":
        return control.pack_sack(nic.qpn, _sack(given, numbers))
    if kind == "nack":
        psn = numbers.received_psn + given["of_psn"] & MASK
        reason, echo = given["reason"], get("echo", 0)
        return control.pack_nack(nic.qpn, control.Nack(reason, echo, 0, 0, psn, get("stamp", 0)))
    if kind == "ack":
        psn = numbers.received_psn + given["psn"] & MASK
        syndrome = get("syndrome", headers.SYNDROME_ACK)
        return headers.pack_aeth(opcodes.TRANSPORT_ACK, nic.qpn, psn, syndrome, get("messages", 0))
    if kind == "probe":
        return control.pack_probe(nic.qpn, control.Probe(get("id", 0), 0, 0, get("stamp", STAMP)))
    if kind == "request":
        request = control.EndpointRequest(get("operation", 0), get("mask", 0), get("stamp", STAMP))
        return control.pack_endpoint_request(get("id", 0), request)
    response = control.EndpointResponse(get("operation", 0), get("stamp", 0))
    return control.pack_endpoint_response(get("id", 0), response, settings.endpoint_op_shift)


def _data(given: Mapping[str, int], numbers: Numbering, nic: Connected) -> bytes:
    get = given.get
    imm = given.get("imm")
    segment = get("segment", opcodes.ONLY if imm is None else opcodes.ONLY_IMM)
    length = get("length", SIZE)
    payload = bytes([get("fill", 0x55)]) * get("size", length)
    pad = -len(payload) & 3
    word = numbers.sent_psn + given["psn"] & MASK
    word |= get("a", 0) * headers.ACK_REQUEST | get("rtx", 0) * headers.RTX
    opcode = get("opcode", opcodes.WRITE_FIRST + segment)
    bth = (opcode, pad << headers.PAD_SHIFT, get("pkey", headers.PKEY), get("qpn", nic.qpn))
    meth = (get("rqmsn", 0), get("msn", 0))
    reth = (nic.address + get("offset", 0), get("rkey", nic.rkey), length)
    tail = () if imm is None else (imm,)
    if get("timestamped", 1):
        layout = headers.data_ts if imm is None else headers.data_ts_imm
        stamp = (get("stamp", STAMP), headers.TS_TICK_1US)
        head = layout.pack(*bth, word | headers.TS_PRESENT, *meth, *stamp, *reth, *tail)
    else:
        layout = headers.data_plain if imm is None else headers.data_plain_imm
        head = layout.pack(*bth, word, *meth, *reth, *tail)
    return head + payload + bytes(pad)


def _sack(given: Mapping[str, int], numbers: Numbering) -> control.Sack:
    get = given.get
    cack = given["cack"]
    distance = get("id", get("of_psn", cack) - cack)
    return control.Sack(
        mark=get("mark", control.MARK_NONE),
        probe=bool(get("probe", 0)),
        ack_offset=distance,
        entropy=get("echo", 0xFFFFFFFF),
        cack_psn=numbers.received_psn + cack & MASK,
        mpr=get("mpr", 0),
        bitmap_offset=get("base", 1),
        bitmap=get("bitmap", 0),
        timestamp=get("stamp", 0),
        restore_cwnd=bool(get("restore", 0)),
        cwnd_penalty=get("penalty", 0),
        rcvd_units=given["units"],
    )
