"""Chakra traces for tests, encoded by hand from the published schema (1.0): independent of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

METADATA, LOAD, STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(1, 8)
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, _, BARRIER = range(10)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def attribute(name: str, value: int | str) -> bytes:
    if isinstance(value, bool):
        return text(10, text(1, name) + number(27, value))
    return text(10, text(1, name) + (text(29, value) if isinstance(value, str) else number(9, value)))


def node(
    id_: int, kind: int, name: str = "", *, after: Sequence[int] = (), us: int = 0, **attributes: int | str
) -> bytes:
    """A node; it depends on the nodes `after`, one by control and the others by data."""
    return b"".join(
        (
            number(1, id_), text(2, name), number(3, kind),
            *(number(4, other) for other in after[:1]),
            text(5, b"".join(map(varint, after[1:]))),  # packed, as proto3 does
            number(7, us), text(8, text(1, "[]")),
            *(attribute(each, value) for each, value in attributes.items()),
        )
    )  # fmt: skip


def write(folder: Path, *ranks: Sequence[bytes], name: str = "trace") -> Path:
    """The files of all ranks; returns the first."""
    for rank, nodes in enumerate(ranks):
        messages = [text(1, "0.0.4"), *nodes]
        (folder / f"{name}.{rank}.et").write_bytes(b"".join(varint(len(one)) + one for one in messages))
    return folder / f"{name}.0.et"
