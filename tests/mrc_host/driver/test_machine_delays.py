"""Counting delays, and turning kernel stamps into them."""

from __future__ import annotations

from mrc_common.delays import DelayHistogram
from mrc_host.driver.machine_delays import DelayCounter, StampClock


def test_delays_are_counted_by_powers_of_two() -> None:
    counter = DelayCounter()
    assert counter.read() == DelayHistogram(0, ())
    for ns, frames in ((0, 1), (-5, 1), (1, 2), (2, 1), (3, 1), (4, 1), (1023, 3), (1024, 1)):
        counter.note(ns, frames)
    assert counter.read() == DelayHistogram(2 + 2 + 3 + 4 + 3 * 1023 + 1024, (2, 2, 2, 1, 0, 0, 0, 0, 0, 0, 3, 1))
    counter.note(1 << 60)
    assert len(counter.read().histogram) == 40


def test_kernel_timestamps_are_used_from_the_second_batch_on() -> None:
    offset = 10**18
    clock = StampClock(lambda: now + offset)
    now = 5_000
    assert clock.delay(offset + 4_000, now) is None
    assert clock.delay(offset + 4_000, now) == 1_000
    now = 10_000_000_000
    offset += 1_500_000  # slewed for ten seconds
    assert clock.delay(now + offset - 7, now) == 7


def test_no_delay_is_reported_after_a_clock_was_set() -> None:
    offset = 10**18
    clock = StampClock(lambda: now + offset)
    now = 5_000
    clock.delay(offset, now)
    for step in (3_600_000_000_000, -60_000_000_000):
        offset += step
        now += 1_000
        assert clock.delay(offset - step + now, now) is None
        assert clock.delay(offset + now - 300, now) == 300
