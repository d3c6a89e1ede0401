"""Handlers of signals that run later."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, ModuleType

import pytest

from mrc_host.driver.held_signals import HeldSignals
from mrc_host.driver.loop import Loop
from tests.mrc_host.driver.rings import compiled_extension


class AlarmError(Exception):
    """What handlers raise."""


@pytest.fixture(params=["python", "c"], autouse=True)
def holder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    """What holds them: the plain class, or the module in C."""
    module = compiled_extension("signal_holder") if request.param == "c" else None
    monkeypatch.setitem(sys.modules, "mrc_host.driver.signal_holder", module)
    return module


@pytest.fixture
def signals(holder: ModuleType | None) -> HeldSignals:
    return HeldSignals()


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


def test_handlers_run_when_the_last_who_held_them_releases_them(signals: HeldSignals, ran: list[int]) -> None:
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


def test_what_a_handler_raises_is_raised_there(signals: HeldSignals, ran: list[int]) -> None:
    signals.hold()
    for number in (signal.SIGUSR1, signal.SIGALRM):
        signal.raise_signal(number)
    with pytest.raises(AlarmError):
        signals.release()
    assert ran == [signal.SIGUSR1, signal.SIGALRM]
    with pytest.raises(AlarmError):
        signal.raise_signal(signal.SIGALRM)


def test_a_signal_that_another_thread_gets_is_held_too(signals: HeldSignals, ran: list[int]) -> None:
    """The kernel chooses a thread; Python runs handlers in the main one."""
    signals.hold()
    thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGALRM))
    thread.start()
    thread.join()
    assert ran == []
    with pytest.raises(AlarmError):
        signals.release()


def test_in_a_sleep_they_run_at_once(signals: HeldSignals, ran: list[int]) -> None:
    with select.epoll() as epoll:
        signals.hold()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(AlarmError):
            signals.sleep(lambda: (epoll.poll(10), None)[1])
        signal.raise_signal(signal.SIGUSR1)
        assert ran == [signal.SIGALRM], "held again"
        signals.release()
        assert ran == [signal.SIGALRM, signal.SIGUSR1]


def test_what_came_before_a_sleep_runs_before_it(signals: HeldSignals, ran: list[int]) -> None:
    with select.epoll() as epoll:
        signals.hold()
        signal.raise_signal(signal.SIGALRM)
        with pytest.raises(AlarmError):
            signals.sleep(lambda: (epoll.poll(10), None)[1])
        signals.release()
        assert ran == [signal.SIGALRM]


def test_handlers_that_are_set_meanwhile_stay(signals: HeldSignals, ran: list[int]) -> None:
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


def test_signals_without_a_handler_do_what_they_did(signals: HeldSignals, ran: list[int]) -> None:
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


def test_a_forked_child_holds_nothing(signals: HeldSignals, ran: list[int]) -> None:
    signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    child = os.fork()
    if not child:
        try:
            signals.leave_to_parent()
            assert ran == []
            signal.raise_signal(signal.SIGUSR1)
            assert ran == [signal.SIGUSR1]
            signals.release()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    signals.release()
    assert ran == [signal.SIGUSR1]


def run_and_release(loop: Loop) -> None:
    """Handlers run in a sleep, where that is not by event_wait.c."""
    try:
        assert not loop.run_until(lambda: False)
    finally:
        loop.signals.release()


def test_a_loop_ends_early_for_a_signal_that_is_held(ran: list[int]) -> None:
    """In a round, before a sleep and in one: its handler runs when the signals are released."""
    loop = Loop()
    try:
        for turns in (1, 3, 0):
            rounds: list[int] = []

            def turn(now: int, rounds: list[int] = rounds, turns: int = turns) -> int | None:
                rounds.append(now)
                if len(rounds) == turns:
                    signal.raise_signal(signal.SIGALRM)
                return None if len(rounds) >= turns else now

            loop.add_turn(turn)
            loop.signals.hold()
            if not turns:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(AlarmError):
                run_and_release(loop)
            loop.remove_turn(turn)
    finally:
        loop.close()
    assert ran == [signal.SIGALRM] * 3
