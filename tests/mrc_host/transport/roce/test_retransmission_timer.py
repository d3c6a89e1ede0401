"""The RC retransmission timer by itself."""

from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.retransmission_timer import RcRetransmissionTimer

TIMEOUT = 1024 << 4


def make_timer(retry_count: int = 3) -> RcRetransmissionTimer:
    return RcRetransmissionTimer(RetryPolicy(4, retry_count, 1, 2))


def test_the_timer_runs_from_its_last_restart() -> None:
    timer = make_timer()
    timer.restart(1000)
    assert timer.due() == 1000 + TIMEOUT
    timer.restart(1500)
    assert timer.due() == 1500 + TIMEOUT


def test_each_timeout_uses_a_retry_until_none_remain() -> None:
    timer = make_timer(retry_count=3)
    waits = [timer.due()]
    while timer.on_timeout():
        waits.append(timer.due())
    assert waits == [TIMEOUT, TIMEOUT, 2 * TIMEOUT, 4 * TIMEOUT]
    assert timer.retries == 4


def test_progress_resets_retries_and_restarts_the_timer() -> None:
    timer = make_timer(retry_count=2)
    for _ in range(2):
        assert timer.on_timeout()
    timer.on_progress(5000)
    assert timer.due() == 5000 + TIMEOUT
    assert timer.on_timeout()
    assert timer.on_timeout()
    assert not timer.on_timeout()


def test_an_rnr_nak_uses_no_retry_and_leaves_the_timer_running() -> None:
    timer = make_timer(retry_count=1)
    timer.restart(1000)
    for n in range(10):
        assert timer.on_timeout()
        timer.on_receiver_not_ready(7000 + n)
    assert timer.ready_at == 7009
    assert timer.due() == 1000 + TIMEOUT
