"""Types of the arguments of command lines that argparse reads: plain numbers within bounds, with short error messages.

Numbers with units (``64K``, ``10us``) are in ``mrc_common.units``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

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
