"""Which plans have queue pairs that keep to some planes, on which, and in which lives."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.worlds import small_fabric
from tests.swarm.life_attributes import draw
from tests.swarm.plane_masks import with_masks
from tests.swarm.plans import plan
from tests.swarm.scenario import EVERY_PLANE, Scenario

SEEDS = range(1, 600)
PLAN = plan(pairs=3, on=small_fabric(planes=4))


def masked() -> list[Scenario]:
    plans = [with_masks(replace(PLAN, seed=seed)) for seed in SEEDS]
    return [made for made in plans if any(pair.planes != EVERY_PLANE for pair in made.pairs)]


def test_a_share_of_the_plans_has_masks_and_nothing_else_changes() -> None:
    found = masked()
    assert 0.1 < len(found) / len(SEEDS) < 0.2
    for made in found:
        assert (
            replace(made, pairs=tuple(replace(pair, planes=EVERY_PLANE) for pair in made.pairs), seed=PLAN.seed) == PLAN
        )


def test_masks_have_a_plane_of_the_fabric_and_are_mostly_the_same_at_both_ends() -> None:
    planes = [(made.fabric.planes, pair.planes) for made in masked() for pair in made.pairs]
    chosen = [(count, masks) for count, masks in planes if masks != EVERY_PLANE]
    assert all(mask & (1 << count) - 1 for count, masks in chosen for mask in masks)
    assert all(0 < min(masks) < (1 << count) - 1 for count, masks in chosen)
    same = sum(first == second for _, (first, second) in chosen)
    disjoint = sum(not first & second for _, (first, second) in chosen)
    assert len(chosen) / 2 < same < len(chosen)
    assert 0 < disjoint < len(chosen) / 5


def test_lives_of_a_pair_with_masks_have_others_and_those_without_have_none() -> None:
    made = plan()
    renewed = [replace(pair, renewed=True, planes=planes) for pair in made.pairs for planes in ((1, 1), EVERY_PLANE)]
    made = replace(made, pairs=tuple(renewed))
    lives = [tuple(end.all.planes for end in draw(made, 0, life)) for life in range(40)]
    assert len(set(lives)) > 3
    assert (1, 1) in lives
    assert {end.all.planes for life in range(40) for end in draw(made, 1, life)} == {EVERY_PLANE[0]}
