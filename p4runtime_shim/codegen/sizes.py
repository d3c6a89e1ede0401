"""Which C type holds how many bits (see layout.py)."""

from __future__ import annotations


def limbs(bits: int) -> int:
    """64-bit words that hold so many bits."""
    return (bits + 63) // 64


def storage(bits: int) -> str:
    """C type of a stored value."""
    for size in (8, 16, 32, 64):
        if bits <= size:
            return f"uint{size}_t"
    return "u128" if bits <= 128 else f"w{limbs(bits)}_t"


def storage_bytes(bits: int) -> int:
    """Size of `storage(bits)`."""
    for size in (8, 16, 32, 64, 128):
        if bits <= size:
            return size // 8
    return limbs(bits) * 8
