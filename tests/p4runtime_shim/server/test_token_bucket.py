"""The token bucket for packet-in, under a clock driven by hand."""

from p4runtime_shim.server.packet_io import SECOND, TokenBucket


def test_a_burst_is_followed_by_the_rate() -> None:
    allowance = TokenBucket(100, 10)
    now, times = 5 * SECOND, []
    while len(times) < 50:
        now += allowance.wait(now)
        allowance.take(now)
        times.append(now)
    assert times[:10] == [5 * SECOND] * 10
    assert times[10:13] == [5 * SECOND + SECOND // 100 * n for n in (1, 2, 3)]
    later = now + 60 * SECOND
    taken = 0
    while allowance.wait(later) == 0:
        allowance.take(later)
        taken += 1
    assert taken == 10  # silence is not saved up beyond the burst


def test_rate_zero_means_no_limit() -> None:
    allowance = TokenBucket(0, 10)
    for _ in range(1000):
        assert allowance.wait(7) == 0
        allowance.take(7)
