"""The fewest faulty elements that explain which probes were lost: binary tomography with loss rates.

Starting from the elements that are already known, the one that adds most to the likelihood is taken in, all strengths
are fitted again, and those that the others explain as well are dropped, until nothing adds more than its price. Then
every element has to beat the best explanation without it, which may put several others in its place: that is what the
confidence in it comes from. When it loses, the other explanation takes the place of the first.

Two thresholds keep apart what is easily confused. The *price* of one more element in an explanation is low, because
faults come together: a switch that loses half of everything is not much more probable than two links and two NICs that
lose different shares, and what fits the counts decides. The least *worth* of a finding is high, because there are many
elements and many updates: without it the explanation would have to be worse by so much.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from controller.path_map.likelihood import GRID, Likelihood, Strengths
from controller.path_map.plane_model import Floats, PlaneModel
from controller.path_map.values import Direction, ElementKind

PRICES = {
    ElementKind.NIC_T0: 7.0,
    ElementKind.T0_T1: 7.0,
    ElementKind.T1_T2: 7.0,
    ElementKind.SWITCH: 8.0,
    ElementKind.PATH: 13.0,
}  # nats
ONE_WAY_PRICE = 1.0  # more, for one direction only
PARTIAL_PRICE = 30.0  # more, for a switch, times the share of packets that it lets through
MIN_WORTH = {  # nats, to be a finding
    ElementKind.NIC_T0: 14.0, ElementKind.T0_T1: 14.0, ElementKind.T1_T2: 14.0,
    ElementKind.SWITCH: 15.0, ElementKind.PATH: 20.0,
}  # fmt: skip
MAX_ELEMENTS = 24  # of one explanation
MAX_COMPARISONS = 24  # with explanations that do without one element
MAX_MARGIN = 12.0  # nats; by how much more an explanation is better is not of interest


@dataclass(frozen=True, slots=True)
class Finding:
    """A faulty element: its number among the elements, its strength, and what it adds to the log-likelihood (nats).

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
    """Explains the counts of one plane."""

    def __init__(self, model: PlaneModel) -> None:
        self.model = model
        self.prices = np.array(
            [PRICES[s.part] + (0.0 if s.direction is Direction.BOTH else ONE_WAY_PRICE) for s in model.elements]
        )
        self._wholes_of = _wholes(model)
        numbers: dict[str, list[int]] = {}
        for number, suspect in enumerate(model.elements):
            numbers.setdefault(suspect.name, []).append(number)
        self._same_name = [numbers[suspect.name] for suspect in model.elements]
        self._switches = np.array([s.part is ElementKind.SWITCH for s in model.elements], dtype=float)
        self._grid_prices = self.prices + np.outer(np.exp(-GRID), self._switches * PARTIAL_PRICE)
        self._min_worth = np.array([MIN_WORTH[s.part] for s in model.elements])

    def explain(
        self, counts: Likelihood, known: Sequence[int] = (), doubted: Collection[int] = (), recent: bool = False
    ) -> list[Finding]:
        """The faulty elements, those of `known` among them that still are, by what they add.

        Whatever is new, and the known ones that are `doubted`, is compared with the best explanation without it. When
        that is the better one, it takes the place of the first, and its own elements are doubted in turn. Where the
        counts are `recent`, a switch may have failed among them.
        """
        best = self._choose(dict.fromkeys(known, 0.1), counts)
        trusted = set(known) - set(doubted)
        margins: dict[int, float] = {}
        for _ in range(MAX_COMPARISONS):
            doubtful = next((number for number in best if number not in trusted and number not in margins), None)
            if doubtful is None:
                break
            lead = self._lead_of_part(doubtful, best, counts) if recent else math.inf
            best, margin = self._without(doubtful, best, counts)
            margins[doubtful] = min(margin, lead)
        findings = [Finding(n, t, self._worth(best, n, counts), margins.get(n, math.inf)) for n, t in best.items()]
        findings = [f for f in findings if f.suspect in known or f.gain >= self._min_worth[f.suspect]]
        return sorted(findings, key=lambda finding: -finding.gain)

    def _without(self, doubtful: int, best: Strengths, counts: Likelihood) -> tuple[Strengths, float]:
        """The better of this explanation and the best without a link, switch or path, and the margin of the first.

        Taking in one element after the other begins with one that loses a little of everything when several of its
        neighbours are at fault. All of them together may explain the counts better.
        """
        forbidden = self._same_name[doubtful]
        score = self._score(best, counts)
        rest = {number: strength for number, strength in best.items() if number not in forbidden}
        other = self._choose(rest, counts, forbidden, floor=score - MAX_MARGIN)
        margin = score - self._score(other, counts)
        return (best if margin > 0 else other), margin

    def _lead_of_part(self, part: int, best: Strengths, counts: Likelihood) -> float:
        """By how much an explanation beats those with a switch in place of its link `part`, if that has just failed.

        So it may have let packets through at no price.
        """
        lead = math.inf
        for whole, parts in self._wholes_of.get(part, ()):
            if self._switches[whole] and whole not in best:
                other = {number: strength for number, strength in best.items() if number not in parts}
                other[whole] = 0.1
                counts.fit(other)
                score = counts.log_likelihood(other) - sum(float(self.prices[number]) for number in other)
                lead = min(lead, self._score(best, counts) - score)
        return lead

    def _score(self, chosen: Strengths, counts: Likelihood) -> float:
        """Log-likelihood of an explanation, less its prices."""
        return counts.log_likelihood(chosen) - self._price(chosen)

    def _price(self, chosen: Strengths) -> float:
        return sum(self._price_of(number, strength) for number, strength in chosen.items())

    def _price_of(self, number: int, strength: float) -> float:
        return float(self.prices[number] + self._switches[number] * PARTIAL_PRICE * math.exp(-strength))

    def _choose(
        self, chosen: Strengths, counts: Likelihood, forbidden: Sequence[int] = (), floor: float = -math.inf
    ) -> Strengths:
        """Take in what adds most, one after the other, and leave out what that makes superfluous.

        Ends when what was taken in already costs so much that no score above `floor` can be reached.
        """
        counts.fit(chosen)
        for _ in range(MAX_ELEMENTS):
            gains = self.gains(counts, counts.risk(chosen))
            gains[[*chosen, *forbidden]] = -1.0
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            chosen[best] = 0.1
            counts.fit(chosen)
            self._unite(chosen, best, counts, forbidden)
            self._drop_needless(chosen, counts)
            if counts.saturated() - self._price(chosen) < floor:
                break
        return chosen

    def rivals(self, others: Strengths, counts: Likelihood) -> Floats:
        """Probability of each suspect to be the one that is faulty besides the others, if one is, by suspect."""
        weights = self.gains(counts, counts.risk(others))
        weights = np.exp(weights - max(0.0, float(weights.max())))
        weights[list(others)] = 0.0
        total = float(weights.sum())
        return np.asarray(weights / total if total > 0 else weights)

    def gains(self, counts: Likelihood, risk: Floats) -> Floats:
        """What each suspect could add (on a grid of losses) to the log-likelihood at some risk, less its price."""
        return np.asarray(np.maximum(-self.prices, (counts.gains(risk) - self._grid_prices).max(axis=0)))

    def _worth(self, chosen: Strengths, number: int, counts: Likelihood) -> float:
        """The log-likelihood lost if the others alone must explain everything, fitted again."""
        others = {other: strength for other, strength in chosen.items() if other != number}
        counts.fit(others)
        return counts.log_likelihood(chosen) - counts.log_likelihood(others)

    def _unite(self, chosen: Strengths, newest: int, counts: Likelihood, forbidden: Sequence[int]) -> None:
        """Take a whole (a link, a switch) in place of its parts, if that scores better."""
        for whole, parts in self._wholes_of.get(newest, ()):
            found = [number for number in chosen if number in parts]
            if whole in chosen or whole in forbidden or len(found) < 2:
                continue
            other = {number: strength for number, strength in chosen.items() if number not in parts}
            other[whole] = 0.1
            counts.fit(other)
            if self._score(other, counts) > self._score(chosen, counts):
                chosen.clear()
                chosen.update(other)
                return

    def _drop_needless(self, chosen: Strengths, counts: Likelihood) -> None:
        """Drop those that others make superfluous; the newest comes last."""
        for number in tuple(chosen):
            if self._worth(chosen, number, counts) < self._price_of(number, chosen[number]):
                del chosen[number]
                counts.fit(chosen)


def _wholes(model: PlaneModel) -> dict[int, list[tuple[int, frozenset[int]]]]:
    """For each suspect that is a link: what it is a part of, as numbers of the whole and of all its parts."""
    numbers: dict[str, list[int]] = {}
    for number, suspect in enumerate(model.elements):
        numbers.setdefault(suspect.name, []).append(number)
    links = {name: numbers[name] for name in model.ends}
    both = {s.name: number for number, s in enumerate(model.elements) if s.direction is Direction.BOTH}
    groups = [(both[name], frozenset(suspected) - {both[name]}) for name, suspected in links.items()]
    switches = {switch for ends in model.ends.values() for switch in ends}
    for switch in sorted(switches):
        parts = frozenset(one for name, suspected in links.items() if switch in model.ends[name] for one in suspected)
        groups.append((both[switch], parts))
    found: dict[int, list[tuple[int, frozenset[int]]]] = {}
    for whole, parts in groups:
        for part in parts:
            found.setdefault(part, []).append((whole, parts))
    return found
