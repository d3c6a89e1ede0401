"""A path that is slower than the others of its plane: when its late packets are lost, and when they only take long."""

from collections.abc import Callable

import pytest

from mrc_host.verbs_types import PathState
from tests.mrc_host.nic_world import US, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, UNITS, WIDE, FarEnd, Packet, bits, counters

TRIP = 20 * US
SLOW = 3  # EV of the slow path


class Plane:
    """One plane of some paths with a round trip of 20 us. Until something else is measured no SACK answers `SLOW`'s."""

    def __init__(self, paths: int = 4) -> None:
        self.end = FarEnd(planes=1, uplinks=paths, attributes=WIDE, size=1 << 20)
        self.arrived: set[int] = set()
        self.before: Packet | None = None  # the packet that was answered before
        self.stream(40, lambda _: TRIP, measured=False)

    def answer(self, packet: Packet, measured: bool = True) -> None:
        """A packet has arrived: its SACK, or else one more for the packet before it."""
        self.arrived.add(packet.psn - FIRST_OUT)
        cack = next(n for n in range(len(self.arrived) + 1) if n not in self.arrived) - 1
        if measured or packet.ev != SLOW:
            self.before = packet
        shown = bits(sorted(n for n in self.arrived if n > cack), cack + 1)
        self.end.sack(cack, shown, of=self.before, units=UNITS * len(self.arrived))

    def measure(self, trip: int) -> None:
        """Single packets, each answered after 20 us, until one takes the slow path, which takes it `trip`."""
        while True:
            self.end.write(4096)
            (packet,) = self.end.data()
            self.end.pass_time(trip if packet.ev == SLOW else TRIP)
            self.answer(packet)
            if packet.ev == SLOW:
                return

    def stream(
        self, count: int, delay: Callable[[Packet], int | None], measured: bool = True, every: int = 1 * US
    ) -> list[Packet]:
        """Send a packet each us or so. Each is answered after `delay`, None for never. Returns what was sent again."""
        self.end.write(count * 4096)
        again, due = [], []
        for _ in range(count + 100):
            for packet in (p for p in self.end.drain(1) if p.opcode < 0xD0):
                wait = TRIP if packet.rtx else delay(packet)
                if packet.rtx:
                    again.append(packet)
                if wait is not None:
                    due.append((packet.time + wait, packet))
            for packet in [packet for when, packet in due if when == self.end.now]:
                self.answer(packet, measured)
            self.end.pass_time(every)
        return again


def measured(trip: int, paths: int = 4) -> Plane:
    """The round trip of the slow path was measured once, with nothing sent behind that it could be compared with."""
    plane = Plane(paths)
    plane.measure(trip)
    return plane


def states(plane: Plane) -> list[tuple[int, PathState]]:
    return [(event.ev, event.new) for event in path_events(plane.end.nic)]


@pytest.mark.parametrize("paths", [4, 48])
def test_a_slow_path_is_allowed_its_last_measured_rtt(paths: int) -> None:
    """Two packets in a row are late; or one by itself, where the path has no later one to show it."""
    plane = measured(38 * US, paths)
    assert not plane.stream(100, lambda packet: 38 * US if packet.ev == SLOW else TRIP)
    assert counters(plane.end) == (0, 0, 0)
    assert not states(plane)


def test_an_unmeasured_path_is_allowed_two_rtts() -> None:
    plane = Plane()
    assert not plane.stream(60, lambda packet: 38 * US if packet.ev == SLOW else TRIP)
    assert counters(plane.end) == (0, 0, 0)
    assert not states(plane)


def measured_in_turn(*trips: int) -> Plane:
    """The slow path was measured so often, and after each time the others until that no longer shows in the mean."""
    plane = Plane()
    for trip in trips:
        plane.measure(trip)
        plane.stream(200, lambda _: TRIP, measured=False)
    return plane


@pytest.mark.parametrize("trip", [60 * US, 150 * US, 300 * US])
def test_a_path_measured_slow_twice_is_allowed_more_than_two_rtts(trip: int) -> None:
    """Nothing on the plane was overtaken before, so nothing else shows that the path is many round trips slower."""
    plane = measured_in_turn(trip, trip)
    assert not plane.stream(100, lambda packet: trip if packet.ev == SLOW else TRIP, every=5 * US)
    assert counters(plane.end) == (0, 0, 0)
    assert not states(plane)


def test_a_path_measured_slow_once_is_allowed_two_rtts() -> None:
    plane = measured_in_turn(150 * US, TRIP, 150 * US)
    assert plane.stream(100, lambda packet: 150 * US if packet.ev == SLOW else TRIP, every=5 * US)


def test_late_acks_of_earlier_transmissions_measure_the_path() -> None:
    """All that it carried was sent again before the first transmissions were answered."""
    plane = measured_in_turn(TRIP)
    trip = 150 * US
    carried = []

    def delay(packet: Packet) -> int:
        carried.extend([packet.psn] * (packet.ev == SLOW))
        return trip if packet.ev == SLOW else TRIP

    again = plane.stream(25, delay, every=5 * US)
    assert {packet.psn for packet in again} == set(carried)
    (path,) = (path for path in plane.end.nic.qp_paths(plane.end.qpn) if path.ev == SLOW)
    assert path.rtt == trip


@pytest.mark.parametrize(("trip", "latest"), [(150 * US, 175 * US), (5000 * US, 340 * US)])
def test_failure_of_a_slow_path_is_detected_within_its_rtt(trip: int, latest: int) -> None:
    """Or in sixteen round trips of the plane."""
    plane = measured_in_turn(trip, trip)
    sent: dict[int, int] = {}

    def dead(packet: Packet) -> int | None:
        sent[packet.psn] = packet.time
        return None if packet.ev == SLOW else TRIP

    again = plane.stream(100, dead, every=10 * US)
    assert states(plane) == [(SLOW, PathState.ASSUMED_BAD)]
    assert again[0].time - sent[again[0].psn] <= latest


@pytest.mark.parametrize(("trip", "latest"), [(20 * US, 32 * US), (50 * US, 60 * US), (500 * US, 80 * US)])
def test_failure_of_a_very_slow_path_is_detected_soon(trip: int, latest: int) -> None:
    """Even when it took long the last time: after two round trips and some, by the mean of the plane."""
    plane = measured(trip)
    before = plane.end.now
    sent: dict[int, int] = {}

    def dead(packet: Packet) -> int | None:
        sent[packet.psn] = packet.time
        return None if packet.ev == SLOW else TRIP

    again = plane.stream(100, dead)
    assert states(plane) == [(SLOW, PathState.ASSUMED_BAD)]
    assert again[0].time - sent[again[0].psn] <= latest
    assert again[0].time - before <= latest + 4 * US
    assert counters(plane.end)[2] == 0
