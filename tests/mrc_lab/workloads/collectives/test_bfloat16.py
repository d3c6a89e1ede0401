"""Expected words are decided from exact fractions, by a search among all values of the type."""

import bisect
from fractions import Fraction

import numpy as np
import pytest

from mrc_lab.workloads.collectives import Bfloat16, ReduceOp, ring_reduce
from mrc_lab.workloads.collectives.bfloat16 import narrow, widen
from tests.seeds import SEED

INFINITY, NAN = 0x7F80, 0x7FC0
SIGN = 0x8000


def value(word: int) -> Fraction:
    """Of a finite word: sign, 8 bits of exponent with bias 127, 7 of fraction, subnormal when the exponent is 0."""
    exponent, fraction = word >> 7 & 0xFF, word & 0x7F
    size = Fraction(fraction | (0x80 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 127 - 7)
    return -size if word & SIGN else size


POSITIVE = [value(word) for word in range(INFINITY)]


def nearest(exact: Fraction) -> int:
    """The word nearest to `exact`, ties to the even word, infinity from half a step beyond the largest value on."""
    sign, size = (SIGN if exact < 0 else 0), abs(exact)
    below = bisect.bisect_right(POSITIVE, size) - 1
    step = POSITIVE[-1] - POSITIVE[-2] if below == INFINITY - 1 else POSITIVE[below + 1] - POSITIVE[below]
    rest = 2 * (size - POSITIVE[below])
    return sign | (below + 1 if rest > step or (rest == step and below % 2) else below)


def draw(count: int) -> np.ndarray:
    """Finite words of all sizes, many of them close to one another, so that sums round and cancel."""
    seed = SEED
    print("seed", seed)
    pick = np.random.default_rng(seed)
    anywhere = pick.integers(0, INFINITY, (2, count))
    near = anywhere[0] + pick.integers(-2500, 2500, count)
    anywhere[1] = np.where(pick.random(count) < 0.7, np.clip(near, 0, INFINITY - 1), anywhere[1])
    return (anywhere | pick.choice([0, SIGN], (2, count))).astype(np.uint16)


@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (ReduceOp.SUM, lambda a, b: a + b),
        (ReduceOp.PROD, lambda a, b: a * b),
        (ReduceOp.AVG, None),
        (ReduceOp.MIN, min),
        (ReduceOp.MAX, max),
    ],
)
def test_sums_and_products_are_rounded_to_the_nearest_bfloat16(op, exact):
    left, right = draw(3000)
    with np.errstate(all="ignore"):
        words = ring_reduce([left, right], Bfloat16(op))
    for a, b, word in zip(left.tolist(), right.tolist(), words.tolist(), strict=True):
        if op is ReduceOp.AVG:
            total = nearest(value(a) + value(b))
            expected = total if total & ~SIGN == INFINITY else nearest(value(total) / 2)
        else:
            expected = nearest(exact(value(a), value(b)))
        if expected & ~SIGN == 0:  # zero: its sign is not a question of rounding
            assert word & ~SIGN == 0, (hex(a), hex(b))
        else:
            assert word == expected, (hex(a), hex(b), hex(word), hex(expected))


def test_known_values_are_encoded():
    # 1 + 2**-8 is half-way between 1 and the next value: to the even word; 1.5's word is odd in neither way.
    ones = np.array([0x3F80, 0x3F81, 0x7F7F], np.uint16)
    halves = np.array([0x3B80, 0x3B80, 0x7F7F], np.uint16)
    with np.errstate(over="ignore"):
        assert ring_reduce([ones, halves], Bfloat16(ReduceOp.SUM)).tolist() == [0x3F80, 0x3F82, INFINITY]


def test_nan_and_infinity_are_preserved():
    odd = np.array([NAN, 0x7F81, 0xFFFF, INFINITY, INFINITY], np.uint16)  # 0x7F81 signals
    one = np.array([0x3F80, 0x3F80, 0x3F80, 0x3F80, INFINITY | SIGN], np.uint16)
    for op in (ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MIN, ReduceOp.MAX):
        with np.errstate(invalid="ignore"):
            words = ring_reduce([odd, one], Bfloat16(op))
        assert np.isnan(widen(words[:3])).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(widen(ring_reduce([odd, one], Bfloat16(ReduceOp.SUM))[4:])).all()
        assert ring_reduce([odd, one], Bfloat16(ReduceOp.SUM))[3] == INFINITY


def test_every_bfloat16_survives_conversion_to_float32_and_back():
    words = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    back = narrow(widen(words))
    quiet = (words & 0x7FFF <= INFINITY) | (words & 0x0040 != 0)
    assert (back[quiet] == words[quiet]).all()
    assert (back[~quiet] == words[~quiet] | 0x0040).all()


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="arrays of uint16, not of float32"):
        Bfloat16(ReduceOp.SUM).check(np.dtype(np.float32))
