"""Distributions of flow sizes: those in circulation (`flow_sizes.yaml`), a single size, and files in the same format.

A distribution is a list of points, each a size and the percentage of flows up to it, with straight lines between them.
Sizes are drawn by inverting that function, as HPCC's and ns-3's traffic generators do, so that the mean is the sum of
the middles of the segments, each weighted with its share of flows.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import yaml

DATA = Path(__file__).with_suffix(".yaml")
MAX_FLOW = 1 << 40  # bytes
_MAX_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class SizeDistribution:
    """Sizes of flows in bytes. `sizes` and `percents` are the points; `what`, `paper` and `file` say where it is from.

    `certainty` is a mark of docs/protocol.md section 0; all of these are empty where a user gave the distribution.
    """

    name: str
    sizes: tuple[float, ...]
    percents: tuple[float, ...]
    what: str = ""
    paper: str = ""
    file: str = ""
    certainty: str = ""

    @property
    def mean(self) -> float:
        """The mean size."""
        shares = (after - before for before, after in pairwise(self.percents))
        middles = ((before + after) / 2 for before, after in pairwise(self.sizes))
        return sum(share * middle for share, middle in zip(shares, middles, strict=True)) / 100

    def quantile(self, percent: float) -> float:
        """The size up to which `percent` (0 to 100) of the flows are."""
        above = min(max(1, bisect_right(self.percents, percent)), len(self.percents) - 1)
        size, low = self.sizes[above - 1], self.percents[above - 1]
        width = self.percents[above] - low
        return size + (self.sizes[above] - size) * ((percent - low) / width if width else 1.0)

    def draw(self, chance: random.Random) -> int:
        """The size of one flow, at least a byte."""
        return max(1, round(self.quantile(100 * chance.random())))


def fixed(size: int) -> SizeDistribution:
    """All flows have `size` bytes."""
    return SizeDistribution(str(size), (size, size), (0, 100))


@cache
def load() -> Mapping[str, SizeDistribution]:
    """The distributions of the package by name."""
    entries = yaml.safe_load(DATA.read_text(encoding="utf-8"))["distributions"]
    return {entry["name"]: _made(**entry) for entry in entries}


def _made(points: Sequence[Sequence[float]], name: str, **about: str) -> SizeDistribution:
    sizes, percents = zip(*points, strict=True)
    return SizeDistribution(name, tuple(map(float, sizes)), tuple(map(float, percents)), **about)


def parse(name: str, lines: Iterable[str]) -> SizeDistribution:
    """The distribution in a file's lines, each a size in bytes and a percentage; empty lines and # are left out.

    Raises ValueError, which begins with the number of the line, for the first that is wrong.
    """
    points: list[tuple[float, float]] = []
    number = 0
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            point = _point(words, points[-1] if points else None)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        points.append(point)
        if len(points) > _MAX_POINTS:
            raise ValueError(f"line {number}: a distribution may have at most {_MAX_POINTS} points")
    if len(points) < 2:
        raise ValueError(f"line {max(1, number)}: a distribution needs two points or more, lines of 'size percent'")
    size, percent = points[-1]
    if percent != 100:
        shares = ": shares must be multiplied by 100" if percent == 1 else ""
        raise ValueError(f"line {number}: the last size has {percent:g} percent, but must have 100{shares}")
    if size < 1:
        raise ValueError(f"line {number}: the largest flow must have a byte at least")
    return _made(points, name)


def _point(words: Sequence[str], before: tuple[float, float] | None) -> tuple[float, float]:
    """A line's size and percentage; ValueError if they are none, or less than those of the line `before`."""
    if len(words) != 2:
        raise ValueError(f"must have a size in bytes and a percentage, but has {len(words)} words")
    size, percent = (_number(word) for word in words)
    if not 0 <= size <= MAX_FLOW:
        raise ValueError(f"the size {words[0]} is not from 0 to {MAX_FLOW} bytes")
    if not 0 <= percent <= 100:
        raise ValueError(f"the percentage {words[1]} is not from 0 to 100")
    if before is None and percent:
        raise ValueError(f"the first size has {words[1]} percent, but must have 0: that of the smallest flow")
    if before is not None and size < before[0]:
        raise ValueError(f"the size {words[0]} is less than that of the line before, {before[0]:g}")
    if before is not None and percent < before[1]:
        raise ValueError(f"the percentage {words[1]} is less than that of the line before, {before[1]:g}")
    return size, percent


def _number(word: str) -> float:
    try:
        found = float(word) if word.isascii() else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{word[:40]!r} is not a number")
    return found
