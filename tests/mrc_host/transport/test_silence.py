"""How long a requester waits, and what counts as a retry."""

from mrc_host.transport.loss import RoundTrip
from mrc_host.transport.silence import Silence

TIMEOUT = 1024 << 4


def silence(retry_count: int = 3, linear: int = 1, trips: list[RoundTrip] | None = None) -> Silence:
    return Silence(trips or [RoundTrip()], 4, retry_count, linear, 2, 500)


def test_the_retry_time_is_linear_then_doubles_to_a_limit() -> None:
    quiet = silence(retry_count=255)
    times = []
    now = 1
    for _ in range(6):
        times.append(quiet.retry_time() // TIMEOUT)
        now += quiet.retry_time()
        assert quiet.may_go_on(now, quiet.retry_time())
    assert times == [1, 1, 2, 4, 4, 4]


def test_measured_round_trips_make_it_wait_longer() -> None:
    trip = RoundTrip()
    quiet = silence(trips=[RoundTrip(), trip])
    assert (quiet.quiet_time(), quiet.patience()) == (TIMEOUT // 4, 0)
    trip.sample(100)
    assert quiet.quiet_time() == 500, "the least"
    trip.sample(10 * TIMEOUT)
    assert quiet.retry_time() == quiet.quiet_time() == quiet.patience() > TIMEOUT


def test_asking_in_vain_doubles_the_wait_up_to_the_ack_timeout() -> None:
    quiet = silence()
    waits = []
    for _ in range(5):
        waits.append(quiet.quiet_time() * 4 // TIMEOUT)
        quiet.ask_less()
    assert waits == [1, 2, 4, 4, 4]
    quiet.heard(1, True)
    assert quiet.quiet_time() == TIMEOUT // 4


def test_nacks_alone_cost_a_retry_an_interval_and_progress_none() -> None:
    quiet = silence(retry_count=2)
    step = TIMEOUT // 10
    for now in range(step, 4 * TIMEOUT, step):
        if now % (5 * step) == 0:
            quiet.heard(now, True)
        assert quiet.refused(now)
    assert quiet.retries == 0
    start = now
    while quiet.refused(now := now + step):
        pass
    assert quiet.retries == 3
    assert 4 * TIMEOUT <= now - start <= 5 * TIMEOUT, "1 + 1 + 2 intervals, the last of them doubled"


def test_a_timeout_and_nacks_in_the_same_interval_are_one_retry() -> None:
    quiet = silence()
    assert quiet.refused(1)
    assert quiet.may_go_on(1 + TIMEOUT, TIMEOUT)
    assert quiet.refused(2 + TIMEOUT)
    assert quiet.retries == 1
