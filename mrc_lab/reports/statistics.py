"""Statistics over values, and how numbers are rounded for files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def statistic(name: str, values: Sequence[float] | Values) -> float | None:
    """mean, min, max, median or a percentile (p1, p99, p999 for 99.9) of some values; None when there are none."""
    if len(values) == 0:
        return None
    if name.startswith("p"):
        return float(np.percentile(values, float(f"{name[1:3]}.{name[3:]}")))
    return float(getattr(np, name)(values))


def rounded(value: float | None) -> float | None:
    """For a file: ten digits are enough, and the same on every machine. Whole numbers stay what they are."""
    return float(f"{value:.10g}") if isinstance(value, float) else value
