"""Arithmetic on numbers of known width, as P4_16 defines it: wrapping, saturating, or of any size."""

from __future__ import annotations

from collections.abc import Callable

from p4compiler.types import BOOL, BitsType, Type, number_type

MAX_SHIFT = 65_536
MAX_INTEGER_BITS = 65_536

COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class ArithmeticFault(Exception):  # noqa: N818 (the message is an error's)
    """An operation without a result, such as a division by zero."""


def mask(width: int) -> int:
    """A number of `width` ones."""
    return (1 << width) - 1


def fit(value: int, kind: Type) -> int:
    """The value that a number becomes in a type: its low bits; unchanged where the type has no width."""
    bits = number_type(kind)
    if bits is None:
        return value
    value &= mask(bits.width)
    return value - (1 << bits.width) if bits.signed and value >> (bits.width - 1) else value


def fits(value: int, bits: BitsType) -> bool:
    """Whether the value is kept when it is put into a type."""
    if bits.signed:
        return -(1 << (bits.width - 1)) <= value < 1 << (bits.width - 1)
    return 0 <= value <= mask(bits.width)


def binary(op: str, left: int, right: int, kind: Type, right_width: int = 0) -> int:
    """The result of an operation, of type `kind` (bool for comparisons); `right_width` is for ``++``.

    Raises ArithmeticFault.
    """
    if op in _COMPARE:
        return _COMPARE[op](left, right)
    if op in _SIMPLE:
        result = _SIMPLE[op](left, right)
    elif op in ("<<", ">>"):
        result = _shift(op, left, right)
    elif op == "++":
        result = left << right_width | right & mask(right_width)
    elif op in ("/", "%"):
        result = _divide(op, left, right)
    else:
        return _saturate(left + right if op == "|+|" else left - right, kind)
    if number_type(kind) is None and abs(result).bit_length() > MAX_INTEGER_BITS:
        raise ArithmeticFault(f"a number of more than {MAX_INTEGER_BITS} bits")
    return fit(result, kind)


def _shift(op: str, left: int, right: int) -> int:
    if right < 0:
        raise ArithmeticFault("a shift by a negative number")
    if op == ">>":
        return left >> min(right, MAX_INTEGER_BITS + 1)
    if right > MAX_SHIFT:
        raise ArithmeticFault(f"a shift by more than {MAX_SHIFT} bits")
    return left << right


def _divide(op: str, left: int, right: int) -> int:
    if right == 0:
        raise ArithmeticFault("a division by zero" if op == "/" else "a modulo by zero")
    if left < 0 or right < 0:
        raise ArithmeticFault(f"{op!r} of a negative number")
    return left // right if op == "/" else left % right


def _saturate(value: int, kind: Type) -> int:
    bits = number_type(kind)
    if bits is None:
        return value
    low, high = (-(1 << (bits.width - 1)), mask(bits.width - 1)) if bits.signed else (0, mask(bits.width))
    return max(low, min(high, value))


def unary(op: str, value: int, kind: Type) -> int:
    """The result of an operation with one operand."""
    if op == "!":
        return not value
    result = -value if op == "-" else ~value if op == "~" else value
    return fit(result, kind) if kind != BOOL else result
