"""Base transport header and what data packets and transport ACKs carry after it (docs/protocol.md §1.5, §1.6).

A data packet is ``BTH 12 | METH 4 | [TSETH 4] | RETH 16 | [ImmDt 4] | payload | pad``; each combination is one
``struct`` format, so packing or parsing all of it is a single call. Tuples come back in wire order, with fields that
share bytes in one number (``fields``): the flags of the BTH, and its control word, which has A, R, RTX and TS in bits
31..28 and the PSN in bits 23..0; and the half of TSETH after the timestamp.
"""

from __future__ import annotations

import struct
from typing import Final

from mrc_host.config import BthOrder, TimestampTick
from mrc_host.wire.fields import AETH, BTH, IMMDT, METH, RETH, TSETH, layout

BTH_LENGTH: Final = 12
PKEY: Final = 0xFFFF

ACK_REQUEST: Final = 1 << 31
RTX: Final = 1 << 29
TS_PRESENT: Final = 1 << 28
PAD_SHIFT: Final = 4

TS_TICK_128NS: Final = 0x0001
TS_TICK_1US: Final = 0x8001

bth: Final = struct.Struct(layout(BTH))
data_ts: Final = struct.Struct(layout(BTH, METH, TSETH, RETH))
data_ts_imm: Final = struct.Struct(layout(BTH, METH, TSETH, RETH, IMMDT))
data_plain: Final = struct.Struct(layout(BTH, METH, RETH))
data_plain_imm: Final = struct.Struct(layout(BTH, METH, RETH, IMMDT))
trimmed: Final = struct.Struct(layout(BTH, METH, TSETH))
rc_first: Final = struct.Struct(layout(BTH, RETH))
rc_only_imm: Final = struct.Struct(layout(BTH, RETH, IMMDT))
rc_last_imm: Final = struct.Struct(layout(BTH, IMMDT))
aeth: Final = struct.Struct(layout(BTH, AETH))

SYNDROME_ACK: Final = 0x1F  # no credits in MRC: the field is fixed (docs/protocol.md §2)
SYNDROME_RNR: Final = 0x20  # RC only: receiver not ready, with the code of a time to wait
SYNDROME_NAK: Final = 0x60
NAK_SEQUENCE: Final = 0x60
NAK_INVALID_REQUEST: Final = 0x61
NAK_REMOTE_ACCESS: Final = 0x62
NAK_REMOTE_OPERATION: Final = 0x63
# Times of RNR NAKs by their code, in ns (IBTA volume 1, table of the RNR NAK timer field).
RNR_TIMES: Final = tuple(
    10_000 * units
    for units in (
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
        6144, 8192, 12288, 16384, 24576, 32768, 49152,
    )
)  # fmt: skip


def solicited_bit(order: BthOrder) -> int:
    """SE in BTH byte 1; the other of bits 7 and 6 is M, which is never set here."""
    return 0x80 if order is BthOrder.SE_FIRST else 0x40


def tick_flags(tick: TimestampTick) -> int:
    """The half of TSETH after the timestamp."""
    return TS_TICK_1US if tick is TimestampTick.US else TS_TICK_128NS


def pack_aeth(opcode: int, qpn: int, psn: int, syndrome: int, msn: int) -> bytes:
    """Transport ACK or NAK: BTH and AETH (16 bytes)."""
    return aeth.pack(opcode, 0, PKEY, qpn, psn, syndrome << 24 | msn & 0xFFFFFF)


def timestamp(now: int) -> int:
    """16-bit transmit timestamp in ticks of 1 us (``TS_TICK_1US``) for a time in ns."""
    return now // 1000 & 0xFFFF
