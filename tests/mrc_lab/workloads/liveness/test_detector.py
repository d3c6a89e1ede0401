"""The detector counts only time in which it ran, and names peers with a heartbeat unanswered for the timeout."""

from __future__ import annotations

import random

import pytest

from mrc_lab.workloads.liveness import LivenessSettings
from mrc_lab.workloads.liveness.detector import MAX_UNANSWERED, SilenceDetector
from tests.seeds import SEED

MS = 1_000_000
TIMEOUT, PERIOD = 100 * MS, 10 * MS


def detector(*peers: int) -> SilenceDetector:
    return SilenceDetector(peers, TIMEOUT, 2 * PERIOD, now=5)


def turn(watch: SilenceDetector, now: int) -> list[int]:
    """One turn: the time passes, silent peers are named, all get a heartbeat."""
    watch.advance(now)
    silent = watch.silent()
    for peer in watch.peers:
        if watch.may_send(peer):
            watch.sent(peer)
    return silent


def test_a_peer_that_leaves_a_heartbeat_unanswered_for_the_timeout_is_silent() -> None:
    watch, now = detector(1, 2), 5
    found = []
    for _ in range(12):
        now += PERIOD
        found.append(turn(watch, now))
        watch.answered(2)
    assert found == [[]] * 10 + [[1]] * 2, "its first heartbeat was sent in the first turn"
    assert watch.silence(1) == 12 * PERIOD


def test_a_process_that_was_stopped_does_not_take_its_peers_for_silent() -> None:
    watch, now = detector(1), 5
    turn(watch, now := now + PERIOD)
    for _ in range(3):  # stopped three times for an hour each
        now += 3_600_000 * MS
        watch.advance(now)
        assert watch.silent() == []
    now += 10 * TIMEOUT
    for _ in range(10):
        now += PERIOD
        watch.advance(now)
    assert watch.silent() == [1], "time in which it ran counts, also after it was stopped"


def test_answers_come_in_order_and_one_too_many_changes_nothing() -> None:
    watch = detector(1)
    watch.sent(1)
    watch.advance(5 + PERIOD)
    watch.sent(1)
    watch.answered(1)
    assert watch.unanswered(1) == 1
    for _ in range(3):
        watch.answered(1)
    assert watch.unanswered(1) == 0


def test_heartbeats_to_a_silent_peer_are_bounded() -> None:
    watch, now = SilenceDetector([1], 86_400_000 * MS, 2 * PERIOD, 0), 0
    for _ in range(3 * MAX_UNANSWERED):
        turn(watch, now := now + PERIOD)
    assert watch.unanswered(1) == MAX_UNANSWERED


def test_a_peer_that_is_forgotten_is_named_no_more() -> None:
    watch, now = detector(1, 2), 5
    for _ in range(20):
        turn(watch, now := now + PERIOD)
    watch.forget(1)
    watch.answered(1)
    watch.sent(1)
    assert (watch.silent(), watch.peers) == ([2], [2])


def test_no_peer_that_answers_within_the_timeout_is_ever_silent() -> None:
    draw = random.Random(SEED)
    print("seed", SEED)
    for _ in range(50):
        watch, now = detector(1), 5
        due: list[int] = []  # when the answers arrive
        for _ in range(200):
            now += draw.choice((PERIOD, PERIOD, PERIOD // 3, 50 * PERIOD))
            while due and due[0] <= now:
                due.pop(0)
                watch.answered(1)
            watch.advance(now)
            assert watch.silent() == []
            watch.sent(1)
            due.append(max(now + draw.randrange(TIMEOUT - 2 * PERIOD), due[-1] if due else 0))


@pytest.mark.parametrize(("timeout", "interval"), [(0, 1), (9 * MS, MS), (100 * MS, 51 * MS), (86_400_001 * MS, MS)])
def test_settings_out_of_range_are_refused(timeout: int, interval: int) -> None:
    with pytest.raises(ValueError, match="timeout of peers"):
        LivenessSettings(timeout, interval)


def test_more_peers_get_heartbeats_less_often_but_two_within_the_timeout() -> None:
    settings = LivenessSettings()
    assert [settings.period(peers) // MS for peers in (1, 3, 4, 7, 63)] == [60, 60, 80, 140, 400]
