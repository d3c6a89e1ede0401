"""Patterns of names: the one language in which files, commands, the prompt and programs name several things at once.

A pattern is a whole name (of a host, link, switch, flow or case) in which ``*`` stands for any characters, ``?`` for
one, and brackets for a number: ``h[1-16]`` is h1 to h16, ``t1-[0,2,5-7]@p0`` five switches. A number is always a whole
one, so ``h[1-3]*`` does not mean h10. Shells read brackets as a choice of characters, in which ``h[1-16]`` is h1 and h6
and ``h[12]`` is h1 and h2: whatever would mean different things in the two languages and is not a list of numbers is
refused, with what to write instead. Whoever writes numbers means all of them: :func:`select` refuses a pattern of which
one is missing, instead of taking fewer things than were meant.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate

from topologies.errors import FabricError

_SPECIAL = re.compile(r"[*?\[\]{}]")
_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MAX_PATTERN = 256  # characters
_PLACEHOLDER = "\ue000"  # of private use: stands for a number while fnmatch translates the rest
_HOSTS = re.compile(r"h(\d+)\s*(?:-|\.\.\.?|:|to)\s*h?(\d+)")
_SET = re.compile(r"\{\s*(\d+(?:\s*,\s*\d+)*|\d+\s*(?:\.\.|-)\s*\d+)\s*\}")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What a pattern means: the expression that a name fulfils, and the numbers of each pair of brackets."""

    expression: re.Pattern[str]
    numbers: tuple[frozenset[int], ...]


def is_pattern(text: str) -> bool:
    """Whether a text is no name, but a pattern, valid or not."""
    return _SPECIAL.search(text) is not None


def check_pattern(pattern: str) -> None:
    """FabricError if a text is a pattern that nobody can read, with what to write instead."""
    _compiled(pattern)


def matches(name: str, pattern: str) -> bool:
    """Whether a name is meant by a pattern. FabricError as in :func:`check_pattern`."""
    return name == pattern or _compiled(pattern).expression.match(name) is not None


def select(names: Iterable[str], pattern: str) -> list[str]:
    """The names that a pattern means, in their order; none if it is about nothing here.

    FabricError as in :func:`check_pattern`, or when some are meant but not all of the numbers in brackets are there.
    """
    compiled = _compiled(pattern)
    found, met = [], [set[int]() for _ in compiled.numbers]
    for name in names:
        match = compiled.expression.match(name)
        if match is None:
            continue
        found.append(name)
        for place, numbers in enumerate(met):
            numbers.add(int(match[f"n{place}"]))
    for wanted, there in zip(compiled.numbers, met, strict=True):
        if found and there < wanted:
            missing = _ranges(wanted - there)
            raise FabricError(
                f"{pattern!r} means {len(wanted)} numbers, but no name has {missing}: "
                f"write [{_ranges(there)}] for what there is"
            )
    return found


def numbers_hint(text: str) -> str:
    """What to write for a text that matches nothing but looks as if several hosts were meant; or empty."""
    if span := _HOSTS.fullmatch(text.strip()):
        return f"for h{span[1]} to h{span[2]} write h[{span[1]}-{span[2]}]"
    if "," in text and not is_pattern(text):
        return f"for several names write a list, as in [{', '.join(part.strip() for part in text.split(',')[:4])}]"
    return ""


@functools.lru_cache(512)
def _compiled(pattern: str) -> _Compiled:
    if len(pattern) > _MAX_PATTERN or _PLACEHOLDER in pattern:
        raise FabricError(f"{pattern[:40]!r} is no pattern: it is too long or has a character that no name has")
    if braces := _SET.search(pattern):
        inside = braces[1].replace(" ", "").replace("..", "-")
        instead = f"{pattern[: braces.start()]}[{inside}]{pattern[braces.end() :]}"
        raise FabricError(f"{pattern!r}: numbers are listed in brackets, write {instead!r}")
    if "{" in pattern or "}" in pattern:
        raise FabricError(f"{pattern!r}: patterns have no braces: write *, ?, or numbers in brackets as in h[1-4,7]")
    texts, numbers = [], []
    rest = pattern
    while "[" in rest:
        before, _, rest = rest.partition("[")
        inside, closed, rest = rest.partition("]")
        if not closed or "[" in inside or "]" in before:
            raise FabricError(f"{pattern!r}: a bracket is not closed, or inside another one: write as in h[1-4,7]")
        if before[-1:].isdigit() or rest[:1].isdigit() or rest[:1] == "[":
            raise FabricError(
                f"{pattern!r}: brackets hold whole numbers, not single digits: for h10 to h19 write h[10-19]"
            )
        numbers.append(_numbers(pattern, inside))
        texts.append(before)
    if "]" in rest:
        raise FabricError(f"{pattern!r}: a bracket is closed that was not opened: write as in h[1-4,7]")
    texts.append(rest)
    return _Compiled(_expression(_PLACEHOLDER.join(texts), numbers), tuple(map(frozenset, numbers)))


def _expression(text: str, numbers: list[set[int]]) -> re.Pattern[str]:
    """Fnmatch's expression for the text, which never backtracks over a star, with numbers at the placeholders."""
    pieces = translate(text).split(_PLACEHOLDER)
    found = pieces[0]
    for place, (wanted, piece) in enumerate(zip(numbers, pieces[1:], strict=True)):
        spans = [_span(str(low), str(high)) for low, high in _spans(wanted)]
        found += f"(?<!\\d)(?P<n{place}>{'|'.join(spans)})(?!\\d){piece}"
    return re.compile(found, re.ASCII)


def _numbers(pattern: str, inside: str) -> set[int]:
    """The numbers that are meant by the text between two brackets."""
    found: set[int] = set()
    for part in inside.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise FabricError(
                f"{pattern!r}: brackets hold numbers and ranges of numbers, at most six digits each, as in h[1-4,7], "
                f"not {inside[:40]!r}"
            )
        low, high = match[1], match[2] or match[1]
        if any(len(number) > 1 and number.startswith("0") for number in (low, high)):
            raise FabricError(f"{pattern!r}: numbers of names have no leading zeros: {_instead(inside)}")
        if int(low) > int(high):
            raise FabricError(f"{pattern!r}: the range {low}-{high} is empty: write [{high}-{low}]")
        found |= set(range(int(low), int(high) + 1))
    if len(inside.strip()) > 1 and inside.strip().isdigit():
        raise FabricError(
            f"{pattern!r} is ambiguous: write [{','.join(inside.strip())}] for {len(inside.strip())} numbers, "
            f"or {inside.strip()} without brackets for one"
        )
    return found


def _instead(inside: str) -> str:
    text = inside.strip()
    if text.isdigit():
        return f"write [{','.join(dict.fromkeys(text))}] for single digits"
    plain = re.sub(r"(?<!\d)0+(?=\d)", "", text)
    return f"write [{plain}]"


def _spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of numbers that follow one another, split where they get another digit, the longest numbers first."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1 and len(str(number)) == len(str(found[-1][1])):
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found[::-1]


def _span(low: str, high: str) -> str:
    """An expression for the numbers from `low` to `high`, which have as many digits."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + _span(low[1:], high[1:])
    left, rest = int(low[0]), len(low) - 1
    right = int(high[0])
    parts = []
    if low[1:] != "0" * rest:
        parts.append(low[0] + _span(low[1:], "9" * rest))
        left += 1
    if high[1:] != "9" * rest:
        parts.append(high[0] + _span("0" * rest, high[1:]))
        right -= 1
    if left <= right:
        parts.append(f"[{left}-{right}]" + "[0-9]" * rest)
    return f"(?:{'|'.join(parts)})"


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers as they stand in brackets, those that follow one another as ranges; of many the first."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in found[:8]]
    return ",".join(shown) + (",..." if len(found) > len(shown) else "")
