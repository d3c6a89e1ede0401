"""The requester, packet by packet: windows, bits, classes, loss, retransmission, retries."""

from itertools import pairwise

import pytest

from mrc_host.config import TransportSettings
from mrc_host.values import CompletionStatus, PathReason, PathState, QpAttributes, QpState
from mrc_host.wire import control, headers, opcodes
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, Packet
from tests.mrc_host.wires import MS, US, path_events

WIDE = QpAttributes(congestion_window=1 << 30)
EAGER = TransportSettings(plane_burst=1 << 20)


def counters(end: FarEnd) -> tuple[int, int, int]:
    """Lost, retransmitted, timeouts."""
    c = end.nic.qp_counters(end.qpn)
    return c.lost, c.retransmitted, c.timeouts


# ---- what goes out -----------------------------------------------------------------------------------------------


def test_a_message_is_cut_into_packets_with_address_and_numbers() -> None:
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


def test_first_transmissions_and_retransmissions_have_their_classes() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    assert (packet.dscp, packet.rtx) == (0, False)
    assert int.from_bytes(packet.frame[14:16], "big") >> 4 & 3 == 2, "ECT(0)"
    end.nack(packet, control.NACK_TRIMMED)
    (again,) = end.data()
    assert (again.dscp, again.rtx, again.psn) == (8, True, packet.psn)
    assert again.ev != packet.ev
    assert again.body[36:] == packet.body[36:]


def test_the_window_of_the_peer_is_kept() -> None:
    end = FarEnd(attributes=QpAttributes(mpr_dest=1, congestion_window=1 << 30), transport=EAGER, size=1 << 20)
    end.write(1 << 20)
    sent = end.data()
    assert max(p.psn for p in sent) == FIRST_OUT - 1 + 127, "PSN < cack + MPR"
    assert max(sent, key=lambda p: p.psn).ack_requested
    end.sack(9)
    assert max(p.psn for p in end.data()) == FIRST_OUT + 9 + 127
    end.sack(9, 0xFFFF, base=2)
    assert all(p.rtx for p in end.data()), "a hole at the start keeps the window shut"


def test_the_congestion_window_is_kept_and_the_last_packet_asks() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=5 * 4096))
    end.write(1 << 17)
    sent = sorted(end.data(), key=lambda p: p.psn)
    assert len(sent) == 5
    assert [p.ack_requested for p in sent] == [False] * 4 + [True]
    end.sack(1)
    assert len(end.data()) == 2


def test_write_with_imm_in_flight_is_kept_to_what_the_peer_takes() -> None:
    end = FarEnd(attributes=QpAttributes(max_wimm_dest=3))
    for n in range(10):
        end.write(10, imm=n, wr_id=n)
    assert len(end.data()) == 3
    end.sack(2)
    assert not end.data(), "received is not completed"
    end.ack(2)
    assert len(end.data()) == 2
    assert [c.wr_id for c in end.poll()] == [0, 1]


def test_planes_take_turns_even_when_one_port_asks_more() -> None:
    burst = TransportSettings().plane_burst
    end = FarEnd(planes=4, attributes=WIDE)
    end.write(1 << 18)
    assert len(end.data(ports=(0,))) == burst
    assert len(end.data(ports=(1, 2))) == 2 * burst
    assert not end.data(ports=(0, 1, 2))
    assert len(end.data(ports=(3,))) == 2 * burst, "it catches up, and may be one burst ahead like the others before"
    assert len(end.data(ports=(0,))) == burst


def test_a_port_that_had_nothing_is_asked_again_when_its_turn_comes() -> None:
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


# ---- loss --------------------------------------------------------------------------------------------------------


def flight(end: FarEnd, count: int = 32, gap: int = 2 * US) -> list[Packet]:
    """Packets sent one by one, with time between them, in PSN order."""
    end.write(count * 4096)
    out: list[Packet] = []
    while len(out) < count:
        out += [p for p in end.drain(1, ports=(len(out) % end.planes,)) if p.opcode < 0xD0]
        end.pass_time(gap)
    return sorted(out, key=lambda p: p.psn)


def retired_paths(end: FarEnd) -> list[int]:
    return [e.ev for e in path_events(end.nic) if e.new is PathState.ASSUMED_BAD]


def bits(psns: list[int], base: int) -> int:
    return sum(1 << n - base for n in psns if n >= base)


def test_a_hole_in_a_plane_is_a_loss_and_only_in_that_plane() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end)
    plane = {p.psn - FIRST_OUT: p.port for p in packets}
    lost = next(n for n in range(1, 6) if plane[n] == 1)
    end.sack(0, of=packets[0])
    arrived = [n for n in plane if plane[n] == 1 and n != lost]
    end.sack(0, bits(arrived, 1), base=1, of=packets[arrived[0]])
    again = end.data()
    assert [p.psn - FIRST_OUT for p in again] == [lost]
    assert again[0].rtx
    assert again[0].ev != packets[lost].ev
    (event,) = path_events(end.nic)
    assert (event.ev, event.new, event.reason) == (packets[lost].ev, PathState.ASSUMED_BAD, PathReason.LOSS)
    assert event.first_loss_time == packets[lost].time
    assert counters(end) == (1, 1, 0), "nothing of plane 0 arrived, and nothing of it is lost"


def test_what_the_newest_sack_does_not_show_is_not_lost() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end, 64)
    plane1 = [p.psn - FIRST_OUT for p in packets if p.port == 1]
    late = plane1[10]
    end.sack(-1, bits([n for n in plane1 if n > late], 40), base=41, of=packets[plane1[11]])
    assert not end.data(), "packets before the bitmap are unknown, except the first hole"


def test_an_old_sack_that_comes_late_proves_no_loss() -> None:
    end = FarEnd(attributes=WIDE)
    packets = flight(end)
    plane1 = [p.psn - FIRST_OUT for p in packets if p.port == 1]
    end.sack(-1, bits(plane1[8:], 0), base=1, units=50)
    before = counters(end)
    end.sack(-1, bits(plane1[9:], 0), base=1, units=40)
    assert counters(end) == before


def test_the_oldest_gap_goes_first_and_before_new_data() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=8 * 4096), planes=1, uplinks=8)
    end.write(40 * 4096)
    packets = sorted(end.data(), key=lambda p: p.psn)
    for victim in (packets[5], packets[2], packets[3]):
        end.nack(victim, control.NACK_NO_PKT_BUFFER)
    out = end.data()
    assert [p.psn - FIRST_OUT for p in out] == [2, 3, 5]
    end.sack(7)
    assert all(not p.rtx for p in end.data())


def test_retransmissions_count_against_the_window() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=4 * 4096), planes=1)
    end.write(40 * 4096)
    packets = sorted(end.data(), key=lambda p: p.psn)
    assert len(packets) == 4
    end.nack(packets[0], control.NACK_TRIMMED)
    assert [p.rtx for p in end.data()] == [True]


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (control.NACK_TRIMMED, PathState.SKIP),
        (control.NACK_TRIMMED_LASTHOP, PathState.GOOD),
        (control.NACK_NO_BITMAP, PathState.GOOD),
        (control.NACK_NO_PKT_BUFFER, PathState.GOOD),
        (control.NACK_NO_RESOURCE, PathState.GOOD),
        (control.NACK_PSN_OOR_WINDOW, PathState.GOOD),
    ],
)
def test_a_nack_brings_the_packet_again_and_blames_only_a_trimming_path(reason: int, state: PathState) -> None:
    end = FarEnd(uplinks=8)
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, reason)
    states = {p.ev: p.state for p in end.nic.qp_paths(end.qpn)}
    assert states.pop(packet.ev) is state
    assert set(states.values()) == {PathState.GOOD}
    assert len(end.data()) == 1


def test_an_unexpected_event_is_fatal() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_UNEXP_EVENT)
    assert [c.status for c in end.poll()] == [CompletionStatus.REMOTE_OPERATION_ERROR]


def test_a_nack_of_an_older_transmission_is_ignored() -> None:
    end = FarEnd()
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_TRIMMED)
    end.pass_time()
    assert len(end.data()) == 1
    end.nack(packet, control.NACK_TRIMMED)
    assert not end.data()


# ---- marks -------------------------------------------------------------------------------------------------------


def test_marks_of_a_sack_move_the_path() -> None:
    end = FarEnd(uplinks=16, attributes=WIDE)
    packets = flight(end, 8)
    end.sack(0, of=packets[0], mark=control.MARK_SKIP_ONCE)
    end.sack(1, of=packets[1], mark=control.MARK_ALWAYS_SKIP)
    states = {p.ev: p.state for p in end.nic.qp_paths(end.qpn)}
    assert states[packets[0].ev] is PathState.SKIP
    assert states[packets[1].ev] is PathState.ASSUMED_BAD
    (event,) = path_events(end.nic)
    assert event.reason is PathReason.PEER_SKIP


# ---- silence -----------------------------------------------------------------------------------------------------


def warm(end: FarEnd, rtt: int = 20 * US) -> None:
    """One acknowledged message on each plane, so that round-trip times are known."""
    end.write(4 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    end.pass_time(rtt)
    for p in sent:
        end.sack(p.psn - FIRST_OUT, of=p)
    end.ack(1)
    assert len(end.poll()) == 1


def test_silence_brings_a_probe_and_its_answer_the_loss() -> None:
    end = FarEnd(planes=1)
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    out = end.wait(MS)
    probes = [p for p in out if p.opcode == opcodes.PROBE]
    assert 1 <= len(probes) <= 5, "each wait is twice the last"
    assert {p.dscp for p in probes} == {4}, "a switch that cut a probe would lose it"
    assert end.now - packet.time == MS
    assert probes[0].time - packet.time <= 200 * US
    assert counters(end) == (0, 0, 0)
    end.sack(3, probe=control.parse_probe(probes[0].body, 12).probe_id)
    (again,) = end.data()
    assert (again.psn, again.rtx) == (packet.psn, True)
    (event,) = path_events(end.nic)
    assert (event.ev, event.reason) == (packet.ev, PathReason.LOSS)


def test_the_ack_timeout_is_exact_linear_then_doubling() -> None:
    timeout = 1024 << 8
    settings = TransportSettings(linear_retries=3, max_backoff=2)
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8, retry_count=8), transport=settings)
    end.write(4096)
    out = end.data() + [p for p in end.wait(40 * timeout) if p.opcode < 0xD0]
    gaps = [(b.time - a.time) / timeout for a, b in pairwise(out)]
    assert gaps == pytest.approx([1, 1, 1, 1, 2, 4, 4, 4], abs=0.01)
    assert [c.status for c in end.poll()] == [CompletionStatus.RETRY_EXCEEDED]
    assert counters(end) == (8, 8, 9)


def test_a_long_round_trip_lengthens_the_ack_timeout() -> None:
    """Deep queues on slow links delay answers beyond the attribute's timeout; that is no loss."""
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8))
    warm(end, rtt=200 * US)
    end.write(4096)
    end.data()
    assert not [p for p in end.wait(350 * US) if p.opcode < 0xD0], "262 us would have been the timeout"
    assert [p.rtx for p in end.wait(300 * US) if p.opcode < 0xD0] == [True]


def test_progress_forgives_earlier_timeouts() -> None:
    timeout = 1024 << 8
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8, retry_count=3))
    for n in range(6):
        end.write(4096)
        end.data()
        end.wait(timeout * 5 // 2)
        end.sack(n)
        end.ack(n + 1)
    assert len(end.poll()) == 6
    assert counters(end)[2] >= 12


def test_a_timeout_blames_the_path_once_the_retransmission_arrives_on_another() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    again = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    assert [p.rtx for p in again] == [True]
    assert not path_events(end.nic), "the peer might be gone altogether"
    end.pass_time(30 * US)
    end.sack(4, of=again[0])
    (event,) = path_events(end.nic)
    assert (event.ev, event.reason, event.first_loss_time) == (packet.ev, PathReason.TIMEOUT, packet.time)


def test_a_needless_retransmission_is_noticed() -> None:
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8))
    warm(end, rtt=100 * US)
    end.write(4096)
    (packet,) = end.data()
    (again,) = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    end.now = again.time + 5 * US
    end.sack(4, of=packet)
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == 1
    assert not path_events(end.nic)


def one_by_one(end: FarEnd, psns: list[int], packets: list[Packet], extra: int = 0) -> None:
    """A SACK for each of these packets, in this order; everything before the oldest missing one is cumulative."""
    arrived = getattr(end, "_arrived", set())
    end._arrived = arrived  # type: ignore[attr-defined]
    for n in psns:
        arrived.add(n)
        cack = -1
        while cack + 1 in arrived:
            cack += 1
        shown = bits([p for p in arrived if p > cack], cack + 1)
        end.sack(cack, shown, base=1, of=next(p for p in packets if p.psn - FIRST_OUT == n))
        end.pass_time(extra)


def test_a_later_packet_on_the_same_path_tells_a_loss_at_once() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=WIDE)
    packets = flight(end, 16, gap=2 * US)
    lost = packets[0]
    again = next(p for p in packets[1:] if p.ev == lost.ev)
    end.pass_time(200 * US)  # a long round trip: the reorder window is far wider than this flight
    end.sack(-1, bits([again.psn - FIRST_OUT], 0), base=1, of=again)
    assert [p.psn for p in end.data()] == [lost.psn]


def test_a_retransmission_that_overtakes_on_its_path_proves_no_loss() -> None:
    """Retransmissions travel in a higher class, so they say nothing about first transmissions on the same path."""
    end = FarEnd(planes=1, uplinks=2, attributes=WIDE)
    packets = flight(end, 8, gap=2 * US)
    end.nack(packets[0], control.NACK_TRIMMED_LASTHOP)
    (again,) = end.data()
    same = [p for p in packets[1:] if p.ev == again.ev]
    assert same
    end.pass_time(300 * US)
    end.sack(0, of=again)
    assert not end.data(), "packets sent before it on its path are only late"
    assert counters(end) == (1, 1, 0)


def test_an_answer_to_the_first_transmission_proves_the_second_needless_and_widens_the_window() -> None:
    end = FarEnd(planes=1, uplinks=64, attributes=WIDE)
    warm(end, rtt=100 * US)
    end._arrived = {0, 1, 2, 3}  # type: ignore[attr-defined]

    def slow_first() -> tuple[Packet, list[Packet]]:
        """The first packet of 40 takes a path that is 195 us slower than the others."""
        packets = flight(end, 40, gap=5 * US)
        one_by_one(end, [p.psn - FIRST_OUT for p in packets[1:]], packets, extra=5 * US)
        again = end.data()
        one_by_one(end, [packets[0].psn - FIRST_OUT], packets)  # its timestamp tells that the first copy arrived
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


def test_duplicates_in_the_peers_count_are_needless_retransmissions() -> None:
    """The answers were lost, the packets were not: no path is blamed, and the retransmission counts as needless."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    end.data()
    again = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    assert [p.rtx for p in again] == [True]
    end.pass_time(30 * US)
    end.sack(4, of=again[0], units=16 * 6)
    assert not path_events(end.nic)
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == 1


def test_seldom_messages_bring_no_probes() -> None:
    """A timer left from earlier does not make a packet that was just sent look overdue."""
    end = FarEnd(planes=2)
    warm(end)
    for n in range(40):
        end.write(1000)
        (packet,) = end.data()
        assert not end.wait(25 * US)
        end.sack(4 + n, of=packet)
        end.ack(2 + n)
        end.wait((137 + 61 * n % 400) * US)
    assert end.nic.qp_counters(end.qpn).probes_sent == 0


def test_work_that_never_found_a_port_ends_in_an_error() -> None:
    end = FarEnd(attributes=QpAttributes(timeout=8, retry_count=3))
    for port in range(2):
        end.nic.port_changed(port, False, end.now)
    end.write(1000)
    assert not end.wait(900 * US)
    assert not end.poll()
    end.wait(300 * US)
    assert [c.status for c in end.poll()] == [CompletionStatus.RETRY_EXCEEDED]
    assert end.nic.qp_state(end.qpn) is QpState.ERROR


# ---- answers that make no sense ----------------------------------------------------------------------------------


def test_answers_about_packets_never_sent_are_dropped() -> None:
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


def test_stale_and_repeated_answers_change_nothing() -> None:
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


def test_a_transport_ack_alone_completes_what_sacks_have_not_shown() -> None:
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
        (headers.NAK_INVALID_REQUEST, CompletionStatus.REMOTE_OPERATION_ERROR),
    ],
)
def test_a_nak_fails_the_message_it_names(syndrome: int, status: CompletionStatus) -> None:
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


def test_memory_of_a_finished_message_is_let_go() -> None:
    """The NIC keeps no view of a buffer it no longer needs, so the buffer can be resized or its mapping closed."""
    end = FarEnd()
    warm(end)
    end.nic.deregister_memory(end.region.lkey)
    end.buffer.extend(b"x")


# ---- the receiver's say in the window ----


def test_a_slow_receiver_shrinks_the_shared_window_and_gives_it_back() -> None:
    end = FarEnd(transport=TransportSettings(base_rtt=60 * US, assumed_rate=10_000_000_000), size=1 << 22)
    end.write(1 << 22)
    (peer,) = end.nic._peers.values()
    (window,) = peer.windows.values()
    whole = window.cc.cwnd
    packets = end.data()
    assert sum(len(p.body) > 1000 for p in packets) * 4096 >= whole
    cack = -1
    for _ in range(8):
        end.pass_time(60 * US)
        cack += 8
        end.sack(cack, of=packets[cack], units=(cack + 1) * 16, penalty=64)
        packets += end.data()
    shrunk = window.cc.cwnd
    assert shrunk < 0.85 * whole
    assert window.cc.inflight < whole - 12 * 4096, "it was not filled again"
    end.pass_time(60 * US)
    end.sack(cack + 1, of=packets[cack + 1], units=(cack + 2) * 16, restore=True)
    assert window.cc.cwnd >= whole - 4096
    assert end.data()


def test_all_that_was_sent_on_a_dead_path_is_lost_at_once_however_little_a_bitmap_shows() -> None:
    """Some 200 packets are on their way, a quarter of them on one dead path; SACKs show the newest 64 PSNs only."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(congestion_window=1 << 30), size=1 << 22)
    warm(end)
    end.write(900 * 4096)
    sent: list[Packet] = []
    arrived: set[int] = set()
    again: list[Packet] = []
    dead = -1
    while len(sent) < 800:
        due = len(sent) - 200
        if due >= 0:
            packet = sent[due]
            number = packet.psn - FIRST_OUT
            if packet.ev != dead:
                arrived.add(number)
            if due % 8 == 7:
                base = max(4, number - 63)
                end.sack(3, bits(sorted(arrived & set(range(base, number + 1))), base), base=base - 3, of=packet)
        (packet,) = end.drain(1)
        dead = packet.ev if dead < 0 else dead
        if packet.rtx:
            again.append(packet)
        else:
            sent.append(packet)
        end.pass_time(100)
    assert retired_paths(end) == [dead]
    first = again[0].time
    lost = {p.psn for p in sent if p.ev == dead and p.time < first}
    assert {p.psn for p in again} == lost
    early = {p.psn for p in again if p.time < first + 10 * US}
    assert len(early) > len(lost) // 4, "not one a round trip"
