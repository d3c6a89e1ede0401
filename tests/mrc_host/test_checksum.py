"""The checksum is that of Ethernet whichever library computes it."""

from __future__ import annotations

import importlib
import random
import sys
import zlib

import pytest

from mrc_host import checksum


def test_the_checksum_matches_zlib_for_every_length_and_offset() -> None:
    rng = random.Random(7)
    for length in (0, 1, 7, 34, 255, 1024, 4096, 9001):
        data = rng.randbytes(length + 3)
        start = rng.getrandbits(32)
        assert checksum.crc32(data, start) == zlib.crc32(data, start)
        assert checksum.crc32(memoryview(data)[3:], start) == zlib.crc32(data[3:], start)  # not aligned
        assert checksum.crc32(bytearray(data)) == zlib.crc32(data)


def test_without_zlib_ng_zlib_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    try:
        assert importlib.reload(checksum).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        importlib.reload(checksum)
