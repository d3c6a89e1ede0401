"""Reception: in batches, which gather while frames come closely."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mrc_host.driver.coalescing import (
    COALESCE_SPACING_NS,
    COALESCE_VAIN,
    COALESCE_WINDOW_NS,
    DEFAULT_COALESCE_NS,
    busy_rest_ns,
)
from mrc_host.driver.nic_driver import RECEIVE_BATCH
from tests.mrc_host.driver.rig import Rig


def test_received_frames_are_delivered_in_batches(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    frames = [bytes([i]) * (60 + i) for i in range(RECEIVE_BATCH + 5)]
    rig.opened[1].arrive(*frames)
    rig.loop.add_turn(lambda now: rig.loop.stop())
    rig.loop.run()
    assert [(port, frame) for port, frame, _ in rig.nic.received] == [(1, frame) for frame in frames[:RECEIVE_BATCH]]
    rig.loop.run()
    assert [frame for _, frame, _ in rig.nic.received] == frames
    assert rig.nic.received[0][2] == rig.time
    status = rig.driver.ports()[1]
    assert (status.rx_frames, status.rx_bytes) == (len(frames), sum(map(len, frames)))


def _take(rig: Rig, frames: int) -> bool:
    """Let so many frames arrive, take a turn, and say whether the driver then lets more gather."""
    asked: list[int] = []
    rig.loop.rest = asked.append  # type: ignore[method-assign]
    if frames:
        rig.opened[0].arrive(*[b"x" * 60] * frames)
        rig.ready()
    rig.step()
    assert asked in ([], [rig.time + DEFAULT_COALESCE_NS])
    return bool(asked)


def test_closely_spaced_frames_are_gathered(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rested = []
    for _ in range(50):
        rig.time += COALESCE_SPACING_NS
        rested.append(_take(rig, 1))
    assert not any(rested[:2]), "the first ones wake the driver"
    assert all(rested[20:])
    assert [_take(rig, 0) for _ in range(COALESCE_VAIN + 1)] == [True] * (COALESCE_VAIN - 1) + [False] * 2
    assert _take(rig, 1)
    assert not _take(rig, RECEIVE_BATCH), "perhaps more is there already"
    rig.time += 1_000_000
    assert not _take(rig, 1), "after a pause the next ones wake it again"


def test_widely_spaced_frames_wake_the_driver_individually(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    for i in range(200):
        rig.time += 2 * COALESCE_SPACING_NS
        assert not _take(rig, 1), i
    for i in range(20):  # a few at once, as an acknowledgement is that has completions in its train
        rig.time += 2 * COALESCE_WINDOW_NS
        assert not _take(rig, 5), i


def _rests(rig: Rig, step_ns: int, turns: int) -> list[int]:
    """For how long the driver rests after each of `turns` turns, `step_ns` apart; 0: it does not."""
    asked: list[int] = []
    rig.loop.rest = asked.append  # type: ignore[method-assign]
    rests = []
    for _ in range(turns):
        rig.time += step_ns
        if rig.opened[0].arrived:
            rig.ready()
        rig.step()
        rests.append(asked[-1] - rig.time if asked else 0)
        asked.clear()
    return rests


@pytest.mark.parametrize(("share", "busy"), [(0.6, True), (0.4, False)])
@pytest.mark.parametrize("sending", [False, True])
def test_while_lines_are_busy_frames_are_gathered_for_four_frame_times(
    rigs: Callable[..., Rig], share: float, busy: bool, sending: bool
) -> None:
    """Half of the time of one line in one direction is busy; frames that long come too far apart to be a stream."""
    rig = rigs(burst_ns=1_000_000)
    every = round((4200 + 24) * 8 / share)  # ns, at 1 Gb/s
    for _ in range(40):  # some are needed before the port counts as busy
        if sending:
            rig.nic.offered[0].append(bytes(4200))
        else:
            rig.opened[0].arrive(bytes(4200))
        rested = _rests(rig, every, 1)
    frame_ns = (rig.config.mtu + 24) * 8
    assert rested == [4 * frame_ns if busy else 0]
    assert _rests(rig, COALESCE_WINDOW_NS, 2)[-1] == 0, "nothing came or went any more"


def test_the_end_of_a_short_message_is_not_gathered(rigs: Callable[..., Rig]) -> None:
    """Six frames at line rate are over before the port counts as busy; six more come when the answer was sent."""
    rig = rigs(burst_ns=1_000_000)
    frame_ns = (rig.config.mtu + 24) * 8
    for _ in range(20):
        for _ in range(6):
            rig.opened[0].arrive(bytes(rig.config.mtu))
            assert _rests(rig, frame_ns, 1) == [0]
        rig.time += 10 * frame_ns


def test_small_messages_are_not_gathered(rigs: Callable[..., Rig]) -> None:
    """A ping-pong: three short frames each way, then nothing until the application answers."""
    rig = rigs(burst_ns=1_000_000)
    for _ in range(200):
        rig.opened[0].arrive(*[bytes(150)] * 3)
        rig.nic.offered[1].extend([bytes(150)] * 3)
        assert _rests(rig, 120_000, 1) == [0]


def test_how_long_frames_are_gathered_while_lines_are_busy() -> None:
    assert busy_rest_ns(30_000, 36_000.0) == 144_000
    assert busy_rest_ns(30_000, 1_440_000.0) == 500_000, "however slow the ports are"
    assert busy_rest_ns(30_000, 3_600.0) == 30_000, "as for closely spaced frames on fast ports"
    assert busy_rest_ns(30_000, 0.0) == 30_000, "and on those without a rate"
    assert busy_rest_ns(0, 36_000.0) == 0, "turned off"
