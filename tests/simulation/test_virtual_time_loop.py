import asyncio
import random
import threading

import pytest

from simulation.core.native import Clock
from simulation.errors import SimulationError, StalledError
from simulation.virtual_time_loop import VirtualTimeLoop
from tests.simulation.worlds import small_world


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def loop(clock):
    made = VirtualTimeLoop(clock)
    yield made
    made.close()


def test_sleeping_takes_virtual_time_only(loop):
    async def nap():
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run_task(loop.create_task(nap())) == 3600


def test_timers_are_exact_to_the_nanosecond(loop, clock):
    woken = []

    async def sleeper(ns):
        await asyncio.sleep(ns * 1e-9)
        woken.append((ns, clock.now))

    async def all_of_them():
        await asyncio.gather(*(sleeper(ns) for ns in (7, 1, 1_000_003, 3, 999)))

    loop.run_task(loop.create_task(all_of_them()))
    assert woken == [(ns, ns) for ns in (1, 3, 7, 999, 1_000_003)]


@pytest.mark.parametrize("longest", [10**6, 10**12, 10**16, 10**18])
def test_time_passes_to_the_nanosecond_that_is_asked_for(loop, clock, longest):
    chance = random.Random(longest)
    for _ in range(100):
        until = clock.now + chance.randrange(2, longest // 100)
        future = loop.create_future()
        clock.at(until - 1, lambda *_, future=future: future.set_result(None))  # a coroutine is ready just before
        happened = []
        clock.at(until, lambda *_, until=until, happened=happened: happened.append(until))
        task = loop.create_task(asyncio.wait_for(future, None))
        loop.run_to_time(until)
        assert (clock.now, happened, task.done()) == (until, [until], True)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("seconds", [1e7, 2e7 + 0.1, 1e9])
def test_long_sleeps_end(loop, clock, seconds, debug):
    loop.set_debug(debug)
    loop.run_task(loop.create_task(asyncio.sleep(seconds)))
    assert abs(clock.now - seconds * 1e9) < 1000


@pytest.mark.parametrize("seconds", [1e10, 1e300, float("inf")])
def test_who_sleeps_beyond_the_end_of_time_is_never_woken(loop, seconds):
    with pytest.raises(StalledError):
        loop.run_task(loop.create_task(asyncio.sleep(seconds)))

    async def in_time():
        return await asyncio.wait_for(asyncio.sleep(1, "here"), seconds)

    assert loop.run_task(loop.create_task(in_time())) == "here"


def test_no_clock_shows_a_time_beyond_its_end(loop, clock):
    with pytest.raises(SimulationError, match="ends after 146 years"):
        loop.run_to_time(1 << 62)
    loop.run_to_time((1 << 62) - 1)
    assert clock.now == (1 << 62) - 1


def test_cancelled_timers_are_forgotten(loop):
    kept = [loop.call_at(when, print) for when in range(1000, 2000)]
    for handle in kept[:-10]:
        handle.cancel()
    loop.run_to_time(1)
    assert sorted(loop._scheduled) == kept[-10:]
    assert loop._timer_cancelled_count == 0


def test_coroutines_resume_in_the_order_they_became_ready(loop):
    order = []

    async def worker(name):
        for _ in range(3):
            order.append(name)
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(worker("a"), worker("b"), worker("c"))

    loop.run_task(loop.create_task(main()))
    assert order == list("abc" * 3)


def test_a_simulation_event_wakes_a_coroutine_at_its_time(loop, clock):
    async def main():
        future = loop.create_future()
        clock.at(1234, lambda *_: future.set_result(None))
        clock.at(1235, lambda *_: None)
        await future
        return clock.now

    assert loop.run_task(loop.create_task(main())) == 1234


class AsyncioTurns(VirtualTimeLoop):
    """With asyncio's own turns, in which more is looked after."""

    _run_once = asyncio.BaseEventLoop._run_once

    def __init__(self, clock):
        super().__init__(clock)
        self._clock_resolution = 0.4e-9  # its own is not to be trusted here: with 1e-9 timers fire 1 ns early at times

    def call_soon(self, callback, *args, context=None):
        self._clock.stop()
        return asyncio.BaseEventLoop.call_soon(self, callback, *args, context=context)


def random_run(kind, seed):
    """What happened when in a loop: callbacks that order others, soon, later or by events, and cancel some."""
    chance, clock = random.Random(seed), Clock()
    loop = kind(clock)
    happened, handles = [], []
    loop.set_exception_handler(lambda _loop, context: happened.append(context["message"]))

    def act(number):
        happened.append((number, clock.now))
        for _ in range(chance.choice((0, 1, 1, 2)) if len(happened) < 300 else 0):
            order(len(happened) * 10 + chance.randrange(10))

    def order(number):
        match chance.randrange(5):
            case 0 | 1:
                handles.append(loop.call_soon(act, number))
            case 2:
                handles.append(loop.call_at(loop.time() + chance.choice((-1, 0, 1, 1, 2, 7, 30)) * 1e-9, act, number))
            case 3:
                clock.at(clock.now + chance.choice((0, 1, 2, 7)), lambda *_: loop.call_soon(act, number))
            case 4 if handles:
                chance.choice(handles).cancel()

    for number in range(8):
        order(number)
    loop.run_to_rest()
    loop.close()
    return happened, clock.now


@pytest.mark.parametrize("seed", range(150))
def test_turns_do_what_those_of_asyncio_do(seed):
    assert random_run(VirtualTimeLoop, seed) == random_run(AsyncioTurns, seed)


def test_debug_mode_checks_callbacks_as_asyncio_does(clock):
    async def coroutine():
        pass

    loop = VirtualTimeLoop(clock)
    loop.set_debug(True)
    refused = []

    def from_a_thread():
        with pytest.raises(RuntimeError, match="Non-thread-safe operation"):
            loop.call_soon(print)
        refused.append(True)

    def inside():
        with pytest.raises(TypeError, match="coroutines cannot be used"):
            loop.call_soon(coroutine)
        thread = threading.Thread(target=from_a_thread)
        thread.start()
        thread.join()
        loop.call_soon(loop.stop)

    loop.call_soon(inside)
    loop.run_forever()
    assert refused
    loop.close()


def test_a_closed_loop_takes_no_callback(clock):
    loop = VirtualTimeLoop(clock)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_timeouts_work(loop, clock):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.5)
        return clock.now

    assert loop.run_task(loop.create_task(main())) == 500_000_000


def test_waiting_for_something_that_never_happens_is_reported(loop):
    async def main():
        await loop.create_future()

    with pytest.raises(StalledError, match="No event is left"):
        loop.run_task(loop.create_task(main()))


def test_executor_work_runs_in_place(loop, clock):
    async def main():
        assert await asyncio.to_thread(sum, (1, 2, 3)) == 6
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return clock.now

    assert loop.run_task(loop.create_task(main())) == 0


def test_exceptions_reach_the_caller():
    async def fail():
        await asyncio.sleep(1e-6)
        raise LookupError("gone")

    with small_world() as world:
        with pytest.raises(LookupError, match="gone"):
            world.run(fail())
        assert world.now == 1000


def test_spawned_coroutines_continue_across_runs():
    ticks = []

    async def tick(world):
        while True:
            await asyncio.sleep(1e-6)
            ticks.append(world.now)

    with small_world() as world:
        task = world.spawn(tick(world))
        world.run(2500)
        assert (ticks, world.now) == ([1000, 2000], 2500)
        world.run(asyncio.sleep(1e-6))
        assert ticks == [1000, 2000, 3000]
        assert not task.done()
    assert task.cancelled()
