from __future__ import annotations

import heapq
import itertools
import random

import pytest

from mrc_host.config import PathTimers, TransportSettings
from mrc_lab.scale.lossy_paths import LossyPaths

TRIP = 10_000
SETTINGS = TransportSettings(base_rtt=TRIP, probe_interval=10 * TRIP, probe_timeout=5 * TRIP)


class Around:
    """One stream with `paths` in its plane, each of a thousand packets in a million ns, and a clock."""

    def __init__(self, paths: int = 4, rest: int = 0) -> None:
        self.paths = paths
        self.rest = rest
        self.lost = 0.0
        self.backups: set[tuple[int, ...]] = set()
        self.changes: list[tuple[int, bool]] = []
        self.events: list[tuple[int, int, object]] = []
        self._order = itertools.count()

    def path_rate(self, stream: int, plane: int) -> tuple[float, float]:
        return 1e6, 2.0 * TRIP

    def is_last(self, stream: int, plane: int) -> bool:
        return self.paths == 1

    def lose(self, stream: int, packets: float) -> None:
        self.lost += packets

    def resting(self, stream: int) -> int:
        return self.rest

    def timers(self, stream: int) -> tuple[int, PathTimers]:
        return TRIP, SETTINGS.path_timers

    def note(self, place: tuple[int, int, int], now: int, first_loss: int | None) -> None:
        self.changes.append((now, first_loss is not None))

    def uses(self, place: tuple[int, ...]) -> bool:
        return place not in self.backups

    def at(self, time, call) -> None:
        heapq.heappush(self.events, (time, next(self._order), call))

    def run(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            time, _, call = heapq.heappop(self.events)
            call(time)


def lossy(around: Around, loss: float, seed: int = 1) -> LossyPaths:
    paths = LossyPaths(around, SETTINGS, around.at, lambda place: random.Random(f"{seed} {place}"))
    paths.set({(0, 0, 0): loss})
    paths.rates_changed(0)
    return paths


def test_a_loss_retires_the_path_and_probes_bring_it_back():
    around = Around()
    lossy(around, 0.01)
    around.run(1_000_000)
    went = [went for _, went in around.changes]
    assert went[:2] == [True, False]
    assert around.lost >= 1
    first, back = around.changes[0][0], around.changes[1][0]
    assert back - first >= SETTINGS.probe_successes * SETTINGS.probe_interval


def test_each_further_failure_takes_longer_to_mend():
    around = Around()
    lossy(around, 0.05)
    around.run(20_000_000)
    times = [time for time, _ in around.changes]
    outages = [end - start for start, end in zip(times[::2], times[1::2], strict=False)]
    assert len(outages) >= 3
    assert outages[2] > 1.5 * outages[0]


def test_a_path_that_lost_no_probe_rests_where_it_may():
    around = Around(paths=16, rest=2)
    paths = lossy(around, 0.001)
    around.run(100_000_000)
    assert [went for _, went in around.changes][:2] == [True, False]
    assert len(around.changes) % 2 == 0
    assert paths.bad() == {}


def test_a_path_that_rests_goes_on_losing_once_it_is_needed():
    around = Around(paths=16, rest=2)
    paths = lossy(around, 0.01)
    while not any(path.resting for path in paths.paths.values()):
        around.run(around.events[0][0])
    lost, now = around.lost, around.changes[-1][0]
    paths.wake(0, 0, now)
    around.run(now + 10_000_000)
    assert around.lost > lost


def test_the_last_path_of_a_plane_stays_in_use_and_goes_on_losing():
    around = Around(paths=1)
    lossy(around, 0.01)
    around.run(10_000_000)
    assert around.changes == []
    assert around.lost == pytest.approx(100, rel=0.4)  # 10,000 packets


def test_without_loss_no_more_is_lost_and_probes_restore_it():
    around = Around()
    paths = lossy(around, 0.05)
    while not around.changes:
        around.run(around.events[0][0])
    lost = around.lost
    paths.set({})
    around.run(100_000_000)
    assert [went for _, went in around.changes] == [True, False]
    assert around.lost == lost
    assert paths.paths == {}


def test_a_backup_loses_nothing_until_it_comes_into_use() -> None:
    around = Around()
    around.backups.add((0, 0, 0))
    paths = lossy(around, 0.01)
    around.run(10**9)
    assert around.lost == 0
    assert paths.bad() == {}
    around.backups.clear()
    paths.activate((0, 0, 0), 10**9)
    around.run(2 * 10**9)
    assert around.lost > 0


def test_a_path_that_comes_back_as_a_backup_stays_out_of_use() -> None:
    around = Around()
    paths = lossy(around, 0.01)
    around.backups.add((0, 0, 0))  # another has taken its place
    around.run(10**10)
    assert [out for _, out in around.changes] == [True, False]
    assert paths.bad() == {}
