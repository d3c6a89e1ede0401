"""Write pcapng files: one section, Ethernet interfaces, packets with times in nanoseconds.

The format is draft-ietf-opsawg-pcapng: a file is a sequence of blocks, each a type, its length, a body, and its length
again; everything is padded to 4 bytes. Only what is needed here is written: a section header (SHB), an interface
description (IDB) for each interface, and an enhanced packet block (EPB) for each packet.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO

_SHB, _IDB, _EPB = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
_ETHERNET = 1
_OPT_COMMENT, _IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL = 1, 2, 3, 9
_COMMENT_LIMIT = 16383  # characters; an option has 65535 bytes at most
_NANOSECONDS = bytes([9])
_packet = struct.Struct(
    "=IIIIIII"
).pack  # type, block length, interface, time high and low, captured and original length


class PcapngWriter:
    """Writes to `stream`, which the caller flushes and closes. `interfaces` are pairs of name and description."""

    def __init__(self, stream: BinaryIO, interfaces: Sequence[tuple[str, str]], comment: str = "") -> None:
        self._write = stream.write
        header = struct.pack("=IHHq", _BYTE_ORDER, 1, 0, -1)
        self._write(_block(_SHB, header + _options((_OPT_COMMENT, comment.encode()))))
        for name, description in interfaces:
            options = _options(
                (_IF_NAME, name.encode()), (_IF_DESCRIPTION, description.encode()), (_IF_TSRESOL, _NANOSECONDS)
            )
            self._write(_block(_IDB, struct.pack("=HHI", _ETHERNET, 0, 0) + options))

    def packet(self, interface: int, time_ns: int, frame: bytes | memoryview, length: int, comment: str = "") -> None:
        """A packet of `length` bytes on the wire, of which `frame` was kept, at `time_ns` since the epoch."""
        kept = len(frame)
        padding = -kept % 4
        options = _options((_OPT_COMMENT, comment[:_COMMENT_LIMIT].encode())) if comment else b""
        total = 32 + kept + padding + len(options)
        head = _packet(_EPB, total, interface, time_ns >> 32, time_ns & 0xFFFFFFFF, kept, length)
        self._write(b"".join((head, frame, bytes(padding), options, struct.pack("=I", total))))


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("=I", 12 + len(body))
    return struct.pack("=I", kind) + length + body + length


def _options(*options: tuple[int, bytes]) -> bytes:
    given = [(code, value) for code, value in options if value]
    if not given:
        return b""
    parts = [struct.pack("=HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in given]
    return b"".join(parts) + struct.pack("=HH", 0, 0)
