"""24-bit packet sequence numbers and their unbounded counterparts.

Inside the transport a PSN is an ordinary integer that only grows; 24 bits of it travel. ``expand`` finds the integer
nearest to a known one, so wrapping needs no special case anywhere else.
"""

from __future__ import annotations

import zlib
from typing import Final

BITS: Final = 24
MASK: Final = (1 << BITS) - 1
HALF: Final = 1 << (BITS - 1)


def expand(wire: int, near: int) -> int:
    """The integer congruent to `wire` modulo 2**24 that lies in [near - 2**23, near + 2**23)."""
    return near + ((wire - near + HALF) & MASK) - HALF


def initial_psn(requester_qpn: int, responder_qpn: int) -> int:
    """First PSN from one queue pair to another, which both ends derive from the QPNs they exchanged out of band."""
    return zlib.crc32(requester_qpn.to_bytes(4, "big") + responder_qpn.to_bytes(4, "big")) & MASK
