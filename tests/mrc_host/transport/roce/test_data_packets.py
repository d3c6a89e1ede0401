"""Data packets of RC by themselves: headers, payload, padding and ICRC of each kind of segment."""

import random

import pytest

from mrc_host.transport.roce.data_packets import RcDataPackets
from mrc_host.transport.work import Wqe
from mrc_host.verbs_types import WorkRequest, WrOpcode
from mrc_host.wire import headers, opcodes
from tests.models.frames import icrc, trailer
from tests.mrc_host.transport.parts import REMOTE_QPN, connection
from tests.mrc_host.transport.roce.parts import BTH, FAR_ADDRESS, FAR_RKEY, FIRST, ICRC, MTU, path_of

IMM = 0x01020304
WORD = headers.ACK_REQUEST | FIRST


def message(length: int, imm: int | None) -> tuple[Wqe, bytes]:
    data = random.Random(length).randbytes(length)
    opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
    wqe = Wqe(WorkRequest(0, opcode, 0, 0, length, FAR_ADDRESS, FAR_RKEY, imm), memoryview(data))
    wqe.first_psn = FIRST
    wqe.last_psn = FIRST + -(-length // MTU) - 1
    return wqe, data


@pytest.mark.parametrize("rest", range(4))
@pytest.mark.parametrize(
    ("packets", "at", "imm", "opcode", "extra"),
    [
        (1, 0, None, 0x0A, (FAR_ADDRESS, FAR_RKEY, ...)),
        (1, 0, IMM, 0x0B, (FAR_ADDRESS, FAR_RKEY, ..., IMM)),
        (3, 0, IMM, 0x06, (FAR_ADDRESS, FAR_RKEY, ...)),
        (3, 1, IMM, 0x07, ()),
        (3, 2, None, 0x08, ()),
        (3, 2, IMM, 0x09, (IMM,)),
    ],
)
def test_each_segment_has_the_headers_of_its_position(
    rest: int, packets: int, at: int, imm: int | None, opcode: int, extra: tuple[object, ...]
) -> None:
    """A RETH in the first packet, immediate data in the last; IBTA volume 1, 9.2 and its table of opcodes."""
    last = MTU - rest
    wqe, data = message((packets - 1) * MTU + last, imm)
    given = connection({"path_mtu": MTU})
    size = last if at == packets - 1 else MTU
    frame = RcDataPackets(path_of(given), REMOTE_QPN, given.nic.datapath).build(wqe, FIRST + at, at * MTU, size, WORD)
    layouts = {
        0x06: headers.rc_first, 0x07: headers.bth, 0x08: headers.bth, 0x09: headers.rc_last_imm,
        0x0A: headers.rc_first, 0x0B: headers.rc_only_imm,
    }  # fmt: skip
    found, flags, pkey, qpn, word, *fields = layouts[opcode].unpack_from(frame, BTH)
    assert (found, pkey, qpn, word) == (opcode, headers.PKEY, REMOTE_QPN, WORD)
    pad = flags >> headers.PAD_SHIFT & 3
    assert pad == -size % 4
    assert fields == [len(data) if field is ... else field for field in extra]
    start = BTH + layouts[opcode].size
    assert frame[start : len(frame) - ICRC] == data[at * MTU :][:size] + bytes(pad)
    assert frame[-ICRC:] == trailer(icrc(frame[14:BTH], frame[BTH:-ICRC]))
    assert opcodes.RC_WRITE_FIRST == 0x06
