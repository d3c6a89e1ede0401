"""Means over seeds and their intervals, against tables of the t distribution."""

import math

import pytest

from mrc_lab.reports.confidence_interval import mean_interval, t_quantile


@pytest.mark.parametrize(
    ("freedom", "published"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)]
)
def test_quantiles_match_published_tables(freedom, published):
    assert t_quantile(freedom) == pytest.approx(published, abs=0.0006)


def test_the_confidence_interval_of_ten_values():
    found = mean_interval([float(n) for n in range(1, 11)])
    half = 2.262157 * math.sqrt(55 / 6) / math.sqrt(10)  # the variance of 1 to 10 is 55/6
    assert (found.mean, found.count) == (5.5, 10)
    assert found.low == pytest.approx(5.5 - half, rel=1e-6)
    assert found.high == pytest.approx(5.5 + half, rel=1e-6)


def test_one_value_has_no_interval_and_equal_values_zero_width():
    one = mean_interval([3.0])
    assert (one.mean, one.low, one.high, one.count) == (3.0, None, None, 1)
    same = mean_interval([2.0, 2.0])
    assert (same.low, same.high) == (2.0, 2.0)
