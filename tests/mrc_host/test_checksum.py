"""The checksum is that of Ethernet whichever library computes it."""

from __future__ import annotations

import importlib
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from mrc_common.c_build.errors import CBuildError
from mrc_host import checksum
from tests.mrc_host.datapath.module import native


def test_the_checksum_matches_zlib_for_every_length_and_offset() -> None:
    rng = random.Random(7)
    for length in (0, 1, 7, 34, 255, 1024, 4096, 9001):
        data = rng.randbytes(length + 3)
        start = rng.getrandbits(32)
        assert checksum.crc32(data, start) == zlib.crc32(data, start)
        assert checksum.crc32(memoryview(data)[3:], start) == zlib.crc32(data[3:], start)  # not aligned
        assert checksum.crc32(bytearray(data)) == zlib.crc32(data)


@pytest.fixture(params=["library", "native"])
def copying(request: pytest.FixtureRequest) -> ModuleType:
    """Who copies and calculates at once."""
    return native() if request.param == "native" else checksum


def test_what_is_copied_has_the_checksum_of_what_was_there(copying: ModuleType) -> None:
    rng = random.Random(8)
    for length in (0, 1, 7, 255, 256, 4097, 65535, 65536, 300_001):
        source, start = rng.randbytes(length), rng.getrandbits(32)
        target = bytearray(b"x" * (length + 3))
        assert copying.copy_and_crc32(memoryview(target)[1 : length + 1], source, start) == zlib.crc32(source, start)
        assert target == b"x" + source + b"xx"
        assert copying.copy_and_crc32(target, source) == zlib.crc32(source)  # into more than is needed
        assert target == source + (b"x" + source + b"xx")[length:]


def test_nothing_is_copied_where_it_does_not_fit(copying: ModuleType) -> None:
    short, constant = bytearray(b"abc"), b"abcd"
    with pytest.raises(ValueError, match=r"shorter|different structures"):
        copying.copy_and_crc32(short, b"1234")
    with pytest.raises((TypeError, BufferError)):
        copying.copy_and_crc32(constant, b"1234")
    with pytest.raises((TypeError, BufferError)):
        copying.copy_and_crc32(short, memoryview(b"123456")[::2])
    assert short == b"abc"


def test_the_native_checksum_takes_what_zlib_s_takes() -> None:
    module, rng = native(), random.Random(9)
    for length in (0, 1, 34, 255, 256, 4096, 65535, 65536, 100_000):
        data = rng.randbytes(length)
        assert module.crc32(data) == zlib.crc32(data)
        assert module.crc32(memoryview(bytearray(data)), 0xFFFFFFFF) == zlib.crc32(data, 0xFFFFFFFF)
    for wrong in ((), (b"", 1, 2), ("text",), (b"", "1"), (b"", 1 << 32), (b"", -1)):
        with pytest.raises((TypeError, OverflowError)):
            module.crc32(*wrong)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ModuleType]]:
    """Has the module choose again; afterwards it is as before."""
    yield lambda: importlib.reload(checksum)
    monkeypatch.undo()
    importlib.reload(checksum)


def test_c_calculates_whatever_the_transport(again: Callable[[], ModuleType]) -> None:
    from mrc_host.datapath import native

    chosen = again()
    assert (chosen.crc32, chosen.copy_and_crc32) == (native.crc32, native.copy_and_crc32)


class Refusing:
    """An importer of a module that cannot be compiled."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "mrc_host.datapath.native":
            raise self._error


@pytest.mark.parametrize("error", [CBuildError("no compiler"), ImportError("native.so: file too short")])
def test_without_a_compiler_a_library_does(
    monkeypatch: pytest.MonkeyPatch, again: Callable[[], ModuleType], error: Exception
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Refusing(error), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "mrc_host.datapath.native", raising=False)
    chosen, target = again(), bytearray(3)
    assert chosen.crc32.__module__ in ("zlib", "zlib_ng.zlib_ng")
    assert chosen.copy_and_crc32(target, b"abc") == zlib.crc32(b"abc")
    assert target == b"abc"
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    assert again().crc32 is zlib.crc32
