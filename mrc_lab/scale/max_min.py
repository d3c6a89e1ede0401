"""Max-min fair rates: no flow gets more without taking from one that has no more than it.

A *use* says that a flow loads a constraint (a port, a bundle of links) with so many b/s for each b/s of its rate. Flows
of one *group* have one rate, that of the slowest. All constraints that limit nobody less than another does are filled
in the same round (as in the distributed algorithm of Bertsekas and Gallager, Data Networks, 6.5.2), so the number of
rounds is that of the bottlenecks that depend on one another, not of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mrc_lab.scale.network import Floats, Integers

_CLOSE: Final = 1 + 1e-9  # levels as close are the same: rounding is all that is between them


@dataclass(frozen=True, slots=True)
class Uses:
    """Who loads what: flow and constraint by number, and the load for each b/s of the flow."""

    flow: Integers
    constraint: Integers
    load: Floats


def max_min(uses: Uses, capacity: Floats, group: Integers, limit: Floats) -> Floats:
    """The rate of every group, in the unit of `capacity`.

    `group` is by flow, `limit` the most that each group may have; a group without any flow, or only with flows that
    use nothing, gets its limit. A constraint of capacity 0 stops those that use it.
    """
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
