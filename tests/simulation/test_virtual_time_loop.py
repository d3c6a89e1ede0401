import asyncio

import pytest

from simulation.clock import Clock
from simulation.errors import StalledError
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
