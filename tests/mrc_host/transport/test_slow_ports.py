"""A port that is slower than the NIC's others is found, in simulated fabrics and by what its parts are told."""

from __future__ import annotations

import pytest

from mrc_host.transport.plane_balance import NOBODY, UNKNOWN, PlaneBalance
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.slow_ports import CYCLES, SlowPorts, slowest
from mrc_host.transport.stats import NicPortStats
from mrc_host.verbs_types import AsyncEvent, SlowPortEvent


class _Planes(PlaneBalance):
    """A balance whose ports send only what it says."""

    def __init__(self, burst: int, mtu: int, mask: int, waited: list[int]) -> None:
        self.stats = [NicPortStats() for _ in waited]
        super().__init__(burst, mtu, mask, waited, self.stats)

    def spend(self, plane: int) -> None:
        super().spend(plane)
        self.stats[plane].tx_bytes += 4096


def _cycle(balance: PlaneBalance, intervals: tuple[int, ...], begin: int) -> tuple[int, int]:
    """Every plane sends a packet per interval until its credit is used up; when that is so, and who was late."""
    planes = (1 << len(intervals)) - 1
    times = sorted(
        (begin + number * interval, plane) for plane, interval in enumerate(intervals) for number in range(9)
    )
    for now, plane in times:
        if balance.mask >> plane & 1:
            balance.spend(plane)
        elif balance.mask:
            balance.waits(plane, planes, now)
        if not balance.mask:
            late = balance.end_cycle(0, now)
            balance.refill(planes)
            return late, now
    raise AssertionError("credit left")


@pytest.mark.parametrize(
    ("intervals", "late"),
    [
        ((100, 100, 100), NOBODY),
        ((100, 130, 100), NOBODY),
        ((100, 200, 100), 0b10),
        ((100, 100, 1000), 0b100),
        ((100, 300, 100, 300), 0b1010),
        ((250, 100, 100, 400), 0b1001),
        ((100, 100, 130, 1000), 0b1000),
        ((100, 120, 140, 160), NOBODY),  # all between: none stands out
        ((100, 300, 300), NOBODY),  # the most are usual
        ((200, 100, 210, 100, 220, 100, 100), 0b10101),
    ],
)
def test_planes_are_late_that_at_least_as_many_others_wait_for(intervals: tuple[int, ...], late: int) -> None:
    balance = _Planes(8, 4096, (1 << len(intervals)) - 1, [0] * len(intervals))
    first, now = _cycle(balance, intervals, 1000)
    assert first == UNKNOWN, "when it began is not known"
    assert _cycle(balance, intervals, now) == (late, pytest.approx(now + 7 * max(intervals), abs=max(intervals)))


@pytest.mark.parametrize("planes", [2, 4, 8])
def test_ports_that_take_turns_are_not_late(planes: int) -> None:
    """A driver may take a whole burst from one port before it turns to the next: the last is waited for longest."""
    every = (1 << planes) - 1
    balance = _Planes(8, 4096, every, [0] * planes)
    now = 1000
    for _ in range(3):
        for plane in range(planes):
            for _ in range(8):
                now += 10
                balance.spend(plane)
            if balance.mask:
                balance.waits(plane, every, now)
        late = balance.end_cycle(0, now)
        balance.refill(every)
    assert late == NOBODY


def test_a_plane_that_is_lost_while_others_wait_for_it_is_not_late() -> None:
    balance = _Planes(8, 4096, 0b1111, [0] * 4)
    _, now = _cycle(balance, (100, 100, 100, 100), 1000)
    for plane in (0, 1, 2):
        for _ in range(8):
            balance.spend(plane)
        balance.waits(plane, 0b1111, now + 800)
    assert balance.end_cycle(0, now + 9000) == NOBODY, "it still has credit"


def test_how_long_planes_were_waited_for_is_counted_for_each() -> None:
    waited = [0] * 4
    balance = _Planes(8, 4096, 0b1111, waited)
    _, now = _cycle(balance, (100, 100, 100, 100), 1000)
    before = list(waited)
    _cycle(balance, (100, 300, 100, 200), now)
    assert [after - b for b, after in zip(before, waited, strict=True)] == [0, 1300, 0, 800]


def test_queue_pairs_that_take_turns_at_some_ports_and_share_another_make_none_slow() -> None:
    """One has port 0 to itself and then waits, while another has it; at port 1 they alternate."""
    balance = _Planes(8, 4096, 0b11, [0] * 2)
    now = 0
    for _ in range(3):
        for packet in range(8):
            now += 100
            balance.spend(0)
            balance.stats[1].tx_bytes += 4096 * (1 - packet % 2)  # of the other
            if packet % 2:
                balance.spend(1)
        for packet in range(8):
            if not packet:
                balance.waits(0, 0b11, now)
            now += 100
            balance.stats[0].tx_bytes += 4096
            balance.stats[1].tx_bytes += 4096 * (packet % 2)
            if not packet % 2:
                balance.spend(1)
        late = balance.end_cycle(0, now)
        balance.refill(0b11)
    assert late == NOBODY


def test_a_full_window_and_a_pause_of_the_application_are_nobodys_fault() -> None:
    balance = _Planes(8, 4096, 0b11, [0] * 2)
    _, now = _cycle(balance, (100, 100), 1000)
    for _ in range(8):
        balance.spend(0)
    balance.waits(0, 0b11, now + 800)
    balance.blocked()
    assert balance.end_cycle(0, now + 9000) == NOBODY
    balance.refill(0b11)
    balance.idle(now + 10_000)
    balance.resume(now + 90_000)
    assert balance.end_cycle(0, now + 99_000) == UNKNOWN
    assert balance.stopped
    assert balance.end_cycle(1_000, now + 109_000) == NOBODY
    assert not balance.stopped
    assert balance.end_cycle(6_000, now + 119_000) == NOBODY
    assert balance.stopped, "by the window"


def test_one_event_says_that_a_port_is_slow_and_one_that_it_no_longer_is() -> None:
    events: list[AsyncEvent] = []
    ports = SlowPorts(2, events.append)
    for now in range(3 * CYCLES):
        ports.vote(0b10, now)
    assert events == [SlowPortEvent(CYCLES - 1, 1, True, True)]
    for now in range(1000, 1000 + CYCLES // 2):  # neither some good cycles nor a mixture change that
        ports.vote(NOBODY, now)
    for now in range(2000, 2000 + 10 * CYCLES):
        ports.vote(0b10 if now % 2 else NOBODY, now)
    assert len(events) == 1
    assert ports.slow == 0b10
    for now in range(9000, 9000 + 3 * CYCLES):
        ports.vote(NOBODY, now)
    assert [(event.slow, event.local) for event in events if isinstance(event, SlowPortEvent)] == [
        (True, True), (False, True),
    ]  # fmt: skip


def test_a_queue_that_does_no_harm_makes_no_port_slow() -> None:
    events: list[AsyncEvent] = []
    ports = SlowPorts(2, events.append)
    for now in range(4 * CYCLES):
        ports.harmless(now)
    assert not events
    for now in range(4 * CYCLES):  # in some cycles it does harm: those without say nothing
        if now % 3:
            ports.harmless(now)
        else:
            ports.vote(0b1, now)
    assert ports.slow == 1
    for now in range(2 * CYCLES):
        ports.harmless(now)
    assert not ports.slow


def test_a_port_that_loses_its_link_is_not_slow_when_it_is_back() -> None:
    events: list[AsyncEvent] = []
    ports = SlowPorts(2, events.append, bytes(16))
    ports.forget(0, 5)
    assert not events
    for now in range(CYCLES):
        ports.vote(0b1, now)
    ports.forget(0, 999)
    assert events[1:] == [SlowPortEvent(999, 0, False, False, bytes(16))]
    ports.vote(0b1, 1000)
    assert not ports.slow


def _trips(*times: tuple[int, int]) -> list[RoundTrip]:
    trips = []
    for shortest, now in times:
        trip = RoundTrip()
        trip.sample(shortest)
        trip.smoothed = now
        trips.append(trip)
    return trips


def test_queues_of_a_minority_of_planes_make_these_the_slowest() -> None:
    assert slowest(_trips((100, 100), (100, 400), (100, 120)), 0b111) == 0b10
    assert slowest(_trips((100, 400), (100, 400), (100, 390)), 0b111) == NOBODY, "an incast"
    assert slowest(_trips((100, 400), (100, 100), (100, 130), (100, 390)), 0b1111) == 0b1001
    assert slowest(_trips((100, 400), (100, 100), (100, 130), (100, 900)), 0b1111) == 0b1001, "unlike rates"
    assert slowest(_trips((100, 400), (100, 100), (100, 400), (100, 390)), 0b1111) == NOBODY, "the most are usual"
    assert slowest(_trips((100, 400), (100, 100), (100, 400), (100, 120)), 0b0111) == NOBODY, "of those in use"
    assert slowest(_trips((100, 130), (100, 100), (100, 169), (100, 219)), 0b1111) == NOBODY, "none stands out"
    assert slowest(_trips((100, 110), (900, 990), (100, 100)), 0b111) == NOBODY, "a longer link"
    assert slowest(_trips((100, 100), (100, 400), (100, 120)), 0b101) == NOBODY, "not in use"
    assert slowest(_trips((100, 400)), 0b1) == NOBODY, "nothing to compare with"
    assert slowest([*_trips((100, 400), (100, 100)), RoundTrip()], 0b111) == NOBODY, "not all measured"
    doubtful = _trips((100, 400), (100, 100))
    doubtful[0].doubtful = True
    assert slowest(doubtful, 0b11) == NOBODY, "may include an outage"


class _Retiring:
    """Three ports that are retired for 1000 ns; `at` has when that changed, and the mask from then on."""

    def __init__(self) -> None:
        self.events: list[AsyncEvent] = []
        self.ports = SlowPorts(3, self.events.append, retry=1000)
        self.at: list[tuple[int, int]] = []
        self.ports.when_retired = lambda now: self.at.append((now, self.ports.retired))

    def vote(self, slower: int, now: int, cycles: int = CYCLES) -> None:
        for _ in range(cycles):
            self.ports.vote(slower, now)


def test_each_failed_trial_of_a_slow_port_doubles_the_time_to_the_next() -> None:
    end = _Retiring()
    end.vote(0b1, 0)
    now = 0
    for failures in range(9):
        now += 1000 << min(failures, 6)
        end.ports.try_retired(now - 1)
        assert end.ports.retired, "too early"
        end.vote(NOBODY, now - 1, 3 * CYCLES)  # says nothing of a port that is not used
        end.ports.try_retired(now)
        assert (end.ports.retired, end.ports.slow) == (0, 1)
        end.vote(0b1, now, CYCLES // 2)
        assert (end.ports.retired, end.ports.slow) == (1, 1)
    assert len(end.events) == 1
    assert [mask for _, mask in end.at] == [1, *[0, 1] * 9]


def test_a_port_that_stands_its_trial_is_as_good_as_new() -> None:
    end = _Retiring()
    for now in (0, 5000):
        end.vote(0b100, now)
        end.ports.try_retired(now + 1000)
        end.vote(NOBODY, now + 1000, CYCLES // 2)
        assert (end.ports.retired, end.ports.slow) == (0, 0)
    assert end.at == [(0, 4), (1000, 0), (5000, 4), (6000, 0)]
    assert len(end.events) == 4


def test_ports_are_tried_one_after_the_other() -> None:
    end = _Retiring()
    end.vote(0b1, 0)
    end.vote(0b10, 10)
    end.ports.try_retired(1010)
    assert end.ports.retired == 0b10
    end.ports.try_retired(2009)
    assert end.ports.retired == 0b10
    end.ports.try_retired(2010)
    assert end.ports.retired == 0


def test_ports_that_are_found_together_are_retired_at_once_and_tried_apart() -> None:
    end = _Retiring()
    end.vote(0b101, 0)
    assert end.at == [(0, 0b101)]
    assert [(event.port, event.slow) for event in end.events if isinstance(event, SlowPortEvent)] == [
        (0, True), (2, True),
    ]  # fmt: skip
    end.ports.try_retired(1000)
    end.ports.try_retired(1000)
    assert end.ports.retired == 0b100
    end.vote(0b1, 1500, CYCLES // 2)
    end.ports.try_retired(2000)
    assert end.ports.retired == 0b1
    end.vote(NOBODY, 2500, CYCLES // 2)
    end.ports.try_retired(3500)
    assert (end.ports.retired, end.ports.slow) == (0, 0b1)


def test_a_retired_port_that_loses_its_link_is_forgotten() -> None:
    end = _Retiring()
    end.vote(0b1, 0)
    end.ports.forget(0, 5)
    assert (end.ports.retired, end.ports.slow) == (0, 0)
    end.ports.try_retired(9999)
    assert end.at == [(0, 1)]
