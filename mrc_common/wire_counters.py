"""Counters of frames that pass an interface by, in a file that one process writes and any may read (``WireCounters``).

The kernel counts what passes through an interface, in ``/proc/net/dev``. A port driver counts here what it carried past
the kernel instead. A row has the interface's name and five numbers of 8 bytes: packets and bytes received, packets and
bytes sent, and whether frames pass through the interface just now since somebody watches or shapes it. Counting goes on
where it was when the writer is started again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME_BYTES = 24
_NUMBERS = struct.Struct("@5Q")
_ROW_BYTES = _NAME_BYTES + _NUMBERS.size


@dataclass(frozen=True, slots=True)
class WireCount:
    """A row: what passed the interface by, and whether frames pass through it now."""

    interface: str
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    aside: bool


class WireCounters:
    """The writer's side: rows for `interfaces`, kept if the file has them already; mapped as long as this exists.

    Raises OSError.
    """

    def __init__(self, path: Path, interfaces: Sequence[str]) -> None:
        self._offsets = {name: number * _ROW_BYTES for number, name in enumerate(interfaces)}
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            wanted = b"".join(name.encode().ljust(_NAME_BYTES, b"\0") + bytes(_NUMBERS.size) for name in interfaces)
            found = os.pread(descriptor, len(wanted) + 1, 0)
            if _names(found) != tuple(interfaces) or len(found) != len(wanted):
                os.ftruncate(descriptor, len(wanted))
                os.pwrite(descriptor, wanted, 0)
            self._start = ctypes.c_char.from_buffer(mmap.mmap(descriptor, len(wanted)))
        finally:
            os.close(descriptor)

    def address(self, interface: str) -> int:
        """Where the numbers of an interface are."""
        return ctypes.addressof(self._start) + self._offsets[interface] + _NAME_BYTES


def _names(data: bytes) -> tuple[str, ...]:
    return tuple(row.interface for row in _rows(data))


def _rows(data: bytes) -> Iterator[WireCount]:
    for start in range(0, len(data) - _ROW_BYTES + 1, _ROW_BYTES):
        name = data[start : start + _NAME_BYTES].rstrip(b"\0").decode(errors="replace")
        numbers = _NUMBERS.unpack_from(data, start + _NAME_BYTES)
        yield WireCount(name, numbers[0], numbers[1], numbers[2], numbers[3], bool(numbers[4]))


def read(path: Path) -> dict[str, WireCount]:
    """The rows by interface; none if there is no such file."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    return {row.interface: row for row in _rows(data)}
