"""Where messages begin, as their packets and their neighbours show."""

import pytest

from mrc_host.transport.incoming_messages import LOCATED, OVERLAP, IncomingMessages
from mrc_host.transport.memory import Region
from mrc_host.transport.message import Message

MTU = 4096
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(6)


def message(packets: int, *, start: int = 0, at: int = 0, room: int = 1 << 20) -> Message:
    """One of `packets` full packets that begins at PSN `start` and offset `at` of a region of `room` bytes."""
    region = Region(0x1000, memoryview(bytearray(room)), 1, 2, 0, True)
    return Message(region.address + at - start * MTU, packets, packets * MTU, MTU, 2, region)


@pytest.mark.parametrize("kind", [FIRST, ONLY, ONLY_IMM])
def test_a_first_packet_starts_its_message(kind: int) -> None:
    assert IncomingMessages(0, MTU).beginning(kind, 17, 5, 3) == 17


@pytest.mark.parametrize("kind", [LAST, LAST_IMM])
def test_a_last_packet_locates_the_start_by_the_length(kind: int) -> None:
    assert IncomingMessages(0, MTU).beginning(kind, 17, 5, 3) == 15


def test_a_middle_packet_is_resolved_only_by_the_message_before() -> None:
    messages = IncomingMessages(10, MTU)
    assert messages.beginning(MIDDLE, 11, 0, 3) == 10, "the first one begins where the connection does"
    assert messages.beginning(MIDDLE, 14, 1, 3) == -1
    assert messages.locate(0, message(3, start=10), 10) == LOCATED
    assert messages.beginning(MIDDLE, 14, 1, 3) == 13


def test_one_message_start_resolves_all_packets_waiting_for_it() -> None:
    messages = IncomingMessages(0, MTU)
    for msn in (2, 1):
        messages.open[msn] = message(3, start=3 * msn)
    assert messages.locate(0, message(3), 0) == LOCATED
    assert [(messages.open[n].first, messages.open[n].last) for n in range(3)] == [(0, 2), (3, 5), (6, 8)]


def test_overlapping_messages_are_detected_from_either_side() -> None:
    messages = IncomingMessages(0, MTU)
    assert messages.locate(1, message(2, start=4), 4) == LOCATED
    assert messages.locate(0, message(5), 0) == OVERLAP, "it would end at PSN 4"
    assert messages.locate(2, message(2, start=5), 5) == OVERLAP, "the one before ends there"
    assert messages.locate(3, message(2, start=2), 2) == OVERLAP, "three messages take three packets"


def test_packets_placed_earlier_must_lie_inside_the_message() -> None:
    messages = IncomingMessages(0, MTU)
    early = message(3)
    early.lowest, early.highest = 1, 2
    assert messages.locate(0, early, 0) == OVERLAP, "a Middle cannot be the last"
    early.highest = 1
    assert messages.locate(0, early, 0) == LOCATED


def test_the_first_message_outside_its_region_is_reported_and_earlier_ones_kept() -> None:
    messages = IncomingMessages(0, MTU)
    messages.open[1] = message(4, start=2, room=3 * MTU)
    assert messages.locate(0, message(2), 0) == 1
    assert messages.open[0].first == 0


def test_complete_and_dropped_messages_are_forgotten() -> None:
    messages = IncomingMessages(0, MTU)
    for msn in range(4):
        assert messages.locate(msn, message(1, start=msn), msn) == LOCATED
    messages.complete()
    assert (messages.next_msn, sorted(messages.open)) == (1, [1, 2, 3])
    messages.drop_from(2)
    assert sorted(messages.open) == [1]
    messages.complete()
    assert messages.known_starts <= 3
