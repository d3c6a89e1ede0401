"""Capture files that we write, read back."""

from __future__ import annotations

import io

from scapy.utils import RawPcapNgReader

from mrc_host.captures.pcapng import PcapngWriter


def test_written_captures_are_read_by_scapy() -> None:
    stream = io.BytesIO()
    writer = PcapngWriter(stream, (("eth0", "arrived at a"), ("eth1", "")), "a link")
    packets = [
        (0, 1_700_000_000_123_456_789, bytes(range(60))),
        (1, 1_700_000_000_123_456_790, bytes(61)),
        (0, 1_700_000_001_000_000_000, bytes(4238)),
    ]
    for interface, when, frame in packets:
        writer.packet(interface, when, frame, len(frame))
    stream.seek(0)
    read = list(RawPcapNgReader(stream))
    assert [frame for frame, _ in read] == [frame for _, _, frame in packets]
    for (_, meta), (interface, when, frame) in zip(read, packets, strict=True):
        assert (meta.tshigh << 32 | meta.tslow) == when
        assert meta.tsresol == 10**9
        assert meta.wirelen == len(frame)
        assert meta.ifname == (b"eth0", b"eth1")[interface]
    assert len(stream.getvalue()) % 4 == 0


def test_comments_are_of_their_packets() -> None:
    stream = io.BytesIO()
    writer = PcapngWriter(stream, (("eth0", ""),))
    comments = ["dropped: no route", "", "Größe 5", "x" * 70_000]
    for number, comment in enumerate(comments):
        writer.packet(0, number, bytes(60 + number), 60 + number, comment)
    stream.seek(0)
    read = list(RawPcapNgReader(stream))
    assert [len(frame) for frame, _ in read] == [60, 61, 62, 63]
    assert [(meta.comments or [b""])[0] for _, meta in read] == [comment[:16383].encode() for comment in comments]


def test_truncated_packets_keep_their_original_length() -> None:
    stream = io.BytesIO()
    PcapngWriter(stream, (("eth0", ""),)).packet(0, 1, b"abc", 1500)
    stream.seek(0)
    ((frame, meta),) = RawPcapNgReader(stream)
    assert (frame, meta.wirelen) == (b"abc", 1500)
