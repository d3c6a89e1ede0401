"""Loss detection by itself: what it calls lost, given what was sent and what arrived."""

import random

from mrc_host.transport.loss_detection import LossDetection
from mrc_host.transport.paths import PathListener, PathSet
from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.stats import QpStats
from mrc_host.verbs_types import PathReason
from mrc_host.wire.control import SACK_BITS
from tests.mrc_host.transport.parts import Counting

FIRST = 1000
RTT = 10_000
PLANES, PATHS = 2, 8  # paths of each plane


class Listener(PathListener):
    def __init__(self) -> None:
        self.retired: list[tuple[int, PathReason]] = []

    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        self.retired.append((index, reason))


class Sender:
    """Sent packets and their judge; packets are weightless to it but for their count."""

    def __init__(self) -> None:
        self.listener = Listener()
        self.cc = Counting()
        self.stats = QpStats()
        self.lost_by_plane = [0] * PLANES
        self.paths = PathSet(
            bytes(plane for plane in range(PLANES) for _ in range(PATHS)),
            active_paths=None,
            backup_share=4,
            ev_min_active=1,
            rng=random.Random(1),
            listener=self.listener,
        )
        self.sent = SentPackets(self.cc, FIRST, PLANES, self.paths.each)
        self.trips = [RoundTrip() for _ in range(PLANES)]
        for trip in self.trips:
            trip.sample(RTT)
        self.reordering = [ReorderWindow() for _ in range(2 * PLANES)]
        self.loss = LossDetection(
            self.sent, self.paths, self.cc, self.trips, self.reordering, self.stats, self.lost_by_plane, 25
        )

    def send(self, path: int, now: int) -> SentPacket:
        record = self.sent.new_record()
        record.weight = 1
        self.sent.transmitted(record, path // PATHS, 0, path, now >> 7, now)
        return record

    def arrive(self, record: SentPacket, now: int) -> None:
        """Selectively acknowledged, as ack processing does it."""
        self.sent.acknowledge(record)
        self.sent.sacked |= 1 << record.psn - self.sent.una
        self.sent.answered(record.sent)
        path = self.paths.each[record.index]
        path.arrived_serial = max(path.arrived_serial, record.serial)
        self.loss.arrived(record.lane, record.index, record.sent, now)

    def detect(self, now: int, lanes: int = 1) -> None:
        self.loss.detect(lanes, self.sent.una, self.sent.una + 1, now)

    def detect_silent_plane(self, asked: int, now: int) -> None:
        self.loss.detect_silent_planes(asked, RTT, self.sent.una + 1, now)


def test_a_later_arrival_on_the_same_path_shows_a_loss() -> None:
    end = Sender()
    end.arrive(end.send(1, 50), 1000)
    end.sent.advance(FIRST + 1, 1000)
    one, two = end.send(3, 100), end.send(3, 200)
    end.arrive(two, RTT)
    end.detect(RTT)
    assert one.state == LOST
    assert (end.stats.lost, end.lost_by_plane) == (1, [1, 0])
    assert end.listener.retired == [(3, PathReason.LOSS)]


def test_arrivals_on_another_path_show_a_loss_after_a_reorder_window() -> None:
    end = Sender()
    end.arrive(end.send(1, 50), 1000)
    end.sent.advance(FIRST + 1, 1000)
    one = end.send(3, 100)
    near = end.send(4, 200)
    end.arrive(near, RTT)
    end.detect(RTT)
    assert one.state == OUT
    far = end.send(5, 100 + 3 * RTT)
    end.arrive(far, 4 * RTT)
    end.detect(4 * RTT)
    assert one.state == LOST
    assert end.listener.retired == [(3, PathReason.LOSS)]


def test_a_dead_path_found_by_its_second_loss_is_one_event_to_congestion_control() -> None:
    """The newest SACK does not show the oldest packet on it; what was sent after the one that it shows is lost too."""
    end = Sender()
    end.arrive(end.send(1, 50), 1000)
    end.sent.advance(FIRST + 1, 1000)
    dead = []
    for burst in range(3):  # one bitmap shows one of the packets on path 3
        dead.append(end.send(3, 100 + 100 * burst))
        for number in range(SACK_BITS):
            end.arrive(end.send(1, 110 + 100 * burst + number // 2), RTT)
    oldest, shown, follower = dead
    for number in range(2):
        end.arrive(end.send(4, 300 + (3 + number) * RTT), 5 * RTT)
    end.loss.detect(1, shown.psn, shown.psn, 5 * RTT)
    assert (oldest.state, shown.state, follower.state) == (OUT, LOST, LOST)
    end.loss.detect(1, oldest.psn, oldest.psn, 6 * RTT)
    assert oldest.state == LOST
    assert end.cc.losses == 1
    assert end.listener.retired == [(3, PathReason.LOSS)]


def test_arrivals_on_another_plane_show_no_loss() -> None:
    end = Sender()
    one = end.send(3, 100)
    for number in range(1, 4):
        end.arrive(end.send(PATHS + number, 100 + number * RTT), 100 + (number + 1) * RTT)
    end.detect(5 * RTT, 0b100)
    assert one.state == OUT


def test_a_plane_silent_for_two_rtts_has_lost_its_packets() -> None:
    end = Sender()
    end.arrive(end.send(PATHS, 50), 90)
    end.sent.advance(FIRST + 1, 90)
    one, two = end.send(3, 100), end.send(4, 200)
    end.detect_silent_plane(100 + RTT, 2 * RTT)
    assert one.state == OUT
    end.detect_silent_plane(200 + 4 * RTT, 5 * RTT)
    assert (one.state, two.state) == (LOST, LOST)
    assert sorted(end.listener.retired) == [(3, PathReason.LOSS), (4, PathReason.LOSS)]


def test_the_first_packet_of_a_burst_is_lost_when_its_plane_goes_silent() -> None:
    end = Sender()
    end.arrive(end.send(PATHS, 50), 90)
    end.sent.advance(FIRST + 1, 90)
    one, near = end.send(3, 100), end.send(4, 200)
    end.arrive(near, RTT)
    end.detect_silent_plane(100 + RTT, 2 * RTT)
    assert one.state == OUT
    end.detect_silent_plane(200 + 4 * RTT, 5 * RTT)
    assert one.state == LOST
    assert end.listener.retired == [(3, PathReason.LOSS)]


def test_only_burst_packets_missing_in_the_sack_are_lost() -> None:
    end = Sender()
    burst = [end.send(path, 100 + path) for path in range(4)]
    end.arrive(burst[1], RTT)
    end.loss.detect_silent_planes(200 + 3 * RTT, RTT, FIRST + 3, 4 * RTT)
    assert [record.state for record in burst] == [LOST, FREE, OUT, LOST], "the bitmap begins at the fourth"


def test_packets_of_a_silent_plane_outside_the_sack_are_not_lost() -> None:
    """The oldest was sent again on it and lost; the answers to what was sent later on the same plane are lost too."""
    end = Sender()
    sent = [end.send(path, 100 + path) for path in range(4)]
    end.loss.detect_silent_planes(200 + 4 * RTT, RTT, FIRST + 1 - SACK_BITS + 1, 5 * RTT)
    assert [record.state for record in sent] == [LOST, LOST, OUT, OUT]
    end.loss.detect_silent_planes(0, RTT, FIRST + 1, 5 * RTT)
    assert [record.state for record in sent] == [LOST] * 4, "the next SACK of a sweep shows them"


def test_packets_of_a_silent_plane_outside_all_sacks_are_lost_after_twice_the_time() -> None:
    """Else they could fill the window for as long as an ACK timeout, and nothing that is lost would be sent again."""
    end = Sender()
    sent = [end.send(path, 100 + path) for path in range(4)]
    end.loss.detect_silent_planes(50 + 4 * RTT, RTT, FIRST + 1 - SACK_BITS + 1, 5 * RTT)
    assert [record.state for record in sent] == [LOST, LOST, OUT, OUT]
    end.loss.detect_silent_planes(200 + 6 * RTT, RTT, FIRST + 1 - SACK_BITS + 1, 7 * RTT)
    assert [record.state for record in sent] == [LOST] * 4


def test_packets_that_no_sack_showed_are_not_lost_by_the_answer_that_shows_the_silence() -> None:
    """It may be the first for long, and the rest of its sweep is just behind it."""
    end = Sender()
    for trip in end.trips:
        trip.sample(RTT)
    sent = [end.send(path, 100 + path) for path in range(4)]
    base = FIRST + 1 - SACK_BITS + 1
    end.loss.detect_silent_planes(200 + 20 * RTT, RTT, base, 21 * RTT)
    assert [record.state for record in sent] == [LOST, LOST, OUT, OUT]
    end.loss.detect_silent_planes(200 + 20 * RTT, RTT, base, 22 * RTT - 1)
    assert [record.state for record in sent] == [LOST, LOST, OUT, OUT]
    end.loss.detect_silent_planes(200 + 20 * RTT, RTT, base, 22 * RTT)
    assert [record.state for record in sent] == [LOST] * 4


def test_a_plane_is_found_silent_although_the_oldest_packet_was_lost_on_another() -> None:
    end = Sender()
    for trip in end.trips:
        trip.sample(RTT)
    one, other = end.send(3, 100), end.send(PATHS, 200)
    end.loss.mark_lost(one, "timeout")
    end.detect_silent_plane(200 + RTT, 2 * RTT)
    assert other.state == OUT
    end.loss.detect_silent_planes(200 + 4 * RTT, RTT, FIRST, 5 * RTT)
    assert other.state == LOST


def test_an_overdue_plane_is_not_silent_while_the_oldest_packet_is_not_overdue() -> None:
    end = Sender()
    for _ in range(8):
        end.trips[1].sample(RTT // 10)
    oldest, other = end.send(3, 3 * RTT), end.send(PATHS, 3 * RTT)
    end.loss.detect_silent_planes(4 * RTT, RTT, FIRST, 5 * RTT)
    assert (oldest.state, other.state) == (OUT, OUT)


def test_a_delivering_plane_is_not_silent() -> None:
    end = Sender()
    one = end.send(3, 100)
    late = end.send(4, 200 + 3 * RTT)
    end.arrive(late, 200 + 4 * RTT)
    end.detect_silent_plane(200 + 4 * RTT, 5 * RTT)
    assert one.state == OUT, "its own order shows it"


def test_only_packets_missing_in_the_sack_are_lost() -> None:
    end = Sender()
    one = end.send(3, 100)
    later = end.send(4, 100 + 3 * RTT)
    end.arrive(later, 5 * RTT)
    end.loss.detect(1, FIRST + 50, FIRST + 51, 5 * RTT)
    assert one.state == OUT, "the SACK says nothing of it"
    end.detect(5 * RTT, lanes=0)
    assert one.state == LOST, "its transmissions are checked again with the next one"


def test_losses_with_a_plane_down_suspect_no_path() -> None:
    end = Sender()
    mine, other = end.send(3, 100), end.send(PATHS, 100)
    end.loss.flush_plane(0)
    assert (mine.state, other.state) == (LOST, OUT)
    assert not end.listener.retired
    assert end.sent.next_lost() is mine


def test_a_spurious_loss_clears_its_path_and_widens_the_reorder_window() -> None:
    end = Sender()
    end.arrive(end.send(1, 50), 1000)
    end.sent.advance(FIRST + 1, 1000)
    one = end.send(3, 100)
    end.arrive(end.send(5, 100 + 3 * RTT), 4 * RTT)
    end.detect(4 * RTT)
    assert one.state == LOST
    end.loss.disproved(3, one.lane, one.sent, False, 5 * RTT)
    assert end.listener.retired[-1] == (3, PathReason.ARRIVED)
    end.sent.take_lost()
    end.sent.advance(end.sent.next_psn, 5 * RTT)
    again = end.send(3, 10 * RTT)
    end.arrive(end.send(5, 13 * RTT), 14 * RTT)
    end.detect(14 * RTT)
    assert again.state == OUT


def test_a_path_that_gets_slower_by_no_more_than_round_trips_vary_loses_nothing() -> None:
    """Queues grow unevenly when NICs start together; a path of which more is late would count as dead."""
    for measured in (RTT * 13 // 10, 0):
        end = Sender()
        for trip in end.trips:
            trip.variation = RTT // 10
        if measured:
            end.paths.measured(3, measured)
        slow = [end.send(3, 100 + 50 * number) for number in range(2 if measured else 1)]
        for number in range(4):
            end.send(4 + number, 200 + number * RTT // 10)
            end.arrive(end.sent.record(end.sent.next_psn - 1), RTT + number * RTT // 10)
        limit = slow[0].sent + (measured or RTT) + 4 * RTT // 10
        end.detect(limit)
        assert slow[0].state == OUT
        end.detect(limit + 1)
        assert slow[0].state == LOST
