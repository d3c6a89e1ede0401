"""What a responder may be short of or find fault with, by its settings: bitmaps, messages, trims, marked paths."""

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpAttributes, QpState
from mrc_host.wire import control, opcodes
from tests.mrc_host.nic_world import World, connect
from tests.mrc_host.transport.far_end import FIRST_IN, FarEnd

ONLY, ONLY_IMM = 4, 5
CE = 3
TRIMMED = 12


def reasons(end: FarEnd) -> list[tuple[int, int]]:
    """Reason and PSN of each NACK, the PSN counted from FIRST_IN."""
    return [(p.nack.reason, p.nack.psn - FIRST_IN) for p in end.only(opcodes.NACK)]


def marks(end: FarEnd) -> list[int]:
    return [p.sack.mark for p in end.only(opcodes.SACK)]


def test_packets_beyond_the_bitmap_but_within_the_mpr_get_a_no_bitmap_nack() -> None:
    end = FarEnd(attributes=QpAttributes(mpr=4), transport=TransportSettings(bitmap_range=1))
    end.segment(128, msn=128)
    assert reasons(end) == [(control.NACK_NO_BITMAP, 128)]
    assert end.buffer[:1000] == bytes(1000)
    end.segment(4 * 128 - 1, msn=511)
    assert reasons(end) == [(control.NACK_PSN_OOR_WINDOW, 511)]
    end.segment(127, msn=127)
    assert reasons(end) == []
    end.segment(0)
    end.segment(128, msn=128)
    assert reasons(end) == [], "the bitmap has moved on"


def test_a_message_too_far_ahead_gets_a_no_resource_nack() -> None:
    end = FarEnd(transport=TransportSettings(max_inflight_messages=3))
    end.segment(3, ONLY_IMM, msn=3, imm=3, rqmsn=3)
    assert reasons(end) == [(control.NACK_NO_RESOURCE, 3)]
    for number in (2, 1, 0):
        end.segment(number, ONLY_IMM, msn=number, imm=number, rqmsn=number)
    end.segment(3, ONLY_IMM, msn=3, imm=3, rqmsn=3)
    assert reasons(end) == []
    assert [c.imm for c in end.poll()] == [0, 1, 2, 3]
    end.segment(4, msn=4 - (1 << 15) & 0xFFFF)
    assert reasons(end) == [(control.NACK_UNEXP_EVENT, 4)], "no message is that far ahead"


@pytest.mark.parametrize("limit", [{"bitmap_range": 1}, {"max_inflight_messages": 2}])
def test_all_data_arrives_at_a_receiver_with_small_limits(limit: dict[str, int]) -> None:
    world = World(transport=TransportSettings(**limit, default_window=1 << 22, plane_skew_limit=1 << 10))
    world.faults.loss = 0.02
    a, b = connect(world, size=1 << 20)
    for number in range(100):
        a.write(b, 8192, offset=8192 * number, imm=number)
    assert world.run(until=lambda: len(a.done) + len(a.poll()) == 100)
    assert a.buffer[:819200] == b.buffer[:819200]
    assert [c.imm for c in b.poll()] == list(range(100))
    assert a.nic.qp_counters(a.qpn).lost


def test_consecutive_marks_on_one_path_lead_to_always_skip() -> None:
    end = FarEnd(transport=TransportSettings(always_skip_marks=3))
    got = []
    for psn, (path, ecn) in enumerate([(1, CE), (2, CE), (1, CE), (2, 2), (1, CE), (2, CE), (1, CE)]):
        end.segment(psn, msn=psn, ev=path, ecn=ecn)
        got += marks(end)
    once, always = control.MARK_SKIP_ONCE, control.MARK_ALWAYS_SKIP
    assert got == [once, once, once, always, once, once], "the path that came unmarked between counts afresh"
    plain = FarEnd()
    for psn in range(100):
        plain.segment(psn, msn=psn, ev=1, ecn=CE)
        assert marks(plain) == [once]


def test_marks_are_counted_for_a_bounded_number_of_paths() -> None:
    end = FarEnd(transport=TransportSettings(always_skip_marks=2))
    for psn in range(10_000):
        end.segment(psn, msn=psn & 0xFFFF, ev=psn, ecn=CE, length=4, size=4)
        end.drain()
    assert 0 < len(end.qp.responder.acks._marked) <= 4096  # memory, which shows nowhere else


def test_without_the_capability_a_trimmed_packet_is_not_answered() -> None:
    for able in (True, False):
        end = FarEnd(attributes=QpAttributes(trim_nack=able))
        end.segment(0, dscp=TRIMMED, cut=36)
        assert reasons(end) == [(control.NACK_TRIMMED, 0)] * able
        assert end.nic.qp_state(end.qpn) is QpState.RTS
