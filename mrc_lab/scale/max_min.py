"""Max-min fair rates: no flow gets more without taking from one that has no more than it.

A *use* says that a flow loads a constraint (a port, a bundle of links) with so many b/s for each b/s of its rate. Flows
of one *group* have one rate, that of the slowest.

All rates grow alike until a constraint is full, and its groups keep what they have then (progressive filling,
Bertsekas and Gallager, Data Networks, 6.5.2). The level at which a constraint will be full only rises as others are
filled, so a heap may have old levels: whatever comes out of it with another level by now goes back. Each group is
settled once, and each use is looked at twice: when its group is settled, and when its constraint is full. So the time
is that of the uses, and of a heap.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from mrc_lab.scale.network import Floats, Integers

_CLOSE: Final = 1 + 1e-12  # levels as close are the same: rounding is all that is between them


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
    filling = _Filling(uses, capacity, group, limit)
    while full := filling.next_full():
        filling.settle(*full)
    return filling.rate


class _Filling:
    """What is settled so far. A limit is a constraint that its group alone loads."""

    def __init__(self, uses: Uses, capacity: Floats, group: Integers, limit: Floats) -> None:
        owner = np.concatenate([group[uses.flow], np.arange(len(limit))])
        constraint = np.concatenate([uses.constraint, len(capacity) + np.arange(len(limit))])
        load = np.concatenate([uses.load, np.ones(len(limit))])
        self.rate = limit.astype(float)
        self._open = np.ones(len(limit), dtype=bool)
        self._unsettled = len(limit)
        self._left = np.concatenate([capacity, limit]).astype(float)
        self._total = np.bincount(constraint, weights=load, minlength=len(self._left))
        self._by_owner = _Rows(owner, len(limit), constraint, load)
        self._by_constraint = _Rows(constraint, len(self._left), owner, load)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(self._total > 0, np.maximum(self._left, 0) / self._total, np.inf)
        order = np.argsort(level, kind="stable")[: np.count_nonzero(np.isfinite(level))]
        self._heap = list(zip(level[order].tolist(), order.tolist(), strict=True))  # sorted, so a heap

    def next_full(self) -> tuple[float, list[int]] | None:
        """The lowest level, and the constraints that are full at it; None once there are no more."""
        found: list[int] = []
        lowest = np.inf
        while self._unsettled and self._heap and self._heap[0][0] <= lowest * _CLOSE:
            noted, constraint = heapq.heappop(self._heap)
            total = float(self._total[constraint])
            if total <= 0:
                continue
            level = float(self._left[constraint]) / total
            if level > noted * _CLOSE:
                heapq.heappush(self._heap, (level, constraint))
            else:  # less than noted is rounding
                lowest = min(lowest, noted)
                found.append(constraint)
        return (lowest, found) if found else None

    def settle(self, level: float, full: list[int]) -> None:
        """The groups of constraints that are full keep this level."""
        owners, _ = self._by_constraint.of(np.array(full))
        owners = np.unique(owners[self._open[owners]])
        if not len(owners):
            return
        self._open[owners] = False
        self._unsettled -= len(owners)
        self.rate[owners] = level
        constraint, load = self._by_owner.of(owners)
        np.subtract.at(self._left, constraint, load * level)
        np.subtract.at(self._total, constraint, load)


class _Rows:
    """Columns and values of a sparse matrix by row."""

    def __init__(self, row: Integers, rows: int, column: Integers, value: Floats) -> None:
        order = np.argsort(row, kind="stable")
        self._column, self._value = column[order], value[order]
        self._first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])

    def of(self, rows: Integers) -> tuple[Integers, Floats]:
        """Columns and values of some rows, one row after the other."""
        first, count = self._first[rows], self._first[rows + 1] - self._first[rows]
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(first, count) + within
        return self._column[places], self._value[places]
