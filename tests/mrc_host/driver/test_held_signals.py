"""Handlers of signals that run later: in plain Python, and with the gate in C, which must do the same."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from mrc_host.driver.held_signals import HeldSignals
from tests.mrc_host.driver.rings import compiled_extension


class AlarmError(Exception):
    """What handlers raise."""


class InPlainPython:
    def __init__(self) -> None:
        self._signals = HeldSignals()
        self.hold, self.release = self._signals.hold, self._signals.release

    def sleep(self, epoll: select.epoll, wait_ns: int) -> None:
        self._signals.sleep(lambda: (epoll.poll(wait_ns / 1e9), None)[1])


class InC:
    def __init__(self) -> None:
        self._extension = compiled_extension("event_wait")
        self.hold, self.release = self._extension.hold_signals, self._extension.release_signals

    def sleep(self, epoll: select.epoll, wait_ns: int) -> None:
        self._extension.wait(epoll.fileno(), wait_ns)


Signals = InPlainPython | InC


@pytest.fixture(params=[InPlainPython, InC])
def signals(request: pytest.FixtureRequest) -> Signals:
    made: Signals = request.param()
    return made


@pytest.fixture
def ran() -> Iterator[list[int]]:
    """Signals whose handlers have run: SIGUSR1's, and those of SIGALRM and SIGINT, which raise something."""
    numbers: list[int] = []

    def handler(number: int, _frame: FrameType | None) -> None:
        numbers.append(number)
        if number != signal.SIGUSR1:
            raise AlarmError(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGINT)}
    yield numbers
    for number, former in before.items():
        signal.signal(number, former)


def test_handlers_run_when_the_last_who_held_them_releases_them(signals: Signals, ran: list[int]) -> None:
    signals.hold()
    signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    assert ran == []
    signals.release()
    assert ran == []
    signals.release()
    assert ran == [signal.SIGUSR1]
    signal.raise_signal(signal.SIGUSR1)
    assert ran == [signal.SIGUSR1] * 2, "at once"


def test_what_a_handler_raises_is_raised_there(signals: Signals, ran: list[int]) -> None:
    signals.hold()
    for number in (signal.SIGUSR1, signal.SIGALRM):
        signal.raise_signal(number)
    with pytest.raises(AlarmError):
        signals.release()
    assert ran == [signal.SIGUSR1, signal.SIGALRM]
    with pytest.raises(AlarmError):
        signal.raise_signal(signal.SIGALRM)


def test_a_signal_that_another_thread_gets_is_held_too(signals: Signals, ran: list[int]) -> None:
    """The kernel chooses a thread; Python runs handlers in the main one."""
    signals.hold()
    thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGALRM))
    thread.start()
    thread.join()
    assert ran == []
    with pytest.raises(AlarmError):
        signals.release()


def test_in_a_sleep_they_run_at_once(signals: Signals, ran: list[int]) -> None:
    with select.epoll() as epoll:
        signals.hold()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(AlarmError):
            signals.sleep(epoll, 10_000_000_000)
        signal.raise_signal(signal.SIGUSR1)
        assert ran == [signal.SIGALRM], "held again"
        signals.release()
        assert ran == [signal.SIGALRM, signal.SIGUSR1]


def test_what_came_before_a_sleep_runs_before_it(signals: Signals, ran: list[int]) -> None:
    with select.epoll() as epoll:
        signals.hold()
        signal.raise_signal(signal.SIGALRM)
        with pytest.raises(AlarmError):
            signals.sleep(epoll, 10_000_000_000)
        signals.release()
        assert ran == [signal.SIGALRM]


def test_handlers_that_are_set_meanwhile_stay(signals: Signals, ran: list[int]) -> None:
    later: list[int] = []
    signals.hold()
    signal.signal(signal.SIGUSR1, lambda number, _: later.append(number))
    signals.release()
    signal.raise_signal(signal.SIGUSR1)
    signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    assert (ran, later) == ([], [signal.SIGUSR1])
    signals.release()
    assert later == [signal.SIGUSR1] * 2


def test_signals_without_a_handler_do_what_they_did(signals: Signals, ran: list[int]) -> None:
    """One that is ignored, and one that ends the process."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    signals.release()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    signal.signal(signal.SIGUSR1, before)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signals.hold()
        signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
    assert ran == []


def test_a_release_too_many_is_refused() -> None:
    with pytest.raises(RuntimeError, match="No signals are held"):
        InC().release()
