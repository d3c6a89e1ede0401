"""While worlds run Python looks for garbage seldom; afterwards as often as before."""

import gc

import pytest

from simulation.garbage import seldom_collected
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_it_is_as_before_afterwards_also_after_an_error():
    def fail():
        with seldom_collected():
            assert gc.get_threshold()[0] >= 100_000
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.get_threshold() == (700, 10, 10)


def test_worlds_that_overlap_end_in_any_order():
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] >= 100_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("given", [0, 1_000_000])
def test_who_wants_less_of_it_gets_less(given):
    gc.set_threshold(given, 10, 10)
    with seldom_collected():
        assert gc.get_threshold() == (given, 10, 10)
    assert gc.get_threshold() == (given, 10, 10)


def test_worlds_are_built_and_run_with_little_of_it(monkeypatch):
    """A small world needs too few objects to show it, so what is asked is the setting while one is made and runs."""
    seen = []
    made = SimulatedWorld._make_nics

    def make(world):
        seen.append(gc.get_threshold()[0])
        made(world)

    monkeypatch.setattr(SimulatedWorld, "_make_nics", make)
    with SimulatedWorld(multi_plane_clos(planes=1, t0=1, t1=0, hosts=2), seed=1) as world:
        world.clock.at(5, lambda *_: seen.append(gc.get_threshold()[0]))
        world.run(10)
    assert [count >= 100_000 for count in seen] == [True, True]
    assert gc.get_threshold() == (700, 10, 10)
