"""Retransmissions that were not needed: how the sender finds out, counts them, and learns."""

from mrc_host.values import QpAttributes
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, Packet
from tests.mrc_host.transport.test_requester import counters, flight, warm
from tests.mrc_host.wires import MS, US, path_events

WIDE = QpAttributes(congestion_window=1 << 30)
UNITS = 16  # of 256 bytes, in a packet


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


def test_a_proof_after_the_last_count_adds_to_it() -> None:
    """The peer's count told of one; the next is proved by its timestamp before another count can be compared."""
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


def test_a_proof_in_an_overtaken_sack_is_not_counted_twice() -> None:
    end = warmed()
    first, again = lose_one(end, 4)
    end.pass_time(200 * US)
    end.sack(11, of=again, units=13 * UNITS)
    end.sack(10, of=first, units=12 * UNITS)
    assert spurious(end) == 1


def test_an_acknowledged_retransmission_tells_nothing_of_its_lane() -> None:
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


def test_a_plane_without_a_measurement_judges_no_earlier_than_anything_was_acknowledged_there() -> None:
    end = FarEnd(planes=2, uplinks=16, attributes=WIDE)
    packets = flight(end, 16, gap=2 * US)
    start = packets[0].time
    plane1 = [p for p in packets if p.port == 1]
    shown = sum(1 << (p.psn - FIRST_OUT) for p in plane1[1:])
    end.now = start + 100 * US
    other = next(p for p in packets if p.port == 0)
    end.sack(-1, shown | 1 << (other.psn - FIRST_OUT), base=1, of=other)
    assert counters(end) == (0, 0, 0), "the oldest of plane 1 may be on a longer path"


def test_the_answer_of_a_probe_measures_a_plane_that_nothing_else_did() -> None:
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
