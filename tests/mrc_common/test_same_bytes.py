"""Buffers are compared whole, wherever they differ."""

from array import array

import pytest

from mrc_common.same_bytes import same_bytes

SIZES = (0, 1, 65535, 65536, 65537, 200_000)


@pytest.mark.parametrize("size", SIZES)
def test_copies_are_the_same_and_a_single_other_byte_is_found(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    one, other = memoryview(data)[:size], bytearray(data[:size])
    assert same_bytes(one, memoryview(other))
    for at in {0, size // 2, size - 1, 65535, 65536}:
        if 0 <= at < size:
            other[at] ^= 1
            assert not same_bytes(one, memoryview(other))
            other[at] ^= 1


def test_lengths_and_items_of_any_size_count_as_bytes() -> None:
    assert not same_bytes(memoryview(bytes(5)), memoryview(bytes(6)))
    assert same_bytes(memoryview(array("I", [1, 2])), memoryview(array("I", [1, 2]).tobytes()))
