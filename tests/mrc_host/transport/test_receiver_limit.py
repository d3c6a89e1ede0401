"""A slow receiver's penalty: how much less one queue pair may send, and how it gets back what it had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.transport.receiver_limit import UNLIMITED, ReceiverLimit

MTU = 4096
WINDOW = 40 * MTU


def one_round_trip(limit: ReceiverLimit, penalty: int, window: int = WINDOW) -> None:
    """All that is on the way is acknowledged packet by packet with `penalty`; the sender fills what it may."""
    in_flight = waiting = min(limit.limit, window) // MTU * MTU
    while waiting > 0:
        waiting -= MTU
        limit.on_sack(penalty, False, MTU, in_flight, window)
        in_flight -= MTU
        while in_flight + MTU <= min(limit.limit, window):
            in_flight += MTU


@pytest.mark.parametrize(("penalty", "share"), [(1, 127 / 128), (32, 0.75), (64, 0.5), (96, 0.25), (127, 1 / 128)])
def test_a_penalty_reduces_the_bytes_in_flight_by_its_share_over_an_rtt(penalty: int, share: float) -> None:
    limit = ReceiverLimit(MTU)
    one_round_trip(limit, penalty)
    assert limit.limit == pytest.approx(max(share * WINDOW, MTU), abs=2 * MTU)


def test_restore_returns_to_the_current_window() -> None:
    limit = ReceiverLimit(MTU)
    one_round_trip(limit, 64)
    limit.on_sack(0, True, MTU, 10 * MTU, 10 * MTU)
    assert limit.limit == UNLIMITED


def test_without_restore_the_limit_doubles_until_irrelevant() -> None:
    limit = ReceiverLimit(MTU)
    for _ in range(4):
        one_round_trip(limit, 64)
    low = limit.limit
    assert low < WINDOW // 8
    one_round_trip(limit, 0)
    assert limit.limit == pytest.approx(2 * low, rel=0.5)
    for _ in range(4):
        one_round_trip(limit, 0)
    assert limit.limit == UNLIMITED


def test_without_a_penalty_there_is_no_limit() -> None:
    limit = ReceiverLimit(MTU)
    for restore in (False, True):
        limit.on_sack(0, restore, MTU, 3 * MTU, WINDOW)
        assert limit.limit == UNLIMITED


_sacks = st.tuples(
    st.integers(0, 127), st.booleans(), st.integers(0, 1 << 24), st.integers(0, 1 << 24), st.integers(MTU, 1 << 24)
)


@given(st.lists(_sacks, max_size=40))
def test_one_packet_in_flight_is_always_allowed(sacks: list[tuple[int, bool, int, int, int]]) -> None:
    limit = ReceiverLimit(MTU)
    for penalty, restore, received, in_flight, window in sacks:
        before = limit.limit
        limit.on_sack(penalty, restore, received, in_flight, window)
        assert limit.limit >= MTU
        assert not penalty or limit.limit <= before
