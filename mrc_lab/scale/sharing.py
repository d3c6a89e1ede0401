"""Capacity of the uplinks of a rack and plane for sprayed streams, when each takes the paths that work for it.

A stream spreads over all of its paths in a plane, and skips those whose packets are marked, so that it loads uplinks
unequally where that relieves a full one (`mrc_host/transport/paths.py`). Here that is a weight for every direction of
an uplink: a path is taken in proportion to the weights of its two uplinks. What carries too much loses weight until
nothing does, or no shift helps any more (iterative proportional fitting), for all streams of two racks at once: paths
are the same for all of them. Then a rack can carry all that its uplinks do, or what fills the fullest of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mrc_lab.scale.network import Floats

_ROUNDS: Final = 60
_FULL: Final = 1 + 1e-3  # of what an uplink carries: no more is too much
_NO_BETTER: Final = 1e-4  # of a round


def shared_capacity(demand: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """What the racks of one plane can carry upwards and downwards in all (b/s), by rack.

    `demand` is what racks (rows) would send to others (columns) if only the sums of their uplinks counted, b/s. `up`
    and `down` are the rates of their uplinks that are in use, by rack and T1: 0 of others.
    """
    if _alike(up) and _alike(down):
        return up.sum(axis=1), down.sum(axis=1)
    weights = _Weights(demand, up, down)
    before = np.inf
    for _ in range(_ROUNDS):
        worst = weights.worst()
        if worst < _FULL or before - worst < _NO_BETTER:
            break
        before = worst
        weights.shift()
    return weights.capacities()


def _alike(rates: Floats) -> bool:
    """Whether all uplinks of the racks have one rate, and none is missing."""
    return bool(rates.size) and bool((rates == rates.flat[0]).all())


class _Weights:
    def __init__(self, demand: Floats, up: Floats, down: Floats) -> None:
        self._demand = demand
        self._rates = up, down
        self._weights = [up.copy(), down.copy()]
        self._fullness = self._spread()

    def _spread(self) -> tuple[Floats, Floats]:
        """How full each uplink is of all streams: 1 is full, and 0 what carries nothing."""
        up, down = self._weights
        together = up @ down.T
        with np.errstate(divide="ignore", invalid="ignore"):
            by_weight = np.where(together > 0, self._demand / together, 0.0)
            loads = up * (by_weight @ down), down * (by_weight.T @ up)
            above, below = (np.where(rate > 0, load / rate, 0.0) for load, rate in zip(loads, self._rates, strict=True))
        return above, below

    def worst(self) -> float:
        """How full the fullest is."""
        return max(float(side.max(initial=0.0)) for side in self._fullness)

    def shift(self) -> None:
        """Shift load from what carries too much."""
        for weight, fullness in zip(self._weights, self._fullness, strict=True):
            weight /= np.maximum(fullness, 1.0)
        self._fullness = self._spread()

    def capacities(self) -> tuple[Floats, Floats]:
        """All uplinks of each rack or, where one would carry too much, as much less of what is asked."""
        asked = self._demand.sum(axis=1), self._demand.sum(axis=0)
        found = []
        for total, rate, fullness in zip(asked, self._rates, self._fullness, strict=True):
            most = fullness.max(axis=1, initial=0.0)
            whole = rate.sum(axis=1)
            found.append(np.where(most > _FULL, np.minimum(whole, total / np.maximum(most, 1.0)), whole))
        return found[0], found[1]
