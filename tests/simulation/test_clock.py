import random
import threading

import pytest

from simulation.core.native import END_OF_TIME, Clock
from simulation.errors import SimulationError
from tests.models.clock import ModelClock
from tests.seeds import SEED


def test_events_run_in_order_of_time_then_of_scheduling():
    clock, seen = Clock(), []
    for when, name in ((30, "c"), (10, "a1"), (20, "b"), (10, "a2"), (10, "a3")):
        clock.at(when, lambda name, _: seen.append((clock.now, name)), name)
    assert not clock.run()
    assert seen == [(10, "a1"), (10, "a2"), (10, "a3"), (20, "b"), (30, "c")]
    assert clock.events == 5


def test_events_scheduled_for_now_run_after_those_already_scheduled():
    clock, seen = Clock(), []
    clock.at(5, lambda *_: clock.at(5, lambda *_: seen.append("late")))
    clock.at(5, lambda *_: seen.append("early"))
    clock.run()
    assert seen == ["early", "late"]


def test_runs_up_to_and_including_a_time():
    clock, seen = Clock(), []
    for when in (10, 20, 21):
        clock.at(when, lambda when, _: seen.append(when), when)
    assert not clock.run(20)
    assert (seen, clock.now) == ([10, 20], 20)
    clock.run(1000)
    assert (seen, clock.now) == ([10, 20, 21], 1000)


def test_stops_after_the_event_that_requests_it():
    clock, seen = Clock(), []
    clock.at(1, lambda *_: (seen.append(1), clock.stop()))
    clock.at(1, lambda *_: seen.append(2))
    assert clock.run()
    assert seen == [1]
    assert not clock.run()
    assert seen == [1, 2]


@pytest.mark.parametrize("when", [99, 0, -1, -(1 << 80)])
def test_scheduling_in_the_past_is_refused(when):
    clock = Clock()
    clock.run(100)
    with pytest.raises(SimulationError, match=f"100 ns already; nothing can be scheduled for {when} ns"):
        clock.at(when, lambda *_: None)
    assert clock.queued() == []


@pytest.mark.parametrize("when", [END_OF_TIME, 1 << 80])
def test_time_has_an_end(when):
    clock = Clock()
    clock.at(END_OF_TIME - 1, lambda *_: None)
    with pytest.raises(SimulationError, match="146 years"):
        clock.at(when, lambda *_: None)
    clock.run()
    assert clock.now == END_OF_TIME - 1


def test_nested_runs_are_refused():
    clock = Clock()
    clock.at(100, lambda *_: clock.run())
    with pytest.raises(SimulationError, match="running already"):
        clock.run()
    assert not clock.running
    assert clock.now == 100


def test_what_is_queued_is_listed_in_its_order():
    clock, first, second = Clock(), lambda *_: None, lambda *_: None
    clock.at(1 << 50, first)
    clock.at(7, second)
    clock.at(7, first)
    assert clock.queued() == [(7, 1, second), (7, 2, first), (1 << 50, 0, first)]


def test_an_exception_of_a_handler_ends_the_run_and_the_next_goes_on():
    clock, seen = Clock(), []
    clock.at(1, lambda *_: 1 // 0)
    clock.at(2, lambda *_: seen.append(clock.now))
    with pytest.raises(ZeroDivisionError):
        clock.run()
    assert not clock.running
    clock.run()
    assert seen == [2]


def test_clocks_of_several_threads_do_not_meet():
    results = {}

    def use(name):
        clock, chance, seen = Clock(), random.Random(7), []
        for _ in range(2_000):
            clock.at(chance.randrange(10_000), lambda *_: seen.append(clock.now))
        clock.run()
        results[name] = seen

    threads = [threading.Thread(target=use, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == sorted(results[0])


@pytest.mark.parametrize(("queued", "foreseen"), [(900, 0), (1100, 190)])
@pytest.mark.parametrize("near", [1, 3, 20])
def test_a_clock_prefetches_where_many_events_are_queued(queued, foreseen, near):
    """A few events in the wheel, which schedule others, and many far away."""
    clock, left = Clock(), [200]

    def again(_a, _b):
        if left[0]:
            left[0] -= 1
            clock.at(clock.now + near, again)

    for number in range(queued):
        clock.at(1_000_000 + number, lambda _a, _b: None)
    for number in range(near):
        clock.at(number, again)
    clock.run(until=900_000)
    assert clock.events == 200 + near
    assert foreseen * (near > 1) <= clock.foreseen <= foreseen * 2


def log(clock, seed):
    """Handlers schedule more events, near and far, and the clock runs in steps, some of which reach none."""
    chance, seen, left = random.Random(seed), [], [1_500]

    def handle(number):
        seen.append((clock.now, number))
        for _ in range(chance.randrange(3)):
            if left[0]:
                left[0] -= 1
                delay = chance.choice((0, 1, 63, 64, 4_095, 4_096, 4_097, chance.randrange(10_000), 1 << 40))
                schedule(clock.now + delay, left[0])

    def schedule(when, number):
        if isinstance(clock, ModelClock):
            clock.at(when, lambda: handle(number))
        else:
            clock.at(when, lambda number, _: handle(number), number)

    while left[0]:
        left[0] -= 1
        schedule(clock.now + chance.randrange(5_000), left[0])
        clock.run(clock.now + chance.choice((0, 1, 100, 5_000, 1 << 41)))
    clock.run()
    return seen, clock.now, clock.events


@pytest.mark.parametrize("number", range(8))
def test_near_and_far_events_run_in_the_order_of_the_model(number):
    found = log(Clock(), SEED + number)
    assert found == log(ModelClock(), SEED + number), f"seed {SEED + number}"
    assert len(found[0]) > 500
