"""24-bit sequence numbers as growing integers."""

from hypothesis import given
from hypothesis import strategies as st

from mrc_host.wire import psn


@given(st.integers(0, 1 << 40), st.integers(-psn.HALF, psn.HALF - 1))
def test_expand_finds_the_nearest_psn(near: int, distance: int) -> None:
    value = near + distance
    assert psn.expand(value & psn.MASK, near) == value


def test_psns_wrap_at_24_bits() -> None:
    assert psn.expand(0, psn.MASK) == 1 << 24
    assert psn.expand(psn.MASK, 1 << 24) == psn.MASK
