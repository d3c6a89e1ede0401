"""How a loss is found: holes that SACKs show, NACKs, later packets on the same path, lanes and round-trip times."""

import pytest

from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.sent_packets import Lane
from mrc_host.verbs_types import PathReason, PathState, QpAttributes
from mrc_host.wire import control
from tests.mrc_host.nic_world import US, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, WIDE, FarEnd, Packet, bits, counters, flight, warm


def test_packets_leave_a_lane_in_any_order_and_may_return() -> None:
    lane = Lane()
    records = [SentPacket() for _ in range(5)]
    for one in records:
        lane.enter(one)
    inside = list(records)
    for one in (records[2], records[0], records[4]):  # from the middle, and from both ends
        lane.leave(one)
        inside.remove(one)
        assert chain(lane) == inside
        assert one.older is one.newer is None
    lane.enter(records[2])
    assert chain(lane) == [records[1], records[3], records[2]]
    for one in chain(lane):
        lane.leave(one)
    assert lane.head() is None
    lane.enter(records[0])
    assert chain(lane) == [records[0]]


def chain(lane: Lane) -> list[SentPacket]:
    """What is in a lane, found from both ends alike."""
    found: list[SentPacket] = []
    one = lane.head()
    while one is not None:
        found.append(one)
        one = one.newer
    back: list[SentPacket] = []
    one = lane.newest
    while one is not None:
        back.insert(0, one)
        one = one.older
    assert back == found
    return found


def test_rtt_follows_rfc_6298_and_keeps_the_minimum() -> None:
    trip = RoundTrip()
    trip.sample(800)
    assert (trip.smoothed, trip.variation, trip.min_rtt) == (800, 400, 800)
    trip.sample(1600)
    assert (trip.smoothed, trip.variation, trip.min_rtt) == (900, 500, 800)
    for _ in range(200):
        trip.sample(300)
    assert 295 <= trip.smoothed <= 310
    assert trip.min_rtt == 300


def test_rtts_possibly_inflated_by_an_outage_count_only_until_a_clean_sample() -> None:
    trip = RoundTrip()
    for late in (8000, 9600):
        trip.sample(late, late=True)
    assert (trip.smoothed, trip.min_rtt) == (8200, 8000), "all there is to go by where paths are so slow"
    trip.sample(800)
    assert (trip.smoothed, trip.variation, trip.min_rtt) == (800, 400, 800)
    trip.sample(8000, late=True)
    assert (trip.smoothed, trip.variation, trip.min_rtt) == (1700, 2100, 800)
    trip.sample(1000)
    assert (trip.smoothed, trip.variation, trip.min_rtt) == (1000, 500, 800)


def test_before_an_rtt_sample_nothing_younger_than_the_bound_is_lost() -> None:
    trip, order = RoundTrip(), ReorderWindow()
    order.observe(5, 0)
    assert min(order.windows(trip, 50, 0)) > 10**15, "nothing is known at all"
    trip.limit(3000)
    trip.limit(9000)
    assert order.windows(trip, 50, 0) == (3000, 3000)
    trip.sample(100)
    assert order.windows(trip, 50, 0) == (100, 200)


def retired_paths(end: FarEnd) -> list[int]:
    return [e.ev for e in path_events(end.nic) if e.new is PathState.ASSUMED_BAD]


def test_a_hole_is_a_loss_only_in_its_own_plane() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end)
    plane = {p.psn - FIRST_OUT: p.port for p in packets}
    lost = next(n for n in range(1, 6) if plane[n] == 1)
    end.sack(0, of=packets[0])
    arrived = [n for n in plane if plane[n] == 1 and n != lost]
    end.sack(0, bits(arrived, 1), base=1, of=packets[arrived[0]])
    again = end.data()
    assert [p.psn - FIRST_OUT for p in again] == [lost]
    assert again[0].rtx
    assert again[0].ev != packets[lost].ev
    (event,) = path_events(end.nic)
    assert (event.ev, event.new, event.reason) == (packets[lost].ev, PathState.ASSUMED_BAD, PathReason.LOSS)
    assert event.first_loss_time == packets[lost].time
    assert counters(end) == (1, 1, 0), "nothing of plane 0 arrived, and nothing of it is lost"


def test_packets_outside_the_newest_sack_are_not_lost() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end, 64)
    plane1 = [p.psn - FIRST_OUT for p in packets if p.port == 1]
    late = plane1[10]
    end.sack(-1, bits([n for n in plane1 if n > late], 40), base=41, of=packets[plane1[11]])
    assert not end.data(), "packets before the bitmap are unknown, except the first hole"


def test_a_late_old_sack_shows_no_loss() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end)
    plane1 = [p.psn - FIRST_OUT for p in packets if p.port == 1]
    end.sack(-1, bits(plane1[8:], 0), base=1, units=50)
    before = counters(end)
    end.sack(-1, bits(plane1[9:], 0), base=1, units=40)
    assert counters(end) == before


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (control.NACK_TRIMMED, PathState.SKIP),
        (control.NACK_TRIMMED_LASTHOP, PathState.GOOD),
        (control.NACK_NO_BITMAP, PathState.GOOD),
        (control.NACK_NO_PKT_BUFFER, PathState.GOOD),
        (control.NACK_NO_RESOURCE, PathState.GOOD),
        (control.NACK_PSN_OOR_WINDOW, PathState.GOOD),
    ],
)
def test_a_nack_retransmits_the_packet_and_marks_only_a_trimming_path(reason: int, state: PathState) -> None:
    end = FarEnd(uplinks=8)
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, reason)
    states = {p.ev: p.state for p in end.nic.qp_paths(end.qpn)}
    assert states.pop(packet.ev) is state
    assert set(states.values()) == {PathState.GOOD}
    assert len(end.data()) == 1


def test_a_nack_of_an_older_transmission_is_ignored() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_TRIMMED)
    end.pass_time()
    assert len(end.data()) == 1
    end.nack(packet, control.NACK_TRIMMED)
    assert not end.data()


def test_a_later_packet_on_the_same_path_shows_a_loss_at_once() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=WIDE)
    packets = flight(end, 16, gap=2 * US)
    lost = packets[0]
    again = next(p for p in packets[1:] if p.ev == lost.ev)
    end.pass_time(200 * US)  # a long round trip: the reorder window is far wider than this flight
    end.sack(-1, bits([again.psn - FIRST_OUT], 0), base=1, of=again)
    assert [p.psn for p in end.data()] == [lost.psn]


def test_a_packet_declared_lost_that_arrives_before_it_is_sent_again_was_late() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=WIDE)
    packets = flight(end, 16, gap=2 * US)
    again = next(p for p in packets[1:] if p.ev == packets[0].ev)
    end.pass_time(200 * US)
    end.sack(-1, bits([again.psn - FIRST_OUT], 0), base=1, of=again)
    assert end.nic.qp_counters(end.qpn).lost == 1
    assert end.nic.qp_counters(end.qpn).late == 0
    end.sack(15, of=packets[-1])
    assert end.nic.qp_counters(end.qpn).late == 1
    assert not end.data()
    assert counters(end) == (1, 0, 0)


def test_a_retransmission_overtaking_on_its_path_shows_no_loss() -> None:
    """Retransmissions travel in a higher class, so they say nothing about first transmissions on the same path."""
    end = FarEnd(planes=1, uplinks=2, attributes=WIDE)
    packets = flight(end, 8, gap=2 * US)
    end.nack(packets[0], control.NACK_TRIMMED_LASTHOP)
    (again,) = end.data()
    same = [p for p in packets[1:] if p.ev == again.ev]
    assert same
    end.pass_time(300 * US)
    end.sack(0, of=again)
    assert not end.data(), "packets sent before it on its path are only late"
    assert counters(end) == (1, 1, 0)


def test_later_packets_of_a_dead_path_are_lost_with_its_first() -> None:
    end = FarEnd(planes=1, uplinks=2, attributes=QpAttributes(congestion_window=1 << 30), size=1 << 20)
    warm(end)
    end.write(120 * 4096)
    sent: list[Packet] = []
    while len(sent) < 120:
        sent += end.drain(1)
        end.pass_time(US)
    dead = sent[0].ev
    number = {p.psn: p.psn - FIRST_OUT for p in sent}
    newest = number[sent[-1].psn]
    base = newest - 63
    shown = [number[p.psn] for p in sent if p.ev != dead and number[p.psn] >= base]
    end.sack(3, bits(shown, base), base=base - 3, of=next(p for p in reversed(sent) if p.ev != dead))
    again = {p.psn for p in end.drain() if p.rtx}
    assert retired_paths(end) == [dead]
    before = {p.psn for p in sent if p.ev == dead and number[p.psn] < base}
    assert len(before) > 20
    assert before <= again, "none of them is in the bitmap, and others of which nothing is known lie between"
    assert again <= {p.psn for p in sent if p.ev == dead}


def test_all_packets_of_a_dead_path_are_lost_at_once_despite_a_short_bitmap() -> None:
    """Some 200 packets are on their way, a quarter of them on one dead path; SACKs show the newest 64 PSNs only."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(congestion_window=1 << 30), size=1 << 22)
    warm(end)
    end.write(900 * 4096)
    sent: list[Packet] = []
    arrived: set[int] = set()
    again: list[Packet] = []
    dead = -1
    while len(sent) < 800:
        due = len(sent) - 200
        if due >= 0:
            packet = sent[due]
            number = packet.psn - FIRST_OUT
            if packet.ev != dead:
                arrived.add(number)
            if due % 8 == 7:
                arrived |= {p.psn - FIRST_OUT for p in again if end.now - p.time >= 20 * US}
                cack = next(psn for psn in range(4, number + 2) if psn not in arrived) - 1
                base = max(cack + 1, number - 63)
                end.sack(cack, bits(sorted(arrived & set(range(base, number + 1))), base), base=base - cack, of=packet)
        (packet,) = end.drain(1)
        dead = packet.ev if dead < 0 else dead
        if packet.rtx:
            again.append(packet)
        else:
            sent.append(packet)
        end.pass_time(100)
    assert retired_paths(end) == [dead]
    first = again[0].time
    lost = {p.psn for p in sent if p.ev == dead and p.time < first}
    assert {p.psn for p in again} == lost
    early = {p.psn for p in again if p.time < first + 10 * US}
    assert len(early) > len(lost) // 4, "not one a round trip"
