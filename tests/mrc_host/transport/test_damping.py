"""Paths that fail for data alone, or again and again: probed in the class that failed, and back later each time."""

import itertools
import random
from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.transport.bad_paths import BadPaths, PathUser
from mrc_host.transport.ev_probes import EvProbes
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer_frames import NO_TRIM
from mrc_host.verbs_types import PathReason, PathState
from mrc_host.wire import control
from tests.mrc_host.nic_world import MS, World, connect, make_config, path_events
from tests.mrc_host.transport.far_end import FarEnd
from tests.mrc_host.transport.test_bad_paths import bad
from tests.mrc_host.transport.test_peer import answer, requests

SETTINGS = TransportSettings()


class User(PathUser):
    def __init__(self) -> None:
        self.returned: list[int] = []
        self.lossy: list[bool] = []

    def path_probed_good(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        self.returned.append(now)
        self.lossy.append(lossy)


class Bench:
    """Bad paths of a NIC without a NIC: probes are answered at once, or not at all."""

    def __init__(self, settings: TransportSettings = SETTINGS) -> None:
        host = NicContext(make_config(0, 2, 2, 4, settings), random.Random(1), random.Random(2))
        self.probes = EvProbes(0, 2)
        self.paths = BadPaths(host, host.transport.path_timers, self.probes, 2, NO_TRIM)
        self.user = User()
        self.now = 1_000 * MS

    def outage(self, index: int = 0, lost: int = 0) -> int:
        """The path fails now, and all probes but the first `lost` come back: how long until it is used again."""
        start, before = self.now, len(self.user.returned)
        self.paths.watch(self.user, index, 0, self.now)
        while len(self.user.returned) == before:
            self.now = self.paths.next_time()
            self.paths.run(0b11, self.now)
            request_id, path, _kind = self.probes.take(0)
            if path >= 0 and lost:
                lost -= 1
            elif path >= 0:
                self.probes.answered(request_id)
                self.paths.answered(path, request_id, self.now)
        return self.now - start


def test_a_path_is_lossy_if_no_probe_was_lost() -> None:
    bench = Bench()
    bench.outage()
    bench.outage(lost=1)
    assert bench.user.lossy == [True, False]


def test_damping_grows_with_each_failure() -> None:
    bench = Bench()
    outages = [bench.outage() for _ in range(9)]
    fast = SETTINGS.probe_interval * SETTINGS.probe_successes
    assert outages[0] <= fast + MS
    for early, late in itertools.pairwise(outages[:5]):
        assert 1.9 * early <= late <= 2.1 * early
    assert max(outages) <= 64 * fast + MS, "there is a bound"


def test_damping_is_bounded() -> None:
    bench = Bench(replace(SETTINGS, flap_half_life=3600 * 1000 * MS))
    outages = [bench.outage() for _ in range(14)]
    slowest = 64 * SETTINGS.probe_interval * SETTINGS.probe_successes
    assert slowest <= max(outages) <= slowest + MS
    assert outages[-1] == max(outages)


def test_damping_is_per_path_and_decays() -> None:
    bench = Bench()
    for _ in range(5):
        bench.outage(0)
    fast = SETTINGS.probe_interval * SETTINGS.probe_successes + MS
    assert bench.outage(1) <= fast
    bench.now += 6 * SETTINGS.flap_half_life
    assert bench.outage(0) <= fast


def test_a_cleared_path_has_no_damping() -> None:
    bench = Bench()
    for _ in range(20):
        bench.paths.watch(bench.user, 0, 0, bench.now)
        bench.paths.unwatch(bench.user, 0)
    assert bench.outage() <= SETTINGS.probe_interval * SETTINGS.probe_successes + MS


def test_failures_caused_by_a_port_down_are_not_damped() -> None:
    bench = Bench()
    for _ in range(20):
        bench.paths.watch(bench.user, 0, 0, bench.now)
        bench.paths.plane_up(0, bench.now - 1, bench.now)
    assert len(bench.user.returned) == 20
    assert bench.outage() <= SETTINGS.probe_interval * SETTINGS.probe_successes + MS


def test_background_probes_use_the_data_class_and_are_not_trimmable() -> None:
    end: FarEnd = bad(3)
    probes = requests(end.wait(30 * MS), control.OP_EV_PROBE)
    assert len(probes) == 3
    assert {probe.dscp for probe in probes} == {end.nic.config.settings.dscp.no_trim}


@pytest.mark.either_transport
@pytest.mark.parametrize("loss", [0.2, 1.0])
def test_paths_losing_only_data_do_not_flap(loss: float) -> None:
    """Two of eight paths of a plane lose data and nothing in the control class, for a second of writes."""
    world = World(2, 2, 8)
    a, b = connect(world, size=1 << 20)
    chance = random.Random(5)

    def tap(_nic: int, port: int, _to: int, frame: bytes, _now: int) -> bytes | None:
        uplink = int.from_bytes(frame[44:46], "big") & 0x3FF
        of_data = (frame[14] << 8 | frame[15]) >> 6 & 63 != 46
        return None if of_data and port == 0 and uplink in (3, 4) and chance.random() < loss else frame

    world.tap = tap
    events = []
    end = world.now + 1000 * MS
    while world.now < end:
        for _ in range(4):
            a.write(b, 1 << 17)
        world.run(20 * MS, until=a.idle)
        events += path_events(a.nic)
        world.run(2 * MS)
    failed = [event for event in events if event.new is PathState.ASSUMED_BAD]
    assert {event.ev for event in failed} <= {3, 4}
    assert len(failed) <= (2 if loss == 1.0 else 10), "with probes in the control class and no damping: 34"
    assert a.nic.qp_counters(a.qpn).timeouts == 0


def test_restoring_a_dead_path_costs_two_packets() -> None:
    """It is on trial until something comes through."""
    world = World(2, 2, 8, transport=replace(SETTINGS, backup_share=100))
    a, b = connect(world, size=1 << 20)
    a.write(b, 1 << 20)
    world.run(100 * MS, until=lambda: bool(a.poll()))
    paths = a.qp.requester.paths
    for now in (1, 2):
        paths.retire(3, PathReason.LOSS, None, world.now + now)
        paths.restore(3, PathReason.PROBE, world.now + now)
    world.faults.dead_paths = {(0, 3)}
    a.write(b, 1 << 20)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert a.nic.qp_counters(a.qpn).lost == 2


def test_acks_restore_a_path_only_after_data_class_probes_return() -> None:
    end = bad(1, replace(SETTINGS, probe_successes=2))
    events = []
    while not events:
        for probe in requests(end.wait(MS), control.OP_EV_PROBE):
            answer(end, probe)
        events = path_events(end.nic)
    assert [event.reason for event in events] == [PathReason.PROBE]
