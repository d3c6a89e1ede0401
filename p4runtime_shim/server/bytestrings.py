"""Integers as big-endian byte strings of the shortest length (P4Runtime spec, "Bytestrings").

Received strings may be longer than necessary if the value fits the width; otherwise the error is OUT_OF_RANGE.
"""

from __future__ import annotations

from p4runtime_shim.server.rpc_errors import out_of_range


def encode(value: int) -> bytes:
    """The canonical string of an unsigned value; zero is one byte."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def shortest(data: bytes) -> bytes:
    """The canonical string of the same unsigned value."""
    return data.lstrip(b"\0") or b"\0"


def decode(data: bytes, width: int, what: str) -> int:
    """The value of a `bit<width>` string; `what` names it in the error."""
    if not data:
        raise out_of_range(f"{what}: an empty byte string is not a value")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise out_of_range(f"{what}: {shorten(value)} does not fit in {width} bits")
    return value


def encode_signed(value: int) -> bytes:
    """The canonical two's complement string."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(data: bytes, width: int, what: str) -> int:
    """The value of an `int<width>` string."""
    if not data:
        raise out_of_range(f"{what}: an empty byte string is not a value")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise out_of_range(f"{what}: {shorten(value)} does not fit in {width} bits, signed")
    return value


def shorten(value: int) -> str:
    """The value in hex for an error message, shortened if it is absurdly long (a client chooses its length)."""
    return hex(value) if value.bit_length() <= 512 else f"a number of {value.bit_length()} bits"
