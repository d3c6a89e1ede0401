"""How long a requester times before it asks or sends again, and what counts as a retry."""

from itertools import pairwise

import pytest

from mrc_host.config import TransportSettings
from mrc_host.transport.retransmission_timer import RetransmissionTimer
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.verbs_types import CompletionStatus, PathReason, QpAttributes, QpState
from mrc_host.wire import control, opcodes
from tests.mrc_host.nic_world import MS, US, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, UNITS, FarEnd, counters, warm

TIMEOUT = 1024 << 4


def make_timer(retry_count: int = 3, linear: int = 1, trips: list[RoundTrip] | None = None) -> RetransmissionTimer:
    return RetransmissionTimer(trips or [RoundTrip()], RetryPolicy(4, retry_count, linear, 2), 500)


def test_the_retry_time_is_linear_then_doubles_up_to_a_limit() -> None:
    timer = make_timer(retry_count=255)
    times = []
    now = 1
    for _ in range(6):
        times.append(timer.rto() // TIMEOUT)
        now += timer.rto()
        assert timer.on_timeout(now, timer.rto())
    assert times == [1, 1, 2, 4, 4, 4]


def test_an_rto_counts_once_as_a_retry_or_as_a_silence() -> None:
    """A queue pair that sometimes may send and sometimes waits for others would else use up its retries too early."""
    timer = make_timer(retry_count=255, linear=255)
    now = 1
    timer.on_probe(now)
    assert timer.silent_until() == now + TIMEOUT
    now += TIMEOUT
    timer.on_silence(now)
    assert (timer.retries, timer.silences, timer.silent_until()) == (0, 1, now + TIMEOUT)
    timer.on_timeout(now + TIMEOUT // 2, TIMEOUT)
    assert timer.retries == 0
    timer.on_probe(now + TIMEOUT // 2)
    assert timer.silent_until() == now + 3 * TIMEOUT // 2
    timer.on_timeout(now + TIMEOUT, TIMEOUT)
    timer.on_probe(now + TIMEOUT)
    assert (timer.retries, timer.silences, timer.silent_until()) == (1, 1, now + 2 * TIMEOUT)
    timer.on_answer(now + TIMEOUT, True)
    timer.on_probe(now + TIMEOUT + 1)
    assert timer.silent_until() == now + 2 * TIMEOUT + 1


def test_timeouts_without_an_answer_make_hopeless_but_nacks_do_not() -> None:
    timer = make_timer(retry_count=255)
    now, verdicts = 1, []
    for _ in range(3):
        now += timer.rto()
        timer.on_timeout(now, timer.rto())
        verdicts.append(timer.hopeless())
    assert verdicts == [False, True, True]
    timer.on_nack(now)
    assert not timer.hopeless()


def test_measured_rtts_lengthen_the_timeout() -> None:
    trip = RoundTrip()
    timer = make_timer(trips=[RoundTrip(), trip])
    assert (timer.pto(), timer.base_pto()) == (TIMEOUT // 4, 0)
    trip.sample(100)
    assert timer.pto() == 500, "the least"
    trip.sample(10 * TIMEOUT)
    assert timer.rto() == timer.pto() == timer.base_pto() > TIMEOUT


def test_unanswered_probes_double_the_pto_up_to_the_ack_timeout() -> None:
    timer = make_timer()
    times = []
    for _ in range(6):
        times.append(timer.pto() * 4 // TIMEOUT)
        timer.back_off_pto()
    assert times == [1, 1, 2, 4, 4, 4], "after the first, all planes are probed"
    timer.on_answer(1, True)
    assert timer.pto() == TIMEOUT // 4


def test_before_the_first_sample_the_pto_is_two_unloaded_round_trips_where_these_are_known() -> None:
    trip = RoundTrip()
    timer = RetransmissionTimer([trip], RetryPolicy(8, 3, 1, 6), 5 * US, 10 * US)
    assert (timer.pto(), timer.unmeasured_pto()) == (20 * US, 20 * US)
    trip.sample(2 * US)
    assert (timer.pto(), timer.unmeasured_pto()) == (6 * US, 20 * US), "another plane may be as long as the longest"
    unknown = make_timer()
    assert (unknown.pto(), unknown.unmeasured_pto()) == (TIMEOUT // 4, TIMEOUT)


def test_a_growing_rtt_is_not_multiplied_beyond_the_sum_of_timeouts() -> None:
    """Who asked, or had others ask, ten times or so at 10 us each is not to wait a thousand times 2 ms now."""
    trip = RoundTrip()
    timer = RetransmissionTimer([trip], RetryPolicy(8, 10, 1, 6), 500)
    trip.sample(10 * US)
    for _ in range(10):
        timer.back_off_pto()
    while 2 * timer.blocked_pto() <= 64 * (1024 << 8):
        timer.back_off_blocked_pto(0)
    for _ in range(20):
        trip.sample(2 * MS)
    assert timer.base_pto() <= timer.pto() <= timer.rto()
    assert timer.base_pto() <= timer.blocked_pto() <= max(timer.base_pto(), 64 * (1024 << 8))


def test_nacks_without_progress_use_one_retry_per_interval() -> None:
    timer = make_timer(retry_count=2)
    step = TIMEOUT // 10
    for now in range(step, 4 * TIMEOUT, step):
        if now % (5 * step) == 0:
            timer.on_answer(now, True)
        assert timer.on_nack(now)
    assert timer.retries == 0
    start = now
    while timer.on_nack(now := now + step):
        pass
    assert timer.retries == 3
    assert 4 * TIMEOUT <= now - start <= 5 * TIMEOUT, "1 + 1 + 2 intervals, the last of them doubled"


def test_a_timeout_and_nacks_in_one_interval_are_one_retry() -> None:
    timer = make_timer()
    assert timer.on_nack(1)
    assert timer.on_timeout(1 + TIMEOUT, TIMEOUT)
    assert timer.on_nack(2 + TIMEOUT)
    assert timer.retries == 1


def test_after_a_probe_timeout_the_response_to_the_probe_shows_the_loss() -> None:
    end = FarEnd(planes=1)
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    out = end.wait(MS)
    probes = [p for p in out if p.opcode == opcodes.PROBE]
    assert 1 <= len(probes) <= 5, "each wait is twice the last"
    assert {p.dscp for p in probes} == {0}, "a switch that cut a probe would lose it"
    assert end.now - packet.time == MS
    assert probes[0].time - packet.time <= 200 * US
    assert counters(end) == (0, 0, 0)
    end.sack(3, probe=control.parse_probe(probes[0].body, 12).probe_id)
    (again,) = end.data()
    assert (again.psn, again.rtx) == (packet.psn, True)
    (event,) = path_events(end.nic)
    assert (event.ev, event.reason) == (packet.ev, PathReason.LOSS)


@pytest.mark.parametrize("others", range(4))
def test_a_probe_avoids_the_path_of_the_missing_packet(others: int) -> None:
    """Else one dead path takes both, and nothing is known until the ACK timeout: swarm seed 41105."""
    end = FarEnd(planes=1)  # four paths; wherever the rotation stands after `others` more packets
    warm(end)
    end.write(4096 * (1 + others))
    missing = min(end.data(), key=lambda packet: packet.psn)
    probe, *_ = (packet for packet in end.wait(200 * US) if packet.opcode == opcodes.PROBE)
    assert counters(end) == (0, 0, 0), "no answer shows a loss before"
    assert probe.ev != missing.ev


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


def test_a_large_sack_threshold_lengthens_the_ack_timeout() -> None:
    """On a slow link it takes long until there is enough to acknowledge; that is no loss, and no round trip either."""
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8))
    warm(end)
    for n in range(8):
        end.write(2 * 4096)
        end.data(1)
        end.pass_time(220 * US)
        (last,) = end.data()
        end.pass_time(20 * US)
        end.sack(5 + 2 * n, of=last)
        end.ack(2 + n)
    end.write(4096)
    end.data()
    assert not [p for p in end.wait(350 * US) if p.opcode < 0xD0], "262 us would have been the timeout"
    assert [p.rtx for p in end.wait(300 * US) if p.opcode < 0xD0] == [True]


def test_progress_resets_earlier_timeouts() -> None:
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


def test_infrequent_messages_cause_no_probes() -> None:
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


def test_requests_that_never_find_a_port_end_in_an_error() -> None:
    end = FarEnd(attributes=QpAttributes(timeout=8, retry_count=3))
    for port in range(2):
        end.nic.port_changed(port, False, end.now)
    end.write(1000)
    assert not end.wait(900 * US)
    assert not end.poll()
    end.wait(300 * US)
    assert [c.status for c in end.poll()] == [CompletionStatus.RETRY_EXCEEDED]
    assert end.nic.qp_state(end.qpn) is QpState.ERROR


# ---- the first word after a long silence -------------------------------------------------------------------------


ONCE = 1024 << 8  # the ACK timeout before it doubles


def silent_for_long() -> FarEnd:
    """A NIC whose first packet was never answered, and whose timeout has doubled four times."""
    settings = TransportSettings(linear_retries=1, max_backoff=4)
    end = FarEnd(planes=3, attributes=QpAttributes(timeout=8, retry_count=255), transport=settings)
    end.write(1000)
    end.wait(40 * ONCE)
    return end


def test_an_answered_probe_shows_a_loss_on_a_plane_never_measured() -> None:
    """The timeout doubles to spare a peer that is silent. What is older than a single one is lost once it speaks."""
    end = silent_for_long()
    latest = [p for p in end.wait(16 * ONCE) if p.opcode == opcodes.WRITE_ONLY][-1]
    other = (latest.port + 1) % 3
    end.nic.port_changed(other, False, end.now)
    end.now = max(end.now, latest.time + 2 * ONCE)
    end.nic.port_changed(other, True, end.now)
    probe = next(p for p in end.drain() if p.opcode == opcodes.PROBE and p.port == other)
    assert end.now < latest.time + 16 * ONCE, "the doubled timeout is not over"
    end.sack(-1, probe=int.from_bytes(probe.body[16:18], "big"))
    assert [p.rtx for p in end.data()] == [True]


def test_a_sack_of_simultaneous_packets_shows_no_loss_on_an_unmeasured_plane() -> None:
    end = FarEnd(planes=3, attributes=QpAttributes(timeout=8, retry_count=255))
    end.write(2 * 4096)
    first, second = end.data()
    assert first.port != second.port
    end.now += ONCE // 4
    end.sack(-1, 0b10, of=second)
    assert not end.data()


def test_a_requester_awaiting_an_ack_probes_a_plane_that_comes_up() -> None:
    end = silent_for_long()
    end.nic.port_changed(1, False, end.now)
    end.wait(1024)
    end.nic.port_changed(1, True, end.now)
    assert 1 in {p.port for p in end.drain() if p.opcode == opcodes.PROBE}


def test_an_idle_requester_does_not_probe_a_plane_that_comes_up() -> None:
    end = FarEnd(planes=3)
    warm(end)
    end.nic.port_changed(1, False, end.now)
    end.drain()
    end.nic.port_changed(1, True, end.now)
    assert not [p for p in end.drain() if p.opcode == opcodes.PROBE]


def test_an_unanswered_probe_with_nothing_in_flight_is_repeated_on_all_planes() -> None:
    """All is SACKed and the transport ACK was lost; each probe or its answer may meet a dead path: swarm seed 15191."""
    end = FarEnd(planes=4)
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    end.pass_time(20 * US)
    end.sack(packet.psn - FIRST_OUT, of=packet, units=UNITS * (packet.psn - FIRST_OUT + 1))
    probes = [p for p in end.wait(2 * MS) if p.opcode == opcodes.PROBE]
    times = sorted({p.time for p in probes})
    asked = [[p for p in probes if p.time == time] for time in times]
    assert [len(each) for each in asked[:3]] == [1, 4, 4]
    end.sack(packet.psn - FIRST_OUT, probe=control.parse_probe(probes[-1].body, 12).probe_id)
    again = [p for p in end.wait(4 * MS) if p.opcode == opcodes.PROBE]
    assert sum(p.time == again[0].time for p in again) == 1, "it was answered"
