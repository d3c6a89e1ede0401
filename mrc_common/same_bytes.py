"""Whether two buffers have the same bytes. `==` of memoryviews compares item by item, at 2 to 5 ms a MiB."""

from __future__ import annotations

_PART = 1 << 16  # bytes compared at once: copies of them stay in the cache


def same_bytes(one: memoryview, other: memoryview) -> bool:
    """Whether two contiguous buffers have the same bytes."""
    one, other = one.cast("B"), other.cast("B")
    return len(one) == len(other) and all(
        bytes(one[at : at + _PART]) == bytes(other[at : at + _PART]) for at in range(0, len(one), _PART)
    )
