"""PAUSE frames of priority flow control (IEEE 802.1Qbb; layout: IEEE 802.3 annex 31D).

    destination 01:80:c2:00:00:01 | source | 0x8808 | 0x0101 | class enable vector | eight times | padding

Fields are 16 bits wide. Bit p of the vector says that the time of priority p is valid; a time is in quanta of 512 bits
at the port's rate, and 0 resumes the priority.
"""

from __future__ import annotations

import struct
from typing import Final

PRIORITIES: Final = 8
QUANTUM_BITS: Final = 512
ETHER_TYPE: Final = b"\x88\x08"
DESTINATION: Final = bytes.fromhex("0180c2000001")
_OPCODE: Final = 0x0101
_LENGTH: Final = 60  # without FCS
_fields = struct.Struct("!HH8H")


def parse(frame: bytes | memoryview) -> dict[int, int] | None:
    """Quanta of each priority that the frame names; None for a frame that is no PAUSE of this kind."""
    if len(frame) < 14 + _fields.size or frame[12:14] != ETHER_TYPE or frame[:6] != DESTINATION:
        return None
    opcode, vector, *times = _fields.unpack_from(frame, 14)
    if opcode != _OPCODE:
        return None
    return {priority: time for priority, time in enumerate(times) if vector >> priority & 1}


def build(source: bytes, quanta: dict[int, int]) -> bytes:
    """A frame (60 bytes, without FCS) for the priorities 0..7 in `quanta`; `source` is a MAC address."""
    vector = sum(1 << priority for priority in quanta)
    times = [quanta.get(priority, 0) for priority in range(PRIORITIES)]
    frame = b"".join((DESTINATION, source, ETHER_TYPE, _fields.pack(_OPCODE, vector, *times)))
    return frame.ljust(_LENGTH, b"\0")
