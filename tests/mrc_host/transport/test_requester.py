"""The requester, packet by packet: what it sends, in which order and class, and what it makes of answers.

Windows, loss, timeouts and spurious retransmissions have files of their own.
"""

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, PathReason, PathState, QpAttributes, QpState
from mrc_host.wire import control, headers
from tests.mrc_host.nic_world import MS, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, WIDE, FarEnd, flight, warm

# ---- what goes out -----------------------------------------------------------------------------------------------


def test_a_message_is_segmented_into_packets_with_addresses_and_psns() -> None:
    end = FarEnd()
    end.buffer[:] = bytes(n % 251 for n in range(len(end.buffer)))
    end.write(10_000, imm=0xABCD)
    end.write(100)
    packets = sorted(end.data(), key=lambda p: p.psn)
    assert [p.opcode for p in packets] == [0xC6, 0xC7, 0xC9, 0xCA]
    assert [p.psn - FIRST_OUT for p in packets] == [0, 1, 2, 3]
    first, middle, last, only = (headers.data_ts.unpack_from(p.body) for p in packets)
    assert [f[9] for f in (first, middle, last, only)] == [0x10000, 0x11000, 0x12000, 0x10000]
    assert {f[10] for f in (first, middle, last, only)} == {0x77}
    assert [f[11] for f in (first, middle, last, only)] == [10_000, 10_000, 10_000, 100]
    assert [f[6] for f in (first, last, only)] == [0, 0, 1], "MSN"
    assert [f[5] for f in (first, last, only)] == [0, 0, 1], "RQMSN counts the WRITE_WITH_IMM before"
    assert packets[2].body[36:40] == b"\0\0\xab\xcd"
    payload = packets[0].body[36:] + packets[1].body[36:] + packets[2].body[40:]
    assert payload == end.buffer[:10_000]


def test_first_transmissions_and_retransmissions_have_separate_classes() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    assert (packet.dscp, packet.rtx) == (4, False)
    assert int.from_bytes(packet.frame[14:16], "big") >> 4 & 3 == 2, "ECT(0)"
    end.nack(packet, control.NACK_TRIMMED)
    (again,) = end.data()
    assert (again.dscp, again.rtx, again.psn) == (8, True, packet.psn)
    assert again.ev != packet.ev
    assert again.body[36:] == packet.body[36:]


def test_planes_alternate_even_when_one_port_is_polled_more() -> None:
    burst = TransportSettings().plane_skew_limit
    end = FarEnd(planes=4, attributes=WIDE)
    end.write(1 << 18)
    assert len(end.data(ports=(0,))) == burst
    assert len(end.data(ports=(1, 2))) == 2 * burst
    assert not end.data(ports=(0, 1, 2))
    assert len(end.data(ports=(3,))) == 2 * burst, "it catches up, and may be one burst ahead like the others before"
    assert len(end.data(ports=(0,))) == burst


def test_retransmissions_use_their_planes_share_without_waiting() -> None:
    burst = TransportSettings().plane_skew_limit
    end = FarEnd(planes=2, attributes=WIDE)
    end.write(1 << 18)
    lost = end.data(ports=(0,))[:3]
    for packet in lost[:2]:
        end.nack(packet, control.NACK_TRIMMED)
    assert [packet.rtx for packet in end.data(ports=(1,))] == [True] * 2 + [False] * (2 * burst - 2)
    end.nack(lost[2], control.NACK_TRIMMED)
    assert [packet.rtx for packet in end.data(ports=(1,))] == [True], "its plane is a burst ahead, and has no new one"


def test_an_idle_port_is_polled_again_when_its_turn_comes() -> None:
    end = FarEnd(planes=2, attributes=WIDE)
    end.write(1 << 18)
    while end.nic.transmit(0, end.now):
        pass
    due = end.nic.wakeup()
    assert due is not None
    assert due > end.now, "waiting for plane 1, not for time"
    while end.nic.transmit(1, end.now):
        pass
    due = end.nic.wakeup()
    assert due is not None
    assert due <= end.now


# ---- what is sent again ------------------------------------------------------------------------------------------


def test_the_oldest_loss_is_retransmitted_first_and_before_new_data() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=8 * 4096), planes=1, uplinks=8)
    end.write(40 * 4096)
    packets = sorted(end.data(), key=lambda p: p.psn)
    for victim in (packets[5], packets[2], packets[3]):
        end.nack(victim, control.NACK_NO_PKT_BUFFER)
    out = end.data()
    assert [p.psn - FIRST_OUT for p in out] == [2, 3, 5]
    end.sack(7)
    assert all(not p.rtx for p in end.data())


def test_an_unexpected_event_nack_is_fatal() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_UNEXP_EVENT)
    assert [c.status for c in end.poll()] == [CompletionStatus.REMOTE_OPERATION_ERROR]


# ---- marks -------------------------------------------------------------------------------------------------------


def test_ecn_marks_in_a_sack_skip_the_path() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    packets = flight(end, 8)
    end.sack(0, of=packets[0], mark=control.MARK_SKIP_ONCE)
    end.sack(1, of=packets[1], mark=control.MARK_ALWAYS_SKIP)
    states = {p.ev: p.state for p in end.nic.qp_paths(end.qpn)}
    assert states[packets[0].ev] is PathState.SKIP
    assert states[packets[1].ev] is PathState.ASSUMED_BAD
    (event,) = path_events(end.nic)
    assert event.reason is PathReason.PEER_SKIP


# ---- answers that make no sense ----------------------------------------------------------------------------------


def test_responses_about_packets_never_sent_are_dropped() -> None:
    end = FarEnd()
    end.write(8192)
    end.data()
    end.sack(2)
    end.sack(500)
    end.ack(2)
    assert end.nic.nic_counters()["drop_malformed"] == 3
    end.sack(-1, 0xFFFFFFFFFFFFFFFF, base=1)
    assert end.nic.qp_state(end.qpn) is QpState.RTS
    assert not end.poll()
    end.ack(1)
    assert len(end.poll()) == 1


def test_stale_and_duplicate_responses_change_nothing() -> None:
    end = FarEnd()
    warm(end)
    for _ in range(5):
        end.sack(0)
        end.sack(3)
        end.ack(0)
        end.ack(1)
    assert end.nic.nic_counters()["drop_malformed"] == 0
    end.write(4096)
    assert len(end.data()) == 1
    assert not end.poll()


def test_a_transport_ack_alone_completes_a_message() -> None:
    end = FarEnd()
    end.write(3 * 4096)
    end.data()
    end.ack(1)
    assert len(end.poll()) == 1
    assert not [p for p in end.wait(100 * MS) if p.opcode < 0xD0]


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (headers.NAK_REMOTE_ACCESS, CompletionStatus.REMOTE_ACCESS_ERROR),
        (headers.NAK_REMOTE_OPERATION, CompletionStatus.REMOTE_OPERATION_ERROR),
        (headers.NAK_INVALID_REQUEST, CompletionStatus.REMOTE_INVALID_REQUEST_ERROR),
    ],
)
def test_a_nak_fails_its_message(syndrome: int, status: CompletionStatus) -> None:
    end = FarEnd()
    for n in range(4):
        end.write(100, wr_id=n)
    end.data()
    end.ack(2, syndrome)
    assert [c.status for c in end.poll()] == [
        CompletionStatus.SUCCESS,
        CompletionStatus.SUCCESS,
        status,
        CompletionStatus.FLUSHED,
    ]
    assert not [p for p in end.wait(100 * MS) if p.opcode < 0xD0]


def test_memory_of_a_completed_message_is_released() -> None:
    """The NIC keeps no view of a buffer it no longer needs, so the buffer can be resized or its mapping closed."""
    end = FarEnd()
    warm(end)
    end.nic.deregister_memory(end.region.lkey)
    end.buffer.extend(b"x")
