"""Two NICs over a fabric that misbehaves, under a hand-held clock: bytes, completions, paths, planes."""

from collections import Counter

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import (
    CompletionOpcode,
    CompletionStatus,
    PathReason,
    PathState,
    PortEvent,
    QpAttributes,
    QpEvent,
    QpState,
    QpType,
)
from tests.mrc_host.nic_world import MS, US, End, Faults, World, address, connect, path_events

KINDS = [QpType.MRC, QpType.RC]
CHUNK = 32768


def transfer(world: World, a: End, b: End, count: int = 64, size: int = CHUNK, limit: int = 60_000 * MS) -> int:
    """Write `count` chunks with immediate data and check all there is to check; returns the time it took."""
    start = world.now
    ids = [a.write(b, size, offset=i * size, imm=i) for i in range(count)]
    first = len(a.done)
    seen = len(b.done)

    def finished() -> bool:
        a.poll()
        b.poll()
        return len(a.done) - first >= count

    assert world.run(limit, until=finished), (a.nic.qp_counters(a.qpn), b.nic.qp_counters(b.qpn))
    took = world.now - start
    mine, theirs = a.done[first:], b.done[seen:]
    assert [(c.wr_id, c.status) for c in mine] == [(i, CompletionStatus.SUCCESS) for i in ids]
    assert [(c.opcode, c.imm, c.byte_len) for c in theirs] == [
        (CompletionOpcode.RECV_WRITE_WITH_IMM, i, size) for i in range(count)
    ]
    end = count * size
    assert a.buffer[:end] == b.buffer[:end]
    assert b.nic.nic_counters()["drop_internal_error"] == a.nic.nic_counters()["drop_internal_error"] == 0
    return took


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(seed=1, loss=0.01),
        Faults(seed=2, loss=0.1),
        Faults(seed=3, duplicate=0.3),
        Faults(seed=4, corrupt=0.03),
        Faults(seed=5, delay=0.3, extra=50 * US),
        Faults(seed=6, mark=0.5),
        Faults(seed=7, loss=0.03, duplicate=0.1, corrupt=0.02, delay=0.2, extra=200 * US, mark=0.1),
    ],
    ids=["clean", "loss1", "loss10", "duplicate", "corrupt", "reorder", "ecn", "all"],
)
def test_transfers_are_exact_under_faults(kind: QpType, faults: Faults) -> None:
    world = World(faults=faults)
    a, b = connect(world, size=64 * CHUNK, kind=kind, attributes=QpAttributes(retry_count=255))
    transfer(world, a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0xFFFFFF - 100, 0xFFFFFF, 0x7FFFF0])
def test_transfers_survive_psn_wraparound(kind: QpType, first: int) -> None:
    world = World(faults=Faults(seed=8, loss=0.02, duplicate=0.05))
    attributes = QpAttributes(send_psn=first, receive_psn=first, retry_count=255)
    a, b = connect(world, size=64 * CHUNK, kind=kind, attributes=attributes)
    transfer(world, a, b)
    b.buffer[:] = bytes(len(b.buffer))
    transfer(world, a, b)


def test_writes_run_in_both_directions_at_once() -> None:
    world = World(faults=Faults(seed=9, loss=0.02))
    a, b = connect(world, size=1 << 20)
    half = 1 << 19
    b.buffer[half:] = bytes(reversed(a.buffer[:half]))
    for i in range(16):
        a.write(b, CHUNK, offset=i * CHUNK)
        b.write(a, CHUNK, offset=half + i * CHUNK)

    def finished() -> bool:
        a.poll()
        b.poll()
        return len(a.done) == len(b.done) == 16

    assert world.run(10_000 * MS, until=finished)
    assert a.buffer == b.buffer


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 4095, 4096, 4097, 8191, 8192, 12289])
@pytest.mark.parametrize("kind", KINDS)
def test_writes_of_any_length_and_offset_arrive(kind: QpType, length: int) -> None:
    world = World()
    a, b = connect(world, size=20000, kind=kind)
    a.write(b, length, offset=3, to_offset=77)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert b.buffer[77 : 77 + length] == a.buffer[3 : 3 + length]
    assert b.buffer[:77] == bytes(77)
    assert b.buffer[77 + length :] == bytes(20000 - 77 - length)


def test_planes_carry_equal_load() -> None:
    world = World(planes=4, uplinks=16)
    a, b = connect(world, size=256 * CHUNK)
    world.record = True
    transfer(world, a, b, count=256)
    data = Counter(port for _t, nic, port, frame in world.sent if nic == 0 and len(frame) > 1000)
    assert max(data.values()) - min(data.values()) <= 2 * TransportSettings().plane_skew_limit


def test_planes_of_different_delay_cause_no_retransmission() -> None:
    """docs/protocol.md §2: reordering between planes is never loss."""
    for skew in (50 * US, 300 * US, 3 * MS):
        world = World(planes=4, uplinks=8, faults=Faults(plane_delay={1: skew, 3: 2 * skew}))
        a, b = connect(world, size=128 * CHUNK)
        transfer(world, a, b, count=128)
        counters = a.nic.qp_counters(a.qpn)
        assert counters.retransmitted == counters.lost == 0, skew
        assert not path_events(a.nic)


def test_a_wide_window_over_skewed_planes_causes_no_retransmission() -> None:
    """More PSNs lie between the planes than one SACK bitmap shows."""
    world = World(planes=2, uplinks=8, faults=Faults(plane_delay={1: 600 * US}))
    a, b = connect(world, size=256 * CHUNK, attributes=QpAttributes(congestion_window=1 << 23, mpr=32, mpr_dest=32))
    transfer(world, a, b, count=256)
    assert b.nic.qp_counters(b.qpn).out_of_order_received > 100
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


def test_a_blackholed_path_is_retired_within_three_round_trips_without_timeout() -> None:
    dead = (1, 17)
    world = World(planes=4, uplinks=64, faults=Faults())
    a, b = connect(world, size=1024 * CHUNK)
    transfer(world, a, b, count=512)
    path_events(a.nic)
    world.faults.dead_paths.add(dead)
    transfer(world, a, b, count=512)
    counters = a.nic.qp_counters(a.qpn)
    assert counters.timeouts == 0
    assert 0 < counters.retransmitted == counters.lost <= 4
    assert counters.spurious_retransmitted == 0
    (event,) = [e for e in path_events(a.nic) if e.new is PathState.ASSUMED_BAD]
    assert (event.plane, event.ev & 0x3FF, event.reason) == (*dead, PathReason.LOSS)
    assert event.first_loss_time is not None
    round_trip = 2 * (world.delay + 2 * world.frame_time) + 16 * world.frame_time
    assert event.time - event.first_loss_time < 3 * round_trip


def test_a_path_is_kept_whose_packets_no_answer_shows() -> None:
    """Of two paths in each plane one is dead, both ways: most answers are lost, and a bitmap shows 64 packets only."""
    dead = {(0, 0), (1, 0)}
    world = World(planes=2, uplinks=2, seed=85, faults=Faults(dead_paths=dead))
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b, size=CHUNK // 2)
    assert {(e.plane, e.ev & 0x3FF) for e in path_events(a.nic) if e.new is PathState.ASSUMED_BAD} == dead


def test_a_lost_path_is_replaced_by_a_backup_of_its_plane() -> None:
    world = World(planes=2, uplinks=16)
    a, b = connect(world, size=512 * CHUNK)
    before = {p.ev: p for p in a.nic.qp_paths(a.qpn)}
    victim = next(p for p in before.values() if p.active and p.plane == 1)
    world.faults.dead_paths.add((1, victim.ev & 0x3FF))
    transfer(world, a, b, count=256)
    after = {p.ev: p for p in a.nic.qp_paths(a.qpn)}
    assert (after[victim.ev].state, after[victim.ev].active) == (PathState.ASSUMED_BAD, False)
    for plane in (0, 1):
        old = {ev for ev, p in before.items() if p.active and p.plane == plane}
        new = {ev for ev, p in after.items() if p.active and p.plane == plane}
        assert len(new) == len(old) == 14
        assert len(new - old) == plane, "one backup in the plane of the loss, none in the other"


def test_a_retired_path_returns_after_successful_probes() -> None:
    settings = TransportSettings()
    world = World(planes=2, uplinks=4)
    a, b = connect(world, size=64 * CHUNK)
    world.faults.dead_paths.add((0, 2))
    transfer(world, a, b)
    assert [e.new for e in path_events(a.nic)] == [PathState.ASSUMED_BAD]
    world.run(500 * MS)
    assert not path_events(a.nic), "it stays out of use while it is dead"
    world.faults.dead_paths.clear()
    repaired_at = world.now
    world.run(1000 * MS)
    (event,) = path_events(a.nic)
    assert (event.old, event.new, event.reason) == (PathState.ASSUMED_BAD, PathState.GOOD, PathReason.PROBE)
    wait = 4 * settings.probe_timeout + (settings.probe_successes - 1) * settings.probe_interval + MS
    assert settings.probe_interval < event.time - repaired_at < wait
    assert all(p.active for p in a.nic.qp_paths(a.qpn) if p.ev == event.ev)


def test_a_transfer_continues_after_a_plane_fails() -> None:
    world = World(planes=2, uplinks=4)
    a, b = connect(world, size=512 * CHUNK)
    transfer(world, a, b)
    world.faults.dead_planes.add(1)
    first = transfer(world, a, b)
    assert first < 60 * MS, "two ACK timeouts and a bit"
    second = transfer(world, a, b)
    assert second < 5 * MS, "no data is sent into the dead plane, though some acknowledgements still are"
    world.faults.dead_planes.clear()
    world.run(1000 * MS)
    world.record = True
    transfer(world, a, b)
    ports = Counter(port for _t, nic, port, frame in world.sent if nic == 0 and len(frame) > 1000)
    assert abs(ports[0] - ports[1]) <= 16, "both planes again"


def test_port_down_moves_traffic_at_once_and_notifies_the_peer() -> None:
    world = World(planes=4, uplinks=4)
    a, b = connect(world, size=512 * CHUNK)
    transfer(world, a, b)
    a.nic.async_events()
    for i in range(128):
        a.write(b, CHUNK, offset=i * CHUNK, imm=i)
    world.run(200 * US)
    world.set_port(1, 2, False)
    down = world.now
    world.run(MS)
    (event,) = [e for e in a.nic.async_events() if isinstance(e, PortEvent)]
    assert (event.port, event.up, event.local, event.peer) == (2, False, False, address(1))
    assert event.time - down < 100 * US
    world.record = True
    assert world.run(1000 * MS, until=lambda: bool(b.poll()) and len(b.done) >= 192)
    assert not [1 for _t, nic, port, frame in world.sent if port == 2], "neither end uses the plane"
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    world.run(100 * MS)
    world.set_port(1, 2, True)
    up = world.now
    world.run(MS)
    a.poll()
    b.poll()
    events = [e for e in a.nic.async_events() if isinstance(e, PortEvent)]
    assert [(e.port, e.up) for e in events] == [(2, True)]
    assert events[0].time - up < 100 * US
    world.sent.clear()
    a.done.clear()
    transfer(world, a, b)
    ports = Counter(port for _t, nic, port, frame in world.sent if nic == 0 and len(frame) > 1000)
    assert max(ports.values()) - min(ports.values()) <= 16
    assert len(ports) == 4


def test_flapping_ports_lose_nothing() -> None:
    world = World(planes=2, uplinks=4, faults=Faults(seed=3, loss=0.01))
    a, b = connect(world, size=256 * CHUNK, attributes=QpAttributes(retry_count=255))
    for i in range(40):
        number, port = i % 2, i // 2 % 2
        world.at(world.now + (100 + 130 * i) * US, lambda n=number, p=port: world.set_port(n, p, False))
        world.at(world.now + (170 + 130 * i) * US, lambda n=number, p=port: world.set_port(n, p, True))
    transfer(world, a, b, count=256)


def test_a_single_path_connection_waits_for_its_port_and_resumes() -> None:
    world = World(planes=2)
    a, b = connect(world, size=64 * CHUNK, kind=QpType.RC, attributes=QpAttributes(retry_count=255))
    (path,) = a.nic.qp_paths(a.qpn)
    (far,) = b.nic.qp_paths(b.qpn)
    assert path == far, "both ends choose the same plane and source port"
    world.at(world.now + 100 * US, lambda: world.set_port(0, path.plane, False))
    world.at(world.now + 300 * MS, lambda: world.set_port(0, path.plane, True))
    assert transfer(world, a, b) > 300 * MS
    assert a.nic.qp_counters(a.qpn).timeouts > 0


def test_ecn_marks_skip_paths_but_retire_none() -> None:
    world = World(faults=Faults(seed=4, mark=0.3))
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b)
    assert not path_events(a.nic)
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


def test_trimmed_packets_are_retransmitted_and_retire_no_path() -> None:
    world = World(faults=Faults(seed=5, trim=0.1))
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b)
    counters = a.nic.qp_counters(a.qpn)
    assert counters.retransmitted > 10
    assert counters.spurious_retransmitted == counters.timeouts == 0
    assert not path_events(a.nic)


def test_a_lost_tail_is_detected_by_a_probe_before_the_timeout() -> None:
    world = World()
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b)
    lost = []

    def lose_last(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and frame[102] == 0xC8 and not lost:
            lost.append(now)
            return None
        return frame

    world.tap = lose_last
    start = world.now
    a.write(b, CHUNK)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert lost
    assert world.now - start < 2 * MS
    counters = a.nic.qp_counters(a.qpn)
    assert (counters.timeouts, counters.retransmitted) == (0, 1)
    assert counters.probes_sent > 0


def test_a_lost_transport_ack_is_requested_again() -> None:
    world = World()
    a, b = connect(world, size=CHUNK)
    dropped = []

    def lose_acks(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 1 and frame[102] == 0xD1 and len(dropped) < 3:
            dropped.append(now)
            return None
        return frame

    world.tap = lose_acks
    a.write(b, CHUNK)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert len(dropped) == 3
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_peer_ends_in_retry_exceeded(kind: QpType) -> None:
    world = World(faults=Faults(loss=1.0))
    a, b = connect(world, size=CHUNK, kind=kind, attributes=QpAttributes(timeout=10, retry_count=5))
    first = a.write(b, CHUNK)
    second = a.write(b, 10, signaled=False)
    assert world.run(60_000 * MS, until=lambda: bool(a.poll()))
    assert [(c.wr_id, c.status) for c in a.done] == [
        (first, CompletionStatus.RETRY_EXCEEDED),
        (second, CompletionStatus.FLUSHED),
    ]
    assert "5 retries" in a.done[0].reason
    assert a.nic.qp_state(a.qpn) is QpState.ERROR
    assert any(isinstance(e, QpEvent) and e.qpn == a.qpn for e in a.nic.async_events())
    frames = world.frames
    world.run(60_000 * MS)
    assert world.frames - frames < 200, "a failed queue pair is quiet (its port status goes on once a second)"


@pytest.mark.second_ring
@pytest.mark.parametrize("kind", KINDS)
def test_retry_count_255_retries_forever(kind: QpType) -> None:
    world = World(faults=Faults(loss=1.0))
    a, b = connect(world, size=CHUNK, kind=kind, attributes=QpAttributes(timeout=10, retry_count=255))
    a.write(b, CHUNK)
    world.run(30_000 * MS)
    assert a.nic.qp_state(a.qpn) is QpState.RTS
    world.faults.loss = 0
    assert world.run(10_000 * MS, until=lambda: bool(a.poll()))
    assert a.buffer == b.buffer


def test_an_unresponsive_peer_causes_no_timer_storm() -> None:
    world = World()
    a, b = connect(world, size=64 * CHUNK, attributes=QpAttributes(retry_count=255))
    transfer(world, a, b)
    world.faults.loss = 1.0
    for i in range(64):
        a.write(b, CHUNK, offset=i * CHUNK)
    before = world.frames
    world.run(10_000 * MS)
    assert world.frames - before < 3000, "probes of paths, retries with growing waits, and no more"


def test_a_peer_that_connects_late_retires_no_path() -> None:
    """Before the first packet of the peer, its silence says nothing about paths."""
    world = World()
    a, b = connect(world, size=CHUNK)
    world.tap = lambda nic, port, to, frame, now: frame if now > 50 * MS else None
    a.write(b, CHUNK)
    assert world.run(10_000 * MS, until=lambda: bool(a.poll()))
    assert a.nic.qp_counters(a.qpn).timeouts > 0
    assert not path_events(a.nic)


def test_acknowledgements_survive_a_dead_reverse_path() -> None:
    """The receiver sends no data, and one path in each plane is dead in its direction only."""
    world = World(planes=2, uplinks=2)
    a, b = connect(world, size=64 * CHUNK)

    def lose_back(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        return None if nic == 1 and frame[45] & 1 == 0 else frame

    world.tap = lose_back
    transfer(world, a, b)
    took = transfer(world, a, b)
    assert took < 20 * MS
    assert a.nic.qp_state(a.qpn) is QpState.RTS


@pytest.mark.parametrize("dead", range(4))
def test_a_probe_is_not_repeated_on_the_path_where_one_was_lost(dead: int) -> None:
    """Answers are lost for a while, then one path is dead: perhaps the one on which something arrived last."""
    world = World(planes=1, uplinks=4, seed=3)
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b)
    world.faults.dead_from[1] = {(0, path) for path in range(4)}
    a.write(b, 4096)
    world.run(30 * US)
    world.faults.dead_from = {0: {(0, dead)}}
    assert world.run(200 * MS, until=lambda: bool(a.poll()))
    assert a.nic.qp_counters(a.qpn).timeouts == 0


def test_an_idle_nic_sends_nothing() -> None:
    world = World()
    a, b = connect(world, size=64 * CHUNK)
    transfer(world, a, b)
    world.run(1000 * MS)
    frames = world.frames
    world.run(10_000 * MS)
    assert world.frames == frames
    assert a.nic.wakeup() is None
    assert b.nic.wakeup() is None
