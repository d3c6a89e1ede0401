"""The responder, packet by packet: placement, SACK triggers, bitmaps, NACKs, refusals."""

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionOpcode, QpAttributes, QpState
from mrc_host.wire import control, headers, opcodes
from tests.mrc_host.nic_world import MS
from tests.mrc_host.transport.far_end import FIRST_IN, FarEnd, Packet

FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = 0, 1, 2, 3, 4, 5
A = headers.ACK_REQUEST
RTX = headers.RTX
LOOKING = {opcodes.ENDPOINT_REQUEST}  # for other reverse paths, when the peer repeats what was acknowledged


def sacks(end: FarEnd) -> list[control.Sack]:
    return [p.sack for p in end.only(opcodes.SACK)]


def shown(sack: control.Sack) -> set[int]:
    """PSNs beyond cack that the bitmap shows, counted from FIRST_IN."""
    base = sack.cack_psn + sack.bitmap_offset - FIRST_IN
    return {base + i for i in range(64) if sack.bitmap >> i & 1}


# ---- placement ---------------------------------------------------------------------------------------------------


def test_every_packet_is_placed_on_arrival() -> None:
    end = FarEnd()
    end.segment(0, FIRST, length=9000, size=4096, fill=1)
    assert end.buffer[:4096] == b"\1" * 4096
    end.segment(2, LAST, offset=8192, length=9000, size=808, fill=3)
    assert end.buffer[8192:9000] == b"\3" * 808
    assert end.buffer[4096:8192] == bytes(4096)
    end.segment(1, MIDDLE, offset=4096, length=9000, size=4096, fill=2)
    assert end.buffer[4096:8192] == b"\2" * 4096


def test_packets_without_timestamp_are_placed() -> None:
    end = FarEnd()
    end.segment(0, ONLY_IMM, imm=9, timestamped=False)
    assert end.buffer[:1000] == b"\x55" * 1000
    assert [c.imm for c in end.poll()] == [9]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_a_write_with_imm_waits_for_everything_before_it(order: tuple[int, ...]) -> None:
    end = FarEnd()
    got = []
    for step, psn in enumerate(order):
        if psn == 1:
            end.segment(1, ONLY_IMM, msn=1, offset=2000, imm=11)
        else:
            end.segment(psn, ONLY_IMM, msn=psn, rqmsn=int(psn > 1), offset=psn * 3000, imm=10 + psn)
        done = set(order[: step + 1])
        expected = [10 + n for n in range(3) if set(range(n + 1)) <= done]
        got += end.poll()
        assert [c.imm for c in got] == expected
    first = got[0]
    assert (first.opcode, first.byte_len) == (CompletionOpcode.RECV_WRITE_WITH_IMM, 1000)


def test_a_middle_packet_is_placed_before_its_message_is_known() -> None:
    """Message 0 is a mystery, so where message 1 begins is too; each packet still gives its own place."""
    end = FarEnd()
    end.segment(6, MIDDLE, msn=1, offset=3 * 4096, length=20000, size=4096, fill=6)
    end.segment(5, MIDDLE, msn=1, offset=2 * 4096, length=20000, size=4096, fill=5)
    assert not end.only(opcodes.NACK)
    assert end.buffer[2 * 4096 : 4 * 4096] == b"\5" * 4096 + b"\6" * 4096
    end.segment(8, LAST_IMM, msn=1, offset=5 * 4096, length=20000, size=20000 - 4 * 4096, fill=8, imm=7)
    end.segment(4, FIRST, msn=1, offset=4096, length=20000, size=4096, fill=4)
    end.segment(7, MIDDLE, msn=1, offset=4 * 4096, length=20000, size=4096, fill=7)
    assert not end.poll()
    end.segment(0, FIRST, length=4 * 4096, size=4096, offset=65536)
    end.segment(2, MIDDLE, length=4 * 4096, size=4096, offset=65536 + 8192)
    end.segment(1, MIDDLE, length=4 * 4096, size=4096, offset=65536 + 4096)
    end.segment(3, LAST, length=4 * 4096, size=4096, offset=65536 + 3 * 4096)
    assert end.buffer[4096 : 4096 + 20000] == b"".join(bytes([n]) * 4096 for n in range(4, 8)) + b"\10" * 3616
    assert [(c.imm, c.byte_len) for c in end.poll()] == [(7, 20000)]


def test_messages_known_by_middle_packets_alone_are_resolved_in_turn() -> None:
    """The beginning of the first one shows where the second begins, and that where the third does."""
    end = FarEnd()
    for msn in (2, 1, 0):
        end.segment(3 * msn + 1, MIDDLE, msn=msn, offset=16384 * msn + 4096, length=3 * 4096, size=4096)
    responder = end.qp.responder
    assert [responder.messages.open[n].first - FIRST_IN for n in range(3)] == [0, 3, 6]
    for msn in range(3):
        end.segment(
            3 * msn + 2, LAST_IMM, msn=msn, rqmsn=msn, offset=16384 * msn + 8192, length=12288, size=4096, imm=msn
        )
        end.segment(3 * msn, FIRST, msn=msn, offset=16384 * msn, length=3 * 4096, size=4096)
    assert [c.imm for c in end.poll()] == [0, 1, 2]


def refused(end: FarEnd) -> bool:
    naks = [p.aeth[0] for p in end.only(opcodes.TRANSPORT_ACK)]
    return headers.NAK_REMOTE_ACCESS in naks and end.nic.qp_state(end.qpn) is QpState.ERROR


def test_a_message_found_to_exceed_its_region_is_reported() -> None:
    """A Middle inside the region was placed; then the First shows that the message ends outside."""
    end = FarEnd(size=10 * 4096)
    end.segment(5, MIDDLE, msn=1, offset=3 * 4096, length=9 * 4096, size=4096)
    end.segment(4, FIRST, msn=1, offset=2 * 4096, length=9 * 4096, size=4096)
    assert end.buffer[: 3 * 4096] == bytes(3 * 4096), "the First is not placed"
    assert end.buffer[4 * 4096 :] == bytes(6 * 4096)
    assert end.nic.qp_state(end.qpn) is QpState.RTS, "message 0 comes first"
    end.segment(0, FIRST, length=4 * 4096, size=4096)
    end.segment(1, MIDDLE, length=4 * 4096, offset=4096, size=4096)
    end.segment(2, MIDDLE, length=4 * 4096, offset=8192, size=4096)
    end.segment(3, LAST, length=4 * 4096, offset=3 * 4096, size=4096)
    assert refused(end)


def test_the_message_before_can_reveal_that_one_exceeds_its_region() -> None:
    end = FarEnd(size=10 * 4096)
    end.segment(5, MIDDLE, msn=1, offset=3 * 4096, length=9 * 4096, size=4096)
    end.segment(3, LAST, length=4 * 4096, offset=3 * 4096, size=4096)
    assert end.nic.qp_state(end.qpn) is QpState.RTS
    end.segment(2, MIDDLE, length=4 * 4096, offset=8192, size=4096)
    end.segment(1, MIDDLE, length=4 * 4096, offset=4096, size=4096)
    end.segment(0, FIRST, length=4 * 4096, size=4096)
    assert refused(end)


def test_a_middle_packet_that_fits_no_possible_start_is_not_placed() -> None:
    end = FarEnd(size=10 * 4096)
    end.segment(5, MIDDLE, msn=1, offset=3 * 4096, length=11 * 4096, size=4096)
    end.segment(9, MIDDLE, msn=1, offset=10 * 4096, length=3 * 4096, size=4096)
    assert end.buffer == bytes(len(end.buffer))
    end.segment(0)
    assert refused(end)


def test_deregistering_a_region_in_mid_message_fails_the_message() -> None:
    end = FarEnd()
    end.segment(0, FIRST, length=3 * 4096, size=4096)
    end.nic.deregister_memory(end.region.lkey)
    end.segment(1, MIDDLE, length=3 * 4096, offset=4096, size=4096)
    assert end.buffer[4096:8192] == bytes(4096)
    assert refused(end)


@pytest.mark.parametrize(
    "then",
    [
        {"psn": 5, "kind": FIRST, "offset": 2 * 4096},
        {"psn": 7, "kind": LAST, "offset": 4 * 4096, "size": 4096},
        {"psn": 6, "kind": MIDDLE, "offset": 3 * 4096, "size": 4000},
        {"psn": 6, "kind": MIDDLE, "offset": 3 * 4096 + 4},
    ],
    ids=str,
)
def test_inconsistent_packets_fail_the_queue_pair(then: dict[str, int]) -> None:
    end = FarEnd()
    end.segment(
        6 if then["psn"] != 6 else 7,
        MIDDLE,
        msn=1,
        offset=(3 if then["psn"] != 6 else 4) * 4096,
        length=20000,
        size=4096,
    )
    end.segment(**{"msn": 1, "length": 20000, "size": 4096, **then})  # type: ignore[arg-type]
    if then == {"psn": 5, "kind": FIRST, "offset": 2 * 4096}:
        assert end.nic.qp_state(end.qpn) is QpState.RTS, "this one fits"
    else:
        assert end.nic.qp_state(end.qpn) is QpState.ERROR


@pytest.mark.parametrize("first", [0, 2])
def test_a_message_that_leaves_no_room_for_those_between_fails_the_queue_pair(first: int) -> None:
    """Message 2 takes a PSN of message 0. Else that would be complete without its last packet."""
    end = FarEnd()
    for psn in (first, 2 - first):
        if psn:
            end.segment(2, msn=2, offset=65536)
        else:
            end.segment(0, FIRST, length=3 * 4096, size=4096)
    end.segment(1, MIDDLE, offset=4096, length=3 * 4096, size=4096, flags=A)
    assert [p.nack.reason for p in end.only(opcodes.NACK)] == [control.NACK_UNEXP_EVENT] * 2
    assert end.nic.qp_state(end.qpn) is QpState.ERROR
    assert end.qp.stats.write_requests == 0


def test_a_full_receive_queue_requests_a_smaller_window_and_restores_it() -> None:
    end = FarEnd(capacity=1)
    for psn in range(3):
        end.segment(psn, ONLY_IMM, msn=psn, rqmsn=psn, imm=psn, flags=A)
    assert [s.cwnd_penalty for s in sacks(end)][-1] == 64
    for n in range(3):
        assert [c.imm for c in end.poll()] == [n]
    restored = []
    for psn in range(3, 9):
        end.segment(psn, msn=psn, flags=A)
        restored += [(s.cwnd_penalty, s.restore_cwnd) for s in sacks(end)]
    assert restored == [(0, True)] * 4 + [(0, False)] * 2


def test_what_a_full_receive_queue_still_took_is_acknowledged_at_once() -> None:
    end = FarEnd(capacity=1)
    for psn in range(4):
        end.segment(psn, ONLY_IMM, msn=psn, rqmsn=psn, imm=psn)
    complete = []
    for _ in range(4):
        complete += [p.aeth[1] for p in end.only(opcodes.TRANSPORT_ACK)]
        end.poll()
    assert complete == [1, 2, 3, 4]


def test_a_middle_packet_is_located_once_the_message_before_is_known() -> None:
    end = FarEnd()
    end.segment(1, LAST, msn=0, offset=4096, length=5000, size=904)
    end.segment(3, MIDDLE, msn=1, offset=3 * 4096, length=20000, size=4096)
    assert end.buffer[3 * 4096 : 4 * 4096] == b"\x55" * 4096


# ---- SACK triggers -----------------------------------------------------------------------------------------------


def test_a_sack_is_due_after_the_threshold() -> None:
    end = FarEnd(transport=TransportSettings(sack_threshold=4096))
    for psn in range(3):
        end.segment(psn, msn=psn, length=10)
    assert not sacks(end), "each small packet counts 1024"
    end.segment(3, msn=3, length=10)
    (sack,) = sacks(end)
    assert (sack.cack_psn, sack.ack_offset, sack.mark, sack.probe) == (FIRST_IN + 3, 0, 0, False)


@pytest.mark.parametrize(
    ("how", "mark"),
    [({"flags": A}, 0), ({"flags": RTX}, 0), ({"ecn": 3}, control.MARK_SKIP_ONCE)],
    ids=["A", "RTX", "CE"],
)
def test_special_packets_make_a_sack_due_at_once(how: dict[str, int], mark: int) -> None:
    end = FarEnd()
    end.segment(0, plane=1, ev=0x30402, stamp=0xBEEF, **how)  # type: ignore[arg-type]
    (sack,) = sacks(end)
    assert (sack.mark, sack.entropy, sack.timestamp) == (mark, 0x30402, 0xBEEF)
    assert sack.destination_id == 0x4242
    assert sack.rcvd_units == 5, "1000 bytes are 1048 in UDP; 40 more, rounded up to units of 256"


def test_an_early_ack_request_is_answered_again_when_the_gap_closes() -> None:
    end = FarEnd()
    end.segment(3, msn=3, flags=A)
    end.segment(2, msn=2, flags=A)
    end.segment(5, msn=5)
    assert len(sacks(end)) == 1, "a newer SACK takes the place of one not sent yet"
    end.segment(0, msn=0)
    end.segment(1, msn=1, stamp=0xBEEF)
    (sack,) = sacks(end)
    assert (sack.cack_psn, sack.ack_offset, sack.timestamp) == (FIRST_IN + 3, -2, 0xBEEF)
    end.segment(4, msn=4)
    end.segment(6, msn=6)
    assert not sacks(end), "once"
    end.segment(7, msn=7, flags=A)
    assert len(sacks(end)) == 1, "in order: at once, and not again"
    end.segment(8, msn=8)
    assert not sacks(end)


def test_a_probe_is_answered_with_its_id_and_the_transport_ack() -> None:
    end = FarEnd()
    end.segment(0)
    end.drain()
    end.probe(0x8001)
    out = end.drain()
    (sack,) = [p.sack for p in out if p.opcode == opcodes.SACK]
    assert sack.probe
    assert sack.ack_offset & 0xFFFF == 0x8001
    (ack,) = [p.aeth for p in out if p.opcode == opcodes.TRANSPORT_ACK]
    assert ack == (headers.SYNDROME_ACK, 1)


def test_the_transport_ack_counts_whole_messages_in_order() -> None:
    end = FarEnd()
    end.segment(1, msn=1)
    assert not end.only(opcodes.TRANSPORT_ACK)
    end.segment(0, msn=0)
    assert [p.aeth for p in end.only(opcodes.TRANSPORT_ACK)] == [(headers.SYNDROME_ACK, 2)]


def test_responses_use_the_control_class_and_are_not_ecn_capable() -> None:
    end = FarEnd()
    end.segment(0, flags=A)
    for packet in end.drain():
        assert packet.dscp == 46
        assert int.from_bytes(packet.frame[14:16], "big") >> 4 & 3 == 0


# ---- bitmaps -----------------------------------------------------------------------------------------------------


def test_the_bitmap_starts_after_cack() -> None:
    end = FarEnd()
    for psn in (1, 3, 4, 63):
        end.segment(psn, msn=psn)
    end.segment(0, msn=0, flags=A)
    (sack,) = sacks(end)
    assert sack.cack_psn == FIRST_IN + 1
    assert sack.bitmap_offset == 1
    assert shown(sack) == {3, 4, 63}


def test_arrivals_far_apart_are_both_reported() -> None:
    """Two planes far apart: one bitmap cannot show both, so two SACKs do."""
    end = FarEnd()
    for psn in (200, 201, 5, 6):
        end.segment(psn, msn=psn, plane=int(psn > 100))
    end.segment(7, msn=7, flags=A)
    got = sacks(end)
    assert set().union(*(shown(s) for s in got)) == {5, 6, 7, 200, 201}
    assert len(got) == 2
    end.segment(202, msn=202, flags=A, plane=1)
    (again,) = sacks(end)
    assert shown(again) >= {200, 201, 202}, "what came shortly before is repeated"


@pytest.mark.parametrize("first", [0xFFFFFF - 3, 0xFFFFFF, 0])
def test_cack_and_bitmap_wrap(first: int) -> None:
    end = FarEnd(attributes=QpAttributes(receive_psn=first))
    shift = first - FIRST_IN
    for psn in range(8):
        end.segment(shift + psn, msn=psn)
    end.segment(shift + 9, msn=9, flags=A)
    (sack,) = sacks(end)
    assert sack.cack_psn == (first + 7) & 0xFFFFFF
    assert sack.bitmap == 2


# ---- duplicates and windows --------------------------------------------------------------------------------------


def test_duplicates_are_acknowledged_and_counted() -> None:
    end = FarEnd()
    end.segment(0)
    end.segment(2, msn=2)
    end.drain()
    end.segment(0, flags=RTX)
    out = end.drain()
    assert {p.opcode for p in out} - LOOKING == {opcodes.SACK, opcodes.TRANSPORT_ACK}
    end.segment(2, msn=2, flags=RTX)
    assert {p.opcode for p in end.drain()} - LOOKING == {opcodes.SACK}
    counters = end.nic.qp_counters(end.qpn)
    assert (counters.data_received, counters.duplicates_received, counters.out_of_order_received) == (2, 2, 1)


def test_duplicates_are_not_written_to_memory() -> None:
    end = FarEnd()
    end.segment(0, fill=1)
    end.segment(2, msn=2, offset=2000, fill=1)
    end.segment(0, fill=9)
    end.segment(2, msn=2, offset=2000, fill=9)
    assert 9 not in end.buffer


def test_packets_beyond_the_range_are_nacked_and_not_placed() -> None:
    end = FarEnd(attributes=QpAttributes(mpr=2))
    end.segment(254, msn=1, offset=5000)
    assert end.buffer[5000:6000] == b"\x55" * 1000
    end.segment(255, msn=2, offset=7000)
    (nack,) = [p.nack for p in end.only(opcodes.NACK)]
    assert (nack.reason, nack.psn) == (control.NACK_PSN_OOR_WINDOW, FIRST_IN + 255)
    assert end.buffer[7000:8000] == bytes(1000)


def test_retransmitted_packets_make_acks_change_path() -> None:
    """The peer repeats what was acknowledged, so the way our SACKs took is no longer trusted."""
    end = FarEnd(planes=1, uplinks=64)
    ways = set()
    for round_ in range(40):
        end.segment(0, flags=RTX if round_ else 0)
        ways |= {p.ev for p in end.drain()}
    assert len(ways) > 10


def test_a_probe_for_acknowledged_packets_makes_acks_change_path() -> None:
    """With a single plane nothing else shows that the one known reverse path is dead."""
    end = FarEnd(planes=1, uplinks=64)
    end.peer.answers.works(5, end.now)
    end.segment(0, flags=A)
    assert {p.ev for p in end.drain()} == {5}
    end.segment(1, msn=1)
    end.probe(1)
    assert {p.ev for p in end.drain()} == {5}, "probed before it was answered"
    end.pass_time(10 * MS)  # what was found just now would not be doubted
    ways = set()
    for n in range(20):
        end.probe(2 + n)
        ways |= {p.ev for p in end.drain()}
    assert len(ways) > 5


def test_recent_acks_do_not_make_their_reverse_path_suspected() -> None:
    """The peer asks on every plane at once: what answers the first question cannot be what it misses."""
    end = FarEnd(planes=1, uplinks=64)
    end.segment(0, flags=A)
    end.drain()
    end.peer.answers.works(5, end.now)
    end.pass_time(4 * MS)
    for n in range(8):
        end.probe(n)
        assert {p.ev for p in end.drain() if p.opcode == opcodes.SACK} == {5}
    end.pass_time(4 * MS)
    end.probe(8)
    assert {p.ev for p in end.drain() if p.opcode == opcodes.SACK} != {5}, "their SACKs should have arrived by now"


# ---- trimmed packets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dscp", "reason"), [(12, control.NACK_TRIMMED), (16, control.NACK_TRIMMED_LASTHOP)], ids=["fabric", "lasthop"]
)
def test_a_trimmed_packet_is_nacked(dscp: int, reason: int) -> None:
    end = FarEnd()
    end.segment(3, msn=3, dscp=dscp, cut=36, ev=0x402, plane=1)
    (nack,) = [p.nack for p in end.only(opcodes.NACK)]
    assert nack == control.Nack(reason, 0x402, end.qpn & 0xFFFF, 0x4242, FIRST_IN + 3, 0x1234)
    end.segment(3, msn=3)
    end.drain()
    end.segment(3, msn=3, dscp=dscp, cut=36)
    assert not end.only(opcodes.NACK), "it is here already"


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_a_refused_message_is_reported_after_earlier_messages() -> None:
    end = FarEnd()
    end.segment(1, msn=1, rkey=1)
    end.segment(2, msn=2, offset=50_000)
    assert end.buffer[50_000:51_000] == bytes(1000), "nothing behind it is placed"
    assert not end.drain()
    assert end.nic.qp_state(end.qpn) is QpState.RTS
    end.segment(0, msn=0)
    out = end.drain()
    naks = [p for p in out if p.opcode == opcodes.TRANSPORT_ACK and p.aeth[0] != headers.SYNDROME_ACK]
    assert [p.aeth for p in naks] == [(headers.NAK_REMOTE_ACCESS, 1)]
    assert end.nic.qp_state(end.qpn) is QpState.ERROR
    end.segment(2, msn=2)
    assert [p.aeth for p in end.only(opcodes.TRANSPORT_ACK)] == [(headers.NAK_REMOTE_ACCESS, 1)], "refused again"


@pytest.mark.parametrize("kind", [FIRST, LAST])
def test_no_byte_of_a_message_exceeding_its_region_is_written(kind: int) -> None:
    """Whichever packet of it comes first, the whole message is checked."""
    end = FarEnd(size=10_000)
    if kind == FIRST:
        end.segment(0, FIRST, length=20_000, size=4096)
    else:
        end.segment(1, LAST, offset=0, length=5000, size=904)  # the message would begin before the region
    assert end.buffer == bytes(10_000)
    assert end.nic.qp_state(end.qpn) is QpState.ERROR


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 8000},
        {"offset": 4100},
        {"rkey": 5},
        {"size": 4092},
        {"kind": ONLY, "length": 9000},
        {"kind": LAST, "size": 808},
    ],
    ids=str,
)
def test_a_packet_inconsistent_with_its_message_fails_the_queue_pair(wrong: dict[str, int]) -> None:
    end = FarEnd()
    end.segment(0, FIRST, length=9000, size=4096)
    packet = {"kind": MIDDLE, "offset": 4096, "length": 9000, "size": 4096, **wrong}
    end.segment(1, **packet)  # type: ignore[arg-type]
    assert end.nic.qp_state(end.qpn) is QpState.ERROR
    assert [p.nack.reason for p in end.only(opcodes.NACK)] == [control.NACK_UNEXP_EVENT]
    assert end.buffer[4096:] == bytes(len(end.buffer) - 4096)


def test_too_many_writes_with_imm_are_a_remote_operation_error() -> None:
    end = FarEnd(attributes=QpAttributes(max_wimm=2))
    for n in range(1, 4):
        end.segment(n, ONLY_IMM, msn=n, rqmsn=n - 1, imm=n)
    end.segment(0, msn=0)
    naks: list[Packet] = [p for p in end.only(opcodes.TRANSPORT_ACK) if p.aeth[0] == headers.NAK_REMOTE_OPERATION]
    assert [p.aeth[1] for p in naks] == [3]
    assert [c.imm for c in end.poll()] == [1, 2]


def test_state_stays_bounded_under_a_peer_that_never_finishes_a_message() -> None:
    end = FarEnd(attributes=QpAttributes(mpr=255))
    for psn in range(1, 32_000, 7):
        end.segment(psn, FIRST, msn=psn & 0xFFFF, length=9000, size=4096)
    responder = end.qp.responder  # what it keeps in memory shows nowhere else
    assert len(responder.messages.open) <= 1 << 14
    assert len(responder.acks._nacks) <= 256
    assert len(responder.acks._sacks) <= 64


def test_a_retransmission_far_behind_the_newest_psn_causes_few_sacks() -> None:
    """The hole is filled after hundreds of later packets have come and been shown: no need to show them again."""
    end = FarEnd()
    gap, newest = 10, 400
    for psn in range(newest):
        if psn not in (gap, gap + 30):
            end.segment(psn, msn=psn, flags=0 if psn % 8 else A)
            end.drain()
    end.segment(gap, msn=gap, flags=RTX)
    answers = sacks(end)
    assert 1 <= len(answers) <= 2
    shown = answers[0]
    first = (shown.cack_psn + shown.bitmap_offset) & 0xFFFFFF
    assert shown.cack_psn == FIRST_IN + gap + 29
    assert first == FIRST_IN + gap + 30, "and it shows what is missing next"
    assert not shown.bitmap & 1


@pytest.mark.parametrize("ahead", [False, True])
def test_a_trimmed_duplicate_is_acknowledged_like_a_complete_one(ahead: bool) -> None:
    """Its sender has not received the SACK: without another it would time out, or use up a backup path."""
    end = FarEnd()
    end.segment(int(ahead), msn=int(ahead))
    end.drain()
    end.segment(int(ahead), msn=int(ahead), flags=headers.RTX, dscp=12, cut=24)
    packets = end.drain()
    (sack,) = [p.sack for p in packets if p.opcode == opcodes.SACK]
    assert sack.ack_offset + sack.cack_psn == FIRST_IN + ahead
    assert not [p for p in packets if p.opcode == opcodes.NACK]
    assert [p.aeth[1] for p in packets if p.opcode == opcodes.TRANSPORT_ACK] == ([] if ahead else [1])


def test_a_trimmed_packet_of_an_earlier_connection_is_dropped() -> None:
    end = FarEnd()
    end.segment(-1, dscp=12, cut=24)
    assert not end.drain()
    assert end.nic.nic_counters()["drop_other_life"] == 1


def scattered(end: FarEnd, newest: int = 640, every: int = 4) -> set[int]:
    """All but each fourth of so many packets arrive, and what is due because of them has left; those that arrived."""
    arrived = {psn for psn in range(newest) if psn % every}
    for psn in sorted(arrived):
        end.segment(psn, msn=psn, plane=psn % 2)
        end.drain()
    return arrived


def numbers(sack: control.Sack) -> range:
    first = (sack.cack_psn + sack.bitmap_offset - FIRST_IN) & 0xFFFFFF
    return range(first, first + 64)


@pytest.mark.parametrize("question", ["probe", "retransmission"])
def test_one_probe_reveals_every_hole(question: str) -> None:
    end = FarEnd()
    arrived = scattered(end)
    if question == "probe":
        end.probe(7)
    else:
        end.segment(0, msn=0, flags=RTX)
    got = sacks(end)
    acknowledged = set().union(*(numbers(sack) for sack in got))
    assert acknowledged >= set(range(4, 640)) - arrived
    assert set().union(*(shown(sack) for sack in got)) <= arrived | {0}
    assert len(got) <= 12


def test_a_sweep_sends_at_most_one_sack_per_received_packet() -> None:
    """Whoever repeats itself, or probes without end, gets no more than two SACKs a packet beyond what was saved up."""
    end = FarEnd(attributes=QpAttributes(mpr=255))
    for psn in range(1, 16_000, 25):
        end.segment(psn, msn=psn, plane=psn % 2)
        end.drain()
    assert end.nic.qp_counters(end.qpn).data_received == 640
    for _ in range(3):
        sent = 0
        for number in range(400):
            if number % 2:
                end.probe(number)
            else:
                end.segment(1, msn=1, flags=RTX)
            sent += len(sacks(end))
    assert sent <= 2 * 400 + 8
