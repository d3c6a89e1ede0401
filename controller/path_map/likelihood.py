"""Likelihood of one plane's probe counts, given which elements lose how much.

A probe survives each crossing of an element with probability exp(-t), t >= 0 being the element's *strength*, and
everything else with probability exp(-noise). So a route whose crossings are n has the survival exp(-(noise + n . t)),
and the log-likelihood of the counts is concave in t. All that arrived enters as one sum for each element; only routes
that lost something are looked at one by one, which are few when little is broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from controller.path_map.plane_model import Floats, PlaneModel

MAX_STRENGTH = 9.0  # a loss of 99.99 %: some probe may always come through
GRID = -np.log1p(-np.array([0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99, 0.9999]))
_PARTS, _CUTS = 64, 3  # an interval of strengths is cut into so many parts, so many times
_STEPS = np.arange(1, _PARTS)
_SWEEPS = 4
_SETTLED = 1e-3  # a change of the loss that is not worth another sweep

Strengths = dict[int, float]  # of elements, by their numbers in the plane's model


class Likelihood:
    """The counts `sent` and `lost` of a plane, by route, where a probe is lost anyway with probability `noise`.

    A *risk* is by route, of those that lost something.
    """

    def __init__(self, model: PlaneModel, sent: Floats, lost: Floats, noise: float) -> None:
        self.noise = noise
        self.rows = np.flatnonzero(lost)
        self._lost = lost[self.rows]
        self._model = model
        self._arrivals = sent - lost
        self._arrived = float(self._arrivals.sum())
        self._crossings = model.crossings[self.rows]
        self._elements = model.crossings.shape[1]
        self._row_of = {row: number for number, row in enumerate(self.rows.tolist())}
        self._all_survived: Floats | None = None
        self._survivals: dict[int, float] = {}
        self._row_sets: list[tuple[int, Floats]] | None = None

    def risk(self, strengths: Mapping[int, float]) -> Floats:
        """Risk when these elements have these strengths."""
        risk = np.full(len(self.rows), self.noise)
        for number, strength in strengths.items():
            self._add(risk, number, strength)
        return risk

    def log_likelihood(self, strengths: Mapping[int, float]) -> float:
        """Of the counts, in nats, but for a constant."""
        survived = sum(strength * self._survived(number) for number, strength in strengths.items())
        lost = float(self._lost @ np.log(-np.expm1(-self.risk(strengths))))
        return lost - survived - self.noise * self._arrived

    def saturated(self) -> float:
        """The log-likelihood if every route had a loss of its own: no explanation can reach more."""
        arrived = self._arrivals[self.rows]
        share = self._lost / (self._lost + arrived)
        kept = arrived > 0
        lost = float(self._lost @ np.log(share))
        quiet = self.noise * (self._arrived - float(arrived.sum()))
        return lost + float(arrived[kept] @ np.log1p(-share[kept])) - quiet

    def gains(self, risk: Floats) -> Floats:
        """What each suspect adds to the log-likelihood at some risk, by strength of `GRID` and suspect."""
        base = np.log(-np.expm1(-risk))
        if self._all_survived is None:
            self._all_survived = np.concatenate((self._arrivals @ self._model.crossings, self._arrivals))
        found = GRID[:, None] * -self._all_survived
        for times, crossed in self._by_times():
            found[:, : self._elements] += self._lost_gain(risk, times * GRID, base) @ crossed
        found[:, self._elements + self.rows] += self._lost_gain(risk, GRID, base)
        return np.asarray(found)

    def change(self, number: int, strength: float, risk: Floats) -> float:
        """What a suspect of this strength adds to the log-likelihood; below 0 when the counts speak against it."""
        with_it = risk.copy()
        self._add(with_it, number, strength)
        lost = float(self._lost @ (np.log(-np.expm1(-with_it)) - np.log(-np.expm1(-risk))))
        return lost - strength * self._survived(number)

    def fit(self, strengths: Strengths) -> None:
        """Fit every strength in turn; the likelihood is concave, so a few sweeps do."""
        risk = self.risk(strengths)
        for _ in range(_SWEEPS if len(strengths) > 1 else 1):
            moved = 0.0
            for number, strength in strengths.items():
                self._add(risk, number, -strength)
                strengths[number] = best = self.best_strength(number, np.maximum(risk, self.noise))
                self._add(risk, number, best)
                moved = max(moved, abs(best - strength) * math.exp(-best))
            if moved < _SETTLED:
                break

    def losses(self, number: int) -> float:
        """How many probes over a suspect were lost."""
        return float(self._lost[self._crossed(number)[0]].sum())

    def best_strength(self, number: int, risk: Floats) -> float:
        """The strength of a suspect that fits best when everything else is at `risk`: where the derivative is zero."""
        rows, times = self._crossed(number)
        lost, rest, survived = self._lost[rows] * times, risk[rows], self._survived(number)
        low, width = 0.0, MAX_STRENGTH
        for _ in range(_CUTS):
            width /= _PARTS
            points = low + width * _STEPS
            slopes = (1.0 / np.expm1(rest + points[:, None] * times)) @ lost
            low += width * int(np.count_nonzero(slopes > survived))
        return low + width / 2

    def _survived(self, number: int) -> float:
        """How many crossings of a suspect did no harm."""
        if number not in self._survivals:
            row = number - self._elements
            arrived = self._arrivals
            self._survivals[number] = float(arrived[row] if row >= 0 else arrived @ self._model.crossings[:, number])
        return self._survivals[number]

    def _by_times(self) -> list[tuple[int, Floats]]:
        """For each number of crossings, which routes (rows) cross which elements (columns) so often."""
        if self._row_sets is None:
            most = int(self._crossings.max(initial=0))
            self._row_sets = [(times, (self._crossings == times).astype(float)) for times in range(1, most + 1)]
        return self._row_sets

    def _lost_gain(self, risk: Floats, strengths: Floats, base: Floats) -> Floats:
        return np.asarray(self._lost * (np.log(-np.expm1(-(risk + strengths[:, None]))) - base))

    def _crossed(self, number: int) -> tuple[NDArray[np.intp], Floats]:
        """Rows that a suspect is on, and how often."""
        if number < self._elements:
            column = self._crossings[:, number]
            rows = np.flatnonzero(column)
            return rows, column[rows]
        row = self._row_of.get(number - self._elements)
        return np.array([] if row is None else [row], dtype=np.intp), np.ones(0 if row is None else 1)

    def _add(self, risk: Floats, number: int, strength: float) -> None:
        if number < self._elements:
            risk += self._crossings[:, number] * strength
        else:
            row = self._row_of.get(number - self._elements)
            if row is not None:
                risk[row] += strength
