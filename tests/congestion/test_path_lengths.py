"""A few random worlds of unlike path lengths, and some that were once wrong (tests/congestion/path_lengths.py)."""

from __future__ import annotations

import pytest

from tests.congestion.path_lengths import LEAST, Lengths, check, share
from tests.seeds import SEED

UNLIKE = Lengths(2, 2, {(0, 0): 25_000, (0, 1): 25_000, (1, 0): 1_000, (1, 1): 1_000}, 0, "")
LONGER = Lengths(2, 2, {(plane, t1): 1_000 for plane in (0, 1) for t1 in (0, 1)}, 25_000, "t0-*:t1-*@p*")
# Answers that come back on planes of unlike length look delayed by the difference, so the window grows slowly.
ALL_LONGER = Lengths(2, 1, {(0, 0): 1_000, (1, 0): 10_000}, 25_000, "t0-*:t1-*@p*")


@pytest.mark.parametrize(
    "lengths", [UNLIKE, LONGER, ALL_LONGER], ids=["one plane is longer", "all become longer", "all, unlike before"]
)
def test_a_flow_fills_its_links_whatever_the_lengths_of_its_paths(lengths: Lengths) -> None:
    assert share(lengths, 1) >= LEAST


def test_a_random_world() -> None:
    seed = SEED
    print(f"seed {seed}: python -m tests.congestion --seed {seed}")
    assert not check(seed)
