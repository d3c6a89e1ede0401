"""Holding handlers of signals in C, beyond what the class in Python does (test_held_signals.py)."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns
from types import ModuleType

import pytest

from mrc_host.driver.held_signals import HeldSignals
from mrc_host.driver.loop import Loop
from tests.fuzz.fuzz_datapath import ROOT
from tests.fuzz.fuzz_engine import runtime
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


def test_a_loop_within_anothers_work_sleeps_although_a_signal_is_noted(module: ModuleType, ran: list[int]) -> None:
    """One NIC's callback waits with another: what it waits for may take long."""
    outer, inner, rounds = Loop(), Loop(), []
    outer.signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    inner.add_turn(lambda now: rounds.append(now))  # type: ignore[arg-type, return-value]
    end = monotonic_ns() + 30_000_000
    inner.signals.hold()
    assert not inner.signals.noted
    assert not inner.run_until(lambda: False, end)
    inner.signals.release()
    assert monotonic_ns() >= end
    assert len(rounds) < 10
    assert outer.signals.noted
    outer.signals.release()
    assert ran == [signal.SIGUSR1]
    for loop in (inner, outer):
        loop.close()


def test_a_loop_of_another_thread_does_not_hold_and_knows_of_no_notes(module: ModuleType, ran: list[int]) -> None:
    loop = Loop()
    loop.signals.hold()
    signal.raise_signal(signal.SIGUSR1)
    found: list[bool] = []

    def other() -> None:
        its = Loop()
        end = monotonic_ns() + 20_000_000
        its.run_until(lambda: False, end)
        found.extend((its.signals.noted, monotonic_ns() >= end))
        its.close()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [False, True]
    loop.signals.release()
    loop.close()
    assert ran == [signal.SIGUSR1]


def test_a_signal_that_the_main_thread_blocks_and_another_gets_runs_its_handler(
    module: ModuleType, ran: list[int]
) -> None:
    signals, held = HeldSignals(), threading.Event()
    thread = kill_from_another_thread(signal.SIGUSR1, held)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        signals.hold()
        held.set()
        thread.join()
        signals.release()
        assert ran == [signal.SIGUSR1]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_handler_in_c_that_was_set_meanwhile_and_calls_the_one_before_it_does_so(
    module: ModuleType, ran: list[int]
) -> None:
    """It has kept the one that notes."""
    signals = HeldSignals()
    with tempfile.TemporaryFile() as file:
        signals.hold()
        faulthandler.register(signal.SIGUSR1, file=file, chain=True)
        signals.release()
        try:
            for held in (False, True):
                ran.clear()
                if held:
                    signals.hold()
                signal.raise_signal(signal.SIGUSR1)
                if held:
                    assert ran == []
                    signals.release()
                assert ran == [signal.SIGUSR1]
        finally:
            faulthandler.unregister(signal.SIGUSR1)
        file.seek(0)
        assert file.read().count(b"test_signal_holder.py") >= 2
    signal.raise_signal(signal.SIGUSR1)
    assert ran == [signal.SIGUSR1] * 2


def test_a_handler_that_is_destroyed_may_use_a_nic(module: ModuleType) -> None:
    destroyed = []

    class Handler:
        def __call__(self, *_: object) -> None:
            destroyed.append("called")

        def __del__(self) -> None:
            signals.hold()
            signals.release()
            destroyed.append("destroyed")

    signals = HeldSignals()
    former = signal.getsignal(signal.SIGUSR1)
    try:
        for came in (False, True):
            destroyed.clear()
            signal.signal(signal.SIGUSR1, Handler())
            signals.hold()
            if came:
                signal.raise_signal(signal.SIGUSR1)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            assert destroyed == []
            signals.release()
            assert destroyed == ["called"] * came + ["destroyed"]
    finally:
        signal.signal(signal.SIGUSR1, former)


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


BESIDE = """
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

/* Sends this thread a signal, and the next one when `ran` has counted it; how many came through within 10 s each. */
long beside(int number, long count, volatile long *ran)
{
    for (long sent = 0; sent < count; sent++) {
        time_t end = time(NULL) + 10;
        pthread_kill(pthread_self(), number);
        while (*ran <= sent) {
            if (time(NULL) > end)
                return sent;
            sched_yield();
        }
    }
    return count;
}
"""


def test_no_signal_of_a_thread_beside_is_lost(module: ModuleType, tmp_path: Path) -> None:
    """It notes them at any instruction of the main thread's, without the interpreter's lock."""
    (tmp_path / "beside.c").write_text(BESIDE)
    library = tmp_path / "beside.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "beside.c", "-pthread"], check=True)
    beside = ctypes.CDLL(str(library)).beside
    beside.restype, beside.argtypes = ctypes.c_long, [ctypes.c_int, ctypes.c_long, ctypes.POINTER(ctypes.c_long)]
    ran, count, came = ctypes.c_long(), 5000, []

    def handler(*_: object) -> None:
        ran.value += 1

    former = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=lambda: came.append(beside(signal.SIGUSR1, count, ctypes.byref(ran))))
    signals = HeldSignals()
    try:
        thread.start()
        while not came:
            for _ in range(50):
                signals.hold()
                signals.release()
            for _ in range(50):  # without a verb, too, the last one comes through
                pass
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, former)
    assert (came, ran.value) == ([count], count)


def test_arguments_that_make_no_sense_are_refused(module: ModuleType, ran: list[int]) -> None:
    for arguments in ((), ([10],), ((0,),), ((65,),), (("a",),), ((10,), 1)):
        with pytest.raises((TypeError, ValueError)):
            module.hold(*arguments)
    module.release()  # more often than held: nothing
    signal.raise_signal(signal.SIGUSR1)
    assert ran == [signal.SIGUSR1], "nothing is held"


def test_all_of_this_is_clean_under_the_sanitizers() -> None:
    asan = runtime("libasan.so")
    if "sanitized" in " ".join(sys.argv) or asan is None or runtime("libubsan.so") is None:
        pytest.skip("this is such a run, or the compiler has no sanitizers")
    files = [str(Path(__file__).with_name(name)) for name in ("test_held_signals.py", "test_signal_holder.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.mrc_host.driver.sanitized", "-k", "not beside", *files],
        env=os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
