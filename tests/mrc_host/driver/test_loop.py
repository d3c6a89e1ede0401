"""The event loop: descriptors, turns, precise sleep, entering from other threads."""

from __future__ import annotations

import os
import signal
import statistics
import threading
from collections.abc import Iterator
from time import monotonic_ns, sleep

import pytest

from mrc_host.driver.loop import READABLE, Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
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


def test_a_handler_may_remove_another_that_is_ready_too(loop: Loop) -> None:
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


def test_while_a_turn_wants_rest_descriptors_wait(loop: Loop) -> None:
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


def test_rest_ends_when_a_turn_is_due_and_holds_for_one_sleep(loop: Loop) -> None:
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


def test_turns_run_when_they_asked_to(loop: Loop) -> None:
    late: list[int] = []
    wanted = monotonic_ns()

    def turn(now: int) -> int:
        nonlocal wanted
        if now < wanted:  # allowed at any time, for instance after input
            return wanted
        late.append(now - wanted)
        if len(late) == 200:
            loop.stop()
        # from well below the loop's two ways of sleeping to well above both
        wanted = now + (50_000, 400_000, 1_300_000, 2_600_000)[len(late) % 4]
        return wanted

    loop.add_turn(turn)
    loop.run()
    assert statistics.median(late) < 500_000, "a busy machine may be late sometimes, not usually"


def test_the_earliest_of_all_turns_counts(loop: Loop) -> None:
    start = monotonic_ns()
    loop.add_turn(lambda now: start + 3_600_000_000_000)
    loop.add_turn(lambda now: None)
    loop.add_turn(lambda now: loop.stop() if now >= start + 5_000_000 else start + 5_000_000)
    loop.run()
    assert monotonic_ns() - start >= 5_000_000, "and not after the hour, for which no test has time"


def test_a_turn_in_the_past_runs_at_once_without_starving_descriptors(loop: Loop) -> None:
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


def test_other_threads_enter_a_sleeping_loop(loop: Loop) -> None:
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


def test_a_call_that_is_not_reached_times_out_and_is_dropped(loop: Loop) -> None:
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


def test_an_exception_ends_the_run_and_the_loop_can_run_again(loop: Loop) -> None:
    def broken(_now: int) -> int:
        raise RuntimeError("broken")

    loop.add_turn(broken)
    with pytest.raises(RuntimeError):
        loop.run()
    loop.remove_turn(broken)
    loop.remove_turn(broken)
    loop.call_soon(loop.stop)
    loop.run()


def test_an_idle_loop_uses_no_processor(loop: Loop) -> None:
    rounds = 0

    def turn(now: int) -> None:
        nonlocal rounds
        rounds += 1

    loop.add_turn(turn)
    thread = threading.Thread(target=loop.run)
    thread.start()
    sleep(0.1)  # in which nothing may happen
    loop.stop()
    thread.join(10)
    assert rounds <= 3
