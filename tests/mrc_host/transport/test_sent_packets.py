"""What is on its way: the ring, the lanes, the bytes in flight and the heap of lost packets."""

import random

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.path import Path
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket
from mrc_host.transport.sent_packets import SentPackets

FIRST = 1000
WEIGHT = 4352


def packets(paths: int = 4) -> SentPackets:
    return SentPackets(CongestionControl(1 << 20), FIRST, 2, [Path() for _ in range(paths)])


def send(sent: SentPackets, *, plane: int = 0, path: int = 0, now: int = 1) -> SentPacket:
    record = sent.new_record()
    record.weight = WEIGHT
    sent.transmitted(record, plane, 0, path, 7, now)
    return record


def test_a_record_is_kept_for_every_psn_however_many_there_are() -> None:
    sent = packets()
    for number in range(300):
        send(sent, now=number)
    assert [sent.record(FIRST + n).psn for n in range(300)] == [FIRST + n for n in range(300)]
    assert sent.psns_used() == 300
    assert sent.in_flight == sent.cc.inflight == 300 * WEIGHT


def test_bytes_are_returned_once() -> None:
    sent = packets()
    one, two = send(sent), send(sent)
    sent.mark_lost(one)
    assert (one.state, sent.in_flight) == (LOST, WEIGHT)
    sent.acknowledge(one)
    assert (one.state, sent.in_flight) == (FREE, WEIGHT)
    sent.acknowledge(two)
    assert sent.in_flight == sent.cc.inflight == 0


def test_a_shared_window_keeps_other_queue_pairs_bytes() -> None:
    cc = CongestionControl(1 << 20)
    mine, other = (SentPackets(cc, FIRST, 2, [Path()]) for _ in range(2))
    send(mine)
    send(other)
    mine.release()
    assert (mine.in_flight, other.in_flight, cc.inflight) == (0, WEIGHT, WEIGHT)
    assert mine.oldest() == (0, 0)


def test_lost_packets_are_resent_lowest_first_unless_acknowledged_meanwhile() -> None:
    sent = packets()
    records = [send(sent) for _ in range(5)]
    for record in (records[3], records[1], records[4]):
        sent.mark_lost(record)
    assert sent.next_lost() is records[1]
    sent.acknowledge(records[1])
    assert sent.next_lost() is records[3]
    sent.take_lost()
    sent.transmitted(records[3], 1, 1, 2, 8, 50)
    assert sent.next_lost() is records[4]
    sent.acknowledge(records[4])
    assert sent.next_lost() is None
    assert not sent.lost()


def test_what_has_arrived_after_all_does_not_wait_to_be_resent() -> None:
    sent = packets()
    one = send(sent)
    sent.mark_lost(one)
    assert sent.lost()
    sent.acknowledge(one)
    assert not sent.lost()


def test_retransmissions_do_not_enter_the_order_of_first_transmissions() -> None:
    sent = packets()
    record = send(sent, path=3, now=10)
    sent.mark_lost(record)
    sent.take_lost()
    sent.transmitted(record, 1, 1, 2, 8, 50)
    assert sent.lanes[0].head() is None
    assert sent.lanes[3].head() is record
    assert (record.attempts, record.sent, record.state) == (2, 50, OUT)
    assert sent.oldest() == (50, 0b10)
    later = send(sent, path=3, now=60)
    assert later.followed == 0
    send(sent, path=3, now=70)
    assert later.followed == 70


def test_a_bitmap_yields_only_new_arrivals() -> None:
    sent = packets()
    for _ in range(10):
        send(sent)
    assert sent.new_bits(FIRST, 0b110) == 0b110
    sent.sacked |= 0b110
    assert sent.new_bits(FIRST, 0b1110) == 0b1000
    assert sent.new_bits(FIRST + 2, 0b11) == 0b1000
    assert sent.new_bits(FIRST - 2, 0b100000) == 0b1000
    assert sent.new_bits(FIRST, 1 << 10) == 0, "never sent"
    sent.advance(FIRST + 3, 9)
    assert (sent.sacked, sent.una, sent.una_since) == (0, FIRST + 3, 9)


def test_bytes_in_flight_equal_those_of_outstanding_records() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        sent = packets()
        for now in range(300):
            out = [sent.record(psn) for psn in range(sent.una, sent.next_psn) if sent.record(psn).state == OUT]
            choice = rng.random()
            if choice < 0.5:
                send(sent, plane=rng.randrange(2), path=rng.randrange(4), now=now)
            elif choice < 0.7 and out:
                sent.mark_lost(rng.choice(out))
            elif choice < 0.8 and (record := sent.next_lost()):
                sent.take_lost()
                sent.transmitted(record, rng.randrange(2), 1, rng.randrange(4), 7, now)
            elif out:
                sent.acknowledge(rng.choice(out))
            while sent.una < sent.next_psn and sent.record(sent.una).state == FREE:
                sent.advance(sent.una + 1, now)
            count = sum(sent.record(psn).state == OUT for psn in range(sent.una, sent.next_psn))
            assert sent.in_flight == sent.cc.inflight == count * WEIGHT, f"seed {seed}"


def test_the_proven_path_of_a_plane_is_that_of_its_latest_arrival_in_either_class() -> None:
    sent = packets()
    assert [sent.proven(0b11, -50), sent.proven_path(1, -50)] == [0, -1], "nothing has arrived"
    data, again = sent.lanes[2:4]
    data.acked, data.proven = 100, 3
    again.acked, again.proven = 90, 2
    assert [sent.proven_path(plane, 50) for plane in range(2)] == [-1, 3]
    again.acked = 110
    assert sent.proven_path(1, 50) == 2
    assert (sent.proven_path(1, 109), sent.proven_path(1, 110)) == (2, -1)


def test_later_evidence_that_the_peer_was_there_may_come_from_an_earlier_packet() -> None:
    sent = packets()
    for time, first in ((50, 50), (70, 50), (30, 30)):
        sent.answered(time)
        assert sent.first_answered == first
