"""The planes that queue pairs of a plan keep to, at random: masks, the same at both ends or not.

Lives of a pair with masks may have others. All is drawn from generators of its own, so that seeds without masks keep
their plans.
"""

from __future__ import annotations

import random
from dataclasses import replace

from mrc_host.verbs_types import ALL_PLANES
from simulation.seeds import generator
from tests.swarm.scenario import EVERY_PLANE, Masks, PlannedPair, Scenario

_SHARE = 0.15  # of the plans


def with_masks(plan: Scenario) -> Scenario:
    """The plan, for some seeds with queue pairs that keep to some planes, unless it studies shares or masks."""
    rng, planes = generator(plan.seed, "plane masks"), plan.fabric.planes
    masked = any(pair.planes != EVERY_PLANE for pair in plan.pairs)
    if rng.random() >= _SHARE or planes < 2 or plan.contest or masked:
        return plan
    return replace(plan, pairs=tuple(_masked(rng, planes, pair) for pair in plan.pairs))


def _masked(rng: random.Random, planes: int, pair: PlannedPair) -> PlannedPair:
    return replace(pair, planes=_masks(rng, planes)) if rng.random() < 0.7 else pair


def _masks(rng: random.Random, planes: int) -> Masks:
    """Mostly the same planes at both ends, fewer than all; also overlapping ones, all at one end, or disjoint ones."""
    drawn, some = rng.random(), _subset(rng, range(planes))
    if drawn < 0.6:
        return some, some
    if drawn < 0.75:
        return rng.choice(((some, ALL_PLANES), (ALL_PLANES, some)))
    others = [plane for plane in range(planes) if not some >> plane & 1]
    if drawn < 0.85:
        masks = some, _subset(rng, others, len(others))
    else:
        shared = rng.choice([plane for plane in range(planes) if some >> plane & 1])
        masks = some, 1 << shared | _subset(rng, others)
    return masks if rng.random() < 0.5 else masks[::-1]


def _subset(rng: random.Random, planes: range | list[int], most: int | None = None) -> int:
    """A mask of at least one of `planes`, and of all but one at most, unless `most` is given."""
    limit = most or max(1, len(planes) - 1)
    return sum(1 << plane for plane in rng.sample(planes, rng.randint(1, limit)))


def life_masks(scenario: Scenario, number: int, life: int) -> tuple[int | None, int | None]:
    """What each end of pair `number` is given in a life; None where it keeps the mask that it was created with."""
    pair = scenario.pairs[number]
    rng = generator(scenario.seed, "masks of a life", number, life)
    if pair.planes == EVERY_PLANE or rng.random() < 0.3:
        return None, None
    first, second = rng.choice((EVERY_PLANE, _masks(rng, scenario.fabric.planes), _masks(rng, scenario.fabric.planes)))
    return rng.choice(((first, second), (first, second), (first, None), (None, second)))
