"""Random packets and entries through p4c's JSON and through ours: the embedded switch does the same."""

from __future__ import annotations

import random

import pytest

from tests.p4compiler.compiled import pipeline
from tests.p4runtime_shim.differential import embedded
from tests.p4runtime_shim.differential.scenarios import SCENARIOS, draw
from tests.seeds import SEED

FRAMES = 250  # with one set of entries


def compare(name: str, cases: int, seed: int) -> None:
    """Send `cases` random frames through both, with other entries every FRAMES frames."""
    print(f"seed {seed}")
    for part in range(cases // FRAMES):
        vector = draw(name, random.Random(f"{seed}/{part}"), FRAMES)
        expected, count = embedded.run(vector)
        assert embedded.run(vector, pipeline(name)) == (expected, count), f"part {part}"


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_switch_does_the_same_with_either_json(name: str) -> None:
    compare(name, 2_000, SEED)


@pytest.mark.second_ring
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_switch_does_the_same_in_many_cases(name: str) -> None:
    compare(name, 20_000, SEED + 1)
