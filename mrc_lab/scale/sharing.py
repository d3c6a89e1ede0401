"""Capacity of the uplinks of racks and pods in a plane for sprayed streams, when each takes the paths that work for it.

A stream spreads over all of its paths in a plane, and skips those whose packets are marked, so that it loads uplinks
unequally where that relieves a full one (`mrc_host/transport/paths.py`). Here that is a weight for every direction of
an uplink: a path is taken in proportion to the weights of all that it crosses. What carries too much loses weight until
nothing does, or no shift helps any more (iterative proportional fitting), for all streams of two racks at once: paths
are the same for all of them. Then a rack can carry all that its uplinks do, or what fills the fullest of them, and a
pod what the uplinks of its T1s do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mrc_lab.scale.network import DOWN, UP, WAYS, Floats, Integers
from mrc_lab.scale.reach import joined, over_t2s, pod_slices

_ROUNDS: Final = 60
_FULL: Final = 1 + 1e-3  # of what an uplink carries: no more is too much
_NO_BETTER: Final = 1e-4  # of a round


class UplinkCapacity(NamedTuple):
    """What the uplinks of racks, and of pods, can carry in all, b/s [direction, rack or pod]."""

    racks: Floats
    pods: Floats


@dataclass(frozen=True, slots=True)
class PlaneLinks:
    """What is in use of a plane, b/s, 0 of the rest: uplinks of T0s [direction, rack, T1], of T1s [direction, T1, T2].

    `pod` is by rack.
    """

    of_racks: Floats
    of_t1s: Floats
    pod: Integers

    @property
    def by_tier(self) -> tuple[Floats, Floats]:
        """Both."""
        return self.of_racks, self.of_t1s

    @property
    def pods(self) -> int:
        """Pods."""
        return int(self.pod[-1]) + 1


def shared_capacity(demand: Floats, links: PlaneLinks) -> UplinkCapacity:
    """What one plane can carry.

    `demand` is what racks (rows) would send to others (columns) if only the sums of their uplinks, and of their pods',
    counted, b/s.
    """
    if all(map(_alike, links.by_tier)):
        return _whole(links)
    weights = _Weights(demand, links)
    before = np.inf
    for _ in range(_ROUNDS):
        worst = weights.worst()
        if worst < _FULL or before - worst < _NO_BETTER:
            break
        before = worst
        weights.shift()
    return weights.capacity()


def _alike(rates: Floats) -> bool:
    """Whether all uplinks of a tier have one rate, and none is missing."""
    return not rates.size or bool((rates == rates.flat[0]).all())


def _whole(links: PlaneLinks) -> UplinkCapacity:
    """All uplinks of each."""
    return UplinkCapacity(links.of_racks.sum(axis=2), _by_pod(links.of_t1s, links.pods).sum(axis=2))


def _by_pod(of_t1s: Floats, pods: int) -> Floats:
    """What is by uplink of T1s, for each pod [direction, pod, uplink]."""
    return of_t1s.reshape(len(WAYS), pods, -1)


class _Weights:
    def __init__(self, demand: Floats, links: PlaneLinks) -> None:
        self._demand, self._links = demand, links
        self._racks_of = pod_slices(links.pod)
        self._weights = [rates.copy() for rates in links.by_tier]
        self._room = [np.where(rates > 0, rates, np.inf) for rates in links.by_tier]  # nothing fills what is not there
        self._fullness = self._spread()

    def _spread(self) -> list[Floats]:
        """How full each uplink is of all streams, by tier: 1 is full, and 0 what carries nothing."""
        below, above = self._weights
        over = over_t2s(above[UP], above[DOWN], self._links.pods)
        total = joined(below[UP], below[DOWN], over, self._links.pod)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(total > 0, self._demand / total, 0.0)
        carried, between = self._carried_below(each, over)
        return [carried / self._room[0], self._carried_above(between) / self._room[1]]

    def _carried_below(self, each: Floats, over: Floats) -> tuple[Floats, Floats]:
        """Loads of the uplinks of T0s and, for each weight of T2s, what there is between pods [pod, pod, T1].

        `each` is the demand of two racks for each weight of their paths.
        """
        up, down = self._weights[0]
        carried, between = np.zeros_like(self._weights[0]), np.zeros_like(over)
        for pod, racks in enumerate(self._racks_of):
            seen = over[pod, self._links.pod] * down
            sent = each[racks].T @ up[racks]
            carried[UP, racks] = up[racks] * (each[racks] @ seen)
            carried[DOWN] += sent * seen
            if self._links.pods > 1:
                between[pod] = self._by_pods(sent * down)
                between[pod, pod] = 0.0
        return carried, between

    def _carried_above(self, between: Floats) -> Floats:
        """Loads of the uplinks of T1s."""
        if self._links.pods == 1:
            return np.zeros_like(self._weights[1])
        shape = (*between.shape[1:], self._weights[1].shape[-1])
        up, down = (side.reshape(shape).swapaxes(0, 1) for side in self._weights[1])  # [T1 of a pod, pod, T2]
        by_t1 = np.moveaxis(between, -1, 0)
        loads = up * (by_t1 @ down), down * (by_t1.swapaxes(1, 2) @ up)
        return np.stack([load.swapaxes(0, 1).reshape(self._weights[1].shape[1:]) for load in loads])

    def _by_pods(self, values: Floats) -> Floats:
        """Sums of what is by rack, for each pod."""
        found: Floats = np.add.reduceat(values, [racks.start for racks in self._racks_of], axis=0)
        return found

    def worst(self) -> float:
        """How full the fullest is."""
        return max(float(tier.max(initial=0.0)) for tier in self._fullness)

    def shift(self) -> None:
        """Shift load from what carries too much."""
        for weight, fullness in zip(self._weights, self._fullness, strict=True):
            weight /= np.maximum(fullness, 1.0)
        self._fullness = self._spread()

    def capacity(self) -> UplinkCapacity:
        """All uplinks of each or, where one would carry too much, as much less of what is asked."""
        whole = _whole(self._links)
        between = self._by_pods(self._by_pods(self._demand).T).T
        np.fill_diagonal(between, 0.0)
        fullness = self._fullness[0], _by_pod(self._fullness[1], self._links.pods)
        found = []
        for asked, rates, full in zip((self._demand, between), whole, fullness, strict=True):
            most = full.max(axis=2, initial=0.0)
            total = np.stack([asked.sum(axis=1), asked.sum(axis=0)])
            found.append(np.where(most > _FULL, np.minimum(rates, total / np.maximum(most, 1.0)), rates))
        return UplinkCapacity(*found)
