"""Priority flow control (engine/wire/priority_flow_control.c): pausing the neighbour, and being paused."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mrc_common.p4_match import Exact
from mrc_host.wire import pause as pause_frame
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PauseConfig, QueueConfig
from tests.p4runtime_shim import programs
from tests.seeds import SEED

P = "MyIngress."
SIZE, RATE = 1000, 8_000_000_000  # a byte a nanosecond
QUANTUM = 64  # ns: 512 bits at RATE
CONFIG = PauseConfig(RATE, xoff=4 * SIZE, xon=2 * SIZE, headroom=3 * SIZE, priorities=frozenset((3,)), quanta=1000)
LASTS = 1000 * QUANTUM
PEER = bytes(6)


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    """Packets go to port 2 with the priority that their second byte says; port 0 has flow control for priority 3."""
    with EmbeddedSwitch(
        programs.pipeline("state"), ports=range(4), seed=0, queues=QueueConfig(max_packets=1000)
    ) as made:
        for priority in range(8):
            made.control_plane.table(P + "classes").insert(
                Entry((Exact(priority),), ActionCall(P + "send", (2, priority)))
            )
        made.set_pause(0, CONFIG)
        yield made


def put(switch: EmbeddedSwitch, count: int = 1, *, port: int = 0, priority: int = 3, now: int = 0) -> None:
    for _ in range(count):
        switch.receive(port, bytes([7, priority]).ljust(SIZE, b"\0"), now)


def take(switch: EmbeddedSwitch, count: int = 1, now: int = 0) -> int:
    return sum(switch.transmit(2, now) is not None for _ in range(count))


def pause_sent(switch: EmbeddedSwitch, port: int = 0, now: int = 0) -> dict[int, int] | None:
    """The quanta in the next frame of the port, which must be a PAUSE; None for no frame."""
    frame = switch.transmit(port, now)
    if frame is None:
        return None
    assert len(frame) == 60
    return pause_frame.parse(frame)


def test_a_port_above_the_threshold_pauses_its_neighbour_and_resumes_it_later(switch: EmbeddedSwitch) -> None:
    put(switch, 4)
    assert pause_sent(switch) is None
    switch.ready()
    put(switch)
    assert switch.ready() == [0]
    assert pause_sent(switch) == {3: 1000}
    assert pause_sent(switch) is None
    assert take(switch, 2) == 2
    assert pause_sent(switch) is None  # 3 wait: below xoff, above xon
    assert take(switch) == 1
    assert pause_sent(switch) == {3: 0}
    stats = switch.stats().ports[0]
    assert (stats.pauses_sent, stats.headroom_drops) == (2, 0)


def test_thresholds_count_each_port_and_priority_separately(switch: EmbeddedSwitch) -> None:
    put(switch, 20, priority=2)
    put(switch, 20, port=1)
    put(switch, 4)
    assert pause_sent(switch) is None
    assert pause_sent(switch, port=1) is None


def test_packets_beyond_the_headroom_are_dropped_and_counted(switch: EmbeddedSwitch) -> None:
    put(switch, 9)
    assert switch.stats().ports[0].headroom_drops == 2
    assert switch.stats().drops["no_headroom"] == 2
    assert take(switch, 10) == 7


def test_a_pause_is_refreshed_after_half_its_time(switch: EmbeddedSwitch) -> None:
    put(switch, 5, now=100)
    assert pause_sent(switch, now=200) == {3: 1000}
    due = 200 + LASTS // 2
    assert switch.wakeup() == due
    switch.tick(due - 1)
    assert pause_sent(switch, now=due - 1) is None
    switch.tick(due)
    assert 0 in switch.ready()
    assert pause_sent(switch, now=due) == {3: 1000}
    assert switch.wakeup() == due + LASTS // 2
    take(switch, 5, now=due)
    assert pause_sent(switch, now=due) == {3: 0}
    assert switch.wakeup() is None


def test_a_pause_is_refreshed_whatever_frames_are_sent_for_other_priorities(switch: EmbeddedSwitch) -> None:
    switch.set_pause(0, replace(CONFIG, priorities=frozenset((3, 5))))
    put(switch, 5)
    assert pause_sent(switch) == {3: 1000}
    step, last, others = LASTS // 10, 0, 0
    for now in range(step, 5 * LASTS, step):
        if now // step % 2:
            put(switch, 5, priority=5, now=now)
        else:
            assert take(switch, 5, now) == 5
        switch.tick(now)
        while (frame := pause_sent(switch, now=now)) is not None:
            others += 5 in frame
            assert frame.get(3) != 0, "it is above the threshold all the time"
            last = now if 3 in frame else last
        assert now - last <= LASTS // 2, "and is held for twice as long by what it was told last"
    assert others == 49


def test_time_passes_between_refreshes_of_the_shortest_pause(switch: EmbeddedSwitch) -> None:
    switch.set_pause(0, replace(CONFIG, quanta=1, rate_bps=10**13))
    put(switch, 5)
    assert pause_sent(switch) == {3: 1}
    assert switch.wakeup() == 1


def test_a_paused_priority_waits_while_others_pass(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    put(switch)
    put(switch, priority=2)
    switch.receive(2, pause_frame.build(PEER, {3: 10}), 1000)
    end = 1000 + 10 * QUANTUM
    assert take(switch, 5, now=1001) == 1
    assert switch.wakeup() == end
    assert take(switch, 1, now=end - 1) == 0
    switch.ready()
    switch.tick(end)
    assert switch.ready() == [2]
    assert take(switch, 1, now=end) == 1
    assert switch.stats().ports[2].pauses_received == 1


def test_a_pause_of_zero_resumes_at_once(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    put(switch)
    switch.receive(2, pause_frame.build(PEER, {3: 65535}), 0)
    assert take(switch) == 0
    switch.ready()
    switch.receive(2, pause_frame.build(PEER, {3: 0}), 5)
    assert switch.ready() == [2]
    assert take(switch, now=5) == 1


def test_an_eligible_packet_is_announced_behind_a_paused_one(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    switch.receive(2, pause_frame.build(PEER, {3: 65535}), 0)
    put(switch)
    assert switch.ready() == []  # nothing to send
    put(switch, priority=7)
    assert switch.ready() == [2]


def test_pauses_propagate_to_the_feeding_port(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    switch.receive(2, pause_frame.build(PEER, {3: 65535}), 0)
    put(switch, 5)
    assert take(switch, 5) == 0
    assert pause_sent(switch) == {3: 1000}


def test_without_flow_control_pause_frames_are_ordinary_frames(switch: EmbeddedSwitch) -> None:
    switch.receive(1, pause_frame.build(PEER, {3: 65535}), 0)
    assert switch.transmit(1, 0) is not None  # the program had it, and sent it on
    put(switch, 20, port=1)
    assert switch.stats().ports[1].pauses_received == 0
    assert take(switch, 30) == 20


@pytest.mark.parametrize("damage", [(0, 0x02), (13, 0x09), (15, 0x02)])
def test_malformed_pause_frames_pause_nothing(switch: EmbeddedSwitch, damage: tuple[int, int]) -> None:
    frame = bytearray(pause_frame.build(PEER, {3: 65535}))
    frame[damage[0]] = damage[1]
    switch.set_pause(2, CONFIG)
    put(switch)
    switch.receive(2, bytes(frame), 0)
    switch.receive(2, pause_frame.build(PEER, {3: 65535})[:33], 0)
    assert take(switch) == 1


def test_link_down_clears_pauses_in_both_directions(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    put(switch, 5)
    switch.receive(2, pause_frame.build(PEER, {3: 65535}), 0)
    for port in (0, 2):
        switch.port_changed(port, False, 0)
        switch.port_changed(port, True, 0)
    assert pause_sent(switch) is None
    put(switch)
    assert take(switch) == 1


def test_turning_flow_control_off_resumes_the_neighbour(switch: EmbeddedSwitch) -> None:
    put(switch, 6)
    assert pause_sent(switch) == {3: 1000}
    switch.set_pause(0, None)
    assert pause_sent(switch) == {3: 0}
    put(switch, 20)
    assert pause_sent(switch) is None
    assert take(switch, 30) == 26


def test_new_settings_end_a_pause_and_announce_what_it_held(switch: EmbeddedSwitch) -> None:
    switch.set_pause(2, CONFIG)
    put(switch)
    switch.ready()
    switch.receive(2, pause_frame.build(PEER, {3: 1000}), 0)
    assert take(switch) == 0
    switch.set_pause(2, None)
    assert switch.ready() == [2]
    assert take(switch) == 1


def test_new_settings_keep_a_resume_that_was_not_sent_yet(switch: EmbeddedSwitch) -> None:
    put(switch, 5)
    assert pause_sent(switch) == {3: 1000}
    assert take(switch, 5) == 5
    switch.set_pause(0, replace(CONFIG, xoff=5 * SIZE))
    assert pause_sent(switch) == {3: 0}


def test_loading_a_program_wakes_a_driver_that_has_a_neighbour_to_resume(switch: EmbeddedSwitch) -> None:
    put(switch, 5)
    assert pause_sent(switch) == {3: 1000}
    switch.ready()
    event = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        switch.set_event(event)
        switch.set_pipeline(switch.pipeline)
        assert os.eventfd_read(event) == 1
    finally:
        switch.set_event(-1)
        os.close(event)


def test_loading_a_program_resets_the_flow_control_counts(switch: EmbeddedSwitch) -> None:
    put(switch, 5)
    switch.set_pipeline(switch.pipeline)
    assert pause_sent(switch) == {3: 0}
    assert switch.wakeup() is None


def test_random_traffic_loses_nothing_and_leaves_no_count(switch: EmbeddedSwitch) -> None:
    """A neighbour that obeys late but within the headroom: no drop, and in the end nothing counted any more."""
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    paused, late, sent, got = False, 0, 0, 0
    for step in range(3000):
        frame = pause_sent(switch, now=step)
        if frame is not None:
            paused, late = bool(frame[3]), 2  # with the one that was too much, the headroom of 3
        if not paused or late > 0:
            late -= paused
            put(switch, now=step)
            sent += 1
        if rng.random() < 0.7:
            got += take(switch, now=step)
    got += take(switch, 100, now=3000)
    assert sent == got
    assert switch.stats().ports[0].headroom_drops == 0
    put(switch, 4, now=3000)
    pause_sent(switch, now=3000)
    assert pause_sent(switch, now=3000) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"xon": 0},
        {"xon": 5 * SIZE},
        {"headroom": -1},
        {"rate_bps": 0},
        {"quanta": 0},
        {"quanta": 1 << 16},
        {"priorities": frozenset()},
        {"priorities": frozenset((8,))},
    ],
)
def test_invalid_settings_are_refused(switch: EmbeddedSwitch, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        switch.set_pause(0, replace(CONFIG, **wrong))  # type: ignore[arg-type]


def test_unknown_ports_are_refused(switch: EmbeddedSwitch) -> None:
    with pytest.raises(NotFound):
        switch.set_pause(9, CONFIG)


def silenced(switch: EmbeddedSwitch, now: int) -> tuple[int, int]:
    sample = switch.sample_ports(now)[0]
    return sample.silenced_ns, sample.silenced_times


def test_the_neighbour_sends_nothing_between_pause_and_resume(switch: EmbeddedSwitch) -> None:
    put(switch, 5, now=10)
    assert silenced(switch, 20) == (0, 0), "the frame has not left yet"
    assert pause_sent(switch, now=30) == {3: 1000}
    assert silenced(switch, 130) == (100, 1)
    take(switch, 3, now=200)
    assert silenced(switch, 230) == (200, 1), "until it is resumed"
    assert pause_sent(switch, now=240) == {3: 0}
    assert silenced(switch, 1000) == (210, 1)
    put(switch, 3, now=2000)
    assert pause_sent(switch, now=2000) == {3: 1000}
    switch.tick(2000 + LASTS // 2)
    assert pause_sent(switch, now=2000 + LASTS // 2) == {3: 1000}
    assert silenced(switch, 2000 + LASTS) == (210 + LASTS, 2), "a repeated announcement is no new pause"
    switch.port_changed(0, False, 2000 + LASTS)
    assert silenced(switch, 10 * LASTS) == (210 + LASTS, 2), "without a link nobody is kept waiting"


def test_a_resume_by_a_clock_that_is_behind_counts_as_no_time(switch: EmbeddedSwitch) -> None:
    put(switch, 5, now=100)
    assert pause_sent(switch, now=100) == {3: 1000}
    take(switch, 5, now=90)
    assert pause_sent(switch, now=90) == {3: 0}
    assert silenced(switch, 1000) == (0, 1)
