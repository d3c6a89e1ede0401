"""24-bit packet sequence numbers and their unbounded counterparts.

Inside the transport a PSN is an ordinary integer that only grows; its low 24 bits are sent. ``expand`` finds the
integer nearest to a known one, so no other code has to handle wrapping.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 24
MASK: Final = (1 << BITS) - 1
HALF: Final = 1 << (BITS - 1)


def expand(wire: int, near: int) -> int:
    """The integer congruent to `wire` modulo 2**24 that lies in [near - 2**23, near + 2**23)."""
    return near + ((wire - near + HALF) & MASK) - HALF
