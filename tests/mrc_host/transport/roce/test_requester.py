"""The RC requester by itself: go-back-N, what NAKs and timeouts bring about, when packets ask and requests complete."""

from __future__ import annotations

import random

import pytest

from mrc_host.transport.dcqcn import Dcqcn
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import headers, opcodes
from mrc_host.wire.psn import MASK
from tests.mrc_host.nic_world import MS, US
from tests.mrc_host.transport.roce.parts import (
    FAR_ADDRESS,
    FAR_RKEY,
    FIRST,
    MTU,
    TIMEOUT,
    Packet,
    Sender,
    sender,
)

FIRST_OP, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B  # IBTA, table of opcodes
RNR = headers.SYNDROME_RNR


def starts(packets: list[Packet]) -> list[int]:
    return [packet.opcode for packet in packets]


# ---- packets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "imm", "expected"),
    [
        (1, None, [ONLY]),
        (MTU, 5, [ONLY_IMM]),
        (MTU + 1, None, [FIRST_OP, LAST]),
        (3 * MTU, None, [FIRST_OP, MIDDLE, LAST]),
        (2 * MTU + 3, 5, [FIRST_OP, MIDDLE, LAST_IMM]),
    ],
)
def test_a_message_is_segmented_into_full_packets_and_a_remainder(
    length: int, imm: int | None, expected: list[int]
) -> None:
    """Only the first packet has a RETH, which names the whole range; only the last has immediate data."""
    end = sender()
    end.write(length, imm=imm)
    packets = end.drain()
    assert starts(packets) == expected
    sizes = {FIRST_OP: 28, ONLY: 28, ONLY_IMM: 32, LAST_IMM: 16, MIDDLE: 12, LAST: 12}
    assert b"".join(p.payload(sizes[p.opcode]) for p in packets) == end.buffer[:length]
    assert [p.psn for p in packets] == [FIRST + n for n in range(len(packets))]
    layout = headers.rc_only_imm if expected == [ONLY_IMM] else headers.rc_first
    fields = layout.unpack_from(packets[0].frame, 62)
    assert fields[5:8] == (FAR_ADDRESS, FAR_RKEY, length)
    if imm is not None:
        assert packets[-1].payload(sizes[expected[-1]] - 4)[:4] == imm.to_bytes(4, "big")


@pytest.mark.parametrize("length", range(1, 9))
def test_payloads_are_padded_to_words_with_the_pad_count_in_the_bth(length: int) -> None:
    end = sender()
    end.write(length)
    (packet,) = end.drain()
    assert (len(packet.frame) - 62) % 4 == 0
    assert packet.payload(28) == end.buffer[:length]


def test_psns_wrap_at_24_bits_and_acknowledgements_follow_them() -> None:
    end = sender(first_psn=MASK - 1)
    end.write(4 * MTU)
    assert end.psns() == [MASK - 1, MASK, 0, 1]
    end.ack(0, headers.NAK_SEQUENCE)
    assert end.psns() == [0, 1]
    end.ack(1)
    assert end.completed() == [0]
    assert end.requester.sent.psns_used() == 4


def test_acks_are_requested_by_last_every_eighth_and_window_filling_packets() -> None:
    end = sender()
    end.write(20 * MTU)
    assert [p.psn for p in end.drain() if p.asks] == [104, 112, 119]
    narrow = sender(window=3 * MTU)
    narrow.write(20 * MTU)
    assert [(p.psn, p.asks) for p in narrow.drain()] == [(100, False), (101, False), (102, True)]


# ---- acknowledgements --------------------------------------------------------------------------------------------


def test_requests_complete_in_order_once_their_last_packet_is_acknowledged() -> None:
    end = sender()
    for _ in range(4):
        end.write(2 * MTU)
    end.drain()
    end.ack(FIRST + 2)
    assert end.completed() == [0], "half of the second is not enough"
    end.ack(FIRST + 7)
    assert end.completed() == [0, 1, 2, 3], "one ACK covers several"
    assert {c.status for c in end.done} == {CompletionStatus.SUCCESS}
    assert end.requester.cc.inflight == 0


@pytest.mark.parametrize("psn", [FIRST - 2, FIRST + 4, FIRST + 5000, FIRST - 5000])
def test_an_ack_of_a_psn_never_sent_is_ignored(psn: int) -> None:
    end = sender(window=4 * MTU)
    end.write(8 * MTU)
    end.drain()
    for syndrome in (headers.SYNDROME_ACK, headers.NAK_SEQUENCE + 0):
        end.ack(psn + (syndrome != headers.SYNDROME_ACK), syndrome)
    assert end.requester.cc.inflight == 4 * MTU
    assert end.drain() == []
    assert end.connection.stats.acks_received == 0
    assert not end.qp.errors


def test_a_duplicate_ack_changes_nothing() -> None:
    end = sender()
    end.write(8 * MTU)
    end.drain()
    end.ack(FIRST + 3)
    inflight = end.requester.cc.inflight
    end.ack(FIRST + 1)
    end.ack(FIRST + 3)
    assert end.requester.cc.inflight == inflight == 4 * MTU
    assert end.drain() == []


def test_an_ack_of_packets_about_to_be_resent_cancels_their_retransmission() -> None:
    """The NAK asked for 102 on, but 102 to 104 were only slow, as a later ACK shows."""
    end = sender()
    end.write(8 * MTU)
    end.drain()
    end.ack(FIRST + 2, headers.NAK_SEQUENCE)
    assert end.psns(1) == [FIRST + 2]
    end.ack(FIRST + 4)
    assert end.psns() == [FIRST + 5, FIRST + 6, FIRST + 7]
    end.ack(FIRST + 7)
    assert end.completed() == [0]
    assert end.requester.cc.inflight == 0


# ---- NAKs --------------------------------------------------------------------------------------------------------


def test_a_sequence_error_resends_its_psn_and_everything_after_it() -> None:
    end = sender()
    end.write(5 * MTU)
    end.write(3 * MTU, imm=9)
    before = end.drain()
    end.ack(FIRST + 3, headers.NAK_SEQUENCE)
    assert end.requester.cc.inflight == 0
    again = end.drain()
    assert [p.frame for p in again] == [p.frame for p in before[3:]], "the same packets"
    stats = end.connection.stats
    assert (stats.sequence_errors, stats.lost, stats.retransmitted, stats.data_sent) == (1, 1, 5, 8)
    assert end.completed() == [], "what is before it has arrived, but no request is whole"


def test_a_sequence_error_acknowledges_everything_before_its_psn() -> None:
    end = sender()
    end.write(2 * MTU)
    end.write(2 * MTU)
    end.drain()
    end.ack(FIRST + 2, headers.NAK_SEQUENCE)
    assert end.completed() == [0]
    assert starts(end.drain()) == [FIRST_OP, LAST]


@pytest.mark.parametrize("code", [1, 12, 31, 0])
def test_an_rnr_nak_stops_sending_for_its_timer(code: int) -> None:
    """IBTA, table of RNR timers: 0.01, 0.64 and 491.52 ms, and for code 0 655.36 ms."""
    wait = {1: 10, 12: 640, 31: 491_520, 0: 655_360}[code] * US
    end = sender()
    end.write(3 * MTU, imm=1)
    end.drain()
    start = end.now
    end.ack(FIRST + 2, RNR | code)
    end.now = start + wait - 1
    assert end.drain() == []
    end.now += 1
    assert end.psns() == [FIRST + 2]


def test_rnr_naks_never_exhaust_the_retries() -> None:
    end = sender({"retry_count": 1})
    end.write(100, imm=1)
    end.drain()
    for _ in range(50):
        refused_at = end.now
        end.ack(FIRST, RNR | 12)
        while not (again := end.psns()):
            end.expire()
        assert again == [FIRST]
        assert end.now == refused_at + 640 * US
    assert not end.qp.errors
    assert end.connection.stats.rnr_received == 50
    assert end.connection.stats.timeouts == 0
    end.ack(FIRST)
    assert end.completed() == [0]


def test_an_rnr_nak_resets_the_retry_count() -> None:
    end = sender({"retry_count": 1}, linear_retries=0)
    end.write(100, imm=1)
    end.drain()
    for _ in range(5):
        end.expire_fully()
        end.drain()
        end.ack(FIRST, RNR | 1)
        while not end.drain():
            end.expire()
    assert not end.qp.errors
    assert end.connection.stats.timeouts == 5
    assert end.expire_fully() == TIMEOUT, "and so does the interval"


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (headers.NAK_REMOTE_ACCESS, CompletionStatus.REMOTE_ACCESS_ERROR),
        (headers.NAK_INVALID_REQUEST, CompletionStatus.REMOTE_INVALID_REQUEST_ERROR),
        (headers.NAK_REMOTE_OPERATION, CompletionStatus.REMOTE_OPERATION_ERROR),
        (0x7F, CompletionStatus.REMOTE_OPERATION_ERROR),
    ],
)
def test_other_naks_fail_the_queue_pair_after_completing_acknowledged_requests(
    syndrome: int, status: CompletionStatus
) -> None:
    end = sender()
    end.write(MTU)
    end.write(MTU)
    end.drain()
    end.ack(FIRST + 1, syndrome)
    assert end.completed() == [0]
    assert [found for found, _reason in end.qp.errors] == [status]


# ---- timeouts ----------------------------------------------------------------------------------------------------


def test_after_a_timeout_one_packet_probes_and_the_rest_follow_the_ack() -> None:
    end = sender()
    end.write(8 * MTU)
    end.drain()
    assert end.expire_fully() == TIMEOUT
    (asking,) = end.drain()
    assert (asking.psn, asking.asks) == (FIRST, True)
    end.ack(FIRST)
    assert end.psns() == [FIRST + n for n in range(1, 8)]
    assert end.connection.stats.timeouts == 1


def test_the_timeout_is_repeated_then_doubles_up_to_a_limit() -> None:
    end = sender({"retry_count": 255}, linear_retries=2, max_backoff=3)
    end.write(100)
    end.drain()
    waits = []
    for _ in range(8):
        waits.append(end.expire_fully() // TIMEOUT)
        assert end.psns() == [FIRST]
    assert waits == [1, 1, 1, 2, 4, 8, 8, 8]


@pytest.mark.parametrize("retries", [0, 1, 7])
def test_the_queue_pair_fails_after_the_retry_limit(retries: int) -> None:
    end = sender({"retry_count": retries})
    end.write(100)
    sent = len(end.drain())
    for _ in range(retries):
        end.expire_fully()
        sent += len(end.drain())
        assert not end.qp.errors
    end.expire_fully()
    assert [status for status, _ in end.qp.errors] == [CompletionStatus.RETRY_EXCEEDED]
    assert str(retries) in end.qp.errors[0][1]
    assert sent == retries + 1


def test_an_acknowledgement_resets_the_retry_count() -> None:
    end = sender({"retry_count": 1}, linear_retries=0)
    end.write(8 * MTU)
    end.drain()
    for n in range(7):
        assert end.expire_fully() == TIMEOUT
        end.drain()
        end.ack(FIRST + n)
        end.drain()
    assert not end.qp.errors
    end.expire_fully()
    end.drain()
    end.expire_fully()
    assert end.qp.errors


def test_the_timer_runs_from_the_last_acknowledgement() -> None:
    end = sender()
    end.write(8 * MTU)
    end.drain()
    end.now += TIMEOUT // 2
    end.ack(FIRST + 2)
    assert end.expire_fully() == TIMEOUT
    assert end.psns() == [FIRST + 3]


def test_the_timer_stops_when_everything_is_acknowledged() -> None:
    end = sender()
    end.write(MTU)
    end.drain()
    end.ack(FIRST)
    end.expire()
    assert not end.qp.armed()
    assert end.connection.stats.timeouts == 0


def test_requests_waiting_for_a_port_without_link_fail_after_the_retries() -> None:
    end = sender({"retry_count": 2})
    end.connection.nic.local_up &= ~(1 << end.path.port)
    end.requester.starving(end.now)
    assert not end.qp.armed(), "there is nothing to send"
    end.write(100)
    end.requester.starving(end.now)
    for _ in range(3):
        assert not end.qp.errors
        end.expire_fully()
    assert [status for status, _ in end.qp.errors] == [CompletionStatus.RETRY_EXCEEDED]


def test_a_port_that_comes_up_in_time_sends_the_waiting_requests() -> None:
    end = sender({"retry_count": 2})
    end.connection.nic.local_up = 0
    end.write(100)
    end.requester.starving(end.now)
    end.expire_fully()
    end.connection.nic.local_up = 0b11
    assert end.psns() == [FIRST]
    end.ack(FIRST)
    assert end.completed() == [0]


# ---- window and rate ---------------------------------------------------------------------------------------------


def test_the_window_bounds_bytes_in_flight_and_opens_with_acks() -> None:
    end = sender(window=4 * MTU)
    end.write(8 * MTU)
    assert end.psns() == [FIRST + n for n in range(4)]
    end.ack(FIRST + 1)
    assert end.psns() == [FIRST + 4, FIRST + 5]


def test_a_window_smaller_than_a_packet_allows_one_packet() -> None:
    end = sender(window=1)
    end.write(2 * MTU)
    assert [(p.psn, p.asks) for p in end.drain()] == [(FIRST, True)]
    end.ack(FIRST)
    assert end.psns() == [FIRST + 1]


def test_a_rate_limited_sender_is_woken_when_it_may_send() -> None:
    end = sender({"congestion_window": None, "timeout": 14}, rc_congestion="dcqcn")
    assert isinstance(end.requester.cc, Dcqcn)
    end.write(64 * MTU)
    for _ in range(5):
        end.requester.cc.on_cnp(end.now)
    sent = len(end.drain())
    assert 0 < sent < 64, "a burst may leave at once"
    end.qp.timer_at = 0
    assert not end.requester.ready(end.now)
    when = end.qp.timer_at
    assert end.now < when < end.now + 10 * MS
    offered = end.qp.offered
    end.expire()
    assert end.qp.offered > offered
    assert end.psns(1) == [FIRST + sent]
    assert end.connection.stats.timeouts == 0


# ---- all together ------------------------------------------------------------------------------------------------


def _answer(end: Sender, packet: Packet, expected: int, nak_sent: bool) -> tuple[int, int, bool]:
    """A go-back-N responder by the book (IBTA 9.7.5): expected PSN after `packet`, syndrome or -1, and whether it
    has reported the gap."""
    if packet.psn == expected & MASK:
        return expected + 1, headers.SYNDROME_ACK if packet.asks else -1, False
    if (packet.psn - expected) & MASK > MASK >> 1:
        return expected, headers.SYNDROME_ACK, nak_sent
    return expected, -1 if nak_sent else headers.NAK_SEQUENCE, True


@pytest.mark.parametrize("seed", range(20))
def test_random_losses_leave_order_and_completeness_intact(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    loss = rng.choice((0.0, 0.05, 0.3))
    first = rng.choice((FIRST, MASK - 5))
    end = sender({"retry_count": 255}, first_psn=first, window=rng.choice((1, 3, 8, 64)) * MTU)
    lengths = [rng.randrange(1, 8 * MTU) for _ in range(12)]
    for length in lengths:
        end.write(length, imm=rng.choice((None, 1)))
    sizes = {FIRST_OP: 28, ONLY: 28, ONLY_IMM: 32, LAST_IMM: 16, MIDDLE: 12, LAST: 12}
    expected, nak_sent, arrived = first, False, bytearray()
    for _ in range(5000):
        if len(end.completed()) == len(lengths):
            break
        packets = end.drain(rng.randrange(1, 9))
        if not packets and end.qp.armed():
            end.expire()
        for packet in packets:
            end.now += US
            if rng.random() < loss:
                continue
            before = expected
            expected, syndrome, nak_sent = _answer(end, packet, expected, nak_sent)
            if expected > before:
                arrived += packet.payload(sizes[packet.opcode])
            if syndrome >= 0 and rng.random() >= loss:
                end.ack(expected - (syndrome == headers.SYNDROME_ACK), syndrome)
    assert end.completed() == list(range(len(lengths)))
    assert arrived == b"".join(end.buffer[:length] for length in lengths)
    assert end.requester.cc.inflight == 0
    assert end.requester.sent.psns_used() == expected - first == sum(-(-length // MTU) for length in lengths)
    assert not end.qp.errors
    assert opcodes.RC_WRITE_FIRST == FIRST_OP
