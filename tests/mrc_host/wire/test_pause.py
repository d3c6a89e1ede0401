"""PAUSE frames: the layout of IEEE 802.3 annex 31D."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.wire import pause

MAC = bytes.fromhex("020000000001")


def test_the_pause_frame_has_the_standard_layout() -> None:
    frame = pause.build(MAC, {0: 0xFFFF, 3: 0})
    assert frame.hex() == "0180c2000001" + MAC.hex() + "8808" + "0101" + "0009" + "ffff" + "0000" * 7 + "00" * 26
    assert len(frame) == 60


@given(st.dictionaries(st.integers(0, 7), st.integers(0, 65535)))
def test_built_pause_frames_are_parsed(quanta: dict[int, int]) -> None:
    frame = pause.build(MAC, quanta)
    assert pause.parse(frame) == quanta
    assert pause.parse(memoryview(frame)) == quanta


@pytest.mark.parametrize("position", [*range(6), 12, 13, 14, 15])
def test_other_addresses_types_and_opcodes_are_ignored(position: int) -> None:
    frame = bytearray(pause.build(MAC, {1: 5}))
    frame[position] ^= 1
    assert pause.parse(bytes(frame)) is None


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_harmless(data: bytes) -> None:
    pause.parse(data)


def test_truncated_pause_frames_are_ignored() -> None:
    frame = pause.build(MAC, {1: 5})
    assert pause.parse(frame[:34]) is not None
    assert pause.parse(frame[:33]) is None
