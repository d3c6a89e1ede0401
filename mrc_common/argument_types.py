"""Types of the arguments of command lines that argparse reads: numbers within bounds, with short error messages."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mrc_common import units

_MAX_DIGITS = 18
_MAX_SECONDS = 1e6


def whole_number(low: int = 0) -> Callable[[str], int]:
    """A type for whole numbers of at least `low` (0 or more)."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        if int(text) < low:
            raise argparse.ArgumentTypeError(f"it must be at least {low}")
        return int(text)

    return parse


def size(text: str) -> int:
    """Bytes of ``8``, ``64K``, ``1M`` or ``2G``: powers of 1024."""
    try:
        return int(units.SIZE.word(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(low: float = 0.0) -> Callable[[str], float]:
    """A type for seconds, from `low` (0 or more) to 10^6."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not low <= value <= _MAX_SECONDS:
            least = f" of at least {low:g}" if low else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds{least}")
        return value

    return parse
