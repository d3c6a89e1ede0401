"""Retransmissions that were not needed: how the sender finds out, counts them, and learns."""

from mrc_host.verbs_types import PathState, QpAttributes
from tests.mrc_host.nic_world import MS, US, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, UNITS, WIDE, FarEnd, Packet, bits, counters, flight, warm


def spurious(end: FarEnd) -> int:
    return end.nic.qp_counters(end.qpn).spurious_retransmitted


def warmed(planes: int = 1) -> FarEnd:
    """Four packets have arrived and been counted; the round-trip time is 20 us."""
    end = FarEnd(planes=planes, uplinks=16, attributes=WIDE, size=1 << 20)
    warm(end)
    end.sack(3, units=4 * UNITS)
    return end


def lose_one(end: FarEnd, first: int, gap: int = 10 * US) -> tuple[Packet, Packet]:
    """Of eight packets the first seems lost: it and its retransmission. The other seven have arrived."""
    packets = flight(end, 8, gap=gap)
    end.sack(first - 1, 0x7F, base=2, of=packets[-1], units=(first + 7) * UNITS)
    (again,) = end.data()
    assert again.psn == packets[0].psn == FIRST_OUT + first
    return packets[0], again


def test_a_spurious_retransmission_after_the_last_count_is_added() -> None:
    """The peer's count showed one; the next is proved by its timestamp before another count can be compared."""
    end = warmed()
    _first, again = lose_one(end, 4)
    end.pass_time(200 * US)
    end.sack(11, of=again, units=(12 + 1) * UNITS)
    assert spurious(end) == 1, "the count: which transmission arrived first is not known"
    first, again = lose_one(end, 12, gap=100 * US)
    rest = flight(end, 70)
    end.sack(19, of=first, units=(20 + 1) * UNITS)
    assert again.rtx
    assert spurious(end) == 2
    end.sack(89, of=rest[-1], units=(90 + 2) * UNITS)
    assert spurious(end) == 2, "the count includes what was proved"


def test_a_spurious_retransmission_in_an_overtaken_sack_is_counted_once() -> None:
    end = warmed()
    first, again = lose_one(end, 4)
    end.pass_time(200 * US)
    end.sack(11, of=again, units=13 * UNITS)
    end.sack(10, of=first, units=12 * UNITS)
    assert spurious(end) == 1


def test_an_acknowledged_retransmission_does_not_advance_loss_detection() -> None:
    """The first transmission of one packet arrives late; the retransmissions of others are still under way."""
    end = warmed()
    packets = flight(end, 40, gap=10 * US)
    end.sack(3, (1 << 40) - 1 & ~0b1011 & ~1, base=1, of=packets[-1], units=(4 + 36) * UNITS)
    again = []
    while len(again) < 3:
        again += end.data(1)
        end.pass_time(60 * US)
    assert [p.psn - FIRST_OUT - 4 for p in again] == [0, 1, 3]
    end.sack(3, (1 << 40) - 1 & ~0b0011 & ~1, base=1, units=(4 + 37) * UNITS)
    before = counters(end)
    end.pass_time(500 * US)
    end.sack(3, (1 << 40) - 1 & ~0b0011 & ~1, base=1, units=(4 + 38) * UNITS)
    assert counters(end) == before
    assert not end.data()


def test_an_unmeasured_plane_detects_no_loss_before_its_first_ack() -> None:
    end = FarEnd(planes=2, uplinks=16, attributes=WIDE)
    packets = flight(end, 16, gap=2 * US)
    start = packets[0].time
    plane1 = [p for p in packets if p.port == 1]
    shown = sum(1 << (p.psn - FIRST_OUT) for p in plane1[1:])
    end.now = start + 100 * US
    other = next(p for p in packets if p.port == 0)
    end.sack(-1, shown | 1 << (other.psn - FIRST_OUT), base=1, of=other)
    assert counters(end) == (0, 0, 0), "the oldest of plane 1 may be on a longer path"


def test_a_probe_response_measures_an_unmeasured_plane() -> None:
    """All SACKs were lost, and every fourth packet: the first answer that comes through is that of a probe."""
    end = FarEnd(planes=1, uplinks=16, attributes=QpAttributes(congestion_window=1 << 16))
    end.write(16 * 4096)
    packets = end.data()
    probe = next(p for p in end.wait(5 * MS) if p.opcode == 0xDE)
    end.now = probe.time + 20 * US
    arrived = sum(1 << n for n in range(16) if n % 4)
    end.sack(-1, arrived, base=1, probe=1)
    assert [p.psn - FIRST_OUT for p in end.data() if p.rtx] == [0, 4, 8, 12]
    assert {e.ev for e in path_events(end.nic)} == {packets[n].ev for n in (0, 4, 8, 12)}


def test_a_spurious_retransmission_is_detected() -> None:
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8))
    warm(end, rtt=100 * US)
    end.write(4096)
    (packet,) = end.data()
    (again,) = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    end.now = again.time + 5 * US
    end.sack(4, of=packet)
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == 1
    assert not path_events(end.nic)


def one_by_one(end: FarEnd, arrived: set[int], packets: list[Packet], extra: int = 0) -> None:
    """A SACK for each of these packets, in this order; everything before the oldest missing one is cumulative.

    `arrived` are the PSNs that the SACKs before have shown, and then these too.
    """
    for packet in packets:
        arrived.add(packet.psn - FIRST_OUT)
        cack = -1
        while cack + 1 in arrived:
            cack += 1
        shown = bits([p for p in arrived if p > cack], cack + 1)
        end.sack(cack, shown, base=1, of=packet)
        end.pass_time(extra)


def test_an_ack_of_the_first_transmission_widens_the_reorder_window() -> None:
    end = FarEnd(planes=1, uplinks=64, attributes=WIDE)
    warm(end, rtt=100 * US)
    arrived = {0, 1, 2, 3}

    def slow_first() -> tuple[Packet, list[Packet]]:
        """The first packet of 40 takes a path that is 195 us slower than the others."""
        packets = flight(end, 40, gap=5 * US)
        one_by_one(end, arrived, packets[1:], extra=5 * US)
        again = end.data()
        one_by_one(end, arrived, packets[:1])  # its timestamp shows that the first copy arrived
        return packets[0], again

    first, again = slow_first()
    assert [p.psn for p in again] == [first.psn], "nobody could know"
    assert [(e.ev, e.new) for e in path_events(end.nic)] == [
        (first.ev, PathState.ASSUMED_BAD),
        (first.ev, PathState.GOOD),
    ]
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == 1
    end.ack(2)
    _first, again = slow_first()
    assert not again, "now we know"
    assert counters(end)[:2] == (1, 1)


def test_duplicates_in_the_peers_count_are_spurious_retransmissions() -> None:
    """The answers were lost, the packets were not: no path is suspected, and the retransmission counts as spurious."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    end.data()
    again = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    assert [p.rtx for p in again] == [True]
    end.pass_time(30 * US)
    end.sack(4, of=again[0], units=UNITS * 6)
    assert not path_events(end.nic)
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == 1


def states(end: FarEnd) -> list[tuple[int, PathState]]:
    return [(event.ev, event.new) for event in path_events(end.nic)]


def test_an_ack_arriving_too_soon_clears_no_path() -> None:
    """The round trip of the plane is known from packets that all waited: the retransmission was just faster."""
    end = FarEnd(planes=1, uplinks=16, attributes=WIDE)
    warm(end, rtt=100 * US)
    end.sack(3, units=4 * UNITS)
    first, _again = lose_one(end, 4, gap=40 * US)
    assert states(end) == [(first.ev, PathState.ASSUMED_BAD)]
    end.pass_time(20 * US)
    end.sack(11, units=12 * UNITS)
    assert states(end) == []
    assert spurious(end) == 1, "it still counts as spurious"
    end.sack(11, of=first, units=12 * UNITS)
    assert states(end) == [(first.ev, PathState.GOOD)], "its timestamp proves it"
    assert spurious(end) == 1


def lose_twice(end: FarEnd) -> tuple[Packet, Packet]:
    """Both transmissions of a packet are judged lost, and it was not sent a third time yet."""
    first, again = lose_one(end, 4)
    end.pass_time(20 * US)
    rest = flight(end, 8, gap=20 * US)
    end.sack(3, 0x7FFF, base=2, of=rest[-1], units=19 * UNITS)
    assert states(end) == [(first.ev, PathState.ASSUMED_BAD), (again.ev, PathState.ASSUMED_BAD)]
    assert counters(end)[0] == 2
    return first, again


def test_the_arrival_of_the_first_transmission_clears_its_own_path_only() -> None:
    end = warmed()
    first, _again = lose_twice(end)
    end.sack(19, of=first, units=20 * UNITS)
    assert states(end) == [(first.ev, PathState.GOOD)]


def test_the_arrival_of_the_second_transmission_clears_its_own_path_only() -> None:
    end = warmed()
    _first, again = lose_twice(end)
    end.sack(19, of=again, units=20 * UNITS)
    assert states(end) == [(again.ev, PathState.GOOD)]


def test_an_unattributable_arrival_clears_no_path() -> None:
    end = warmed()
    lose_twice(end)
    end.sack(19, units=20 * UNITS)
    assert states(end) == []
