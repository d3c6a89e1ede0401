import pytest

from simulation.clock import Clock
from simulation.errors import SimulationError


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


def test_scheduling_in_the_past_and_nested_runs_are_refused():
    clock = Clock()
    clock.run(100)
    with pytest.raises(SimulationError, match="100 ns already"):
        clock.at(99, lambda *_: None)
    clock.at(100, lambda *_: clock.run())
    with pytest.raises(SimulationError, match="running already"):
        clock.run()
    assert not clock.running
