"""The RC responder by itself: what it places, and with what it answers what is out of place."""

from __future__ import annotations

import random

import pytest

from mrc_host.transport.roce.responder import RNR_TIMER
from mrc_host.verbs_types import Access
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import MASK
from tests.mrc_host.transport.roce.parts import FIRST, MTU, Receiver, receiver

ACK = headers.SYNDROME_ACK
NAK = headers.NAK_SEQUENCE
RNR = headers.SYNDROME_RNR | RNR_TIMER
A = headers.ACK_REQUEST
FIRST_KIND, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = 0, 1, 2, 3, 4, 5


def take(
    end: Receiver,
    psn: int,
    kind: int = ONLY,
    *,
    size: int = MTU,
    length: int | None = None,
    at: int = 0,
    imm: int = 0,
    fill: int = 0x55,
    ask: bool = True,
    rkey: int | None = None,
) -> Drop | None:
    """One packet; only those that begin a message bring `at`, `length` and `rkey`."""
    begins = kind in (FIRST_KIND, ONLY, ONLY_IMM)
    return end.responder.receive(
        kind,
        psn & MASK | (A if ask else 0),
        end.address + at if begins else 0,
        (end.rkey if rkey is None else rkey) if begins else 0,
        (size if length is None else length) if begins else 0,
        imm,
        memoryview(bytes([fill]) * size),
    )


# ---- in order ----------------------------------------------------------------------------------------------------


def test_packets_are_placed_consecutively_and_other_memory_is_unchanged() -> None:
    end = receiver()
    take(end, FIRST, FIRST_KIND, length=2 * MTU + 10, at=100, fill=1)
    take(end, FIRST + 1, MIDDLE, fill=2)
    take(end, FIRST + 2, LAST, size=10, fill=3)
    expected = bytes(100) + b"\1" * MTU + b"\2" * MTU + b"\3" * 10
    assert end.buffer == expected + bytes(len(end.buffer) - len(expected))
    assert end.responder.psns_used() == 3
    assert end.qp.received == [], "no immediate data"


def test_only_packets_requesting_an_ack_are_acknowledged_with_the_newest_psn() -> None:
    end = receiver()
    take(end, FIRST, FIRST_KIND, length=3 * MTU, ask=False)
    assert (end.answers(), end.qp.offered) == ([], 0)
    take(end, FIRST + 1, MIDDLE)
    take(end, FIRST + 2, LAST)
    assert end.answers() == [(ACK, FIRST + 2, 1)], "one answer for both"
    assert end.answers() == []


def test_the_msn_counts_complete_messages() -> None:
    end = receiver()
    seen = []
    for n in range(3):
        take(end, FIRST + 2 * n, FIRST_KIND, length=2 * MTU)
        seen += end.answers()
        take(end, FIRST + 2 * n + 1, LAST)
        seen += end.answers()
    assert [msn for _syndrome, _psn, msn in seen] == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("kinds", [(ONLY_IMM,), (FIRST_KIND, LAST_IMM)])
def test_immediate_data_completes_a_receive_with_the_message_length(kinds: tuple[int, ...]) -> None:
    end = receiver()
    for n, kind in enumerate(kinds):
        take(end, FIRST + n, kind, length=len(kinds) * MTU, imm=77)
    assert end.qp.received == [(len(kinds) * MTU, 77)]


def test_psns_wrap_at_24_bits() -> None:
    end = receiver(first_psn=MASK)
    take(end, MASK)
    take(end, 0)
    assert end.answers() == [(ACK, 0, 2)]
    assert take(end, MASK) is None
    assert end.answers() == [(ACK, 0, 2)], "a duplicate"
    assert end.connection.stats.duplicates_received == 1


# ---- gaps and duplicates -----------------------------------------------------------------------------------------


def test_a_gap_is_reported_once_and_later_packets_are_dropped() -> None:
    end = receiver()
    take(end, FIRST)
    end.answers()
    before = bytes(end.buffer)
    for n in range(2, 6):
        take(end, FIRST + n, at=MTU, fill=9, ask=False)
    assert end.answers() == [(NAK, FIRST + 1, 1)]
    assert end.qp.offered == 2
    assert end.buffer == before
    assert end.responder.received.out_of_order == 4


def test_the_next_gap_is_reported_again() -> None:
    end = receiver()
    take(end, FIRST + 1)
    take(end, FIRST, ask=False)
    assert end.answers() == [(NAK, FIRST + 1, 1)], "the PSN expected when it leaves"
    take(end, FIRST + 2)
    assert end.answers() == [(NAK, FIRST + 1, 1)]


def test_a_duplicate_is_acknowledged_again_but_not_placed() -> None:
    """Else a late copy would overwrite what the application has put there since."""
    end = receiver()
    take(end, FIRST, fill=1)
    take(end, FIRST + 1, ONLY_IMM, at=MTU, imm=5)
    end.answers()
    end.buffer[:MTU] = b"\7" * MTU
    take(end, FIRST, fill=1, ask=False)
    take(end, FIRST + 1, ONLY_IMM, at=MTU, imm=5, ask=False)
    assert end.answers() == [(ACK, FIRST + 1, 2)]
    assert end.buffer[:MTU] == b"\7" * MTU
    assert len(end.qp.received) == 1
    assert end.connection.stats.duplicates_received == 2


def test_a_duplicate_does_not_replace_a_nak_that_has_not_left() -> None:
    """A gap is reported once, so without that report the peer would wait for its timeout."""
    end = receiver()
    take(end, FIRST, ask=False)
    take(end, FIRST + 2)
    take(end, FIRST)
    assert end.answers() == [(NAK, FIRST + 1, 1)]


def test_packets_of_an_earlier_connection_are_dropped_silently() -> None:
    end = receiver()
    assert take(end, FIRST - 1) is Drop.OTHER_LIFE
    take(end, FIRST)
    end.answers()
    assert take(end, FIRST - 1) is Drop.OTHER_LIFE
    assert end.answers() == []


# ---- a receive CQ without room -----------------------------------------------------------------------------------


def test_without_room_in_the_receive_cq_packets_get_an_rnr_nak() -> None:
    end = receiver()
    end.qp.room = False
    take(end, FIRST, ONLY_IMM, imm=3, fill=9)
    assert end.answers() == [(RNR, FIRST, 0)]
    assert not any(end.buffer)
    take(end, FIRST + 1)
    assert end.answers() == [], "what follows is not a gap"
    take(end, FIRST, ONLY_IMM, imm=3, fill=9)
    assert end.answers() == [(RNR, FIRST, 0)], "still none"
    end.qp.room = True
    take(end, FIRST, ONLY_IMM, imm=3, fill=9)
    assert end.answers() == [(ACK, FIRST, 1)]
    assert end.qp.received == [(MTU, 3)]
    assert end.connection.stats.cq_full_events == 2


def test_an_rnr_nak_leaves_only_while_its_packet_is_missing() -> None:
    end = receiver()
    take(end, FIRST, ask=False)
    end.qp.room = False
    take(end, FIRST + 1, ONLY_IMM)
    take(end, FIRST)
    assert end.answers() == [(RNR, FIRST + 1, 1)], "a duplicate does not replace it"
    take(end, FIRST + 1, ONLY_IMM)
    end.qp.room = True
    take(end, FIRST + 1, ONLY_IMM, ask=False)
    assert end.answers() == [(ACK, FIRST + 1, 2)]


def test_writes_without_immediate_need_no_room_in_the_receive_cq() -> None:
    end = receiver()
    end.qp.room = False
    take(end, FIRST)
    take(end, FIRST + 1, FIRST_KIND, length=2 * MTU)
    assert end.answers() == [(ACK, FIRST + 1, 1)]
    take(end, FIRST + 2, LAST_IMM, imm=3)
    assert end.answers() == [(RNR, FIRST + 2, 1)], "only its last packet does"


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["key", "before", "behind", "right", "gone"])
def test_an_invalid_remote_range_is_refused_before_anything_is_written(what: str) -> None:
    end = receiver(access=Access.LOCAL_WRITE if what == "right" else Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    if what == "gone":
        end.connection.nic.memory.deregister(end.lkey)
    at = {"before": -1, "behind": len(end.buffer) - MTU + 1}.get(what, 0)
    rkey = end.rkey ^ 1 if what == "key" else None
    take(end, FIRST, at=at, rkey=rkey)
    assert end.answers() == [(headers.NAK_REMOTE_ACCESS, FIRST, 0)]
    assert end.qp.refused == [headers.NAK_REMOTE_ACCESS]
    assert not any(end.buffer)


def test_the_whole_range_is_checked_with_the_first_packet() -> None:
    end = receiver()
    take(end, FIRST, FIRST_KIND, length=3 * MTU, at=len(end.buffer) - 2 * MTU)
    assert end.answers() == [(headers.NAK_REMOTE_ACCESS, FIRST, 0)]
    assert not any(end.buffer)


def test_a_region_deregistered_in_mid_message_is_no_longer_written() -> None:
    end = receiver()
    take(end, FIRST, FIRST_KIND, length=2 * MTU, fill=1)
    end.answers()
    end.connection.nic.memory.deregister(end.lkey)
    take(end, FIRST + 1, LAST, fill=2)
    assert end.answers() == [(headers.NAK_REMOTE_ACCESS, FIRST + 1, 0)]
    assert 2 not in end.buffer


@pytest.mark.parametrize(
    ("before", "kind", "size"),
    [
        (0, MIDDLE, MTU),
        (0, LAST, MTU),
        (0, LAST_IMM, MTU),
        (1, FIRST_KIND, MTU),
        (1, ONLY, MTU),
        (1, MIDDLE, MTU - 4),
        (1, LAST, MTU),  # the message has two more
        (2, MIDDLE, MTU),  # and it is the last
        (2, LAST, MTU - 4),
        (2, LAST_IMM, MTU + 4),
        (1, LAST, 2 * MTU),  # as much as is missing, but longer than a packet may be
    ],
)
def test_invalid_opcode_sequences_are_an_invalid_request(before: int, kind: int, size: int) -> None:
    """After `before` packets of a message of three."""
    end = receiver()
    for n in range(before):
        take(end, FIRST + n, MIDDLE if n else FIRST_KIND, length=3 * MTU, ask=False)
    was = bytes(end.buffer)
    take(end, FIRST + before, kind, size=size, fill=9)
    assert end.answers() == [(headers.NAK_INVALID_REQUEST, FIRST + before, 0)]
    assert end.qp.refused == [headers.NAK_INVALID_REQUEST]
    assert end.buffer == was


@pytest.mark.parametrize(
    ("kind", "size", "length"),
    [(ONLY, 100, 200), (ONLY, 200, 100), (FIRST_KIND, MTU, MTU), (FIRST_KIND, MTU, 0), (FIRST_KIND, MTU, MTU - 1),
     (ONLY, MTU + 4, MTU + 4)],
)  # fmt: skip
def test_a_length_inconsistent_with_the_first_packet_is_an_invalid_request(kind: int, size: int, length: int) -> None:
    end = receiver()
    take(end, FIRST, kind, size=size, length=length)
    assert end.answers() == [(headers.NAK_INVALID_REQUEST, FIRST, 0)]
    assert not any(end.buffer)


def test_a_middle_packet_in_the_place_of_a_short_last_one_is_an_invalid_request() -> None:
    """It would go beyond the end of the message, whose range alone was checked."""
    end = receiver()
    take(end, FIRST, FIRST_KIND, length=MTU + 100, ask=False)
    was = bytes(end.buffer)
    take(end, FIRST + 1, MIDDLE, fill=9)
    assert end.answers() == [(headers.NAK_INVALID_REQUEST, FIRST + 1, 0)]
    assert end.buffer == was


def test_the_fatal_nak_is_repeated_while_the_peer_keeps_sending() -> None:
    end = receiver()
    take(end, FIRST, MIDDLE)
    assert end.answers() == [(headers.NAK_INVALID_REQUEST, FIRST, 0)]
    assert end.responder.repeat_nak()
    assert end.answers() == [(headers.NAK_INVALID_REQUEST, FIRST, 0)]
    assert end.qp.refused == [headers.NAK_INVALID_REQUEST]


# ---- all together ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_exact_under_random_loss_duplication_and_delay(seed: int) -> None:
    """A go-back-N sender whose packets are lost, repeated and late."""
    print("seed", seed)
    rng = random.Random(seed)
    first = rng.choice((FIRST, MASK - 3))
    end = receiver(first_psn=first)
    packets: list[tuple[int, int, int, int]] = []  # kind, place, size, length of the message
    at = 0
    while at < len(end.buffer):
        length = min(rng.randrange(1, 5 * MTU), len(end.buffer) - at)
        count = -(-length // MTU)
        for n in range(count):
            kind = opcodes.segment_kind(n == 0, n == count - 1, False)
            packets.append((kind, at + n * MTU, min(MTU, length - n * MTU), length))
        at += length
    sent = [rng.randrange(1, 256) for _ in packets]
    position = 0
    for _ in range(20_000):
        arrived = end.responder.psns_used()
        if arrived == len(packets):
            break
        if position >= len(packets) or rng.random() < 0.05:
            position = max(0, arrived - rng.randrange(3))
        kind, place, size, length = packets[position]
        if rng.random() < 0.8:
            take(end, first + position, kind, size=size, length=length, at=place, fill=sent[position])
            for syndrome, psn, _msn in end.answers():
                expected = first + end.responder.psns_used()
                assert psn == (expected - (syndrome == ACK)) & MASK
                assert syndrome in (ACK, NAK)
        position += 1
    assert end.buffer == b"".join(
        bytes([fill]) * size for fill, (_kind, _at, size, _length) in zip(sent, packets, strict=True)
    )
    assert not end.qp.refused
