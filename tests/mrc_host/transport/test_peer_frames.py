"""What is built once for all frames to a NIC."""

from tests.mrc_host.transport.far_end import FarEnd


def test_cached_header_prefixes_are_bounded() -> None:
    frames = FarEnd(uplinks=64).peer.frames
    for body in range(20, 416):
        for index in range(0, 128, 4):
            frames.prefix(index, 0, body)
    assert len(frames._prefixes) <= 4096  # a cache, which shows nowhere else
