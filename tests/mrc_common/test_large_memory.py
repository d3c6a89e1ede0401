"""Memory of a megabyte and more, and this machine's setting for its pages."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common import large_memory

MIB = 1 << 20
needs_huge_pages = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this kernel marks no memory"
)


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a machine's setting for pages of 64 KiB; the one for all sizes, `all`, lies beside it."""
    monkeypatch.setattr(large_memory, "SETTING", tmp_path / "enabled")
    monkeypatch.setattr(large_memory, "_FOR_ALL", tmp_path / "all")
    (tmp_path / "all").write_text("always [madvise] never\n")
    large_memory._marking.cache_clear()
    yield tmp_path / "enabled"
    large_memory._marking.cache_clear()


def address(memory: memoryview) -> int:
    """Of its first byte."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def mappings() -> Iterator[tuple[int, int]]:
    """First and last address of each of this process's mappings that are marked for larger pages."""
    first = last = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            first, last = int(found[1], 16), int(found[2], 16)
        elif line.startswith("VmFlags:") and " hg" in line:
            yield first, last


def marked(memory: memoryview) -> int:
    """How many bytes of `memory` are marked."""
    at = address(memory)
    return sum(max(0, min(last, at + len(memory)) - max(first, at)) for first, last in mappings())


@pytest.mark.parametrize(
    ("written", "for_all", "expected"),
    [
        ("always inherit madvise [never]", "always [madvise] never", False),
        ("always inherit [madvise] never", "always madvise [never]", True),
        ("[always] inherit madvise never", "always madvise [never]", True),
        ("always [inherit] madvise never", "always [madvise] never", True),
        ("always [inherit] madvise never", "always madvise [never]", False),
    ],
)
def test_a_machine_allows_pages_as_its_setting_says(setting: Path, written: str, for_all: str, expected: bool) -> None:
    setting.write_text(f"{written}\n")
    setting.with_name("all").write_text(f"{for_all}\n")
    assert large_memory.allowed() is expected


def test_a_kernel_without_such_pages_has_no_setting(setting: Path) -> None:
    assert large_memory.allowed() is None


def test_to_allow_them_is_to_write_madvise(setting: Path) -> None:
    large_memory.allow()
    assert setting.read_text() == "madvise\n"


@pytest.mark.parametrize("length", [1, 4095, MIB - 1, MIB, MIB + 1, 5 * MIB + 12_345])
@pytest.mark.parametrize("allows", [True, False])
def test_memory_of_any_size_is_zeroed_writable_and_bytes(setting: Path, length: int, allows: bool) -> None:
    setting.write_text("always inherit [madvise] never\n" if allows else "always inherit madvise [never]\n")
    memory = large_memory.zeroed(length)
    assert (len(memory), memory.format, memory.readonly, memory.contiguous) == (length, "B", False, True)
    assert not any(memory)
    memory[:] = b"\xff" * length
    assert memory[0] == memory[-1] == 255


@needs_huge_pages
def test_each_stretch_is_marked_but_for_its_last_page(setting: Path) -> None:
    setting.write_text("always inherit [madvise] never\n")
    assert marked(large_memory.zeroed(3 * MIB)) == 3 * (MIB - 4096)
    assert marked(large_memory.zeroed(MIB + 8192)) == MIB - 4096 + 8192


@needs_huge_pages
def test_no_page_of_2_mib_fits_between_two_that_are_not_marked(setting: Path) -> None:
    """Neighbours that the kernel makes one mapping are no exception."""
    setting.write_text("always inherit [madvise] never\n")
    several = [large_memory.zeroed(size * MIB) for size in (1, 1, 1, 2, 4)]
    together: list[tuple[int, int]] = []  # those that touch are one
    for first, last in sorted((address(memory), address(memory) + len(memory)) for memory in several):
        if together and together[-1][1] == first:
            first, _ = together.pop()
        together.append((first, last))
    # What else this process has marked may touch them, too: Python's arenas, if the simulation has replaced them.
    stretches = [
        min(last, end) - max(first, start)
        for first, last in mappings()
        for start, end in together
        if first < end and start < last
    ]
    assert len(stretches) == sum(len(memory) // MIB for memory in several)
    assert all(length < 2 * MIB for length in stretches)


def test_nothing_is_marked_where_the_machine_does_not_allow_it(setting: Path) -> None:
    setting.write_text("always inherit madvise [never]\n")
    assert marked(large_memory.zeroed(3 * MIB)) == 0


@needs_huge_pages
def test_so_much_is_marked_and_no_more_until_some_is_freed(setting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting.write_text("always inherit [madvise] never\n")
    gc.collect()
    monkeypatch.setattr(large_memory, "_MOST_STRETCHES", large_memory._stretches + 3)
    first, second, third = (large_memory.zeroed(size) for size in (2 * MIB, 2 * MIB, MIB))
    assert [bool(marked(each)) for each in (first, second, third)] == [True, False, True]
    del first
    assert marked(large_memory.zeroed(2 * MIB))
