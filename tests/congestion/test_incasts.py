"""A random incast, mixtures of near and far senders, and what makes the bounds fail (tests/congestion/incasts.py)."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.congestion import incasts
from tests.congestion.incasts import Bounds, Incast, check, jains_index, wrong
from tests.seeds import SEED


@pytest.mark.parametrize("incast", [Incast(2, 2), Incast(7, 1), Incast(1, 7)], ids=["2+2", "7+1", "1+7"])
def test_a_mixture_of_near_and_far_senders_keeps_the_bounds_that_hold_today(incast: Incast) -> None:
    assert not wrong(incast, 1)


def test_a_random_incast() -> None:
    print(f"seed {SEED}: python -m tests.congestion --seed {SEED}")
    assert not check(SEED)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(63, 0.5, 9, 0), "of the ideal time"),
        (Bounds(63, 9, -1, 0), "retransmissions"),
        (Bounds(63, 9, 9, 1.01), "Jain's index"),
    ],
)
def test_each_bound_can_fail(bounds: Bounds, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Incast(1, 3, packets=64)
    assert not wrong(small, 1)
    monkeypatch.setattr(incasts, "BOUNDS", (bounds,))
    assert said in wrong(small, 1)


def test_jains_index_is_1_for_equal_shares_and_1_of_n_for_one_that_has_all() -> None:
    assert jains_index([3, 3, 3, 3]) == 1
    assert jains_index([0, 0, 0, 8]) == 0.25
    assert jains_index([0, 0]) == jains_index([]) == 0


@pytest.mark.parametrize("mixture", ["2", "8+1", "1+57", "-1+3", "1+0", "a+b"])
def test_a_mixture_that_is_none_is_refused(mixture: str) -> None:
    result = CliRunner().invoke(incasts.main, ["--", mixture])
    assert result.exit_code == 2
    assert mixture in result.output
