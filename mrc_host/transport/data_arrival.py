"""A whole data packet of MRC's format, taken apart for the responder."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.responder import Responder
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop, Flow

_TS_FLAG: Final = headers.TS_PRESENT >> 24
_DATA_SIZE: Final = headers.data_ts.size
_data: Final = headers.data_ts.unpack_from
_data_imm: Final = headers.data_ts_imm.unpack_from
_plain: Final = headers.data_plain.unpack_from
_plain_imm: Final = headers.data_plain_imm.unpack_from


def receive_data(
    responder: Responder, opcode: int, frame: memoryview, flow: Flow, port: int, solicited_bit: int
) -> Drop | None:
    """Hand a packet to the responder; `solicited_bit` is SE in BTH byte 1. struct.error when it is too short."""
    start = flow.start
    kind = opcode - opcodes.WRITE_FIRST
    with_imm = kind == opcodes.LAST_IMM or kind == opcodes.ONLY_IMM
    imm = stamp = 0
    flags: int  # annotated because struct returns Any
    if frame[start + 8] & _TS_FLAG:
        if with_imm:
            _o, flags, _k, _q, word, rqmsn, msn, stamp, _t, address, rkey, length, imm = _data_imm(frame, start)
            body = start + headers.data_ts_imm.size
        else:
            _o, flags, _k, _q, word, rqmsn, msn, stamp, _t, address, rkey, length = _data(frame, start)
            body = start + _DATA_SIZE
    elif with_imm:
        _o, flags, _k, _q, word, rqmsn, msn, address, rkey, length, imm = _plain_imm(frame, start)
        body = start + headers.data_plain_imm.size
    else:
        _o, flags, _k, _q, word, rqmsn, msn, address, rkey, length = _plain(frame, start)
        body = start + headers.data_plain.size
    end = flow.end - (flags >> 4 & 3)
    if end <= body and (end < body or length or kind < opcodes.ONLY):  # only the whole of an empty message is empty
        return Drop.MALFORMED
    solicited = with_imm and flags & solicited_bit != 0
    payload = frame[body:end]
    return responder.receive(kind, word, rqmsn, msn, stamp, address, rkey, length, imm, payload, flow, port, solicited)
