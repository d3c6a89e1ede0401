"""The numbers that a step of a script may name: the ranges of a packet's fields, and of what is kept in memory for it.

A script attacks a NIC, so fields of packets may have every value that fits them; what is out of range could not be
sent. PSNs count from the first of their direction, hence also below 0. Sizes are limited by a frame, or by the memory
of the NIC under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrc_host.wire.psn import HALF, MASK
from mrc_lab.conformance.nic_under_test import REGION

MAX_PAYLOAD: Final = 9000  # bytes in a packet: beyond the largest frames that links carry
LONGEST_NS: Final = 3_600_000_000_000  # that one step may take
MAX_COUNT: Final = 100_000  # packets that one step may wait for

_Range = tuple[int, int]
_BIT: Final = (0, 1)
_U8: Final = (0, 0xFF)
_U16: Final = (0, 0xFFFF)
_U24: Final = (0, 0xFFFFFF)
_U32: Final = (0, 0xFFFFFFFF)
_U64: Final = (0, (1 << 64) - 1)
_PSN: Final = (-HALF, MASK)
_FRAME: Final[Mapping[str, _Range]] = {
    "plane": (0, 31), "path": _U16, "ev": _U32, "dscp": (0, 63), "ecn": (0, 3), "outer_ecn": (0, 3),
    "trimmed": (0, 2), "icrc": _BIT, "stamp": _U16, "echo": _U32,
}  # fmt: skip
_RANGES: Final[Mapping[str, Mapping[str, _Range]]] = {
    "< data": {
        "psn": _PSN, "segment": (0, 5), "length": _U32, "size": (0, MAX_PAYLOAD), "offset": (-(1 << 47), 1 << 47),
        "imm": _U32, "msn": _U16, "rqmsn": _U16, "a": _BIT, "rtx": _BIT, "timestamped": _BIT, "rkey": _U32,
        "pkey": _U16, "fill": _U8, "opcode": _U8, "qpn": _U24,
    },
    "< sack": {
        "cack": _PSN, "bitmap": _U64, "base": _U16, "id": (-(1 << 15), (1 << 16) - 1), "mark": (0, 3), "probe": _BIT,
        "units": _U24, "penalty": _U8, "restore": _BIT, "mpr": _U8,
    },
    "< nack": {"reason": _U8},
    "< ack": {"psn": _PSN, "messages": _U24, "syndrome": _U8},
    "< probe": {"id": _U16},
    "< request": {"id": _U16, "operation": _U8, "mask": _U32},
    "< response": {"id": _U16, "operation": _U8},
    "post write": {"wr": _U64, "size": (0, REGION), "imm": _U32},
    "memory": {"offset": (0, REGION), "size": (0, REGION), "fill": _U8},
    "spread data": {"count": (1, MAX_COUNT), "planes": (0, MAX_COUNT), "evs": (0, MAX_COUNT)},
    "skipped": {"count": (1, MAX_COUNT)},
    "taken": {"count": (1, MAX_COUNT)},
}  # fmt: skip


def check_number(what: str, name: str, number: int) -> None:
    """ValueError if a step `what`, as in ``< data``, cannot have this number as `name`."""
    known = _RANGES.get(what, {}).get(name) or (_FRAME.get(name) if what.startswith("<") else None)
    if known is not None and not known[0] <= number <= known[1]:
        raise ValueError(f"{name} of '{what}' is from {known[0]} to {known[1]}, not {number}")


def check_numbers(what: str, given: Mapping[str, int]) -> None:
    """ValueError if a step cannot have these numbers together."""
    for name, number in given.items():
        check_number(what, name, number)
    if what == "< data" and "size" not in given and given.get("length", 0) > MAX_PAYLOAD:
        raise ValueError(f"a packet has at most {MAX_PAYLOAD} bytes: give its size, beside length={given['length']}")
    if what == "memory" and given.get("offset", 0) + given.get("size", 0) > REGION:
        raise ValueError(f"the memory has {REGION} bytes")


def check_time(time_ns: int) -> None:
    """ValueError for a time that no step may take."""
    if not 0 <= time_ns <= LONGEST_NS:
        raise ValueError("a step takes from 0 to 1 hour")
