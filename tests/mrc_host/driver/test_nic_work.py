"""The work of a NIC within its application's calls."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns

import pytest

from mrc_host.driver.loop import Loop
from mrc_host.driver.nic_work import NicWork
from mrc_host.errors import StateError


class GoneError(Exception):
    """What is raised when there is no NIC any more."""


class Application:
    """A NIC with news after `news_in` rounds, whose application may do something when it gets them."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.rounds = 0
        self.news_in: int | None = None  # rounds
        self.given = 0
        self.then: list[object] = []  # called with each piece of news
        self.gone = False
        self.work = NicWork(self.loop, self.has_news)
        self.work.attach(self.check, self.announce)
        self.loop.add_turn(self.turn)

    def turn(self, now: int) -> int:
        self.rounds += 1
        if self.news_in is not None:
            self.news_in -= 1
        return now

    def has_news(self) -> bool:
        return self.news_in is not None and self.news_in <= 0

    def announce(self) -> bool:
        self.news_in = None
        self.given += 1
        if self.then:
            action = self.then.pop(0)
            assert callable(action)
            action()
        return True

    def check(self) -> None:
        if self.gone:
            raise GoneError


@pytest.fixture
def application() -> Iterator[Application]:
    made = Application()
    yield made
    made.loop.close()


def test_it_works_until_there_is_news(application: Application) -> None:
    application.news_in = 3
    assert application.work.advance(None)
    assert (application.rounds, application.given, application.work.busy) == (3, 1, False)


def test_it_works_until_the_time_is_over_or_somebody_interrupts_it(application: Application) -> None:
    end = monotonic_ns() + 2_000_000
    application.work.work(end, None)
    assert monotonic_ns() >= end
    application.rounds = 0
    application.work.work(None, lambda: application.rounds == 4)
    assert application.rounds == 4


def test_a_post_lets_it_work_at_once_and_one_within_its_work_soon_after(application: Application) -> None:
    application.work.poke()
    assert (application.rounds, application.work.poked) == (1, False)
    application.news_in = 1
    application.then.append(application.work.poke)
    application.work.work(0, None)
    assert (application.rounds, application.work.poked) == (3, False), "once more for what was posted"


def test_whoever_gets_news_may_wait_for_more(application: Application) -> None:
    """What interrupts the outer work does not end the inner one, and does so afterwards."""
    seen = []

    def wait() -> None:
        application.news_in = 5
        application.work.advance(None)
        seen.append(application.rounds)

    application.then.append(wait)
    application.news_in = 1
    application.work.work(None, lambda: application.rounds >= 2)
    assert seen == [6]
    assert (application.given, application.work.busy) == (2, False)


def test_an_error_leaves_it_as_it_was(application: Application) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    application.then.append(fail)
    application.news_in = 1
    with pytest.raises(ZeroDivisionError):
        application.work.work(0, None)
    assert not application.work.busy
    application.work.work(None, lambda: application.rounds >= 3)
    assert application.rounds == 3


def test_there_is_no_work_when_the_nic_is_gone(application: Application) -> None:
    application.gone = True
    for call in (application.work.poke, lambda: application.work.work(None, None), lambda: application.work.advance(0)):
        with pytest.raises(GoneError):
            call()
    assert (application.rounds, application.work.busy) == (0, False)


def test_a_handler_that_ends_the_nic_ends_the_next_verb_and_not_this_one(application: Application) -> None:
    def handler(*_: object) -> None:
        assert not application.work.busy, "in the middle of the work"
        application.gone = True

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        application.then.append(lambda: signal.raise_signal(signal.SIGUSR1))
        application.news_in = 1
        application.work.work(None, None)
        assert application.gone
        with pytest.raises(GoneError):
            application.work.work(None, None)
        application.gone = False
        assert application.work.whole(lambda: (signal.raise_signal(signal.SIGUSR1), application.gone)[1]) is False
        assert application.gone
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_only_the_thread_that_opened_a_nic_lets_it_work(application: Application) -> None:
    work = application.work
    with ThreadPoolExecutor(1) as other:
        for attempt in (work.poke, lambda: work.work(0, None), lambda: work.advance(0), lambda: work.whole(int)):
            with pytest.raises(StateError, match="belongs to the thread that opened it"):
                other.submit(attempt).result()
        assert application.rounds == 0
        assert not work.poked
        work.release()
        other.submit(work.check_thread).result()
        assert other.submit(work.whole, lambda: application.loop.signals._times).result() == 0, (
            "those are the main thread's"
        )


def test_a_nic_whose_thread_has_ended_belongs_to_whoever_uses_it_next() -> None:
    with ThreadPoolExecutor(1) as first:
        application = first.submit(Application).result()
    with ThreadPoolExecutor(1) as second:
        second.submit(application.work.work, 0, None).result()
        assert application.rounds == 1
    application.work.work(0, None)
    assert application.rounds == 2
    application.loop.close()
