"""The event loop: descriptors, turns, precise sleep, entering from other threads."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic_ns
from types import SimpleNamespace

import pytest

from mrc_host.driver.loop import READABLE, Loop
from tests.mrc_host.driver.rings import compiled_extension

PR_GET_TIMERSLACK = 30


class RoundingKernel:
    """In place of the module `select`: wakes a process when it may, with waits of epoll rounded up to milliseconds."""

    def __init__(self) -> None:
        self.now = 7_654_321
        self.waits: list[float] = []
        self.for_ever: Callable[[], None] = lambda: None

    def monotonic_ns(self) -> int:
        return self.now

    def epoll(self) -> RoundingKernel:
        return self

    def poll(self, timeout_s: float, _most: int = -1) -> list[tuple[int, int]]:
        if timeout_s == -1:
            self.for_ever()
        self._wait(timeout_s, 1_000_000)
        return []

    def select(self, _read: object, _write: object, _other: object, timeout_s: float) -> None:
        self._wait(timeout_s, 1_000)

    def _wait(self, timeout_s: float, unit_ns: int) -> None:
        if timeout_s:
            self.waits.append(timeout_s)
            self.now += -(-math.ceil(timeout_s * 1e9) // unit_ns) * unit_ns

    def register(self, fd: int, mask: int) -> None: ...

    def fileno(self) -> int:
        return 3

    def close(self) -> None: ...


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> RoundingKernel:
    """Ask for it before the loop, which then waits in it."""
    kernel = RoundingKernel()
    monkeypatch.setattr("mrc_host.driver.loop.select", kernel)
    monkeypatch.setattr("mrc_host.driver.loop.monotonic_ns", kernel.monotonic_ns)
    return kernel


def refuse_to_wait(epoll: int, wait_ns: int) -> None:
    raise OSError(errno.ENOSYS, "an old kernel")


@pytest.fixture(params=["epoll", "event_wait"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """One that waits as on old kernels, unless the kernel is a fake one; and one that waits in C."""
    in_c = request.param == "event_wait"
    if in_c and "kernel" in request.fixturenames:
        pytest.skip("there is no such kernel for C")
    module = compiled_extension("event_wait") if in_c else SimpleNamespace(wait=refuse_to_wait)
    monkeypatch.setitem(sys.modules, "mrc_host.driver.event_wait", module)
    loop = Loop()
    yield loop
    loop.close()


def test_ready_descriptors_are_handled_until_removed(loop: Loop) -> None:
    read, write = os.pipe()
    seen: list[bytes] = []

    def handler(mask: int) -> None:
        assert mask & READABLE
        seen.append(os.read(read, 1))
        if len(seen) == 3:
            loop.remove(read)
            loop.call_soon(loop.stop)

    loop.add(read, READABLE, handler)
    os.write(write, b"abcdef")
    loop.run()
    assert seen == [b"a", b"b", b"c"]
    os.close(read)
    os.close(write)


def test_a_handler_may_remove_another_ready_one(loop: Loop) -> None:
    pipes = [os.pipe() for _ in range(2)]
    handled: list[int] = []

    def handler(mine: int) -> None:
        handled.append(mine)
        for read, _ in pipes:
            loop.remove(read)
        loop.stop()

    for i, (read, write) in enumerate(pipes):
        loop.add(read, READABLE, lambda _mask, i=i: handler(i))  # type: ignore[misc]
        os.write(write, b"x")
    loop.run()
    assert len(handled) == 1
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)


def test_descriptors_wait_while_a_turn_requests_gathering(loop: Loop) -> None:
    read, write = os.pipe()
    start = monotonic_ns()
    handled: list[int] = []
    rounds: list[int] = []

    def handler(_mask: int) -> None:
        handled.append(monotonic_ns())
        os.read(read, 1)
        loop.stop()

    def turn(now: int) -> int | None:
        if not rounds:
            loop.rest(start + 20_000_000)
            os.write(write, b"x")
        rounds.append(now)
        return None

    loop.add(read, READABLE, handler)
    loop.add_turn(turn)
    loop.run()
    assert handled[0] >= start + 20_000_000
    assert len(rounds) == 2, "one before the rest, and one after it with the handler"
    os.close(read)
    os.close(write)


def test_gathering_ends_when_a_turn_is_due_and_lasts_one_sleep(loop: Loop) -> None:
    read, write = os.pipe()
    times: list[int] = []
    far = monotonic_ns() + 60_000_000_000

    def handler(_mask: int) -> None:
        os.read(read, 1)
        loop.stop()

    def turn(now: int) -> int | None:
        times.append(now)
        if len(times) == 1:
            loop.rest(far)
            return now + 1_000_000
        if len(times) == 2:
            loop.rest(far)
            return now  # busy: no sleep, so no rest either
        if len(times) == 3:
            os.write(write, b"x")
        return None

    loop.add(read, READABLE, handler)
    loop.add_turn(turn)
    loop.run()
    assert len(times) == 4
    assert times[1] >= times[0] + 1_000_000
    os.close(read)
    os.close(write)


def test_turns_run_at_their_requested_times(kernel: RoundingKernel, loop: Loop) -> None:
    late: list[int] = []
    waits = [ns for wait in (50, 400, 1_300, 2_000, 2_499, 2_600, 67_123) for ns in (wait * 1000 - 1, wait * 1000)]
    wanted = kernel.now

    def turn(now: int) -> int:
        nonlocal wanted
        if now < wanted:  # allowed at any time, for instance after input
            return wanted
        late.append(now - wanted)
        if len(late) > len(waits):
            loop.stop()
            return now
        wanted = now + waits[len(late) - 1]
        return wanted

    loop.add_turn(turn)
    loop.run()
    assert max(late) < 2_000, "no later than the finer way of waiting"
    assert len(kernel.waits) <= 2 * len(waits), "a coarse wait and a fine one"


def test_an_idle_loop_waits_without_timeout(kernel: RoundingKernel, loop: Loop) -> None:
    rounds = 0

    def turn(now: int) -> None:
        nonlocal rounds
        rounds += 1

    loop.add_turn(turn)
    kernel.for_ever = loop.stop
    loop.run()
    assert rounds == 1
    assert kernel.waits == [-1]


def test_the_loop_disables_timer_slack(loop: Loop) -> None:
    kernel = ctypes.CDLL(None)
    slack: list[int] = []
    loop.call_soon(lambda: slack.append(kernel.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)))
    loop.call_soon(loop.stop)
    thread = threading.Thread(target=loop.run)  # whose slack is not that of other tests
    thread.start()
    thread.join()
    if slack == [-1]:
        pytest.skip("this kernel has no timer slack")
    assert slack == [1]


def test_the_loop_wakes_for_the_earliest_turn(loop: Loop) -> None:
    start = monotonic_ns()
    loop.add_turn(lambda now: start + 3_600_000_000_000)
    loop.add_turn(lambda now: None)
    loop.add_turn(lambda now: loop.stop() if now >= start + 5_000_000 else start + 5_000_000)
    loop.run()
    assert monotonic_ns() - start >= 5_000_000, "and not after the hour, for which no test has time"


def test_overdue_turns_run_at_once_without_starving_descriptors(loop: Loop) -> None:
    read, write = os.pipe()
    loop.add(read, READABLE, lambda _: loop.stop())
    rounds = 0

    def turn(now: int) -> int:
        nonlocal rounds
        rounds += 1
        if rounds == 100:
            os.write(write, b"x")
        return now

    loop.add_turn(turn)
    loop.run()
    assert 100 <= rounds <= 102
    os.close(read)
    os.close(write)


def test_other_threads_can_wake_a_sleeping_loop(loop: Loop) -> None:
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert loop.call(threading.get_ident, 10) == thread.ident
    assert loop.call(lambda: loop.call(lambda: "from inside"), 10) == "from inside"
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0, 10)
    done = threading.Event()
    loop.call_soon(done.set)
    assert done.wait(10)
    loop.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_call_the_loop_does_not_reach_times_out_and_is_dropped(loop: Loop) -> None:
    ran: list[int] = []
    with pytest.raises(TimeoutError):
        loop.call(lambda: ran.append(1), 0.01)
    loop.call_soon(loop.stop)
    loop.run()
    assert ran == []


def test_a_signal_handler_can_stop_a_sleeping_loop(loop: Loop) -> None:
    previous = signal.signal(signal.SIGUSR1, lambda *_: loop.stop())
    try:
        killer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        killer.start()
        loop.run()
        killer.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_a_kernel_that_cannot_wait_so_precisely_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def wait(_epoll: int, wait_ns: int) -> list[tuple[int, int]]:
        asked.append(wait_ns)
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setitem(sys.modules, "mrc_host.driver.event_wait", SimpleNamespace(wait=wait))
    loop = Loop()
    start = monotonic_ns()
    loop.add_turn(lambda now: loop.stop() if now >= start + 3_000_000 else start + 3_000_000)
    loop.run()
    loop.close()
    assert asked == [0], "once, when the loop was made"


def test_after_an_exception_the_loop_can_run_again(loop: Loop) -> None:
    def broken(_now: int) -> int:
        raise RuntimeError("broken")

    loop.add_turn(broken)
    with pytest.raises(RuntimeError):
        loop.run()
    loop.remove_turn(broken)
    loop.remove_turn(broken)
    loop.call_soon(loop.stop)
    loop.run()
