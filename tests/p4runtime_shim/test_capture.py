"""Captures: what goes through the switch stands in the files, and a disk or memory that is full costs no packet."""

from __future__ import annotations

import logging
import os
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import PcapReader

from mrc_common.p4_match import Exact
from p4runtime_shim.capture import Capture, CaptureError
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.seeds import SEED
from tests.waiting import until

P = "MyIngress."


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    """Sends every frame to port 2."""
    with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=0) as made:
        made.control_plane.table(P + "classes").insert(Entry((Exact(0),), ActionCall(P + "send", (2, 0))))
        yield made


def frame(number: int, size: int) -> bytes:
    return bytes([7, 0]) + number.to_bytes(4, "big") + bytes(size - 6)


def read(path: Path) -> list[tuple[bytes, int]]:
    """(frame, time in ns) of each record."""
    with PcapReader(str(path)) as reader:
        return [(bytes(packet), round(packet.time * 10**9)) for packet in reader]


def test_every_frame_is_captured_with_its_timestamp(switch: EmbeddedSwitch, tmp_path: Path) -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    into: dict[int, list[tuple[bytes, int]]] = {0: [], 1: []}
    out = []
    capture = Capture(switch, tmp_path / "new", {0: "eth0", 1: "eth1", 2: "eth2"}, wall=1_700_000_000_000_000_000)
    for number in range(3000):
        port, now = rng.randrange(2), 1000 * number
        sent = frame(number, rng.choice((60, 64, 1500, 9000)))
        switch.receive(port, sent, now)
        into[port].append((sent, 1_700_000_000_000_000_000 + now))
        left = switch.transmit(2, now + 7)
        assert left is not None
        out.append((left, 1_700_000_000_000_000_000 + now + 7))
        if number % 200 == 0:
            while (
                capture.stats().frames < 2 * number
            ):  # the writer's thread has its turn: 3000 frames are more than fit
                pass
    stats = capture.close()
    assert (stats.frames, stats.lost, stats.problem) == (6000, 0, "")
    assert capture.close() == stats
    for port, expected in into.items():
        assert read(tmp_path / "new" / f"eth{port}_in.pcap") == expected
    assert read(tmp_path / "new" / "eth2_out.pcap") == out
    assert read(tmp_path / "new" / "eth0_out.pcap") == []
    switch.receive(0, frame(0, 60), 0)  # no capture any more


def test_a_process_with_more_than_a_thousand_descriptors_captures(switch: EmbeddedSwitch, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    held: list[int] = []
    try:
        while not held or held[-1] < 1100:
            held.append(os.dup(0))
        capture = Capture(switch, tmp_path, {1: "eth1"})
        for number in range(100):
            switch.receive(1, frame(number, 60), number)
        # The writer's thread does it: close() would write them even without it.
        until(lambda: capture.stats().frames == 100, "the frames to be written")
        capture.close()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_memory_is_bounded_and_dropped_frames_are_counted(switch: EmbeddedSwitch, tmp_path: Path) -> None:
    capture = Capture(switch, tmp_path, {1: "eth1", 2: "eth2"}, buffer_bytes=4000)
    big = frame(1, 5000)
    for _ in range(3):
        switch.receive(1, big, 0)
        switch.transmit(2, 0)
    switch.receive(1, frame(2, 60), 0)
    stats = capture.close()
    assert (stats.frames, stats.lost) == (1, 6)
    assert [data for data, _ in read(tmp_path / "eth1_in.pcap")] == [frame(2, 60)]


def test_a_full_disk_is_reported_and_the_file_stays_readable(
    switch: EmbeddedSwitch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The capture's own thread may write no more than 10,000 bytes to a file, until the limit is lifted."""
    capture = Capture(switch, tmp_path, {1: "eth1"})
    with caplog.at_level(logging.WARNING), limited_files(10_000):
        for number in range(20):
            switch.receive(1, frame(number, 1000), 0)
            assert switch.transmit(2, 0) is not None  # packets pass all the while
        until(lambda: capture.stats().lost > 0)
        until(lambda: "cannot write captures" in caplog.text)
        assert capture.stats().problem == "File too large"
    kept = capture.stats().frames
    assert kept + capture.stats().lost == 20
    switch.receive(1, frame(99, 1000), 0)
    stats = capture.close()
    assert stats.problem == ""
    found = [int.from_bytes(data[2:6], "big") for data, _ in read(tmp_path / "eth1_in.pcap")]
    assert found == [*range(kept), 99]


class limited_files:  # noqa: N801 - reads as a verb
    """RLIMIT_FSIZE with its signal ignored: writing fails with EFBIG as it would with ENOSPC on a full disk."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.limits[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)
        signal.signal(signal.SIGXFSZ, self.handler)


def test_a_second_capture_and_an_unwritable_folder_are_refused(switch: EmbeddedSwitch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cannot capture to .*: Not a directory"):
        Capture(switch, tmp_path / "file" / "x", {1: "eth1"})
    capture = Capture(switch, tmp_path, {1: "eth1"})
    with pytest.raises(CaptureError, match="has a capture already"):
        Capture(switch, tmp_path, {1: "eth1"})
    capture.close()
    Capture(switch, tmp_path, {1: "eth1"}).close()


def test_ports_not_captured_take_no_memory(switch: EmbeddedSwitch, tmp_path: Path) -> None:
    capture = Capture(switch, tmp_path, {3: "eth3"}, buffer_bytes=256)
    for number in range(50):
        switch.receive(1, frame(number, 200), 0)
        switch.transmit(2, 0)
    assert capture.close().lost == 0
