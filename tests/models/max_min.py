"""Max-min fair rates in rounds over all flows: the plain form, which is slow where bottlenecks depend on one another.

In each round all constraints that limit nobody less than another does are filled, as in the distributed algorithm of
Bertsekas and Gallager (Data Networks, 6.5.2). `mrc_lab/scale/max_min.py` is compared with it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mrc_lab.scale.max_min import Uses
from mrc_lab.scale.network import Floats, Integers

_CLOSE: Final = 1 + 1e-12  # levels as close are the same: rounding is all that is between them


def max_min_in_rounds(uses: Uses, capacity: Floats, group: Integers, limit: Floats) -> Floats:
    """The rate of every group, as :func:`mrc_lab.scale.max_min.max_min` has it."""
    rate = np.array(limit, dtype=float)
    left = np.array(capacity, dtype=float)
    owner, constraint, load = group[uses.flow], uses.constraint, uses.load
    while len(owner):
        total = np.bincount(constraint, weights=load, minlength=len(capacity))
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(total > 0, np.maximum(left, 0) / total, np.inf)
        lowest = limit.astype(float).copy()
        np.minimum.at(lowest, owner, level[constraint])
        # A constraint is a bottleneck if none of its groups is limited more by another, or by its own limit.
        waits = np.zeros(len(capacity), dtype=bool)
        waits[constraint[lowest[owner] * _CLOSE < level[constraint]]] = True
        limited = lowest >= limit  # by nothing but themselves
        done = np.zeros(len(limit), dtype=bool)
        done[owner[~waits[constraint]]] = True
        done |= limited
        filled = done[owner]
        if not filled.any():  # rounding: take the lowest of all, which nothing else limits
            done[owner[level[constraint] <= level[constraint].min() * _CLOSE]] = True
            filled = done[owner]
        rate[owner[filled]] = lowest[owner[filled]]
        used = np.bincount(constraint[filled], weights=load[filled] * rate[owner[filled]], minlength=len(capacity))
        left -= used
        owner, constraint, load = owner[~filled], constraint[~filled], load[~filled]
    return rate
