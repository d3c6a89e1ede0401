"""Opcode numbers of BTH byte 0: MRC's (top three bits 110) and those of RoCEv2 RC that the baseline uses.

docs/protocol.md §1.4; IBTA Architecture Specification volume 1, table 38.
"""

from __future__ import annotations

from typing import Final

WRITE_FIRST: Final = 0xC6
WRITE_MIDDLE: Final = 0xC7
WRITE_LAST: Final = 0xC8
WRITE_LAST_IMM: Final = 0xC9
WRITE_ONLY: Final = 0xCA
WRITE_ONLY_IMM: Final = 0xCB
TRANSPORT_ACK: Final = 0xD1
ENDPOINT_REQUEST: Final = 0xD8
ENDPOINT_RESPONSE: Final = 0xD9
SACK: Final = 0xDC
NACK: Final = 0xDD
PROBE: Final = 0xDE

RC_WRITE_FIRST: Final = 0x06
RC_WRITE_MIDDLE: Final = 0x07
RC_WRITE_LAST: Final = 0x08
RC_WRITE_LAST_IMM: Final = 0x09
RC_WRITE_ONLY: Final = 0x0A
RC_WRITE_ONLY_IMM: Final = 0x0B
RC_ACK: Final = 0x11
RC_CNP: Final = 0x81  # RoCEv2 congestion notification packet: BTH and 16 reserved bytes

# The data opcodes of both transports are in the same order, so a segment's kind is an offset from the First opcode.
MIDDLE: Final = 1
LAST: Final = 2
LAST_IMM: Final = 3
ONLY: Final = 4
ONLY_IMM: Final = 5

ENDPOINT_QPN: Final = 2  # reserved destination QP of endpoint operations


def segment_kind(first: bool, last: bool, imm: bool) -> int:
    """Offset from the First opcode for a segment that is the first and/or last of its message."""
    if not last:
        return 0 if first else MIDDLE
    kind = ONLY if first else LAST
    return kind + 1 if imm else kind


OF_MRC: Final = frozenset((*range(WRITE_FIRST, WRITE_ONLY_IMM + 1), TRANSPORT_ACK, SACK, NACK, PROBE))
OF_RC: Final = frozenset((*range(RC_WRITE_FIRST, RC_WRITE_ONLY_IMM + 1), RC_ACK, RC_CNP))
OF_SELECTIVE_REPEAT: Final = OF_MRC - {PROBE} | {RC_CNP}
"""Those of RC_SR and RC_AR: MRC's formats, and RoCE's congestion notification."""
