"""Descriptors of rings: how they are named, and which ones are accepted."""

import os

import pytest

from mrc_common.frame_rings import FrameRingError, FrameRings, RingEnd


def test_ends_see_each_others_memory_and_bells() -> None:
    with FrameRings(4096) as rings:
        near, far = rings.ends
        os.write(near.other_bell, b"n")
        os.write(far.other_bell, b"f")
        assert (os.read(near.bell, 9), os.read(far.bell, 9)) == (b"f", b"n")
        assert {near.receiving, far.receiving} == {0, 1}
        ours, theirs = near.map(), far.map()
        assert len(ours) == 2 * (4096 + 4096)
        ours[5000:5003] = b"abc"
        assert theirs[5000:5003] == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(near.memory)


def test_no_end_can_make_the_other_wait() -> None:
    with FrameRings(4096) as rings:
        near, far = rings.ends
        for descriptor in far.descriptors:
            os.set_blocking(descriptor, True)
        assert not os.get_blocking(near.bell)
        assert not os.get_blocking(near.other_bell)


def test_memory_cannot_shrink_under_the_other_end() -> None:
    with FrameRings(4096) as rings, pytest.raises(PermissionError):
        os.ftruncate(rings.ends[0].memory, 0)


def test_other_files_are_refused(tmp_path) -> None:
    unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        for descriptor in (unsealed, plain, 1 << 20):
            with pytest.raises(FrameRingError, match="is no memory of rings"):
                RingEnd(descriptor, 0, 0, 0).map()
    finally:
        os.close(unsealed)
        os.close(plain)


def test_text_names_an_end() -> None:
    end = RingEnd(5, 6, 7, 1)
    assert RingEnd.parse(str(end)) == end


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,2,3,2", "1,2,3,-1", "a,b,c,0", "1,2,3,0,0", "\u0661,2,3,0", f"{1 << 40},1,1,0"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FrameRingError):
        RingEnd.parse(text)
