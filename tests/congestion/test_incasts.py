"""A random incast (tests/congestion/incasts.py)."""

from __future__ import annotations

import random

from tests.congestion.incasts import check


def test_a_random_incast_retransmits_no_more_than_ultra_ethernets_model() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}: tests.congestion.incasts.check({seed})")
    assert not check(seed)
