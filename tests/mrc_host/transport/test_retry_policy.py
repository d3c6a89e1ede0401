"""When a timeout doubles and how many retries there are, as both transports have it."""

import pytest

from mrc_host.transport.retry_policy import RetryPolicy
from tests.mrc_host.transport.parts import connection


def test_retries_are_linear_first_and_then_double_up_to_a_limit() -> None:
    policy = RetryPolicy(4, 7, 2, 3)
    assert [policy.doublings(retries) for retries in range(9)] == [0, 0, 0, 1, 2, 3, 3, 3, 3]
    assert policy.ack_timeout == 16_384
    assert [policy.timeout_after(retries) for retries in (2, 3, 9)] == [16_384, 2 * 16_384, 8 * 16_384]
    assert policy.longest() == 8 * 16_384


@pytest.mark.parametrize(("retry_count", "allowed"), [(0, [True, False, False]), (1, [True, True, False])])
def test_the_number_of_retries_is_limited(retry_count: int, allowed: list[bool]) -> None:
    policy = RetryPolicy(4, retry_count, 1, 1)
    assert [policy.allows(retries) for retries in range(3)] == allowed


def test_a_count_of_255_is_unlimited_and_254_is_not() -> None:
    assert RetryPolicy(4, 255, 1, 1).allows(1_000_000)
    assert RetryPolicy(4, 254, 1, 1).allows(254)
    assert not RetryPolicy(4, 254, 1, 1).allows(255)


def test_the_policy_follows_queue_pair_attributes_and_nic_settings() -> None:
    policy = RetryPolicy.of(connection({"timeout": 6, "retry_count": 3}, linear_retries=1, max_backoff=2))
    assert policy.ack_timeout == 65_536
    assert [policy.doublings(retries) for retries in range(5)] == [0, 0, 1, 2, 2]
    assert (policy.allows(3), policy.allows(4)) == (True, False)


@pytest.mark.parametrize(("own", "doublings"), [(None, [0, 0, 0, 1]), (0, [0, 1, 2, 2]), (3, [0, 0, 0, 0])])
def test_a_queue_pairs_own_number_of_linear_retries_goes_before_the_nics(own: int | None, doublings: list[int]) -> None:
    policy = RetryPolicy.of(connection({"linear_retries": own}, linear_retries=2, max_backoff=2))
    assert [policy.doublings(retries) for retries in range(4)] == doublings
