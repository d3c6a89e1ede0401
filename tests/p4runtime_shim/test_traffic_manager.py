"""The traffic manager: strict priority, limits, the line's rate, and the metadata of the queue (state.p4)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from p4runtime_shim.traffic_manager import QueueConfig
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, call, extract, header, send_to

P = "MyIngress."
CLASSIFY = 7


def make(queues: QueueConfig | None = None) -> EmbeddedSwitch:
    """A switch whose packets go to port 2 with the priority that their second byte says."""
    switch = EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=0, queues=queues)
    for priority in range(8):
        send = ActionCall(P + "send", (2, priority))
        switch.control_plane.table(P + "classes").insert(Entry((Exact(priority),), send))
    return switch


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with make() as made:
        yield made


def put(switch: EmbeddedSwitch, priority: int, number: int, now: int = 0, size: int = 64) -> None:
    frame = bytes([CLASSIFY, priority]) + bytes(6)
    switch.receive(0, frame + number.to_bytes(4, "big") + bytes(size - len(frame) - 4), now)


HEADER, REPORT_BITS = 8, 48 + 32 + 19 + 19 + 2


def split(frame: bytes) -> tuple[int, dict[str, int]]:
    """(number of the packet, report)."""
    size = REPORT_BITS // 8
    bits = int.from_bytes(frame[HEADER : HEADER + size], "big")
    report: dict[str, int] = {}
    for name, width in (("padding", 2), ("deq_qdepth", 19), ("enq_qdepth", 19), ("deq_timedelta", 32), ("enq", 48)):
        report[name] = bits & ((1 << width) - 1)
        bits >>= width
    return int.from_bytes(frame[HEADER + size : HEADER + size + 4], "big"), report


def take(switch: EmbeddedSwitch, now: int) -> tuple[int, dict[str, int]] | None:
    frame = switch.transmit(2, now)
    return None if frame is None else split(frame)


def test_strict_priority_between_and_fifo_within_queues(switch: EmbeddedSwitch) -> None:
    rng = random.Random(1)
    expected: dict[int, list[int]] = {priority: [] for priority in range(8)}
    for number in range(200):
        priority = rng.randrange(8)
        put(switch, priority, number)
        expected[priority].append(number)
    got = []
    while (item := take(switch, 0)) is not None:
        got.append(item[0])
    assert got == [number for priority in range(7, -1, -1) for number in expected[priority]]


def test_a_packet_queued_by_a_clock_that_is_ahead_has_waited_for_no_time(switch: EmbeddedSwitch) -> None:
    put(switch, 0, 1, now=3_000_000)
    assert take(switch, 2_500_000) == (
        1,
        {"enq": 3000, "enq_qdepth": 0, "deq_qdepth": 0, "deq_timedelta": 0, "padding": 0},
    )


def test_queue_metadata_reports_depth_and_time(switch: EmbeddedSwitch) -> None:
    put(switch, 0, 1, now=1_000_000)
    put(switch, 0, 2, now=2_500_000)
    put(switch, 5, 3, now=3_000_999)
    first, second, third = take(switch, 4_000_000), take(switch, 5_000_000), take(switch, 6_000_000)
    assert first == (3, {"enq": 3000, "enq_qdepth": 0, "deq_qdepth": 0, "deq_timedelta": 1000, "padding": 0})
    assert second == (1, {"enq": 1000, "enq_qdepth": 0, "deq_qdepth": 1, "deq_timedelta": 4000, "padding": 0})
    assert third == (2, {"enq": 2500, "enq_qdepth": 1, "deq_qdepth": 0, "deq_timedelta": 3500, "padding": 0})


def test_timestamps_count_from_the_epoch(switch: EmbeddedSwitch) -> None:
    switch.set_epoch(10_000_000_000)
    put(switch, 0, 1, now=10_000_005_000)
    item = take(switch, 10_000_009_000)
    assert item is not None
    assert (item[1]["enq"], item[1]["deq_timedelta"]) == (5, 4)


def test_the_packet_limit_drops_the_tail(switch: EmbeddedSwitch) -> None:
    switch.set_queue_limits(2, 0, max_packets=3)
    for number in range(5):
        put(switch, 0, number)
    put(switch, 1, 100)
    stats = switch.stats()
    assert stats.drops["queue_full"] == 2
    assert (stats.ports[2].queue_drops, stats.ports[2].queued_packets) == (2, 4)
    got = []
    while (item := take(switch, 0)) is not None:
        got.append(item[0])
    assert got == [100, 0, 1, 2]


def test_the_byte_limit_drops_the_tail() -> None:
    with make(QueueConfig(max_packets=0, max_bytes=200)) as switch:
        for number in range(4):
            put(switch, 0, number, size=80)
        put(switch, 0, 9, size=40)
        assert switch.stats().ports[2].queued_bytes == 200
        assert switch.stats().drops["queue_full"] == 2
        taken = take(switch, 0)
        assert taken is not None
        put(switch, 0, 10, size=80)
        assert switch.stats().drops["queue_full"] == 2


def test_a_packet_that_loses_more_headers_than_it_had_has_room_in_its_queue() -> None:
    """Its length follows setValid and setInvalid only, as BMv2's does, and is negative after this."""
    builder = Builder()
    builder.header_type("four_t", [("all", 32)])
    for name in ("first", "other"):
        builder.header(name, "four_t")
    builder.state("start", [extract("first")])
    builder.emit("first", "other")
    copied = call("assign_header", header("other"), header("first")), call("remove_header", header("other"))
    builder.run(builder.action("copies", [*copied * 3, send_to(1)]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=(1,), seed=0) as switch:
        switch.set_queue_limits(1, max_bytes=100)
        switch.receive(1, b"12345678", 0)
        assert switch.queue_stats(1)[0].bytes == 0
        assert switch.sample_ports(10)[1].peak_bytes == 0
        assert switch.transmit(1, 10) == b"12345678"


@pytest.mark.parametrize("rate", [1_000_000_000, 999_999_937, 100_000_000_000, 3, 7_777])
def test_the_link_is_busy_exactly_for_the_transmission_time(switch: EmbeddedSwitch, rate: int) -> None:
    """A thousand frames back to back take their bits divided by the rate, rounded once."""
    rng = random.Random(rate)
    switch.set_port_rate(2, rate)
    start = 5_000
    now, bits = start, 0
    for number in range(1000):
        put(switch, 0, number, now=now, size=rng.randint(64, 1500))
        frame = switch.transmit(2, now)
        assert frame is not None
        bits += len(frame) * 8
        put(switch, 0, number, now=now, size=64)  # a backlog, so that there is a wake-up
        wake = switch.wakeup()
        assert wake == start + int(Fraction(bits * 10**9, rate))
        assert switch.transmit(2, wake - 1) is None or wake == now
        now = wake
        frame = switch.transmit(2, now)
        assert frame is not None
        bits += len(frame) * 8
        now = start + int(Fraction(bits * 10**9, rate))


def test_a_late_caller_loses_link_time_unless_it_has_slack(switch: EmbeddedSwitch) -> None:
    for turn, slack, expected in ((1, 0, 2_000 + 640), (2, 1_000, 1_280 + 640), (3, 100, 1_900 + 640)):
        switch.set_port_rate(2, 0)
        while take(switch, 0):
            pass
        switch.set_port_rate(2, 1_000_000_000, slack)
        size = 80 - REPORT_BITS // 8
        base = 10**9 * turn
        for number in range(3):
            put(switch, 0, number, now=base, size=size)
        for now in (base, base + 640, base + 2_000):
            frame = switch.transmit(2, now)
            assert frame is not None
            assert len(frame) * 8 == 640
        put(switch, 0, 9, now=base + 2_000, size=size)
        wake = switch.wakeup()
        assert wake is not None
        assert wake - base == expected


def test_ready_and_wakeup_follow_the_queues(switch: EmbeddedSwitch) -> None:
    assert switch.wakeup() is None
    assert switch.ready() == []
    put(switch, 0, 1)
    put(switch, 0, 2)
    assert switch.ready() == [2]
    assert switch.ready() == []
    assert switch.wakeup() is None  # no rate: the driver's own line paces
    switch.set_port_rate(2, 8_000)
    assert switch.wakeup() is not None
    assert take(switch, 0) is not None
    wake = switch.wakeup()
    assert wake is not None
    assert take(switch, wake - 1) is None
    assert take(switch, wake) is not None
    assert switch.wakeup() is None


def test_event_descriptors_wake_the_driver_and_the_packet_in_reader(switch: EmbeddedSwitch) -> None:
    any_port, port_two = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
    try:
        switch.set_event(any_port)
        switch.set_port_event(2, port_two)
        put(switch, 0, 1)
        put(switch, 0, 2)
        assert os.eventfd_read(any_port) == 1
        assert os.eventfd_read(port_two) == 1
        switch.set_event(-1)
        switch.set_port_event(2, -1)
        while take(switch, 0):
            pass
        switch.ready()
        put(switch, 0, 3)
        for fd in (any_port, port_two):
            with pytest.raises(BlockingIOError):
                os.eventfd_read(fd)
    finally:
        os.close(any_port)
        os.close(port_two)


@pytest.mark.parametrize("rate", [10_000_000_000, 0])
def test_what_waits_behind_a_slow_frame_passes_at_a_new_rate_and_a_driver_is_woken(
    switch: EmbeddedSwitch, rate: int
) -> None:
    switch.set_port_rate(2, 1)
    put(switch, 0, 1)
    put(switch, 0, 2)
    first = switch.transmit(2, 0)
    assert first is not None
    assert switch.wakeup() == len(first) * 8 * 10**9
    switch.ready()
    event = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        switch.set_event(event)
        switch.set_port_rate(2, rate)
        assert os.eventfd_read(event) == 1, "a driver sleeps until the slow frame would have left"
    finally:
        switch.set_event(-1)
        os.close(event)
    assert switch.ready() == [2]
    assert switch.wakeup() == (len(first) * 8 * 10**9 // rate if rate else None)
    switch.set_port_rate(2, 10_000_000_000)
    assert take(switch, len(first) * 8) is not None


def test_a_frame_on_a_line_that_becomes_slower_leaves_as_it_would_have(switch: EmbeddedSwitch) -> None:
    switch.set_port_rate(2, 1_000_000_000)
    put(switch, 0, 1)
    put(switch, 0, 2)
    first = switch.transmit(2, 0)
    assert first is not None
    switch.set_port_rate(2, 1_000)
    assert switch.wakeup() == len(first) * 8


def test_packets_of_a_priority_without_queue_are_dropped() -> None:
    with make(QueueConfig(queues=2)) as switch:
        put(switch, 1, 1)
        put(switch, 2, 2)
        assert switch.stats().drops["bad_priority"] == 1
        assert take(switch, 0) is not None
        assert take(switch, 0) is None


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        EmbeddedSwitch(None, ports=[1, 1], seed=0)
    with pytest.raises(InvalidArgument):
        EmbeddedSwitch(None, ports=[511], seed=0)
    with pytest.raises(InvalidArgument):
        EmbeddedSwitch(None, ports=[1], seed=0, queues=QueueConfig(queues=9))
    with EmbeddedSwitch(None, ports=[1], seed=0) as switch:
        with pytest.raises(NotFound):
            switch.set_port_rate(2, 1)
        with pytest.raises(InvalidArgument):
            switch.set_port_rate(1, -1)
        with pytest.raises(InvalidArgument):
            switch.set_queue_limits(1, 8, max_packets=1)


def test_each_queue_has_its_own_counters(switch: EmbeddedSwitch) -> None:
    switch.set_queue_limits(2, 3, max_packets=2, max_bytes=1000)
    for number in range(4):
        put(switch, 3, number, size=100)
    put(switch, 0, 9, size=70)
    while take(switch, 0):
        pass
    queue = switch.queue_stats(2)[3]
    assert (queue.packets, queue.bytes) == (0, 0)
    assert (queue.peak_packets, queue.peak_bytes, queue.drops) == (2, 200, 2)
    assert (queue.max_packets, queue.max_bytes) == (2, 1000)
    put(switch, 3, 5, size=80)
    assert switch.queue_stats(2, reset_peaks=True)[3].peak_packets == 2
    queue = switch.queue_stats(2)[3]
    assert (queue.packets, queue.peak_packets, queue.peak_bytes, queue.drops) == (1, 1, 80, 2)
    assert [item.peak_bytes for item in switch.queue_stats(2)[:3]] == [0, 0, 0]
    with pytest.raises(NotFound):
        switch.queue_stats(9)


def test_a_sample_has_depth_peak_and_time_integral_of_all_queues(switch: EmbeddedSwitch) -> None:
    assert switch.sample_ports(0)[2] == (0, 0, 0, 0, 0)
    put(switch, 1, 0, now=100, size=200)
    put(switch, 5, 1, now=110, size=100)
    put(switch, 5, 2, now=110, size=100)
    switch.transmit(2, 150)
    sample = switch.sample_ports(200)
    assert sample[2][:3] == (300, 400, 10 * 200 + 40 * 400 + 50 * 300)
    assert sample[1] == (0, 0, 0, 0, 0), "nothing waits at the port where it came in"
    switch.transmit(2, 210)
    switch.transmit(2, 220)
    assert switch.sample_ports(300)[2][:3] == (0, 300, sample[2].byte_ns + 10 * 300 + 10 * 200), "the peak is new"
    assert switch.sample_ports(300)[2][:2] == (0, 0)


def test_packets_dropped_on_link_down_leave_the_queue_depth(switch: EmbeddedSwitch) -> None:
    put(switch, 0, 0, now=100, size=200)
    switch.port_changed(2, False, 150)
    assert switch.sample_ports(200)[2][:3] == (0, 200, 50 * 200)


def test_what_waited_for_a_program_that_is_replaced_is_in_the_samples(switch: EmbeddedSwitch) -> None:
    put(switch, 0, 0, now=100, size=200)
    switch.tick(150)
    switch.set_pipeline(switch.pipeline)
    assert switch.sample_ports(500)[2][:3] == (0, 200, 50 * 200), "until the switch was last told the time"
