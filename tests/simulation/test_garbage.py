"""While worlds run Python looks for garbage seldom; afterwards as often as before."""

import gc

import pytest

from simulation.garbage import seldom_collected


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
