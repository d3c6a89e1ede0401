"""Numbers on the command lines of argparse."""

from __future__ import annotations

import argparse

import pytest

from mrc_common.argument_types import seconds, whole_number


def test_numbers_within_bounds_are_accepted() -> None:
    assert [whole_number()("0"), whole_number(1)("1"), whole_number(2)("12")] == [0, 1, 12]
    assert [seconds()("0"), seconds(0.001)("1e-3"), seconds()("1e6")] == [0.0, 0.001, 1e6]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "²", "1" * 5000])
def test_values_other_than_whole_numbers_are_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number"):
        whole_number()(text)


@pytest.mark.parametrize("text", ["", "-1", "x", "nan", "inf", "1000001", "0.0001"])
def test_values_other_than_seconds_are_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of seconds of at least"):
        seconds(0.001)(text)


def test_a_number_below_the_bound_is_rejected() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="it must be at least 2"):
        whole_number(2)("1")
