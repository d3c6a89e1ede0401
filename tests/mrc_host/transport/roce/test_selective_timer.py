"""Timeouts of selective repeat, by hand: how short they may be, and what follows one."""

from __future__ import annotations

from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.selective_timer import SelectiveTimer
from tests.mrc_host.nic_world import MS, US

FEW, MANY = 100 * US, 320 * US


def timer(base_rtt: int = 0) -> SelectiveTimer:
    return SelectiveTimer(RetryPolicy(timeout=16, retry_count=7, linear=7, max_backoff=0), FEW, MANY, base_rtt)


def test_no_timeout_is_shorter_than_round_trips_require() -> None:
    """RFC 6298, 2.2: three times the first, and so that of the idle fabric, whatever is measured later."""
    some = timer(base_rtt=1 * MS)
    assert some.timeout(1) == some.timeout(9) == 3 * MS
    some.measured(50 * US, 1 * MS)
    assert some.timeout(1) == 3 * MS
    some = timer(base_rtt=50 * US)
    assert (some.timeout(1), some.timeout(9)) == (150 * US, MANY)
    some.measured(200 * US, 1 * MS)
    assert some.timeout(1) == some.timeout(9) == 600 * US
    assert (timer().timeout(1), timer().timeout(9)) == (FEW, MANY)


def test_a_timeout_stays_doubled_until_a_round_trip_is_measured() -> None:
    """Karn's algorithm: what arrives although it was sent twice says nothing of how long it took."""
    some = timer()
    some.begin(0)
    for number in range(1, 3):
        assert some.on_timeout(number * MS)
        some.on_answer(number * MS + 1, progress=True, missing=True)
        assert some.timeout(1) == FEW << number
    some.measured(50 * US, 3 * MS)
    assert some.timeout(9) == MANY
