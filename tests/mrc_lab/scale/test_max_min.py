from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.scale.max_min import Uses, max_min
from mrc_lab.scale.network import Floats
from tests.models.max_min import max_min_in_rounds
from tests.seeds import SEED

NO_LIMIT = 1e12


def alone(count: int) -> np.ndarray:
    return np.arange(count)


def progressive_filling(uses: Uses, capacity: Floats, flows: int) -> Floats:
    """All rates grow alike until something is full: the definition, one bottleneck at a time."""
    load = np.zeros((len(capacity), flows))
    np.add.at(load, (uses.constraint, uses.flow), uses.load)
    rate, growing = np.zeros(flows), np.ones(flows, dtype=bool)
    while growing.any():
        by = load[:, growing].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(by > 0, (capacity - load @ rate) / by, np.inf)
        rate[growing] += max(0.0, room.min())
        full = (capacity - load @ rate) <= 1e-9 * capacity
        growing &= ~(load[full] > 0).any(axis=0)
    return rate


def test_a_flow_that_is_limited_elsewhere_leaves_the_rest_to_the_other():
    uses = Uses(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3))
    assert max_min(uses, np.array([10.0, 3.0]), alone(2), np.full(2, NO_LIMIT)).tolist() == [7.0, 3.0]


def test_flows_of_one_group_have_the_rate_of_the_slowest():
    uses = Uses(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3))
    assert max_min(uses, np.array([10.0, 3.0]), np.array([0, 0]), np.full(1, NO_LIMIT)).tolist() == [3.0]


def test_a_limit_of_its_own_counts():
    uses = Uses(np.array([0, 1]), np.array([0, 0]), np.ones(2))
    assert max_min(uses, np.array([10.0]), alone(2), np.array([2.0, NO_LIMIT])).tolist() == [2.0, 8.0]


def test_what_has_no_room_stops_those_that_use_it():
    uses = Uses(np.array([0, 1]), np.array([0, 1]), np.ones(2))
    assert max_min(uses, np.array([0.0, 5.0]), alone(2), np.full(2, NO_LIMIT)).tolist() == [0.0, 5.0]


@pytest.mark.parametrize("number", range(30))
def test_random_networks_are_filled_as_by_definition(number):
    chance = np.random.default_rng([SEED, number])
    print("seed", SEED, number)
    flows, constraints = int(chance.integers(1, 40)), int(chance.integers(1, 15))
    uses = Uses(
        np.repeat(np.arange(flows), 3),
        chance.integers(0, constraints, 3 * flows),
        chance.random(3 * flows) + 0.05,
    )
    capacity = chance.random(constraints) * 10 + 0.5
    ours = max_min(uses, capacity, alone(flows), np.full(flows, NO_LIMIT))
    assert np.allclose(ours, progressive_filling(uses, capacity, flows), rtol=1e-6)


@pytest.mark.parametrize("number", range(100))
def test_random_networks_get_the_rates_of_the_plain_algorithm(number):
    chance = np.random.default_rng([SEED, number])
    print("seed", SEED, number)
    flows, constraints, groups = (int(chance.integers(1, most)) for most in (300, 60, 200))
    each = int(chance.integers(1, 8))
    uses = Uses(
        np.repeat(np.arange(flows), each),
        chance.integers(0, constraints, each * flows),
        chance.choice([1.0, 0.5, 1e-3], each * flows) * chance.choice([1.0, chance.random() + 0.05]),
    )
    capacity = chance.integers(0, 20, constraints) * chance.choice([0.5, 1.0, chance.random()], constraints)
    group = chance.integers(0, groups, flows)
    limit = chance.choice([np.inf, 0.0, 1.0, chance.random()], groups, p=[0.6, 0.05, 0.2, 0.15])
    expected = max_min_in_rounds(uses, capacity, group, limit)
    assert np.allclose(max_min(uses, capacity, group, limit), expected, rtol=1e-9, atol=1e-12)


def test_racks_that_have_lost_uplinks_get_the_rates_of_the_plain_algorithm():
    """Every rack has another capacity, and every flow the ports of its own NICs beside them."""
    chance = np.random.default_rng([SEED, 1])
    print("seed", SEED)
    nics, racks = 600, 30
    source, target = np.arange(nics), chance.permutation(nics)
    near, far = source * racks // nics, target * racks // nics
    ends = np.concatenate([source, nics + target, 2 * nics + near, 2 * nics + racks + far])
    back = np.concatenate([nics + source, target, 2 * nics + racks + near, 2 * nics + far])
    uses = Uses(
        np.tile(np.arange(nics), 8),
        np.concatenate([ends, back]),
        np.repeat([1.0, 2e-3], 4 * nics),
    )
    capacity = np.concatenate([np.ones(2 * nics), nics / racks * (1 - 0.1 * chance.random(2 * racks))])
    limit = np.full(nics, np.inf)
    expected = max_min_in_rounds(uses, capacity, alone(nics), limit)
    assert np.unique(expected).size > racks  # there are many bottlenecks
    assert np.allclose(max_min(uses, capacity, alone(nics), limit), expected, rtol=1e-9)
