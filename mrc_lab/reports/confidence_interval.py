"""The mean of a value over seeds, and the 95 % interval of that mean by Student's t distribution."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_SHARE = 0.95
_STEPS = 400  # of Simpson's rule; even


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean over `count` values; `low` and `high` are None where there is only one."""

    mean: float
    low: float | None
    high: float | None
    count: int


def mean_interval(values: Sequence[float]) -> ConfidenceInterval:
    """The mean of some values, at least one, and the interval in which the true mean is with 95 %, were they normal."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return ConfidenceInterval(mean, None, None, len(values))
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return ConfidenceInterval(mean, mean - half, mean + half, len(values))


@functools.cache
def t_quantile(freedom: int, share: float = _SHARE) -> float:
    """How many standard errors to both sides hold `share` of Student's t distribution with that many degrees."""
    low, high = 0.0, 1e4
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _between(middle, freedom) < share else (low, middle)
    return high


def _between(width: float, freedom: int) -> float:
    """Of the distribution between -width and width: its density integrated over a, with t = sqrt(n) tan(a)."""
    most = math.atan(width / math.sqrt(freedom))
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    step = most / _STEPS
    weights = (1 if n in (0, _STEPS) else 4 if n % 2 else 2 for n in range(_STEPS + 1))
    total = sum(weight * math.cos(n * step) ** (freedom - 1) for n, weight in enumerate(weights))
    return 2 * factor * total * step / 3
