"""Ranks agree on who goes on: all on the same, without those that are lost, unfit or late, and never without an end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from mrc_lab.torch_jobs.train_faults.survivors import LossReport, able, agree, certain, missing
from tests.mrc_lab.torch_jobs.train_faults.fake_store import FakeStore

ALL = (0, 1, 2, 3)


class Clock:
    """Seconds that pass only while somebody sleeps; `at` are things to do when a time has come."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: list[tuple[float, Callable[[], object]]] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due in [each for each in self.at if each[0] <= self.now]:
            self.at.remove(due)
            due[1]()


def decide(store: FakeStore, own: LossReport, clock: Clock, last_call_s: float = 10) -> tuple[int, ...]:
    return agree(store, 1, ALL, own, last_call_s, clock=lambda: clock.now, sleep=clock.sleep)


def reports(store: FakeStore, *given: LossReport) -> None:
    for report in given:
        store.set(f"1/{report.rank}", report.text())


def test_who_is_known_to_be_lost_is_not_waited_for() -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(0), LossReport(1, frozenset({2})))
    assert decide(store, LossReport(3), clock) == (0, 1, 3)
    assert clock.now == 0


def test_who_was_cut_off_alone_does_not_decide_before_the_others() -> None:
    store, clock = FakeStore(), Clock()
    for number in (0, 1, 3):
        clock.at.append((0.02 + number / 100, lambda rank=number: reports(store, LossReport(rank, frozenset({2})))))  # type: ignore[misc]
    assert decide(store, LossReport(2, frozenset({0, 1, 3})), clock) == (0, 1, 3)
    assert clock.now < 0.1


@pytest.mark.parametrize(
    ("members", "cut_off"), [(4, {2}), (4, {0}), (5, {1, 3}), (6, {0, 1}), (6, {1, 3, 5}), (7, {0, 5, 6})]
)
def test_whatever_has_been_reported_nobody_is_certain_of_others_than_most(members: int, cut_off: set[int]) -> None:
    everyone = set(range(members))
    most = everyone - cut_off
    heard = [LossReport(rank, frozenset(most if rank in cut_off else cut_off)) for rank in range(members)]
    outcomes = set()
    for known in itertools.chain.from_iterable(itertools.combinations(heard, size) for size in range(1, members + 1)):
        if certain(everyone, known):
            outcomes.add(frozenset(able(known)))
    assert outcomes == {frozenset(most)}


def test_the_last_one_goes_on_after_the_last_call() -> None:
    store, clock = FakeStore(), Clock()
    assert decide(store, LossReport(2, frozenset({0, 1, 3})), clock) == (2,)
    assert 10 <= clock.now < 10.1


@pytest.mark.parametrize(("half", "others", "waits"), [((0, 3), (1, 2), False), ((1, 2), (0, 3), True)])
def test_of_two_halves_the_one_with_the_lowest_rank_decides(
    half: tuple[int, int], others: tuple[int, int], waits: bool
) -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(half[0], frozenset(others)))
    assert decide(store, LossReport(half[1], frozenset(others)), clock) == half
    assert (clock.now > 1) is waits


def test_who_does_not_report_is_out_after_the_last_call() -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(0), LossReport(1))
    assert decide(store, LossReport(3), clock) == (0, 1, 3)
    assert 10 <= clock.now < 10.1


def test_who_reports_before_the_last_call_is_waited_for() -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(0), LossReport(1))
    clock.at.append((4, lambda: reports(store, LossReport(2))))
    assert decide(store, LossReport(3), clock) == ALL
    assert 4 <= clock.now < 4.1


def test_an_unfit_rank_reports_and_finds_itself_out() -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(0), LossReport(1), LossReport(3))
    assert decide(store, LossReport(2, fit=False), clock) == (0, 1, 3)


def test_the_first_decision_holds_for_who_comes_late() -> None:
    store, clock = FakeStore(), Clock()
    reports(store, LossReport(0), LossReport(1))
    assert decide(store, LossReport(3), clock) == (0, 1, 3)
    assert decide(store, LossReport(2), clock) == (0, 1, 3)


def test_of_two_that_cannot_reach_each_other_one_goes_on() -> None:
    heard = [
        LossReport(0, frozenset({1})),
        LossReport(1, frozenset({2})),
        LossReport(2, frozenset({1})),
        LossReport(3, frozenset({1})),
    ]
    assert able(heard) == {0, 2, 3}, "most call rank 1 lost, and what it says does not count then"
    assert able(heard[1:3]) == {1}, "the higher number of equals is left out"


def test_a_rank_without_any_link_is_out_whatever_it_says_of_others() -> None:
    heard = [LossReport(rank, frozenset({2})) for rank in (0, 1, 3)]
    assert able([*heard, LossReport(2, frozenset({2}))]) == {0, 1, 3}
    assert able([*heard, LossReport(2, frozenset({0, 1, 3}))]) == {0, 1, 3}


def test_whom_somebody_calls_lost_is_not_missing() -> None:
    assert missing(ALL, [LossReport(0), LossReport(1, frozenset({2}))]) == [3]


def test_all_that_propose_at_once_take_the_same() -> None:
    store = FakeStore()
    found: dict[int, tuple[int, ...]] = {}

    def run(rank: int) -> None:
        found[rank] = agree(store, 1, ALL, LossReport(rank, frozenset({2})), 10)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found.values()) == {(0, 1, 3)}
