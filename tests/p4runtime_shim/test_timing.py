"""How late a frame leaves, by the ideal line beside a port's own (engine/wire/ports.c), with state.p4."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mrc_common.p4_match import Exact
from mrc_host.wire import pause as pause_frame
from p4runtime_shim.ctypes_bindings import load_engine
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PauseConfig, PortDelay, QueueConfig
from tests.p4runtime_shim import programs
from tests.seeds import SEED

P = "MyIngress."
RATE, SLACK = 8_000_000_000, 5_000  # a byte a nanosecond
SIZE = 1000


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    """Packets go to port 2 with the priority that their second byte says, and grow to SIZE by the program's report."""
    with EmbeddedSwitch(
        programs.pipeline("state"), ports=range(4), seed=0, queues=QueueConfig(max_packets=1000)
    ) as made:
        for priority in range(8):
            made.control_plane.table(P + "classes").insert(
                Entry((Exact(priority),), ActionCall(P + "send", (2, priority)))
            )
        made.set_port_rate(2, RATE, SLACK)
        time_it(made)
        yield made


def time_it(switch: EmbeddedSwitch, on: bool = True) -> None:
    load_engine().hot.sw_set_timing(switch.handle, int(on))


def put(switch: EmbeddedSwitch, now: int, priority: int = 0) -> None:
    switch.receive(0, bytes([7, priority]).ljust(SIZE - 15, b"\0"), now)


def late(switch: EmbeddedSwitch, now: int) -> int | None:
    """How late the frame leaves that is taken now; None if there is none."""
    frame = switch.transmit(2, now)
    if frame is None:
        return None
    assert len(frame) == SIZE
    due: int = load_engine().hot.sw_transmit_due(switch.handle, 2)
    return now - due


def idled(switch: EmbeddedSwitch) -> int:
    found: int = load_engine().hot.sw_port_idle_ns(switch.handle, 2)
    return found


def test_waiting_for_the_link_is_not_delay(switch: EmbeddedSwitch) -> None:
    for _ in range(3):
        put(switch, 100_000)
    assert [late(switch, 100_000 + SIZE * i) for i in range(3)] == [0, 0, 0]


def test_waiting_while_the_link_is_free_is_delay(switch: EmbeddedSwitch) -> None:
    put(switch, 100_000)
    assert late(switch, 100_700) == 700
    assert idled(switch) == 0  # slack
    put(switch, 100_800)
    assert late(switch, 101_900) == 900  # the ideal line was free at 101,000


def test_slack_recovers_rate_but_not_delay(switch: EmbeddedSwitch) -> None:
    for _ in range(4):
        put(switch, 100_000)
    assert late(switch, 100_000) == 0
    assert [late(switch, 104_000) for _ in range(3)] == [3_000, 2_000, 1_000]
    assert idled(switch) == 0


def test_link_time_lost_beyond_the_slack_delays_all_queued_frames(switch: EmbeddedSwitch) -> None:
    for _ in range(4):
        put(switch, 100_000)
    assert late(switch, 100_000) == 0
    assert late(switch, 200_000) == 99_000
    assert [late(switch, 200_000) for _ in range(2)] == [98_000, 97_000]
    assert idled(switch) == 99_000 - SLACK
    put(switch, 300_000)
    assert late(switch, 300_000) == 0  # it has come when nothing waited any more
    assert idled(switch) == 99_000 - SLACK


def test_an_idle_link_accumulates_no_credit(switch: EmbeddedSwitch) -> None:
    put(switch, 100_000)
    assert late(switch, 100_000) == 0
    put(switch, 103_000)
    put(switch, 103_000)
    assert late(switch, 103_000) == 0
    assert late(switch, 103_000) is None
    assert late(switch, 104_000) == 0


def test_without_a_rate_all_waiting_is_delay(switch: EmbeddedSwitch) -> None:
    switch.set_port_rate(2, 0)
    put(switch, 100_000)
    put(switch, 100_000)
    assert [late(switch, 100_000), late(switch, 100_300)] == [0, 300]


def test_waiting_for_a_pause_is_not_delay(switch: EmbeddedSwitch) -> None:
    quantum = 64  # ns: 512 bits
    switch.set_pause(2, PauseConfig(RATE, xoff=4000, xon=2000, headroom=3000, priorities=frozenset((3,)), quanta=1000))
    put(switch, 100_000, priority=3)
    switch.receive(2, pause_frame.build(bytes(6), {3: 1000}), 100_000)
    assert late(switch, 110_000) is None
    assert late(switch, 100_000 + 1000 * quantum + 50) == 50
    put(switch, 300_000, priority=3)
    switch.receive(2, pause_frame.build(bytes(6), {3: 1000}), 300_000)
    switch.receive(2, pause_frame.build(bytes(6), {3: 0}), 310_000)
    assert late(switch, 310_020) == 20
    assert idled(switch) == 0
    switch.set_port_rate(2, RATE, 0)
    put(switch, 500_000, priority=3)
    switch.receive(2, pause_frame.build(bytes(6), {3: 1000}), 500_000)
    switch.receive(2, pause_frame.build(bytes(6), {3: 0}), 510_000)
    assert late(switch, 510_020) == 20
    assert idled(switch) == 20


@pytest.mark.parametrize("lateness", [0, 500])
def test_a_wire_that_becomes_shorter_makes_no_frame_early(switch: EmbeddedSwitch, lateness: int) -> None:
    switch.set_port_delay(2, PortDelay(leaving=10_000), 0)
    put(switch, 1000)
    assert switch.transmit(2, 1000 + lateness) is None
    switch.set_port_delay(2, PortDelay(), 3000)
    assert late(switch, 3000) == lateness


def test_a_frame_sent_over_a_wire_before_it_is_measured_has_no_due_time(switch: EmbeddedSwitch) -> None:
    put(switch, 1000)
    assert late(switch, 1000) == 0
    time_it(switch, on=False)
    switch.set_port_delay(2, PortDelay(leaving=10_000), 0)
    put(switch, 10**9)
    assert switch.transmit(2, 10**9) is None
    time_it(switch)
    assert late(switch, 10**9 + 10_000) == 10**9 + 10_000, "due at 0: not known"


def test_nothing_is_measured_unless_requested(switch: EmbeddedSwitch) -> None:
    time_it(switch, False)
    put(switch, 100_000)
    assert late(switch, 100_700) == 100_700  # due is 0
    time_it(switch)
    put(switch, 100_800)
    assert late(switch, 101_000) == 0  # the ideal line begins as the line is then, which is busy with the first


@pytest.mark.second_ring
def test_a_punctual_transmitter_reports_no_delay(switch: EmbeddedSwitch) -> None:
    """Any arrivals of any priorities, each frame taken at the very moment the line is free."""
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    switch.set_port_rate(2, 7_777_777_777, 0)
    now, waiting, arrival = 1_000_000, 0, 1_000_000
    for _ in range(2000):
        wake = switch.wakeup()
        if waiting and wake is not None and max(wake, now) < arrival:
            now = max(wake, now)
            assert (late(switch, now), idled(switch)) == (0, 0)
            waiting -= 1
        else:
            now = arrival
            put(switch, now, rng.randrange(8))
            waiting += 1
            arrival += rng.randrange(1, 2 * SIZE)
