"""Numbers with units, as people write them: ``100G``, ``64K``, ``2.5us``, ``20%``; and back into words.

Rates are bits per second with powers of 1000, sizes bytes with powers of 1024, times need a unit and become integer
nanoseconds, shares are plain numbers or percent. :data:`RATE`, :data:`SIZE`, :data:`TIME`, :data:`SHARE` and
:data:`NUMBER` hold for each what is needed to declare a key, an option or a word of that kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

# An exponent of two digits is enough for anybody, and keeps numbers to a size that can be calculated with.
NUMBER_PATTERN = r"\s*(-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE]-?[0-9]{1,2})?)\s*"
_NUMBER = re.compile(NUMBER_PATTERN + r"([A-Za-zµ%/]*)\s*")
_MAX_SHOWN = 40

_RATES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIMES = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_SHARES = {"": Decimal(1), "%": Decimal("0.01")}


def parse_rate(text: str) -> int:
    """Bits per second of ``100G``, ``2.5Gb/s``, ``40mbit``; ValueError says what is wrong."""
    number, unit = _split(text, "a rate such as 100G or 40Mb/s")
    prefix = re.sub(r"(bit/s|bitps|b/s|bps|bit)$", "", unit)
    return _whole(number, _factor(prefix, _either_case(_RATES), text, "a rate such as 100G or 40Mb/s"))


def parse_size(text: str) -> int:
    """Bytes of ``64K``, ``1MiB``, ``4096``; K, M, G and T are powers of 1024."""
    number, unit = _split(text, "a size such as 64K or 1M")
    prefix = re.sub(r"(iB|i?b|B)$", "", unit, flags=re.IGNORECASE)
    return _whole(number, _factor(prefix, _either_case(_SIZES), text, "a size such as 64K or 1M"))


def parse_time(text: str) -> int:
    """Nanoseconds of ``10us``, ``1.5ms``, ``2s``; a time without unit is refused."""
    number, unit = _split(text, "a time such as 10us or 1.5ms")
    if not unit and number:
        raise ValueError(f"{text!r} has no unit: write {text}us, {text}ms or {text}s")
    return _whole(number, _factor(unit or "ns", _TIMES, text, "a time such as 10us or 1.5ms"))


def parse_share(text: str) -> float:
    """A plain number of ``0.2`` or ``20%``."""
    number, unit = _split(text, "a share such as 20% or 0.2")
    return float(number * _factor(unit, _SHARES, text, "a share such as 20% or 0.2"))


def parse_number(text: str) -> float:
    """A plain number, without unit."""
    number, unit = _split(text, "a number such as 900")
    if unit:
        raise ValueError(f"must be a number such as 900, without unit, not {text[:_MAX_SHOWN]!r}")
    return float(number)


def show_rate(bits_per_second: float) -> str:
    """As ``1.53 Tb/s`` or ``383 Gb/s``."""
    return _show(bits_per_second, ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1, "b/s")))


def show_size(size: float) -> str:
    """As ``64 KiB``."""
    return _show(size, ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))


def size_word(size: int) -> str:
    """A whole size as files write it: ``64K``, or ``1500`` where no prefix divides it."""
    prefixes = ((prefix, factor) for prefix, factor in reversed(_SIZES.items()) if size and size % factor == 0)
    prefix, factor = next(prefixes, ("", 1))
    return f"{size // factor}{prefix}"


def counted(number: int, word: str, words: str = "") -> str:
    """``1 case``, ``2 cases``; `words` is the plural where it is another one."""
    return f"{number} {word if number == 1 else words or word + 's'}"


def show_time(ns: float) -> str:
    """As ``1.5 ms``."""
    return _show(ns, ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")))


def show_share(share: float) -> str:
    """As ``20 %``, without an exponent down to parts per billion."""
    percent = f"{100 * share:.6g}"
    return f"{percent} %" if "e" not in percent else f"{100 * share:.7f}".rstrip("0").rstrip(".") + " %"


def _show(value: float, units: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next(((f, u) for f, u in units if abs(value) >= f), units[-1])
    return f"{value / factor:.4g} {unit}" if abs(value / factor) < 1000 else f"{value / factor:.0f} {unit}"


def _split(text: str, example: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"must be {example}, not {text[:_MAX_SHOWN]!r}")
    return Decimal(match[1]), match[2]


def _factor(unit: str, known: Mapping[str, int | Decimal], text: str, example: str) -> int | Decimal:
    if unit not in known:
        raise ValueError(
            f"must be {example}, but {text[:_MAX_SHOWN]!r} has the unit {unit[:_MAX_SHOWN]!r}; "
            f"known are {', '.join(filter(None, known))}"
        )
    return known[unit]


def _either_case(units: Mapping[str, int]) -> Mapping[str, int]:
    """A prefix may be a small or a capital letter; the way it is declared comes first."""
    return {**units, **{name.swapcase(): factor for name, factor in units.items()}}


def _whole(number: Decimal, factor: int | Decimal) -> int:
    return round(number * factor)


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of number: how it is read and shown.

    `parse` raises ValueError with what is wrong. `pattern` is a regular expression for what may follow the number, and
    `plain` says whether a number alone will do, `real` whether values are fractions. `most` is the largest that makes
    sense anywhere.
    """

    name: str
    parse: Callable[[str], float]
    show: Callable[[float], str]
    pattern: str
    example: str
    most: float
    plain: bool = True
    real: bool = False

    def word(self, text: str, low: float = 1) -> Any:
        """The number, at least `low`, that a command-line word means; a ValueError's message has an example."""
        try:
            value = self.parse(text)
        except (ValueError, ArithmeticError):
            value = -1
        if not low <= value <= self.most:
            raise ValueError(f"{text[:_MAX_SHOWN]!r} is not a {self.name} such as {self.example}")
        return value


_MOST = 1 << 62

RATE = Unit("rate", parse_rate, show_rate, "[kKmMgGtT]?(bit/s|bitps|b/s|bps|bit)?", "100G", 10**15)
SIZE = Unit("size", parse_size, show_size, "[kKmMgGtT]?([iI]?[bB])?", "64K", 1 << 40)
TIME = Unit("time", parse_time, show_time, "(ns|us|µs|ms|s|min)", "10us", _MOST, plain=False)
SHARE = Unit("share", parse_share, show_share, "%?", "20%", _MOST, real=True)
NUMBER = Unit("number", parse_number, "{:g}".format, "", "0.8", _MOST, real=True)
