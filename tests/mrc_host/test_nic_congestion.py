"""Whole NICs through a bottleneck: incast with and without congestion control, what queue pairs share, and RC."""

from statistics import mean

import pytest
from scapy.contrib.roce import BTH, cnp
from scapy.layers.l2 import Ether

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, DcqcnProfile, QpAttributes, QpType
from tests.mrc_host.congested_world import BASE_RTT, PLANE_BDP, RATE, CongestedWorld, keep_busy
from tests.mrc_host.nic_world import MS, US, End, World, connect, path_events

NSCC = TransportSettings(base_rtt=BASE_RTT)
NONE = TransportSettings(base_rtt=BASE_RTT, congestion="none")
SENDERS = 8


def incast(settings: TransportSettings, seed: int = 1) -> tuple[CongestedWorld, list[tuple[End, End]]]:
    world = CongestedWorld(SENDERS + 1, settings, seed=seed)
    return world, [connect(world, a, SENDERS, size=1 << 17) for a in range(SENDERS)]


def fairness(shares: list[int]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has all."""
    return sum(shares) ** 2 / len(shares) / sum(s * s for s in shares)


def test_an_incast_converges_to_fair_shares_and_a_short_queue() -> None:
    world, pairs = incast(NSCC)
    keep_busy(world, pairs, 1 << 16, 3 * MS)
    world.samples.clear()
    before = world.trims
    shares = keep_busy(world, pairs, 1 << 16, 6 * MS)
    assert fairness(shares) > 0.98
    assert sum(shares) > 0.9 * 2 * RATE / 8e9 * 6 * MS
    assert mean(waiting for *_, waiting in world.samples) < 0.68 * PLANE_BDP
    assert (world.trims - before) * 50 < len(world.samples)
    for near, _far in pairs:
        assert near.nic.qp_counters(near.qpn).timeouts == 0


def test_without_congestion_control_the_queue_stays_full() -> None:
    world, pairs = incast(NONE)
    keep_busy(world, pairs, 1 << 16, 2 * MS)
    world.samples.clear()
    before = world.trims
    keep_busy(world, pairs, 1 << 16, 2 * MS)
    assert mean(waiting for *_, waiting in world.samples) > 0.7 * PLANE_BDP
    assert (world.trims - before) * 4 > len(world.samples)


@pytest.mark.parametrize("oblivious", [False, True])
def test_only_reactive_spraying_leaves_a_dead_path(oblivious: bool) -> None:
    world = World(planes=1, uplinks=8, transport=TransportSettings(spraying="oblivious" if oblivious else "reactive"))
    world.faults.dead_paths.add((0, 3))
    a, b = connect(world)
    for _ in range(4):
        a.write(b, 1 << 20)
    assert world.run(2000 * MS, until=lambda: len(a.done) + len(a.poll()) == 4)
    assert a.buffer == b.buffer
    sent = {p.ev & 0x3FF: p.sent for p in a.nic.qp_paths(a.qpn)}
    share = sent[3] / sum(sent.values())
    assert share > 0.1 if oblivious else share < 0.06
    assert bool(path_events(a.nic)) != oblivious


# ---- RC --------------------------------------------------------------------------------------------------------------

DCQCN = TransportSettings(rc_congestion="dcqcn", dcqcn=DcqcnProfile(constants="sigcomm2015"), default_window=1 << 18)
START = 62


def rc_incast(settings: TransportSettings) -> tuple[CongestedWorld, list[tuple[End, End]]]:
    world = CongestedWorld(5, settings, seed=3, planes=1)
    world.record = True
    return world, [
        connect(world, a, 4, size=1 << 17, kind=QpType.RC, attributes=QpAttributes(timeout=9)) for a in range(4)
    ]


def notifications(world: World) -> list[tuple[int, int, bytes]]:
    """Time, sender and frame of every CNP."""
    return [(t, n, f) for t, n, _p, f in world.sent if f[START] == 0x81]


def test_a_cnp_matches_the_one_scapy_builds() -> None:
    world = World(planes=1, transport=DCQCN)
    world.record = True
    world.faults.mark = 1.0
    a, b = connect(world, size=1 << 17, kind=QpType.RC)
    a.write(b, 100)
    assert world.run(MS, until=lambda: bool(a.poll()))
    ((_t, nic, frame),) = notifications(world)
    assert nic == 1
    ours = Ether(frame)
    expected = cnp(dqpn=a.qpn)
    expected[BTH].icrc = ours[BTH].icrc
    assert bytes(ours[BTH]) == bytes(expected)
    assert ours[BTH].becn == 1
    assert frame[15] & 0x30 == 0, "not ECN capable itself"
    assert not [f for f in world.nics[0].nic_counters().items() if f[0].startswith("drop_") and f[1]]


def test_cnps_of_a_queue_pair_keep_the_minimum_interval() -> None:
    world = World(planes=1, transport=DCQCN)
    world.record = True
    world.faults.mark = 1.0
    ends = [connect(world, size=1 << 18, kind=QpType.RC) for _ in range(2)]
    for a, b in ends:
        for _ in range(8):
            a.write(b, 1 << 18)
    world.run(3 * MS)
    interval = 50 * US * 40  # of 40 Gb/s; a port whose rate is not given counts as 1 Gb/s
    for a, _b in ends:
        times = [t for t, n, f in notifications(world) if n == 1 and Ether(f)[BTH].dqpn == a.qpn]
        assert len(times) == 2
        assert times[1] - times[0] >= interval


def test_without_dcqcn_marks_cause_no_cnp() -> None:
    world = World(planes=1)
    world.record = True
    world.faults.mark = 1.0
    a, b = connect(world, size=1 << 17, kind=QpType.RC)
    a.write(b, 1 << 17)
    assert world.run(10 * MS, until=lambda: bool(a.poll()))
    assert not notifications(world)


def test_dcqcn_reduces_its_rate_where_a_fixed_window_does_not() -> None:
    found = {}
    for name, settings in (("dcqcn", DCQCN), ("fixed", TransportSettings(default_window=1 << 18))):
        world, pairs = rc_incast(settings)
        keep_busy(world, pairs, 1 << 16, 4 * MS)
        world.samples.clear()
        drops = world.drops
        shares = keep_busy(world, pairs, 1 << 16, 8 * MS)
        found[name] = mean(w for *_, w in world.samples) / PLANE_BDP, world.drops - drops, fairness(shares)
        assert bool(notifications(world)) == (name == "dcqcn")
    print(found)
    (queue, drops, shares), (full, lost, _) = found["dcqcn"], found["fixed"]
    assert queue < full / 2
    assert drops * 10 < lost
    assert shares > 0.9


def test_the_ack_timeout_of_rc_is_repeated_and_then_doubles() -> None:
    settings = TransportSettings(linear_retries=2, max_backoff=3)
    world = World(planes=1, transport=settings)
    world.record = True
    a, b = connect(world, size=1 << 17, kind=QpType.RC, attributes=QpAttributes(timeout=6, retry_count=8))
    world.faults.dead_planes.add(0)
    a.write(b, 5 * 4096)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.RETRY_EXCEEDED
    assert "after 8 retries" in a.done[0].reason
    data = [t for t, n, _p, f in world.sent if n == 0 and f[START] <= 0x0B]
    repeats = data[5:]
    assert len(repeats) == 8, "one packet asks, each time"
    waits = [(later - earlier) / (1024 << 6) for earlier, later in zip(data[:1] + repeats, repeats, strict=False)]
    assert waits == pytest.approx([1, 1, 1, 2, 4, 8, 8, 8], rel=0.02)
