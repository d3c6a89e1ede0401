"""Cutting packets from several pieces of memory."""

from hypothesis import given
from hypothesis import strategies as st

from mrc_host.transport.gather_list import GatherList


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=8).filter(any), st.data())
def test_slices_equal_those_of_the_joined_pieces(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    offset = data.draw(st.integers(0, len(whole) - 1))
    size = data.draw(st.integers(1, len(whole) - offset))
    assert GatherList([memoryview(piece) for piece in pieces]).cut(offset, size) == whole[offset : offset + size]


def test_a_slice_within_one_piece_is_not_copied() -> None:
    one, other = bytearray(b"abcdef"), bytearray(b"ghijkl")
    gathered = GatherList([memoryview(one), memoryview(other)])
    inside, across = gathered.cut(6, 6), gathered.cut(5, 2)
    other[0] = ord("X")
    assert (bytes(inside), bytes(across)) == (b"Xhijkl", b"fg")
