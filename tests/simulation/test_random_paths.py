"""A few of the random worlds of ``random_paths``; the soak has hours of them."""

from __future__ import annotations

import random

import pytest

from tests.seeds import SEED
from tests.simulation import random_paths


@pytest.mark.parametrize("case", range(4))
def test_reactive_spraying_carries_as_much_as_oblivious_on_healthy_fabrics(case: int) -> None:
    seed = SEED + case
    print(f"seed {seed}")
    random_paths.reacting_costs_nothing(random.Random(seed))


@pytest.mark.parametrize("seed", range(2))
def test_no_working_path_is_retired_for_answers_lost_on_dead_ways_back(seed: int) -> None:
    random_paths.no_working_path_is_retired(random.Random(seed))


@pytest.mark.parametrize("case", range(3))
def test_nothing_is_lost_where_all_nics_start_together(case: int) -> None:
    seed = SEED + case
    print(f"seed {seed}")
    random_paths.nothing_is_lost_at_a_synchronised_start(random.Random(seed))
