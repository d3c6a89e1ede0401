"""Wires that take time, in virtual time: when frames leave and arrive, in what order, and how much a wire holds."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PortDelay, QueueConfig
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.test_traffic_manager import make, put, take
from tests.seeds import SEED

MS = 1_000_000


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with make(QueueConfig(max_packets=0, buffer_packets=20_000)) as made:
        yield made


def sent(switch: EmbeddedSwitch, until: int, now: int = 0) -> list[tuple[int, int]]:
    """(time, number) of frames that leave port 2, with the clock at each wake-up in turn."""
    found = []
    while True:
        switch.tick(now)
        while (frame := take(switch, now)) is not None:
            found.append((now, frame[0]))
        wakeup = switch.wakeup()
        if wakeup is None or wakeup > until:
            return found
        assert wakeup > now, "a wake-up that is past, with nothing to do"
        now = wakeup


def test_what_leaves_comes_later_by_the_delay_at_the_rate_of_the_line(switch: EmbeddedSwitch) -> None:
    switch.set_port_rate(2, 8_000_000)  # a byte a microsecond
    switch.set_port_delay(2, PortDelay(leaving=5 * MS), 0)
    for number in range(4):
        put(switch, 0, number, size=100)
    times = sent(switch, 100 * MS)
    length = (times[1][0] - times[0][0]) // 1000
    assert length >= 100
    assert times == [(5 * MS + number * length * 1000, number) for number in range(4)]


def test_what_arrives_is_received_later_by_the_delay(switch: EmbeddedSwitch) -> None:
    switch.set_port_delay(0, PortDelay(arriving=3 * MS), 0)
    put(switch, 0, 1, now=0)
    put(switch, 0, 2, now=MS)
    assert switch.stats().ports[0].rx_packets == 0
    assert sent(switch, 100 * MS, now=MS) == [(3 * MS, 1), (4 * MS, 2)]
    assert switch.wakeup() is None


def test_random_frames_keep_their_order_and_their_delay() -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    with make(QueueConfig(max_packets=0, buffer_packets=20_000)) as switch:
        arriving, leaving = rng.randrange(10 * MS), rng.randrange(10 * MS)
        switch.set_port_delay(0, PortDelay(arriving=arriving), 0)
        switch.set_port_delay(2, PortDelay(leaving=leaving), 0)
        times = sorted(rng.randrange(20 * MS) for _ in range(300))
        found, now = [], 0
        for number, time in enumerate(times):
            found += sent(switch, time - 1, now)
            now = time
            put(switch, 0, number, now=time)
        found += sent(switch, 1000 * MS, now)
    assert found == [(time + arriving + leaving, number) for number, time in enumerate(times)]


def test_a_shorter_wire_lets_nothing_wait_longer_than_its_new_time(switch: EmbeddedSwitch) -> None:
    switch.set_port_delay(2, PortDelay(leaving=100 * MS), 0)
    put(switch, 0, 1, now=0)
    assert take(switch, 0) is None
    put(switch, 0, 2, now=95 * MS)
    assert take(switch, 95 * MS) is None
    switch.ready()
    switch.set_port_delay(2, PortDelay(leaving=10 * MS), 96 * MS)
    assert switch.ready() == [2], "a driver that sleeps until the old time is to look again"
    assert sent(switch, 1000 * MS, now=96 * MS) == [(100 * MS, 1), (106 * MS, 2)]
    put(switch, 0, 3, now=200 * MS)
    switch.set_port_delay(2, PortDelay(), 201 * MS)
    put(switch, 0, 4, now=201 * MS)
    assert sent(switch, 1000 * MS, now=201 * MS) == [(201 * MS, 3), (201 * MS, 4)]


def test_what_is_on_the_wires_of_a_port_that_goes_down_is_lost_and_counted(switch: EmbeddedSwitch) -> None:
    switch.set_port_delay(2, PortDelay(arriving=MS, leaving=MS), 0)
    put(switch, 0, 1)
    assert take(switch, 0) is None
    switch.receive(2, bytes(64), 0)
    switch.port_changed(2, up=False, now=10)
    stats = switch.stats()
    assert stats.drops["port_down"] == stats.ports[2].down_drops == 2
    switch.port_changed(2, up=True, now=20)
    assert sent(switch, 1000 * MS, now=20) == []


def test_a_full_wire_keeps_frames_in_the_queue_and_loses_arrivals(switch: EmbeddedSwitch) -> None:
    switch.set_port_delay(2, PortDelay(leaving=1000 * MS), 0)
    size = 8_000
    for number in range(10_000):
        put(switch, 0, number, size=size)
    assert take(switch, 0) is None
    queued = switch.stats().ports[2].queued_packets
    assert 10_000 * size - (64 << 20) <= queued * size <= 11_000 * size - (64 << 20)
    switch.set_port_delay(0, PortDelay(arriving=MS), 0)
    put(switch, 0, 0, size=9_000)
    put(switch, 0, 0, size=9_000)
    assert switch.stats().drops["no_buffer"] > 0
    numbers = [number for _, number in sent(switch, 10_000 * MS)]
    assert numbers[:10_000] == list(range(10_000))


def test_frames_that_arrive_together_may_pass_the_program_as_often_as_one_alone() -> None:
    resubmitted, count = bytes([4, 2]).ljust(64, b"\0"), 3000  # copies.p4: once, then to port 2
    queues = QueueConfig(max_packets=0, buffer_packets=2 * count)
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(4), seed=0, queues=queues) as switch:
        switch.set_port_delay(0, PortDelay(arriving=MS), 0)
        for _ in range(count):
            switch.receive(0, resubmitted, 0)
        switch.tick(MS)
        first = switch.stats().ports[2].queued_packets
        assert 0 < first < count, "a call of the engine ends before they have all passed twice"
        assert switch.wakeup() == MS
        while switch.wakeup() == MS:
            switch.tick(MS)
        stats = switch.stats()
        assert stats.ports[2].queued_packets == count
        assert stats.drops["loop_limit"] == 0


def test_delays_out_of_range_are_refused(switch: EmbeddedSwitch) -> None:
    with pytest.raises(NotFound):
        switch.set_port_delay(9, PortDelay(), 0)
    for wrong in (PortDelay(arriving=-1), PortDelay(leaving=60_000_000_001)):
        with pytest.raises(InvalidArgument, match="0 to 60 s"):
            switch.set_port_delay(2, wrong, 0)
    assert switch.port_delay(2) == PortDelay()
