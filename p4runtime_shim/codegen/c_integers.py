"""C integers: the types that store fields, the kinds that hold intermediate results, and conversions between them.

BMv2 computes with unbounded integers. To do the same with machine integers, every expression has an interval of
possible values; a `CType` is the smallest C integer that holds the interval: u64, i64, u128, i128, or wN (N limbs,
two's complement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p4runtime_shim.codegen.layout import ProgramLayout

# --- storage: which C type holds a field


def limbs(bits: int) -> int:
    """Number of 64-bit words for a number of bits."""
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


# --- computation: how wide an intermediate result can get


@dataclass(frozen=True, slots=True)
class Interval:
    """All values between two bounds."""

    low: int
    high: int

    def union(self, *others: Interval) -> Interval:
        """The smallest interval around all."""
        return Interval(
            min(self.low, *(o.low for o in others)) if others else self.low,
            max(self.high, *(o.high for o in others)) if others else self.high,
        )

    @property
    def constant(self) -> bool:
        """True when only one value is possible."""
        return self.low == self.high


def unsigned(bits: int) -> Interval:
    """All values of bit<bits>."""
    return Interval(0, (1 << bits) - 1)


def signed(bits: int) -> Interval:
    """All values of int<bits>."""
    return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@dataclass(frozen=True, slots=True)
class CType:
    """A C integer: `bits` is 64, 128 or a greater multiple of 64 (always two's complement then)."""

    bits: int
    signed: bool

    @property
    def wide(self) -> bool:
        """True for wN."""
        return self.bits > 128

    @property
    def name(self) -> str:
        """The C type."""
        if self.wide:
            return f"w{self.bits // 64}_t"
        if self.bits == 64:
            return "int64_t" if self.signed else "uint64_t"
        return "i128" if self.signed else "u128"

    @property
    def prefix(self) -> str:
        """Prefix of the functions of a wide kind."""
        return f"w{self.bits // 64}"


U64, I64, U128, I128 = CType(64, False), CType(64, True), CType(128, False), CType(128, True)


def kind_of(interval: Interval, layout: ProgramLayout) -> CType:
    """The smallest kind that holds the interval."""
    if interval.low >= 0:
        if interval.high < 1 << 64:
            return U64
        if interval.high < 1 << 128:
            return U128
    else:
        for kind in (I64, I128):
            if interval.low >= -(1 << (kind.bits - 1)) and interval.high < 1 << (kind.bits - 1):
                return kind
    bits = max(interval.high.bit_length(), (-interval.low - 1).bit_length() if interval.low < 0 else 0) + 1
    return wide_kind(bits, layout)


def modular_kind(bits: int, layout: ProgramLayout) -> CType:
    """The kind for arithmetic modulo at least 2**bits."""
    if bits <= 64:
        return U64
    return U128 if bits <= 128 else wide_kind(bits, layout)


def wide_kind(bits: int, layout: ProgramLayout) -> CType:
    """A wN of at least that many bits."""
    count = max(3, (bits + 63) // 64)
    layout.wide.add(count)
    return CType(count * 64, True)


def convert(code: str, source: CType, target: CType) -> str:
    """The value in another kind: exact if it fits, else modulo the target's size."""
    if source == target:
        return code
    if not source.wide and not target.wide:
        if source.signed and not target.signed and target.bits > source.bits:
            return f"(({target.name})(i128){code})"
        return f"(({target.name}){code})"
    if not source.wide:
        if source.bits == 64:
            return f"{target.prefix}_{'i64' if source.signed else 'u64'}({code})"
        return f"{target.prefix}_{'i128' if source.signed else 'u128'}({code})"
    if target.wide:
        return f"cast_{source.prefix}_{target.prefix}({code})"
    return f"(({target.name}){source.prefix}_to128({code}))"


def extend(code: str, source: CType, target: CType) -> str:
    """Zero-extend a modular value without bits above its width to a kind at least as large."""
    if source.wide and target.wide and source != target:
        return f"extend_{source.prefix}_{target.prefix}({code})"
    return convert(code, source, target)


def literal(value: int, kind: CType) -> str:
    """A constant; `value` is taken modulo the kind's size."""
    if kind.wide:
        count = kind.bits // 64
        words = [(value >> (64 * i)) & ((1 << 64) - 1) for i in range(count)]
        return f"(({kind.name}){{{{{', '.join(f'{w:#x}u' for w in words)}}}}})"
    if kind == U64:
        return _u64(value)
    if kind == I64:
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"(int64_t){value}" if value >= 0 else f"((int64_t)-{-value})"
    value &= (1 << 128) - 1
    code = f"U128({_u64(value >> 64)}, {_u64(value)})" if value >> 64 else f"(u128){_u64(value)}"
    return f"((i128){code})" if kind == I128 else f"({code})"


def _u64(value: int) -> str:
    value &= (1 << 64) - 1
    return f"(uint64_t){value:#x}u"
