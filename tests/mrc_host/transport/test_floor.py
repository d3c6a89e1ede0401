"""ev_min_active: how many paths stay in use when every path loses now and then, and that dead ones do not."""

from collections import Counter

import pytest

from mrc_host.config import TransportSettings
from mrc_host.transport.paths import PathSet
from mrc_host.verbs_types import PathReason, PathState, QpAttributes
from tests.mrc_host.nic_world import MS, US, End, World, connect
from tests.mrc_host.transport.test_paths import make

USABLE = (PathState.GOOD, PathState.SKIP)


def usable(paths: PathSet, plane: int = 0) -> list[int]:
    return [index for index in paths.active(plane) if paths.state(index) in USABLE]


def test_at_the_minimum_live_paths_stay_in_use_and_dead_ones_do_not() -> None:
    paths, listener = make(2, 8, share=100, floor=8)
    for index in range(16):
        paths.retire(index, PathReason.LOSS, None, 1, alive=True)
    assert [len(usable(paths, plane)) for plane in range(2)] == [4, 4]
    assert len(listener.seen) == 8, "what stays in use is no event"
    kept = set(usable(paths))
    assert Counter(paths.next(0, -1) for _ in range(400)).keys() == kept, "all of them are sprayed over"
    for index in kept:
        assert paths.retire(index, PathReason.LOSS, None, 2)
    assert paths.good_planes == 0b10


def test_backups_are_used_before_the_minimum_applies() -> None:
    paths, _ = make(1, 16, floor=14)
    victim = paths.active(0)[0]
    assert paths.retire(victim, PathReason.LOSS, None, 1, alive=True)
    assert len(usable(paths)) == 14
    assert victim not in paths.active(0)


def test_when_all_paths_are_bad_they_are_used_in_rotation() -> None:
    paths, _ = make(1, 8, share=100)
    for index in range(8):
        paths.retire(index, PathReason.LOSS, None, 1)
    paths.deny(3, True, 2)
    turns = Counter(paths.next(0, -1) for _ in range(70))
    assert turns == dict.fromkeys((0, 1, 2, 4, 5, 6, 7), 10)
    assert all(paths.next(0, 5) != 5 for _ in range(70))


def test_a_lost_packet_reuses_the_only_usable_path_rather_than_a_bad_one() -> None:
    paths, _ = make(1, 4, share=100)
    for index in (0, 1, 3):
        paths.retire(index, PathReason.LOSS, None, 1)
    assert {paths.next(0, 2) for _ in range(10)} == {2}


def stream(world: World, a: End, b: End, duration: int) -> None:
    """Three writes of 1 MB are always on the way."""
    end = world.now + duration
    while world.now < end:
        a.poll()
        while a.next_id - 1 - len(a.done) < 3:
            a.write(b, 1 << 20)
        world.run(MS // 2)
        a.nic.async_events()


def wide(loss: float, floor: int) -> tuple[World, End, End]:
    world = World(2, 4, 16, transport=TransportSettings(ev_min_active=floor))
    attributes = QpAttributes(mpr=64, mpr_dest=64, congestion_window=1 << 19)
    a, b = connect(world, size=1 << 20, attributes=attributes)
    world.faults.loss = loss
    world.faults.control_too = False
    return world, a, b


@pytest.mark.either_transport
@pytest.mark.parametrize("loss", [0.001, 0.01, 0.05, 0.2])
def test_uniform_loss_leaves_the_minimum_of_paths_in_even_use(loss: float) -> None:
    """Every frame has the same chance to be lost: 32 of 64 paths must stay, and no few of them carry it all."""
    world, a, b = wide(loss, 32)
    stream(world, a, b, (30 if loss < 0.01 else 10) * MS)  # until every path has lost something
    before = [path.sent for path in a.nic.qp_paths(a.qpn)]
    for _ in range(8):
        stream(world, a, b, MS // 2)
        info = a.nic.qp_paths(a.qpn)
        for plane in range(4):
            assert sum(p.active and p.state in USABLE for p in info if p.plane == plane) >= 8
    sent = sorted((p.sent - was for p, was in zip(a.nic.qp_paths(a.qpn), before, strict=True)), reverse=True)
    assert sum(sent[:4]) < 0.25 * sum(sent), "32 paths evenly: four carry an eighth"
    assert a.nic.qp_counters(a.qpn).timeouts == 0


@pytest.mark.either_transport
@pytest.mark.parametrize("floor", [1, 32, 64])
def test_the_minimum_keeps_no_dead_plane_and_no_dead_path(floor: int) -> None:
    world, a, b = wide(0.0, floor)
    stream(world, a, b, 3 * MS)
    dead = {(1, uplink) for uplink in range(0, 16, 2)}
    world.faults.dead_planes = {2}
    world.faults.dead_paths = dead
    stream(world, a, b, 5 * MS)
    before = a.nic.qp_paths(a.qpn)
    lost = a.nic.qp_counters(a.qpn).lost
    stream(world, a, b, 5 * MS)
    after = a.nic.qp_paths(a.qpn)
    sent = {path.ev: path.sent - was.sent for path, was in zip(after, before, strict=True)}
    assert sum(sent.values()) > 1000
    assert sum(count for ev, count in sent.items() if ev >> 10 == 2) == 0
    assert sum(sent[plane << 10 | uplink] for plane, uplink in dead) == 0
    assert a.nic.qp_counters(a.qpn).lost == lost
    world.run(10 * US)


@pytest.mark.either_transport
@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2])
def test_the_minimum_keeps_no_dead_path_among_lossy_ones(loss: float) -> None:
    """More losses in a row distinguish a dead path from one that loses some, but not more than 16.

    A plane has 14 active paths and two backups, and the floor keeps 14 in use.
    """
    world, a, b = wide(loss, 64)
    stream(world, a, b, 10 * MS)
    dead = {1 << 10 | uplink for uplink in range(0, 16, 2)}
    before = {path.ev: path.sent for path in a.nic.qp_paths(a.qpn)}
    world.faults.dead_paths = {(1, ev & 0x3FF) for ev in dead}
    stream(world, a, b, 10 * MS)
    info = a.nic.qp_paths(a.qpn)
    inuse = {path.ev for path in info if path.active and path.state in USABLE}
    assert not inuse & dead
    count = Counter(ev >> 10 for ev in inuse)
    assert [count[plane] for plane in (0, 2, 3)] == [14, 14, 14]
    assert 6 <= count[1] <= 8, "the two paths that are left out for a loss may be live ones"
    sent = {path.ev: path.sent - before[path.ev] for path in info}
    assert max(sent[ev] for ev in dead) < 40 < min(sent[ev] for ev in inuse)


def test_retransmissions_are_not_sent_on_a_path_on_trial() -> None:
    paths, _ = make(1, 8, share=100)
    paths.retire(3, PathReason.LOSS, None, 1)
    paths.restore(3, PathReason.PROBE, 2)
    assert 3 not in {paths.next(0, 5) for _ in range(40)}
    assert [paths.next(0, -1) for _ in range(40)].count(3) == 2, "two packets that were not lost before try it"
