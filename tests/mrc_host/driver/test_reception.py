"""Reception: in batches, which gather while frames come closely."""

from __future__ import annotations

from collections.abc import Callable

from mrc_host.driver.coalescing import COALESCE_SPACING_NS, COALESCE_VAIN, COALESCE_WINDOW_NS, DEFAULT_COALESCE_NS
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
