"""RoCE with selective repeat (RC_SR) and over adaptive routing (RC_AR): what is sent again, when, and on which path.

Expectations are those of IRN (Mittal et al., SIGCOMM 2018, sections 3.1 to 3.3 and 4.1), unless a test says otherwise.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpType
from mrc_host.wire import headers, opcodes
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect

START = 62  # of the BTH behind Ethernet, IPv6 and UDP
MTU = 4096
BOTH = (QpType.RC_SR, QpType.RC_AR)


def pair(
    kind: QpType, faults: Faults | None = None, transport: TransportSettings | None = None, **attributes: int
) -> tuple[World, End, End]:
    world = World(planes=2, faults=faults, transport=transport)
    world.record = True
    a, b = connect(world, size=1 << 18, kind=kind, attributes=QpAttributes(send_psn=0, receive_psn=0, **attributes))
    return world, a, b


def psn(frame: bytes) -> int:
    return int.from_bytes(frame[START + 9 : START + 12], "big")


def is_data(frame: bytes) -> bool:
    return frame[20] == 17 and opcodes.WRITE_FIRST <= frame[START] <= opcodes.WRITE_ONLY_IMM


def data(world: World) -> list[tuple[int, int]]:
    """When packets of data left, and their PSNs."""
    return [(when, psn(frame)) for when, nic, _port, frame in world.sent if nic == 0 and is_data(frame)]


def lose(world: World, *which: tuple[int, int]) -> None:
    """Lose these transmissions of data, each given by its PSN and number, from 1 on."""
    seen: Counter[int] = Counter()

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic != 0 or not is_data(frame):
            return frame
        seen[psn(frame)] += 1
        return None if (psn(frame), seen[psn(frame)]) in which else frame

    world.tap = tap


def done(world: World, a: End, b: End, number: int = 1, within: int = 100 * MS) -> None:
    assert world.run(within, until=lambda: bool(a.poll()) and len(a.done) == number)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    most = max(c.byte_len for c in a.done)
    assert a.buffer[:most] == b.buffer[:most]


@pytest.mark.parametrize("kind", BOTH)
def test_all_packets_take_one_port_and_source_port_and_have_an_address_each(kind: QpType) -> None:
    """A single path, as ECMP sees it, for data and for answers; section 5.3: RETH in every packet."""
    world, a, b = pair(kind)
    a.write(b, 10 * MTU + 1)
    done(world, a, b)
    for number in (0, 1):
        assert len({(port, frame[54:56]) for _t, n, port, frame in world.sent if n == number and frame[20] == 17}) == 1
    address = [
        int.from_bytes(f[START + 20 : START + 28], "big") for _t, n, _p, f in world.sent if n == 0 and is_data(f)
    ]
    assert [at - address[0] for at in address] == [n * MTU for n in range(11)]
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


@pytest.mark.parametrize("kind", BOTH)
def test_only_what_was_lost_is_sent_again(kind: QpType) -> None:
    world, a, b = pair(kind, congestion_window=16 * MTU)
    lose(world, (5, 1), (9, 1), (10, 1))
    a.write(b, 40 * MTU)
    done(world, a, b)
    assert {number for number, count in Counter(n for _t, n in data(world)).items() if count > 1} == {5, 9, 10}
    counters = a.nic.qp_counters(a.qpn)
    assert (counters.lost, counters.retransmitted) == (3, 3)
    assert b.nic.qp_counters(b.qpn).duplicates_received == 0


def test_on_one_path_a_later_arrival_shows_a_loss_within_a_round_trip() -> None:
    world, a, b = pair(QpType.RC_SR, congestion_window=64 * MTU)
    lose(world, (5, 1))
    a.write(b, 40 * MTU)
    done(world, a, b)
    first, again = [when for when, number in data(world) if number == 5]
    round_trip = 2 * (world.delay + world.frame_time)
    assert again - first <= round_trip + 4 * world.frame_time, "the packet behind it and its SACK"
    assert a.nic.qp_counters(a.qpn).timeouts == 0


def test_a_retransmission_that_is_lost_too_is_shown_by_what_is_sent_later() -> None:
    """IRN would wait for a timeout: ours is kinder (selective_repeat.py says why)."""
    world, a, b = pair(QpType.RC_SR, congestion_window=16 * MTU)
    lose(world, (5, 1), (5, 2))
    a.write(b, 60 * MTU)
    done(world, a, b)
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    assert a.nic.qp_counters(a.qpn).retransmitted == 2


@pytest.mark.parametrize(("packets", "timeout"), [(1, 100 * US), (3, 100 * US), (8, 320 * US)])
def test_a_lost_tail_waits_for_the_short_timeout_if_few_packets_are_in_flight(packets: int, timeout: int) -> None:
    """Section 4.1: RTO_low of 100 us for at most three packets, RTO_high of 320 us."""
    world, a, b = pair(QpType.RC_SR, congestion_window=64 * MTU)
    lose(world, *((number, 1) for number in range(packets)))
    a.write(b, packets * MTU)
    done(world, a, b)
    sent = data(world)
    assert [number for _t, number in sent] == [*range(packets), *range(packets)], "all at once after one timeout"
    gap = next(when for when, number in sent[packets:] if number == 0) - sent[0][0]
    assert timeout <= gap < timeout + packets * world.frame_time + 5 * US
    assert a.nic.qp_counters(a.qpn).timeouts >= 1


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("base_rtt", [0, 2 * MS])
def test_round_trips_beyond_the_timeouts_are_found_out(kind: QpType, base_rtt: int) -> None:
    """Known beforehand, or after four windows: 320 us doubled three times are more than the 2 ms that it takes."""
    world = World(planes=2, delay=1 * MS, transport=TransportSettings(base_rtt=base_rtt))
    attributes = QpAttributes(send_psn=0, receive_psn=0, congestion_window=16 * MTU)
    a, b = connect(world, size=1 << 20, kind=kind, attributes=attributes)
    a.write(b, 256 * MTU)
    done(world, a, b, within=1000 * MS)
    assert a.nic.qp_counters(a.qpn).retransmitted <= (0 if base_rtt else 4 * 16)


def test_with_adaptive_routing_reordering_is_no_loss_and_only_time_shows_one() -> None:
    world, a, b = pair(QpType.RC_AR, Faults(seed=3, delay=0.3, extra=100 * US), congestion_window=32 * MTU)
    a.write(b, 60 * MTU)
    done(world, a, b)
    assert a.nic.qp_counters(a.qpn).retransmitted == 0
    assert b.nic.qp_counters(b.qpn).out_of_order_received > 5
    world, a, b = pair(QpType.RC_AR, congestion_window=16 * MTU)
    lose(world, (5, 1))
    a.write(b, 40 * MTU)
    done(world, a, b)
    first, again = [when for when, number in data(world) if number == 5]
    assert 320 * US <= again - first < 330 * US
    assert a.nic.qp_counters(a.qpn).timeouts == 1


def test_reordering_on_the_one_path_is_taken_for_loss() -> None:
    """What IRN assumes of its network does not hold here, and it says so in duplicates."""
    world, a, b = pair(QpType.RC_SR, Faults(seed=3, delay=0.3, extra=100 * US), congestion_window=32 * MTU)
    a.write(b, 60 * MTU)
    done(world, a, b)
    assert a.nic.qp_counters(a.qpn).retransmitted > 5
    assert b.nic.qp_counters(b.qpn).duplicates_received > 5


@pytest.mark.parametrize("kind", BOTH)
def test_one_bandwidth_delay_product_is_in_flight(kind: QpType) -> None:
    """BDP-FC (section 3.2): 100 Gb/s for 22 us are 275 kB; ports of unknown rate count as `assumed_rate`."""
    settings = TransportSettings(base_rtt=22 * US, assumed_rate=10_000_000_000, rc_congestion="none")
    world, a, b = pair(kind, transport=settings)
    most = 0
    a.write(b, 1 << 18)

    def full() -> bool:
        nonlocal most
        most = max(most, a.nic.hw_counters(a.qpn, world.now)["inflight_bytes"])
        return bool(a.poll())

    assert world.run(100 * MS, until=full)
    assert 10_000_000_000 * 22e-6 / 8 - MTU - 300 <= most <= 10_000_000_000 * 22e-6 / 8 + 300


@pytest.mark.parametrize("kind", BOTH)
def test_an_adaptive_path_is_asked_for_by_the_traffic_class_of_data_alone(kind: QpType) -> None:
    world, a, b = pair(kind)
    a.write(b, 10 * MTU)
    done(world, a, b)
    classes = [
        {(f[14] << 8 | f[15]) >> 6 & 0x3F for _t, n, _p, f in world.sent if n == number and f[20] == 17}
        for number in (0, 1)
    ]
    assert classes == [{24 if kind is QpType.RC_AR else 0}, {46}]


@pytest.mark.parametrize("kind", BOTH)
def test_a_lost_transport_ack_is_asked_for_again(kind: QpType) -> None:
    world, a, b = pair(kind)
    lost = []

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 1 and frame[START] == opcodes.TRANSPORT_ACK and len(lost) < 2:
            lost.append(now)
            return None
        return frame

    world.tap = tap
    a.write(b, 3 * MTU, imm=7)
    done(world, a, b)
    assert len(lost) == 2
    assert [c.imm for c in b.poll()] == [7]
    assert a.nic.qp_counters(a.qpn).lost == 0


@pytest.mark.parametrize("kind", BOTH)
def test_a_peer_that_never_answers_uses_up_the_retries(kind: QpType) -> None:
    """One retry an ACK timeout, as with go-back-N, however often data was sent in between."""
    world, a, b = pair(kind, timeout=9, retry_count=3)
    world.faults.loss = 1.0
    start = world.now
    a.write(b, 3 * MTU)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.RETRY_EXCEEDED
    assert 4 * (1024 << 9) <= world.now - start <= 6 * (1024 << 9)


@pytest.mark.parametrize("kind", QpType)
def test_what_leaves_when_the_clock_shows_nothing_times_out_too(kind: QpType) -> None:
    world = World(planes=2, faults=Faults(loss=1.0))
    world.now = 0
    a, b = connect(world, kind=kind, attributes=QpAttributes(timeout=8, retry_count=1))
    a.write(b, 1 << 20)  # more than fits into a window
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.RETRY_EXCEEDED


@pytest.mark.parametrize("kind", BOTH)
def test_a_link_that_is_down_is_waited_for(kind: QpType) -> None:
    world, a, b = pair(kind)
    port = a.nic.qp_paths(a.qpn)[0].plane
    world.set_port(0, port, False)
    a.write(b, 20 * MTU)
    world.run(30 * MS)
    assert not a.poll()
    world.set_port(0, port, True)
    done(world, a, b)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("seed", range(8))
def test_everything_arrives_once_and_in_order_whatever_the_network_does(kind: QpType, seed: int) -> None:
    chance = random.Random(seed)
    faults = Faults(seed, loss=0.05, duplicate=0.02, corrupt=0.01, delay=0.1, extra=50 * US, mark=0.05)
    world, a, b = pair(kind, faults, TransportSettings(rc_congestion=chance.choice(["fixed", "dcqcn", "none"])), mpr=32)
    sizes = [chance.choice([0, 1, MTU - 1, MTU, MTU + 1, 3 * MTU, 10 * MTU]) for _ in range(20)]
    for number, size in enumerate(sizes):
        a.write(b, size, imm=number)
    done(world, a, b, len(sizes), 4000 * MS)
    assert [c.imm for c in b.poll()] == list(range(len(sizes)))


def test_marks_make_the_receiver_send_congestion_notifications_that_slow_the_sender() -> None:
    world, a, b = pair(QpType.RC_SR, Faults(mark=1.0), TransportSettings(rc_congestion="dcqcn", assumed_rate=10**10))
    a.write(b, 60 * MTU)
    done(world, a, b)
    ours, theirs = (end.nic.hw_counters(end.qpn, world.now) for end in (a, b))
    assert ours["rp_cnp_handled"] == theirs["np_cnp_sent"] > 1
    times = [when for when, _n in data(world)]
    round_trip = 2 * (world.delay + world.frame_time)
    free = round_trip // world.frame_time + 2 + 4  # leave before the first notification, and in a burst of 16 KiB
    assert times[-1] - times[0] > (60 - free) * MTU * 8 / 5, "ns at half of 10 Gb/s: the first one cuts by alpha/2"


@pytest.mark.parametrize("kind", BOTH)
def test_refused_writes_fail_as_they_do_on_other_queue_pairs(kind: QpType) -> None:
    world, a, b = pair(kind)
    a.write(b, 3 * MTU, rkey=b.region.rkey ^ 1)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.REMOTE_ACCESS_ERROR


def test_the_word_of_a_retransmission_says_so() -> None:
    world, a, b = pair(QpType.RC_SR, congestion_window=64 * MTU)
    lose(world, (5, 1))
    a.write(b, 40 * MTU)
    done(world, a, b)
    again = [f for _t, n, _p, f in world.sent if n == 0 and is_data(f) and psn(f) == 5][1]
    assert int.from_bytes(again[START + 8 : START + 12], "big") & headers.RTX
