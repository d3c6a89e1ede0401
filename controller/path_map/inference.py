"""The fewest faults that explain which probes were lost: binary tomography with loss rates, as maximum likelihood.

A probe survives each crossing of a suspect with probability exp(-t), t >= 0 being the suspect's *strength*, and
everything else with probability exp(-noise). So a route whose crossings are n has the survival exp(-(noise + n . t)),
and the counts of sent and lost probes give a log-likelihood that is concave in t. Starting from the suspects that are
already known, the one that adds most is taken in, all strengths are fitted again, and those that the others explain as
well are dropped, until nothing adds more than its threshold. A threshold is the price of believing in a fault at all:
a switch that loses most of what it gets costs little more than a link, so it is blamed as soon as two of its links
would have to be; one that loses less, and a single path, are rarer and cost more. At last every switch and every
partial loss has to beat the best explanation without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.path_map.suspects import Floats, PlaneModel
from controller.path_map.values import Direction, Part

PRICES = {Part.NIC_T0: 14.0, Part.T0_T1: 14.0, Part.SWITCH: 15.0, Part.PATH: 20.0}  # nats
ONE_WAY_PRICE = 1.0  # more, for blaming one direction only
PARTIAL_PRICE = 30.0  # more, for a switch that loses less than half
MOST_STRENGTH = 9.0  # a loss of 99.99 %: some probe may always come through
MAX_FAULTS = 24
_GRID = -np.log1p(-np.array([0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99, 0.9999]))
_HALF = math.log(2)
_HALVINGS = 18
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault: its number among the plane's suspects, its strength, and what it adds to the log-likelihood (nats).

    `margin` is by how much (nats, prices included) this explanation beats the best that was found without it.
    """

    suspect: int
    strength: float
    gain: float
    margin: float = math.inf

    @property
    def loss(self) -> float:
        """Share of packets lost at each crossing."""
        return -math.expm1(-self.strength)


class PlaneInference:
    """The likelihood of one plane's counts; `sent` and `lost` are by route, as floats."""

    def __init__(self, model: PlaneModel) -> None:
        self.model = model
        counts = model.crossings
        self._at_risk = [(n, (counts == n).astype(float)) for n in np.unique(counts[counts > 0])]
        self._columns = [counts[:, number] for number in range(counts.shape[1])]
        self.prices = np.array(
            [PRICES[s.part] + (0.0 if s.direction is Direction.BOTH else ONE_WAY_PRICE) for s in model.suspects]
        )

        self._wholes_of = _wholes(model)
        self._switches = np.array([s.part is Part.SWITCH for s in model.suspects], dtype=float)

    def explain(self, sent: Floats, lost: Floats, noise: float, known: Sequence[int] = ()) -> list[Finding]:
        """The suspected faults, those of `known` among them that still are, by what they add."""
        chosen = self._choose(dict.fromkeys(known, 0.1), sent, lost, noise)
        margins: dict[int, float] = {}
        for doubtful in [n for n, strength in chosen.items() if self._switches[n] or strength < _HALF]:
            if doubtful in chosen and doubtful not in known:
                chosen, margins[doubtful] = self._without(doubtful, chosen, sent, lost, noise)
        found = [
            Finding(n, t, self._worth(chosen, n, sent, lost, noise), margins.get(n, math.inf))
            for n, t in chosen.items()
        ]
        return sorted(found, key=lambda finding: -finding.gain)

    def _without(
        self, doubtful: int, chosen: dict[int, float], sent: Floats, lost: Floats, noise: float
    ) -> tuple[dict[int, float], float]:
        """The better of this explanation and the best without a suspect, and by how much this one is the better.

        Taking in one suspect after the other begins with a switch that loses a little of everything when several of
        its neighbours and links are at fault. All of them together may explain the counts better.
        """
        rest = {number: strength for number, strength in chosen.items() if number != doubtful}
        other = self._choose(rest, sent, lost, noise, forbidden=doubtful)
        margin = self._score(chosen, sent, lost, noise) - self._score(other, sent, lost, noise)
        if margin <= 0 and self._switches[doubtful] and chosen[doubtful] < _HALF:
            # A switch that has just died loses part of what the span counts: unlikely for now, but not out of the race.
            return (chosen if margin + PARTIAL_PRICE > 0 else other), margin
        return (chosen if margin > 0 else other), margin

    def _score(self, chosen: dict[int, float], sent: Floats, lost: Floats, noise: float) -> float:
        """Log-likelihood of an explanation, less its prices."""
        price = sum(
            float(self.prices[n]) + (PARTIAL_PRICE if self._switches[n] and strength < _HALF else 0.0)
            for n, strength in chosen.items()
        )
        return float(np.sum(_by_route(sent, lost, self._risk(chosen, noise)))) - price

    def _choose(
        self, chosen: dict[int, float], sent: Floats, lost: Floats, noise: float, forbidden: int | None = None
    ) -> dict[int, float]:
        """Take in what adds most, one after the other, and leave out what that makes superfluous."""
        self._fit(chosen, sent, lost, noise)
        for _ in range(MAX_FAULTS):
            gains = self.gains(sent, lost, self._risk(chosen, noise))
            gains[list(chosen)] = -1.0
            if forbidden is not None:
                gains[forbidden] = -1.0
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            chosen[best] = 0.1
            self._fit(chosen, sent, lost, noise)
            self._unite(chosen, best, sent, lost, noise, forbidden)
            self._drop_needless(chosen, sent, lost, noise)
        return chosen

    def rivals(self, finding: Finding, others: Sequence[Finding], sent: Floats, lost: Floats, noise: float) -> Floats:
        """Probability of each suspect to be the fault instead of `finding`, given the others, by suspect."""
        risk = self._risk({other.suspect: other.strength for other in others}, noise)
        weights = self.gains(sent, lost, risk)
        weights = np.exp(weights - max(0.0, float(weights.max())))
        taken = [other.suspect for other in others]
        weights[taken] = 0.0
        total = float(weights.sum())
        return np.asarray(weights / total if total > 0 else weights)

    def gains(self, sent: Floats, lost: Floats, risk: Floats) -> Floats:
        """What each suspect could add (on a grid of losses) to the log-likelihood at some risk, less its price."""
        base = _by_route(sent, lost, risk)
        best = -self.prices
        for strength in _GRID:
            gain = -self.prices - (self._switches * PARTIAL_PRICE if strength < _HALF else 0.0)
            for times, at_risk in self._at_risk:
                gain += (_by_route(sent, lost, risk + times * strength) - base) @ at_risk
            np.maximum(best, gain, out=best)
        return best

    def change(self, number: int, strength: float, sent: Floats, lost: Floats, risk: Floats) -> float:
        """What a suspect of this strength adds to the log-likelihood; below 0 when the counts speak against it."""
        column = self._columns[number]
        return float(np.sum(_by_route(sent, lost, risk + column * strength) - _by_route(sent, lost, risk)))

    def strength(self, number: int, sent: Floats, lost: Floats, risk: Floats) -> float:
        """The strength of a suspect that fits the counts best, when everything else is at `risk`."""
        return self._best_strength(self._columns[number], sent - lost, lost, risk)

    def risk(self, findings: Sequence[Finding], noise: float) -> Floats:
        """Risk of every route when these are the faults."""
        return self._risk({finding.suspect: finding.strength for finding in findings}, noise)

    def _risk(self, chosen: dict[int, float], noise: float) -> Floats:
        risk = np.full(len(self.model.routes), noise)
        for number, strength in chosen.items():
            risk += self._columns[number] * strength
        return risk

    def _fit(self, chosen: dict[int, float], sent: Floats, lost: Floats, noise: float) -> None:
        """Fit every strength in turn; the likelihood is concave, so a few sweeps do."""
        for _ in range(_SWEEPS if len(chosen) > 1 else 1):
            for number in chosen:
                rest = self._risk({other: t for other, t in chosen.items() if other != number}, noise)
                chosen[number] = self._best_strength(self._columns[number], sent - lost, lost, rest)

    @staticmethod
    def _best_strength(column: Floats, arrived: Floats, lost: Floats, rest: Floats) -> float:
        """Where the derivative, which falls, is zero."""
        crossed = column > 0
        times, arrived, lost, rest = column[crossed], arrived[crossed], lost[crossed], rest[crossed]
        survived = float(times @ arrived)
        low, high = 0.0, MOST_STRENGTH
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if float((times * lost) @ (1.0 / np.expm1(rest + times * middle))) > survived:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def _worth(self, chosen: dict[int, float], number: int, sent: Floats, lost: Floats, noise: float) -> float:
        """What is lost of the likelihood when the others alone must explain everything, fitted anew."""
        others = {other: strength for other, strength in chosen.items() if other != number}
        with_it = self._risk(chosen, noise)
        self._fit(others, sent, lost, noise)
        without = self._risk(others, noise)
        return float(np.sum(_by_route(sent, lost, with_it) - _by_route(sent, lost, without)))

    def _unite(
        self, chosen: dict[int, float], newest: int, sent: Floats, lost: Floats, noise: float, forbidden: int | None
    ) -> None:
        """Blame a whole instead of its parts, if that is the better bargain: a link, a switch."""
        for whole, parts in self._wholes_of.get(newest, ()):
            found = [number for number in chosen if number in parts]
            if whole in chosen or whole == forbidden or len(found) < 2:
                continue
            other = {number: strength for number, strength in chosen.items() if number not in parts}
            other[whole] = 0.1
            self._fit(other, sent, lost, noise)
            price = float(self.prices[whole])
            price += PARTIAL_PRICE if self._switches[whole] and other[whole] < _HALF else 0.0
            was, would = self._risk(chosen, noise), self._risk(other, noise)
            change = float(np.sum(_by_route(sent, lost, would) - _by_route(sent, lost, was)))
            if change + float(self.prices[found].sum()) - price > 0:
                chosen.clear()
                chosen.update(other)
                return

    def _drop_needless(self, chosen: dict[int, float], sent: Floats, lost: Floats, noise: float) -> None:
        """Drop those that others make superfluous; the newest comes last."""
        for number in tuple(chosen):
            if self._worth(chosen, number, sent, lost, noise) < self.prices[number]:
                del chosen[number]
                self._fit(chosen, sent, lost, noise)


def _by_route(sent: Floats, lost: Floats, risk: Floats) -> Floats:
    """Log-likelihood of each route's counts."""
    return np.asarray(lost * np.log(-np.expm1(-risk)) - (sent - lost) * risk)


def _wholes(model: PlaneModel) -> dict[int, list[tuple[int, frozenset[int]]]]:
    """For each suspect that is a link: what it is a part of, as numbers of the whole and of all its parts."""
    numbers: dict[str, list[int]] = {}
    for number, suspect in enumerate(model.suspects):
        numbers.setdefault(suspect.name, []).append(number)
    links = {name: numbers[name] for name in model.ends}
    both = {s.name: number for number, s in enumerate(model.suspects) if s.direction is Direction.BOTH}
    groups = [(both[name], frozenset(ways) - {both[name]}) for name, ways in links.items()]
    switches = {switch for ends in model.ends.values() for switch in ends}
    for switch in sorted(switches):
        parts = frozenset(way for name, ways in links.items() if switch in model.ends[name] for way in ways)
        groups.append((both[switch], parts))
    found: dict[int, list[tuple[int, frozenset[int]]]] = {}
    for whole, parts in groups:
        for part in parts:
            found.setdefault(part, []).append((whole, parts))
    return found
