"""Weighted spraying: which path stands out, how much less it is used, and how soon it is used as before."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from mrc_host.transport.path import Path
from mrc_host.transport.path_weights import PathWeights
from mrc_host.verbs_types import PathReason
from mrc_host.wire import control
from tests.mrc_host.nic_world import US
from tests.mrc_host.transport.far_end import WIDE, FarEnd, Packet
from tests.mrc_host.transport.test_congestion_signals import Recorder
from tests.mrc_host.transport.test_paths import make

LEAST = 10 * US  # the shortest round trip


class Plane:
    """A ring of paths whose marked packets come back after round trips that the test says."""

    def __init__(self, paths: int) -> None:
        self.weights = PathWeights(1)
        self.ring = list(range(paths))
        self.paths = [Path() for _ in self.ring]
        self.take([LEAST] * paths)
        self.now = 1000 * US

    def take(self, trips: list[int]) -> None:
        """Packets that are not marked come back after so long."""
        for path, trip in zip(self.paths, trips, strict=True):
            path.round_trip = trip

    def mark(self, path: int, trip: int, after: int = 0) -> bool:
        self.now += after
        self.paths[path].round_trip = trip
        return self.weights.marked(path, 0, self.ring, self.paths, LEAST, self.now)

    def every(self) -> list[int]:
        return [self.weights.every(path) for path in self.ring]

    def quiet(self, time: int) -> None:
        for _ in range(time // US):
            self.now += US
            if self.weights.slow:
                self.weights.ease(LEAST, self.now)


def test_a_single_slow_path_is_used_less_and_others_unchanged() -> None:
    plane = Plane(4)
    assert plane.mark(2, 20 * US)
    assert plane.every() == [1, 1, 2, 1]
    turns = Counter(path for _ in range(100) for path in plane.ring if not plane.weights.sits_out(path))
    assert turns == {0: 100, 1: 100, 2: 50, 3: 100}


def test_equally_congested_paths_keep_their_weight() -> None:
    """Whatever the order in which their marks come, and while queues grow together."""
    rng = random.Random(1)
    plane = Plane(8)
    for base in range(10, 60, 5):
        plane.take([base * US] * 8)
        for _ in range(50):
            trip = LEAST + round((base * US - LEAST) * rng.uniform(0.8, 1.2))
            assert not plane.mark(rng.randrange(8), trip, US)
    assert plane.every() == [1] * 8


def test_a_weight_is_reduced_once_per_round_of_packets() -> None:
    plane = Plane(4)
    plane.mark(0, 20 * US)
    for _ in range(19):
        assert plane.mark(0, 20 * US, US), "it still stands out"
    assert plane.every()[0] == 2
    plane.mark(0, 20 * US, 2 * US)
    assert plane.every()[0] == 4


@pytest.mark.parametrize(("trip", "every"), [(15, 2), (25, 2), (35, 3), (45, 4), (200, 4)])
def test_the_weight_is_reduced_in_proportion_to_the_delay(trip: int, every: int) -> None:
    plane = Plane(4)
    plane.mark(0, trip * US)
    assert plane.every()[0] == every


def test_small_delays_leave_weights_unchanged() -> None:
    plane = Plane(4)
    assert not plane.mark(0, 14 * US)
    assert plane.every() == [1] * 4


def test_a_weight_is_reduced_only_at_twice_the_slowest_other_delay() -> None:
    plane = Plane(4)
    plane.paths[3].round_trip = 20 * US
    assert not plane.mark(0, 29 * US)
    assert plane.mark(0, 30 * US)


def test_several_slow_paths_lose_weight_one_by_one_up_to_half_of_them() -> None:
    plane = Plane(4)
    slow = {0: 80 * US, 1: 40 * US, 2: 30 * US}
    for _ in range(400):
        for path, trip in slow.items():
            plane.mark(path, trip, US)
    every = plane.every()
    assert every[0] > 1
    assert every[1] > 1
    assert every[2:] == [1, 1]


def test_a_low_weight_path_is_no_reference_for_heavier_ones() -> None:
    """The slow one's delay is no measure for those used more than it; theirs is one for it."""
    plane = Plane(6)
    plane.mark(0, 60 * US)
    plane.mark(1, 25 * US, 20 * US)
    assert plane.every()[:3] == [4, 2, 1]
    plane.mark(1, 25 * US, 40 * US)
    assert plane.every()[1] == 4
    assert not plane.mark(1, 60 * US, 100 * US), "as slow as the other of the same weight"


def test_without_measured_other_paths_weights_are_unchanged() -> None:
    alone = Plane(1)
    assert not alone.mark(0, 90 * US)
    plane = Plane(4)
    plane.take([0] * 4)
    assert not plane.mark(0, 90 * US)


def test_a_recovered_path_regains_its_full_weight() -> None:
    plane = Plane(4)
    for _ in range(3):
        plane.mark(0, 100 * US, 100 * US)
    assert plane.every()[0] == 64
    plane.quiet(170 * LEAST)
    assert plane.every()[0] == 1
    plane = Plane(4)
    plane.mark(0, 100 * US)
    plane.mark(0, 20 * US, 100 * US)
    assert plane.every()[0] == 8
    plane.quiet(30 * LEAST)
    assert plane.every()[0] > 3, "not at once: it would be flooded again"
    plane.quiet(60 * LEAST)
    assert plane.every()[0] == 1
    assert not plane.weights.slow


def test_a_path_set_skips_a_slow_path_unless_it_is_the_only_one() -> None:
    paths, _ = make(1, 4, share=100)
    slow = paths.active(0)[1]
    for index in range(4):
        paths.each[index].round_trip = LEAST
    paths.each[slow].round_trip = 45 * US
    assert paths.stands_out(slow, LEAST, 100 * US)
    turns = Counter(paths.next(0, -1) for _ in range(1300))
    assert turns[slow] == pytest.approx(100, abs=3)
    for index in range(4):
        if index != slow:
            paths.retire(index, PathReason.LOSS, None, 200 * US)
    assert {paths.next(0, -1) for _ in range(10)} == {slow}


def test_an_oblivious_path_set_has_no_weights() -> None:
    paths, _ = make(1, 4, oblivious=True)
    for index in range(4):
        paths.each[index].round_trip = LEAST
    paths.each[0].round_trip = 45 * US
    assert not paths.stands_out(0, LEAST, 100 * US)
    assert Counter(paths.next(0, -1) for _ in range(400)) == dict.fromkeys(range(4), 100)


def test_a_restored_path_has_its_full_weight() -> None:
    paths, _ = make(1, 4, share=100)
    for index in range(4):
        paths.each[index].round_trip = LEAST
    paths.each[0].round_trip = 45 * US
    paths.stands_out(0, LEAST, 100 * US)
    paths.retire(0, PathReason.LOSS, None, 200 * US)
    paths.restore(0, PathReason.PROBE, 300 * US)
    assert paths.weights.every(0) == 1


def test_congestion_control_sees_every_mark_not_handled_by_path_weights() -> None:
    end = FarEnd(attributes=WIDE)
    end.qp.requester.window.cc = recorder = Recorder()
    end.write(32 * 4096)
    ways: dict[int, list[Packet]] = defaultdict(list)  # the packets of each path of plane 0
    for packet in end.data():
        if not packet.port:
            ways[packet.ev].append(packet)
    assert len(ways) == 4
    end.pass_time(LEAST)
    for packets in ways.values():
        end.sack(-1, of=packets[0])
    assert [rtt for _, _, rtt, _, _ in recorder.signals] == [LEAST] * 4
    end.pass_time(4 * LEAST)
    slow, late, other, _ = ways
    end.sack(-1, of=ways[slow][1], mark=control.MARK_SKIP_ONCE)
    assert recorder.signals[-1][2] == 0, "it stands out: used less, it is not for the window to shrink"
    end.sack(-1, of=ways[late][1])
    end.sack(-1, of=ways[other][1], mark=control.MARK_SKIP_ONCE)
    assert recorder.signals[-1][2:4] == (5 * LEAST, True), "another is as late"
    end.sack(-1, of=ways[slow][2], mark=control.MARK_SKIP_ONCE)
    assert recorder.signals[-1][2:4] == (5 * LEAST, True), "used less it does not stand out any more"
