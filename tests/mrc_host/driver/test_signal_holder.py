"""Holding handlers of signals in C, beyond what the class in Python does (test_held_signals.py)."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from mrc_host.driver.held_signals import HeldSignals
from mrc_host.driver.loop import Loop
from tests.mrc_host.driver.rings import compiled_extension

NUMBERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """In use by loops that are made from now on, which sleep in C too."""
    for name in ("event_wait", "signal_holder"):
        monkeypatch.setitem(sys.modules, f"mrc_host.driver.{name}", compiled_extension(name))
    return sys.modules["mrc_host.driver.signal_holder"]


@pytest.fixture
def ran() -> Iterator[list[int]]:
    """Signals whose handlers have run."""
    numbers: list[int] = []
    before = {number: signal.signal(number, lambda number, _: numbers.append(number)) for number in NUMBERS}
    yield numbers
    for number, former in before.items():
        signal.signal(number, former)


def kill_from_another_thread(number: int, ready: threading.Event) -> threading.Thread:
    def run() -> None:
        ready.wait(10)
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_signal_of_another_thread_ends_an_endless_sleep(module: ModuleType, ran: list[int]) -> None:
    loop, asleep = Loop(), threading.Event()

    def turn(_now: int) -> None:
        asleep.set()

    loop.add_turn(turn)
    thread = kill_from_another_thread(signal.SIGUSR1, asleep)
    loop.signals.hold()
    assert not loop.run_until(lambda: False)
    assert (loop.signals.noted, ran) == (True, [])
    loop.signals.release()
    assert (loop.signals.noted, ran) == (False, [signal.SIGUSR1])
    thread.join()
    loop.close()


def test_a_signal_just_before_an_endless_sleep_ends_it(
    module: ModuleType, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look for notes: the kernel would not end the sleep."""
    wait = sys.modules["mrc_host.driver.event_wait"].wait

    def late(epoll: int, wait_ns: int) -> object:
        if wait_ns < 0:
            signal.raise_signal(signal.SIGUSR1)
        return wait(epoll, wait_ns)

    monkeypatch.setattr(sys.modules["mrc_host.driver.event_wait"], "wait", late)
    loop = Loop()
    loop.signals.hold()
    assert not loop.run_until(lambda: False)
    loop.signals.release()
    assert ran == [signal.SIGUSR1]
    loop.close()


def test_a_bell_that_is_closed_does_not_ring_in_the_descriptor_that_follows(module: ModuleType, ran: list[int]) -> None:
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    signals = HeldSignals(bell)
    signals.hold()
    signals.close()
    one, other = socket.socketpair()
    os.dup2(one.fileno(), bell)
    other.setblocking(False)
    signal.raise_signal(signal.SIGUSR1)
    with pytest.raises(BlockingIOError):
        other.recv(8)
    signals.release()
    assert ran == [signal.SIGUSR1]
    os.close(bell)
    one.close()
    other.close()


def test_holders_within_others_give_all_back_at_the_end(module: ModuleType, ran: list[int]) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    outer, inner = HeldSignals(), HeldSignals()
    outer.hold()
    inner.hold()
    signal.raise_signal(signal.SIGUSR1)
    inner.release()
    assert ran == []
    assert outer.noted
    outer.release()
    assert ran == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_what_asyncio_waits_for_is_written_when_they_are_released(module: ModuleType, ran: list[int]) -> None:
    one, other = socket.socketpair()
    for end in (one, other):
        end.setblocking(False)
    former = signal.set_wakeup_fd(one.fileno())
    signals = HeldSignals()
    try:
        signals.hold()
        signal.raise_signal(signal.SIGUSR2)
        with pytest.raises(BlockingIOError):
            other.recv(8)
        signals.release()
        assert other.recv(8) == bytes([signal.SIGUSR2])
    finally:
        signal.set_wakeup_fd(former)
        one.close()
        other.close()


def test_a_held_handler_that_was_replaced_gets_what_came_for_it(module: ModuleType, ran: list[int]) -> None:
    later: list[int] = []
    signals = HeldSignals()
    signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda number, _: later.append(number))
    signals.release()
    assert (ran, later) == ([signal.SIGUSR1], [])


def test_a_handler_that_holds_and_releases_is_run_once(module: ModuleType) -> None:
    """It uses the NIC, say, which waits."""
    signals, ran = HeldSignals(), []

    def handler(number: int, _frame: object) -> None:
        signals.hold()
        ran.append(number)
        if len(ran) == 1:
            signal.raise_signal(signal.SIGUSR1)
            assert len(ran) == 1
        signals.release()

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        signals.hold()
        signal.raise_signal(signal.SIGUSR1)
        assert ran == []
        signals.release()
        assert ran == [signal.SIGUSR1] * 2
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_every_signal_of_a_storm_runs_its_handler(module: ModuleType, ran: list[int]) -> None:
    """Some in another thread, at any instruction of those that hold and release: after the last, each has run."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    signals, over = HeldSignals(), threading.Event()

    def storm() -> None:
        while not over.is_set():
            signal.pthread_kill(threading.get_ident() if rng.random() < 0.5 else main, signal.SIGUSR2)

    main = threading.main_thread().ident
    assert main is not None
    thread = threading.Thread(target=storm)
    thread.start()
    for number in range(3000):
        before = ran.count(signal.SIGUSR1)
        signals.hold()
        if number % 3:
            signal.raise_signal(signal.SIGUSR1)
        signals.release()
        assert ran.count(signal.SIGUSR1) == before + bool(number % 3)
    over.set()
    thread.join()
    assert ran.count(signal.SIGUSR2) > 0
    count = len(ran)
    signals.hold()
    signal.pthread_kill(main, signal.SIGUSR2)
    signals.release()
    assert ran[count:] == [signal.SIGUSR2], "handlers are those of before"


def test_arguments_that_make_no_sense_are_refused(module: ModuleType, ran: list[int]) -> None:
    for arguments in ((), ((1,),), ([10], -1), ((0,), -1), ((65,), -1), (("a",), -1), ((10,), "a")):
        with pytest.raises((TypeError, ValueError)):
            module.hold(*arguments)
    module.release()  # more often than held: nothing
    signal.raise_signal(signal.SIGUSR1)
    assert ran == [signal.SIGUSR1], "nothing is held"
