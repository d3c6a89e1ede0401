"""Capacity of the uplinks of a rack and plane for sprayed streams, when each takes the paths that work for it.

A stream spreads over all of its paths in a plane, and skips those whose packets are marked, so that it loads uplinks
unequally where that relieves a full one (`mrc_host/transport/paths.py`). Here that is a weight for every direction of
an uplink: a path is taken in proportion to the weights of its two uplinks. The weights are fitted until the uplinks of
a rack are equally full, as far as paths allow (iterative proportional fitting), for all streams of two racks at once:
paths are the same for all of them. What a rack then can carry in a plane is what fills the fullest of its uplinks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mrc_lab.scale.network import Floats

_ROUNDS: Final = 60
_EQUAL: Final = 1e-3  # relative difference between uplinks of a rack that is small enough


def shared_capacity(demand: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """What the racks of one plane can carry upwards and downwards in all, by rack.

    `demand` is what racks (rows) send to others (columns), in any unit, `up` and `down` are the rates of their uplinks
    that are in use, by rack and T1: 0 of others.
    """
    weights = _Weights(demand, up, down)
    if _alike(up) and _alike(down):
        return up.sum(axis=1), down.sum(axis=1)
    for _ in range(_ROUNDS):
        if weights.improve() < _EQUAL:
            break
    return weights.capacities()


def _alike(rates: Floats) -> bool:
    """Whether all uplinks of the racks have one rate, and none is missing."""
    return bool(rates.size) and bool((rates == rates.flat[0]).all())


class _Weights:
    def __init__(self, demand: Floats, up: Floats, down: Floats) -> None:
        self._demand = demand
        self._rates = up, down
        self._weights = [up.copy(), down.copy()]
        self._loads = self._spread()

    def _spread(self) -> tuple[Floats, Floats]:
        """The load of each uplink, of all streams."""
        up, down = self._weights
        together = up @ down.T
        with np.errstate(divide="ignore", invalid="ignore"):
            by_weight = np.where(together > 0, self._demand / together, 0.0)
        return up * (by_weight @ down), down * (by_weight.T @ up)

    def improve(self) -> float:
        """Shift load from the fuller uplinks of each rack to the others; the largest relative difference before."""
        worst = 0.0
        for side, (load, rate) in enumerate(zip(self._loads, self._rates, strict=True)):
            fullness = _fullness(load, rate)
            worst = max(worst, float(np.abs(fullness - 1).max(initial=0.0, where=(load > 0))))
            self._weights[side] /= np.sqrt(np.where(fullness > 0, fullness, 1.0))
        self._loads = self._spread()
        return worst

    def capacities(self) -> tuple[Floats, Floats]:
        """What fills the fullest uplink, upwards and downwards."""
        found = []
        for load, rate in zip(self._loads, self._rates, strict=True):
            most = _fullness(load, rate).max(axis=1, initial=0.0)
            found.append(rate.sum(axis=1) / np.maximum(most, 1.0))
        return found[0], found[1]


def _fullness(load: Floats, rate: Floats) -> Floats:
    """How full uplinks are, over the average of their rack; 0 where there is no load."""
    total, whole = load.sum(axis=1, keepdims=True), rate.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where((rate > 0) & (total > 0), load * whole / (rate * total), 0.0)
    return found
