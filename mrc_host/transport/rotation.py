"""Taking turns over planes.

Whoever has to pick one plane of several, without knowing which of them work, must not pick the same one every time: it
may be the one that is dead.
"""

from __future__ import annotations


def next_plane(planes: int, last: int) -> int:
    """The plane of mask `planes` that follows `last` (0 for none yet), both as one bit; 0 when the mask is empty."""
    left = planes & -(last << 1) or planes
    return left & -left
