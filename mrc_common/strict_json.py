"""JSON as the standard has it (RFC 8259), where others have written or will read it.

Python's own reads and writes NaN, Infinity and -Infinity, which no browser reads, reads ``1e999`` as Infinity, and
raises RecursionError for what is nested deeply. Here all of that is a ValueError, in both directions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for what is none, also where it is nested too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def dumps(value: Any, *, indent: int | None = None, ascii_only: bool = True) -> str:
    """A value as JSON, in one line without spaces unless `indent` is given; ValueError for numbers that are none."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, allow_nan=False, indent=indent, separators=separators, ensure_ascii=ascii_only)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is larger than any number here")
    return number


def finite(value: Any) -> Any:
    """A value with None in place of floats that are no numbers in JSON, at whatever depth: for figures of our own."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
