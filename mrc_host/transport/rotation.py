"""Round robin over planes.

Code that has to choose one of several planes, without knowing which of them work, must not choose the same one every
time: that may be the dead one.
"""

from __future__ import annotations


def next_plane(planes: int, last: int) -> int:
    """The plane of mask `planes` that follows `last` (0 for none yet), both as one bit; 0 when the mask is empty."""
    left = planes & -(last << 1) or planes
    return left & -left
