"""Data headers byte for byte, as docs/protocol.md §1.5 and §1.6 lay them out."""

import pytest

from mrc_host.wire import headers, opcodes


def test_a_data_packet_with_timestamp_is_encoded_byte_for_byte() -> None:
    word = headers.ACK_REQUEST | headers.RTX | headers.TS_PRESENT | 0xABCDEF
    packed = headers.data_ts_imm.pack(
        opcodes.WRITE_ONLY_IMM, 3 << 4, headers.PKEY, 0x123456, word, 0x0102, 0x0304, 0x0506, headers.TS_TICK_1US,
        0x1122334455667788, 0x99AABBCC, 0x01020304, 0xDEADBEEF,
    )  # fmt: skip
    assert packed == bytes.fromhex(
        "cb30ffff 00123456 b0abcdef 01020304 05068001 1122334455667788 99aabbcc 01020304 deadbeef".replace(" ", "")
    )


@pytest.mark.parametrize(
    ("layout", "size"),
    [
        (headers.bth, 12),
        (headers.data_ts, 36),
        (headers.data_ts_imm, 40),
        (headers.data_plain, 32),
        (headers.data_plain_imm, 36),
        (headers.trimmed, 20),
        (headers.rc_first, 28),
        (headers.rc_only_imm, 32),
        (headers.rc_last_imm, 16),
        (headers.aeth, 16),
    ],
)
def test_header_sizes_match_the_protocol(layout: "headers.struct.Struct", size: int) -> None:
    assert layout.size == size


def test_the_aeth_is_encoded_and_decoded() -> None:
    packed = headers.pack_aeth(opcodes.TRANSPORT_ACK, 0x17, 0x99, headers.SYNDROME_ACK, 0x1000005)
    assert packed == bytes.fromhex("d100ffff00000017000000991f000005")


@pytest.mark.parametrize(
    ("first", "last", "imm", "opcode"),
    [
        (True, False, False, 0xC6),
        (True, False, True, 0xC6),
        (False, False, True, 0xC7),
        (False, True, False, 0xC8),
        (False, True, True, 0xC9),
        (True, True, False, 0xCA),
        (True, True, True, 0xCB),
    ],
)
def test_opcodes_map_to_segment_kinds(first: bool, last: bool, imm: bool, opcode: int) -> None:
    assert opcodes.WRITE_FIRST + opcodes.segment_kind(first, last, imm) == opcode


def test_the_timestamp_counts_microseconds_and_wraps() -> None:
    assert headers.timestamp(5_999) == 5
    assert headers.timestamp(65_536_000) == 0
