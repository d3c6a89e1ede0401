"""How many losses in a row make a path dead, by the share of packets that paths lose and go on."""

import pytest

from mrc_host.transport.consecutive_losses import ConsecutiveLosses

DEAD, ALIVE = 0, 1


def measured(share: float, count: int = 1000) -> tuple[ConsecutiveLosses, int]:
    """After `count` packets on path 1, of which an even `share` was lost; and how many were sent."""
    losses = ConsecutiveLosses()
    lost = 0
    for serial in range(1, count + 1):
        if int(serial * share) > lost:
            lost += 1
            assert losses.carries(ALIVE, serial, serial + 1, serial + 1)
    return losses, count + 1


def dies_after(losses: ConsecutiveLosses, newest: int, index: int = DEAD, arrived: int = 0) -> int:
    """How many losses in a row it takes."""
    for number in range(1, 100):
        if not losses.carries(index, newest + number, arrived, newest + number):
            return number
    raise AssertionError


@pytest.mark.parametrize(
    ("share", "needed"), [(0.0, {3}), (0.001, {3}), (0.005, {3}), (0.05, {5}), (0.1, {6, 7}), (0.2, {9}), (0.6, {16})]
)
def test_random_losses_reach_the_threshold_at_most_once_in_a_million(share: float, needed: set[int]) -> None:
    assert dies_after(*measured(share)) in needed


def test_the_loss_rate_follows_recent_packets() -> None:
    losses, newest = measured(0.0, 1_000_000)
    for serial in range(newest, newest + 600, 5):
        assert losses.carries(ALIVE, serial, serial + 1, serial + 1)
    assert dies_after(losses, newest + 600) >= 8
    assert dies_after(losses, newest + 100_000, index=2) == 3


def test_losses_of_a_dead_path_do_not_count_for_others() -> None:
    losses, newest = measured(0.0)
    assert dies_after(losses, newest) == 3
    for number in range(4, 50):
        assert not losses.carries(DEAD, newest + number, 0, newest + number)
    assert dies_after(losses, newest + 51, index=2) == 3
    losses.carries(DEAD, newest + 60, newest + 55, newest + 60)  # it worked again in between
    assert dies_after(losses, newest + 61, index=3) == 3


def test_consecutive_losses_on_a_surviving_path_count() -> None:
    losses = ConsecutiveLosses()
    for serial in range(10, 1000, 10):
        assert losses.carries(ALIVE, serial, serial - 1, serial)
        assert losses.carries(ALIVE, serial + 1, serial - 1, serial + 1)
    assert dies_after(losses, 1000) == 9, "two of ten are lost"
