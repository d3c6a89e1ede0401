"""The end of the reorder window: what is overtaken and never followed by a later arrival is lost when time says so."""

import random
from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket
from mrc_host.verbs_types import (
    CompletionStatus,
    PathReason,
    PathState,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
    WorkRequest,
    WrOpcode,
)
from mrc_host.wire import opcodes
from tests.mrc_host.nic_world import MS, US, address, path_events
from tests.mrc_host.transport.far_end import FAR_QPN, FIRST_IN, FIRST_OUT, WIDE, FarEnd, Packet, bits, counters, warm
from tests.mrc_host.transport.test_loss_detection_alone import FIRST, PATHS, RTT, Sender

WINDOW = RTT  # two variations of the first sample: RTT / 2 each
PAST = 3 * RTT  # beyond any limit for slow paths


def begun() -> Sender:
    """A sender whose first packet has arrived: paths may be suspected from now on."""
    end = Sender()
    end.arrive(end.send(1, 50), 1000)
    end.sent.advance(FIRST + 1, 1000)
    return end


def overtaken(end: Sender, gap: int = 400) -> SentPacket:
    """A packet, missing; another of its lane, sent `gap` later and the last of all, has just been acknowledged."""
    one = end.send(3, 10_000)
    end.arrive(end.send(4, 10_000 + gap), 10_000 + gap + RTT)
    end.detect(10_000 + gap + RTT)
    return one


def lost_at(end: Sender, now: int) -> bool:
    """Call the timer, which has nothing to ask; whether it declared anything lost."""
    before = end.stats.lost
    assert end.loss.on_window_end(now) == 0
    return end.stats.lost > before


# ---- by itself ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0, 1, 400, WINDOW - 1])
def test_an_overtaken_packet_is_lost_a_reorder_window_after_it_should_have_arrived(gap: int) -> None:
    end = begun()
    one = overtaken(end, gap)
    due = 10_000 + RTT + WINDOW  # its own sending, the round trip of what overtook it, and the window
    assert end.loss.window_ends == due
    assert not lost_at(end, due - 1)
    assert one.state == OUT
    assert lost_at(end, due)
    assert one.state == LOST
    assert end.listener.retired == [(3, PathReason.LOSS)]
    assert end.loss.window_ends == 0
    assert not lost_at(end, due + 1), "a timer that has run is over"


def test_the_last_packet_of_a_lane_is_left_to_the_probe() -> None:
    end = begun()
    end.arrive(end.send(4, 10_000), 10_000 + RTT)
    last = end.send(3, 10_100)
    end.detect(10_100 + RTT)
    assert end.loss.window_ends == 0
    assert not lost_at(end, 10_000 + 100 * RTT)
    assert last.state == OUT


def test_what_arrives_within_the_window_is_not_lost() -> None:
    end = begun()
    one = overtaken(end)
    now = 10_000 + RTT + WINDOW - 1
    end.arrive(one, now)
    end.sent.advance(end.sent.next_psn, now)
    end.detect(now)
    assert end.loss.window_ends == 0
    assert not lost_at(end, now + PAST)
    assert (one.state, end.stats.lost) == (FREE, 0)


@pytest.mark.parametrize("path", [5, PATHS + 5], ids=["the same plane", "another plane"])
def test_the_window_does_not_end_before_what_was_sent_later_is_answered(path: int) -> None:
    """Its answer may tell more; a receiver that collects packets need not have acknowledged late arrivals yet."""
    end = begun()
    one = end.send(3, 10_000)
    near, later = end.send(4, 10_100), end.send(path, 10_200)
    end.arrive(near, 10_100 + RTT)
    end.detect(10_100 + RTT)
    assert end.loss.window_ends == 0
    end.arrive(later, 10_300 + RTT)
    end.detect(10_300 + RTT, 1 << 2 * (path // PATHS))
    shown = 10_200 if path < PATHS else 10_100  # what has overtaken it
    assert end.loss.window_ends == 10_300 + RTT + WINDOW - (shown - 10_000)
    assert lost_at(end, end.loss.window_ends)
    assert one.state == LOST


@pytest.mark.parametrize("path", [5, PATHS + 5], ids=["the same plane", "another plane"])
def test_where_several_are_missing_a_probe_asks_which(path: int) -> None:
    """A receiver need not report a late arrival while another packet before the last is missing."""
    end = begun()
    one, other = end.send(3, 10_000), end.send(path, 10_100)
    for number, late in enumerate((4, PATHS + 4)):
        end.arrive(end.send(late, 10_200 + number), 10_300 + RTT)
    end.detect(10_300 + RTT, 0b101)
    assert end.loss.window_ends == 10_300 + RTT + WINDOW - 200
    assert end.loss.on_window_end(end.loss.window_ends) == (0b01 if path < PATHS else 0b11)
    assert (one.state, other.state, end.loss.window_ends) == (OUT, OUT, 0)
    probed = 10_300 + RTT + WINDOW
    for lane in end.sent.lanes[::2]:
        lane.acked = probed  # as the answers have it
    end.detect(probed + RTT, 0b101)
    assert (one.state, other.state) == (LOST, LOST)


def test_one_that_is_to_be_sent_again_is_missing_too() -> None:
    end = begun()
    first, one = end.send(2, 9_000), end.send(3, 10_000)
    end.arrive(end.send(4, 10_400), 10_400 + RTT)
    end.loss.mark_lost(first, "timeout")
    end.detect(10_400 + RTT)
    assert end.loss.on_window_end(end.loss.window_ends) == 1
    assert one.state == OUT


def test_only_what_the_newest_sack_shows_as_missing_is_lost() -> None:
    end = begun()
    one = end.send(3, 10_000)
    end.arrive(end.send(4, 10_400), 10_400 + RTT)
    end.loss.detect(1, FIRST + 50, FIRST + 51, 10_400 + RTT)
    assert end.loss.window_ends == 0
    assert not lost_at(end, 10_000 + PAST)
    assert one.state == OUT


def test_a_retransmission_overtaken_by_a_later_first_transmission_is_lost_again() -> None:
    end = begun()
    one = end.send(3, 10_000)
    end.loss.mark_lost(one, "timeout")
    end.sent.take_lost()
    end.sent.transmitted(one, 0, 1, 5, 0, 20_000)
    end.arrive(end.send(4, 20_300), 20_300 + RTT)
    end.detect(20_300 + RTT)
    assert end.loss.window_ends == 20_000 + RTT + WINDOW
    assert lost_at(end, 20_000 + RTT + WINDOW)
    assert one.state == LOST


def test_a_path_that_may_just_be_slow_is_given_its_own_round_trip_and_the_window() -> None:
    """Its answer may come with that of another late packet."""
    end = begun()
    end.paths.measured(3, 5 * RTT // 2)
    one = overtaken(end)
    due = 10_000 + 5 * RTT // 2 + WINDOW + 1
    assert end.loss.window_ends == due
    assert not lost_at(end, due - 1)
    assert lost_at(end, due)
    assert one.state == LOST


def test_a_timer_called_much_too_late_lets_unread_answers_be_read_first() -> None:
    end = begun()
    one = overtaken(end)
    wait = end.loss.window_ends - (10_400 + RTT)
    late = end.loss.window_ends + wait + 1
    assert not lost_at(end, late)
    assert end.loss.window_ends == late + wait
    assert one.state == OUT
    again = end.loss.window_ends + 10 * wait
    assert lost_at(end, again), "once only: a NIC that is always late must get on"
    assert one.state == LOST


def test_before_anything_is_known_of_round_trips_there_is_no_timer() -> None:
    end = begun()
    for trip in end.trips:
        trip.smoothed = trip.variation = 0
    overtaken(end)
    assert end.loss.window_ends == 0
    end.trips[0].limit(3000)
    end.detect(10_400 + RTT)
    assert end.loss.window_ends == 10_000 + RTT + 3000


def test_time_waits_longer_once_a_late_packet_was_sent_again_for_nothing() -> None:
    """It overtook only what was sent shortly before it, so what was sent later would teach little."""
    end = begun()
    one = overtaken(end)
    assert lost_at(end, end.loss.window_ends)
    arrived = 10_000 + 4 * RTT  # three round trips later than others
    end.loss.disproved(3, one.lane, one.sent, False, arrived)
    end.sent.take_lost()
    end.sent.advance(end.sent.next_psn, arrived)
    again, shown = end.send(5, 100_000), 100_400 + RTT
    end.arrive(end.send(4, 100_400), shown)
    end.detect(shown)
    assert end.loss.window_ends == 100_000 + RTT + 3 * RTT * 5 // 4
    assert not lost_at(end, end.loss.window_ends - 1)
    assert lost_at(end, end.loss.window_ends)
    assert again.state == LOST


def test_late_arrivals_seen_long_ago_are_forgotten_by_and_by() -> None:
    trip, order = RoundTrip(), ReorderWindow()
    trip.sample(RTT)
    order.observe_late(2 * RTT, 0)
    order.observe_late(RTT, 10)
    assert order.wait(trip, 1024 * RTT) == 2 * RTT * 5 // 4
    assert order.wait(trip, 1024 * RTT + 1) == RTT * 5 // 4
    order.observe_late(100 * RTT, 1024 * RTT + 2)
    assert order.wait(trip, 1024 * RTT + 2) == 16 * RTT, "and none is waited for longer than that"


def test_time_waits_longer_once_a_packet_was_seen_to_be_late() -> None:
    end = begun()
    late = end.send(3, 10_000)
    end.arrive(end.send(4, 10_400), 10_400 + RTT)
    end.arrive(late, 10_000 + 3 * RTT)  # two round trips later than others
    end.sent.advance(end.sent.next_psn, 10_000 + 3 * RTT)
    end.send(3, 100_000)
    end.arrive(end.send(4, 100_400), 100_400 + RTT)
    end.detect(100_400 + RTT)
    assert end.loss.window_ends == 100_000 + RTT + 2 * RTT * 5 // 4


def test_a_window_that_has_grown_meanwhile_is_waited_for() -> None:
    end = begun()
    one = overtaken(end)
    end.trips[0].variation *= 2  # as another queue pair to the same peer measured
    assert not lost_at(end, 10_000 + RTT + WINDOW)
    assert end.loss.window_ends == 10_000 + RTT + 2 * WINDOW
    assert lost_at(end, 10_000 + RTT + 2 * WINDOW)
    assert one.state == LOST


def test_what_was_declared_lost_otherwise_is_not_lost_again() -> None:
    end = begun()
    one = overtaken(end)
    end.loss.mark_lost(one, "port_down")
    assert not lost_at(end, end.loss.window_ends)
    assert (end.stats.lost, end.cc.inflight) == (1, 0)


def test_only_planes_where_something_is_overtaken_are_asked() -> None:
    end = begun()
    early = end.send(3, 10_000)
    two = [end.send(PATHS + path, 10_000 + path) for path in (1, 2)]
    end.arrive(end.send(4, 10_400), 10_400 + RTT)
    end.arrive(end.send(PATHS + 4, 10_400), 10_400 + RTT)
    end.detect(10_400 + RTT, 0b101)
    end.arrive(early, 10_500 + RTT)
    end.detect(10_500 + RTT, 0b001)
    assert end.loss.on_window_end(end.loss.window_ends) == 0b10
    assert [record.state for record in two] == [OUT, OUT]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_a_moment_before_the_timer_and_something_at_it(seed: int) -> None:
    """Whatever the paths are like: a timer that ended too soon would be set again and again."""
    rng = random.Random(seed)
    found = 0
    for _ in range(50):
        end = begun()
        for path in range(PATHS):
            for _ in range(rng.randrange(3)):
                end.paths.measured(path, rng.randrange(RTT // 2, 4 * RTT))
        end.reordering[0].observe(rng.choice((0, 0, RTT // 4, 3 * RTT)), 1000)
        end.reordering[0].observe_late(rng.choice((0, 0, RTT // 2, 5 * RTT)), 1000)
        now, sent = 10_000, []
        for _ in range(rng.randrange(2, 9)):
            now += rng.randrange(1, RTT // 2)
            sent.append(end.send(rng.randrange(PATHS), now))
        now += RTT
        end.arrive(sent[-1], now)
        for record in sent[:-1]:
            if rng.random() < 0.7:
                end.arrive(record, now)
        while end.sent.sacked & 1:
            end.sent.advance(end.sent.una + 1, now)
        end.detect(now)
        ends, missing = end.loss.window_ends, [record for record in sent if record.state == OUT]
        if not ends:
            continue
        assert ends > now
        assert not lost_at(end, ends - 1)
        if len(missing) == 1 and not end.stats.lost:
            assert lost_at(end, ends), f"seed {seed}: called for nothing"
            found += 1
        else:
            assert end.loss.on_window_end(ends) == 1
        assert end.loss.window_ends == 0
    assert found > 2


# ---- in a queue pair ---------------------------------------------------------------------------------------------


def short_message(end: FarEnd, missing: int, rtt: int = 20 * US) -> list[Packet]:
    """Sixteen packets leave together; a round trip later the peer's only SACK shows one as missing."""
    end.write(16 * 4096)
    sent: list[Packet] = []
    while len(sent) < 16:
        sent += end.data(1, ports=(len(sent) % end.planes,))
        end.pass_time(100)
    sent.sort(key=lambda p: p.psn)
    end.pass_time(rtt)
    first = sent[0].psn - FIRST_OUT
    have = [p.psn - FIRST_OUT for p in sent if p.psn - FIRST_OUT != first + missing]
    cack = first + missing - 1
    end.sack(cack, bits(have, cack + 1), base=1, of=sent[-1], units=17 * (first + 15))
    return sent


def test_a_loss_in_a_short_message_is_sent_again_after_the_window_without_a_probe() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    warm(end)
    sent = short_message(end, 3)
    shown = end.now
    assert not end.data()
    out = end.wait(30 * US)
    again = [p for p in out if p.opcode < 0xD0]
    assert [p.psn for p in again] == [sent[3].psn]
    assert again[0].rtx
    assert again[0].ev != sent[3].ev
    assert 0 < again[0].time - shown <= 20 * US, "a round trip at most, when nothing was known to be out of order"
    assert not [p for p in out if p.opcode == opcodes.PROBE and p.time <= again[0].time]
    assert counters(end) == (1, 1, 0)


def test_a_packet_that_was_only_late_is_not_sent_again() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    warm(end)
    sent = short_message(end, 3)
    end.pass_time(2 * US)
    end.nic.tick(end.now)
    end.sack(sent[-1].psn - FIRST_OUT, of=sent[3], units=20 * 17)
    end.ack(2)
    assert not [p for p in end.wait(10 * MS) if p.opcode < 0xD0]
    assert counters(end) == (0, 0, 0)


def test_the_timer_obeys_the_recovery_delay() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE, transport=TransportSettings(recovery_delay=110 * US))
    warm(end)
    sent = short_message(end, 3)
    again = [p for p in end.wait(200 * US) if p.opcode < 0xD0]
    assert [(p.psn, p.time - sent[3].time) for p in again] == [(sent[3].psn, 110 * US)]


@pytest.mark.parametrize("how", ["reset", "error"])
def test_a_queue_pair_that_ended_meanwhile_sends_nothing(how: str) -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    warm(end)
    short_message(end, 3)
    if how == "reset":
        end.nic.modify_qp(end.qpn, QpState.RESET, end.now)
    else:
        end.ack(1, 0x63, cack=4)
        assert end.nic.qp_state(end.qpn) is QpState.ERROR
    assert not [p for p in end.wait(10 * MS) if p.opcode < 0xD0 or p.opcode == opcodes.PROBE]


def test_a_new_life_does_not_inherit_the_timer() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    warm(end)
    short_message(end, 3)
    due = end.nic.wakeup()
    end.nic.modify_qp(end.qpn, QpState.RESET, end.now)
    end.nic.connect_qp(end.qpn, QpAddress(address(1), FAR_QPN, FIRST_IN), end.now)
    assert end.qp.requester.sent.next_psn != FIRST_OUT
    end.write(4 * 4096)
    sent = end.data()
    assert len(sent) == 4
    assert due is not None
    assert not [p for p in end.wait(due - end.now) if p.opcode < 0xD0], "nothing of this life has been overtaken"
    assert counters(end) == (0, 0, 0)


def test_a_peer_that_falls_silent_after_showing_a_hole_is_given_up() -> None:
    end = FarEnd(uplinks=16, attributes=QpAttributes(timeout=8, retry_count=2, congestion_window=1 << 30))
    warm(end)
    sent = short_message(end, 3)
    out = end.wait(20 * (1024 << 8))
    assert {p.psn for p in out if p.opcode < 0xD0} == {sent[3].psn}
    (completion,) = end.poll()
    assert completion.status is CompletionStatus.RETRY_EXCEEDED


def test_a_dead_path_shown_by_time_is_retired_and_not_used_again() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    warm(end)
    sent = short_message(end, 3)
    end.wait(30 * US)
    events = [e for e in path_events(end.nic) if e.new is PathState.ASSUMED_BAD]
    assert [(e.ev, e.reason) for e in events] == [(sent[3].ev, PathReason.LOSS)]


def test_others_may_use_the_part_of_a_shared_window_that_time_sets_free() -> None:
    weight = 17 * 256
    end = FarEnd(
        planes=1,
        congestion={"two": Algorithm(lambda line: CongestionControl(2 * weight), shared=True)},
        transport=TransportSettings(congestion="two", recovery_delay=5 * MS),
    )
    warm_one_by_one(end)
    second = end.nic.create_qp(0, QpType.MRC, end.cq, end.cq, replace(end.attributes, send_psn=77))
    end.nic.connect_qp(second, QpAddress(address(1), FAR_QPN + 1), end.now)
    end.write(2 * 4096)
    lost, arrived = end.data()
    request = WorkRequest(9, WrOpcode.WRITE, end.region.address, end.region.lkey, 2 * 4096, 0x10000, 0x77, None, True)
    end.nic.post_send(second, request, end.now)
    assert not end.data(), "the window is full"
    end.pass_time()
    end.sack(lost.psn - FIRST_OUT - 1, 0b10, base=1, of=arrived, units=5 * 17)
    shown = end.now
    assert [p.psn for p in end.data()] == [77]
    out = [p for p in end.wait(MS) if p.opcode < 0xD0]
    assert [p.psn for p in out] == [78], "the lost packet itself still waits for its recovery delay"
    assert out[0].time <= shown + 20 * US


def warm_one_by_one(end: FarEnd) -> None:
    """Like ``warm``, in a window of two packets."""
    for number in range(4):
        end.write(4096)
        (sent,) = end.data()
        end.pass_time()
        end.sack(number, of=sent, units=17 * (number + 1))
        end.ack(number + 1)
    assert len(end.poll()) == 4
