"""Base round trips: shortest of each path, ways that become longer, and queues, which are not bases."""

from __future__ import annotations

from mrc_host.transport.base_round_trips import BaseRoundTrips
from mrc_host.transport.ev_probes import EvProbes

RATE = 100_000_000_000
BASE = 10_000
PACKET = 4_352
LONGER_FRAME = 4 * (PACKET - 138) * 8 // 100  # a packet than a probe, on four links
QUEUE = 8_000


class Rig:
    """Two planes of two paths; packets and probes take what `way` says of their path, and packets `queue` more."""

    def __init__(self, given: int = BASE) -> None:
        self.probes = EvProbes(0, 2)
        self.trips = BaseRoundTrips(self.probes, [[0, 1], [2, 3]], [RATE, RATE], 4, given)
        self.way = [BASE] * 4
        self.back = [0, 0]
        self.queue = 0
        self.now = 0
        self.probed = 0

    def run(self, packets: int) -> None:
        """That many packets on each path, answered on alternate planes."""
        for number in range(packets):
            for path in range(4):
                self.now += 1_000
                plane, port = path // 2, (number + path) % 2
                rtt = self.way[path] + self.back[port] + self.queue
                self.trips.sample(path, plane, port, rtt, PACKET, self.now)
                self._answer_probes(port)

    def _answer_probes(self, port: int) -> None:
        for plane in (0, 1):
            request_id, path, _kind = self.probes.take(plane)
            while path >= 0:
                self.probed += 1
                self.trips.probe_sent(request_id, plane, self.now)
                took = self.way[path] + self.back[port] - LONGER_FRAME
                self.probes.answered(request_id)
                self.trips.probe_answered(request_id, plane, port, 0, self.now + took)
                port = 1 - port
                request_id, path, _kind = self.probes.take(plane)

    def bases(self) -> list[int]:
        """That of each path, answered on the plane that answers first."""
        return [self.trips.of(path, path // 2) for path in range(4)]


def test_nothing_is_probed_while_round_trips_are_short() -> None:
    rig = Rig()
    rig.run(100)
    assert rig.bases() == [BASE] * 4
    assert (rig.trips.mean, rig.probed) == (BASE, 0)


def test_the_first_round_trip_is_no_base_if_it_is_longer_than_the_configured_one() -> None:
    rig = Rig()
    rig.queue = QUEUE
    rig.run(1)
    assert rig.bases() == [BASE] * 4


def test_each_path_has_a_base_and_the_mean_is_over_the_planes() -> None:
    rig = Rig(given=50_000)
    rig.way = [10_000, 30_000, 50_000, 50_000]
    rig.run(4)
    assert rig.bases() == rig.way
    assert rig.trips.mean == (20_000 + 50_000) // 2


def test_a_queue_that_never_drains_does_not_become_the_base() -> None:
    rig = Rig()
    rig.run(10)
    rig.queue = QUEUE
    rig.run(1_000)
    assert rig.bases() == [BASE] * 4
    assert 0 < rig.probed <= 2 * (4_000 // 100), "one in ten round trips and plane"


def test_a_longer_way_becomes_the_base_even_with_a_queue() -> None:
    rig = Rig()
    rig.run(10)
    rig.way, rig.queue = [60_000] * 4, QUEUE
    rig.run(100)
    assert rig.bases() == [60_000] * 4
    assert rig.trips.mean == 60_000


def test_a_way_that_becomes_shorter_is_noticed_at_once() -> None:
    rig = Rig(given=60_000)
    rig.way = [60_000] * 4
    rig.run(10)
    rig.way = [BASE] * 4
    rig.run(1)
    assert rig.bases() == [BASE] * 4


def test_answers_that_are_late_on_one_plane_are_no_longer_way() -> None:
    rig = Rig()
    rig.run(10)
    rig.back = [50_000, 0]
    rig.run(1_000)
    assert rig.bases() == [BASE] * 4
    assert rig.trips.of(0, 0, 0) > 3 * BASE
    assert rig.trips.of(0, 0, 1) == BASE
