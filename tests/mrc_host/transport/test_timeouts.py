"""When nothing is received: how timeouts are counted, and when a queue pair gives up."""

from itertools import pairwise

import pytest

from mrc_host.config import TransportSettings
from mrc_host.transport.retransmission_timer import RetransmissionTimer
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState
from mrc_host.wire import control, opcodes
from tests.mrc_host.nic_world import MS, US
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, data, flight, warm
from tests.mrc_host.transport.test_spurious_retransmissions import UNITS

TIMEOUT = 1024 << 8  # ns


@pytest.mark.parametrize("packets", [1, 4, 9])
def test_many_timeouts_in_one_interval_are_one_retry(packets: int) -> None:
    """Packets sent at different times time out at different times, and so do their retransmissions."""
    settings = TransportSettings(linear_retries=2, max_backoff=4)
    attributes = QpAttributes(timeout=8, retry_count=9, congestion_window=1 << 20)
    end = FarEnd(planes=1, uplinks=16, attributes=attributes, transport=settings)
    budget = (3 + 2 + 4 + 8 + 4 * 16) * TIMEOUT  # nine retries, and the wait for an answer to the last
    first = end.now
    end.write(packets * 4096)
    for _ in range(packets):
        assert len(end.data(1)) == 1
        end.now += TIMEOUT // 10
    end.wait(first + budget - 1 - end.now)
    assert not end.poll()
    end.wait(budget)
    assert end.poll()[0].status is CompletionStatus.RETRY_EXCEEDED


def test_the_error_reason_gives_the_number_of_retries() -> None:
    end = FarEnd(attributes=QpAttributes(timeout=8, retry_count=2))
    end.write(1000)
    end.wait(9 * TIMEOUT)
    (completion,) = end.poll()
    assert completion.reason.startswith("Nothing was acknowledged after 2 retries;")


def test_a_timeout_probes_every_plane_even_with_retransmissions_pending() -> None:
    """What is sent again may be lost again, and its answer too; which planes are dead nobody knows."""
    end = FarEnd(planes=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    end.drain()
    out = end.wait(4 * TIMEOUT)
    resent = [p for p in out if p.rtx and p.opcode < 0xD0]
    asked = {p.port for p in out if p.opcode == opcodes.PROBE and p.time == resent[0].time}
    assert asked == {0, 1, 2, 3}


def test_what_arrives_while_it_waits_to_be_sent_again_has_its_request_asked_about() -> None:
    """The transport ACK is lost, and nothing leaves any more that would bring another by itself."""
    end = FarEnd(attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_TRIMMED)
    for _ in range(4):  # the ports do not become free again
        end.now += TIMEOUT
        end.nic.tick(end.now)
    end.sack(packet.psn - FIRST_OUT, of=packet)
    out = end.wait(20 * TIMEOUT)
    assert data(out) == []
    assert any(p.opcode == opcodes.PROBE for p in out)


def test_progress_resets_the_retry_count() -> None:
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8, retry_count=1))
    end.write(4096)
    end.wait(TIMEOUT + 1)
    end.sack(0)
    end.ack(1)
    end.write(4096)
    first = end.now
    end.wait(2 * TIMEOUT - 1)
    assert end.nic.qp_state(end.qpn) is QpState.RTS
    end.wait(1)
    assert end.now == first + 2 * TIMEOUT
    assert end.nic.qp_state(end.qpn) is QpState.ERROR


@pytest.mark.parametrize("what", ["probe", "data"])
@pytest.mark.parametrize("known", [False, True])
def test_an_rtt_inflated_by_an_outage_does_not_lengthen_timeouts(what: str, known: bool) -> None:
    """All queue pairs towards the peer share the round-trip time, and the silent ones double what comes of it."""
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8))
    done = 0
    if known:
        warm(end)
        done = 4
    end.write(4096)
    out = end.wait(20 * TIMEOUT)
    if what == "probe":
        asked = next(p for p in out if p.opcode == opcodes.PROBE)
        end.sack(done, probe=int.from_bytes(asked.body[16:18], "big"))
    else:
        end.sack(done, of=data(out)[-2])
    end.ack(1 + known)
    for number in (1, 2):
        end.write(4096)
        (sent,) = end.data()
        end.pass_time(20 * US)
        end.sack(done + number, of=sent)
        end.ack(1 + known + number)
    end.write(4096)
    assert [p.rtx for p in data(end.wait(TIMEOUT))] == [False, True]


def test_a_timer_set_from_a_doubtful_rtt_is_corrected_in_time() -> None:
    trip = RoundTrip()
    timer = RetransmissionTimer([trip], RetryPolicy(8, 10, 1, 2), 500)
    trip.sample(4 * TIMEOUT, late=True)
    assert timer.recheck_at(timer.rto(), 1) == 1 + TIMEOUT
    assert timer.recheck_at(TIMEOUT // 2, 1) == TIMEOUT // 2
    trip.sample(TIMEOUT // 10)
    assert timer.recheck_at(5 * TIMEOUT, 1) == 5 * TIMEOUT


def test_a_doubtful_rtt_counts_until_any_plane_has_a_clean_newer_one() -> None:
    """Its own plane may be dead by then."""
    doubted, other, never = RoundTrip(), RoundTrip(), RoundTrip()
    timer = RetransmissionTimer([doubted, other, never], RetryPolicy(8, 10, 1, 2), 500)
    other.sample(TIMEOUT // 10, now=1)
    doubted.sample(40 * TIMEOUT, late=True, now=50 * TIMEOUT)
    assert timer.rto() == 3 * 40 * TIMEOUT, "paths may have become so slow"
    other.sample(TIMEOUT // 10, now=51 * TIMEOUT)
    assert timer.rto() == TIMEOUT
    assert timer.recheck_at(5 * TIMEOUT, 1) == 5 * TIMEOUT
    doubted.sample(2 * TIMEOUT, now=52 * TIMEOUT)
    assert timer.rto() == 6 * TIMEOUT


def test_a_doubtful_timeout_is_checked_only_a_few_times() -> None:
    trip = RoundTrip()
    timer = RetransmissionTimer([trip], RetryPolicy(0, 10, 1, 2), 500)
    trip.sample(1000 * MS, late=True)
    now, looks = 1, 0
    due = now + timer.rto()
    while now < due:
        now = timer.recheck_at(due, now)
        looks += 1
    assert now == due
    assert looks < 300


@pytest.mark.parametrize("planes", [1, 2, 8])
@pytest.mark.parametrize("trip", [10, 40, 100, 200])
def test_a_peer_answering_probes_without_completing_does_not_time_out(planes: int, trip: int) -> None:
    """The longest wait between probes and a round trip are together more than the ACK timeout, which is 262 us."""
    end = FarEnd(planes=planes, attributes=QpAttributes(timeout=8, retry_count=2))
    warm(end, rtt=trip * US)
    end.write(4096)
    (sent,) = end.data()
    end.pass_time(trip * US)
    end.sack(4, of=sent)
    start, probes, answers = end.now, 0, list[tuple[int, int]]()
    while end.now < start + 100 * TIMEOUT:
        due = [end.nic.wakeup() or end.now + TIMEOUT, *(time for time, _ in answers)]
        end.now = max(end.now, min(due))
        while answers and answers[0][0] <= end.now:
            end.sack(4, probe=answers.pop(0)[1])
        for packet in end.drain():
            if packet.opcode == opcodes.PROBE:
                probes += 1
                answers.append((end.now + trip * US, int.from_bytes(packet.body[16:18], "big")))
    assert end.nic.qp_counters(end.qpn).timeouts == 0
    assert 25 <= probes <= 200, "the wait doubles until it is more than half the timeout"
    end.ack(2)
    assert end.poll()[0].status is CompletionStatus.SUCCESS


@pytest.mark.parametrize("short", [False, True])
def test_a_peer_that_fails_before_the_transport_ack_exhausts_the_retries(short: bool) -> None:
    """The ACK timeout runs from the first question that is not answered, also where the first is asked after it."""
    timeout = 4 if short else 8
    end = FarEnd(planes=2, attributes=QpAttributes(timeout=timeout, retry_count=3))
    end.write(4096)
    (sent,) = end.data()
    end.pass_time(5 * US)
    end.sack(0, of=sent)
    start = end.now
    out = [p for p in end.wait(100 * MS) if p.opcode == opcodes.PROBE]
    (done,) = end.poll()
    assert done.status is CompletionStatus.RETRY_EXCEEDED
    asked = out[0].time
    assert asked == start + 100 * US, "the shortest wait before a probe"
    times = sorted({p.time for p in out})
    timed_out = asked + (1024 << timeout)
    assert timed_out in times
    assert len([p for p in out if p.time == timed_out]) == 2, "on each plane"


def test_an_rtt_including_an_outage_is_not_multiplied_beyond_the_ack_timeout_limit() -> None:
    trip = RoundTrip()
    timer = RetransmissionTimer([trip], RetryPolicy(8, 255, 0, 2), 500)
    trip.sample(TIMEOUT)
    times = []
    for _ in range(4):
        times.append(timer.rto() // TIMEOUT)
        assert timer.on_timeout(100 * len(times) * TIMEOUT, TIMEOUT)
    assert times == [3, 4, 4, 4]
    trip.sample(100 * TIMEOUT)
    assert timer.rto() == timer.pto() > 4 * TIMEOUT


def test_a_peer_that_only_nacks_exhausts_the_retries() -> None:
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8, retry_count=2))
    end.write(4096)
    first, nacks = end.now, 0
    while end.nic.qp_state(end.qpn) is QpState.RTS:
        for packet in data(end.drain()):
            end.pass_time(10 * US)
            end.nack(packet, control.NACK_NO_RESOURCE)
            nacks += 1
    assert nacks > 50
    assert 3 * TIMEOUT <= end.now - first < 3 * TIMEOUT + 100 * US
    (completion,) = end.poll()
    assert completion.status is CompletionStatus.RETRY_EXCEEDED
    assert completion.reason == "Nothing was acknowledged after 2 retries; the peer refuses packets (NACK no_resource)."


def test_nacks_between_acknowledgements_use_no_retries() -> None:
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8, retry_count=0))
    for number in range(8):
        end.write(4096)
        for _ in range(6):  # less than a timeout for each write, many of them together
            (packet,) = data(end.drain())
            end.pass_time(TIMEOUT // 8)
            end.nack(packet, control.NACK_TRIMMED)
        (packet,) = data(end.drain())
        end.sack(number, of=packet)
        end.ack(number + 1)
    assert [c.status for c in end.poll()] == [CompletionStatus.SUCCESS] * 8


def test_a_retransmission_has_the_timeout_of_any_other_packet() -> None:
    """From its own sending on, and without what was added while nothing was received."""
    settings = TransportSettings(linear_retries=0)
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=8), transport=settings)
    end.write(2 * 4096)
    end.drain()
    grown = data(end.wait(4 * TIMEOUT))
    assert len({p.time for p in grown}) == 2, "after one and after three timeouts"
    end.sack(0)
    end.write(4096)
    end.nack(next(p for p in reversed(grown) if p.psn == FIRST_OUT + 1), control.NACK_TRIMMED)
    again, fresh = data(end.drain())
    assert (again.rtx, fresh.rtx) == (True, False)
    later = [p for p in data(end.wait(2 * TIMEOUT)) if p.rtx]
    assert [(p.psn, p.time - again.time) for p in later[:2]] == [(again.psn, TIMEOUT), (fresh.psn, TIMEOUT)]


def test_what_left_soon_after_a_packet_times_out_soon_after_it() -> None:
    """It is the same timeout. Before, all but the first packet waited for the next probe timeout."""
    end = FarEnd(planes=1, uplinks=16, attributes=QpAttributes(timeout=8, congestion_window=1 << 20))
    warm(end)
    end.sack(3, units=4 * UNITS)
    began = end.now
    packets = flight(end, 8)
    assert end.now - began < TIMEOUT // 16
    again = [p for p in data(end.wait(TIMEOUT * 9 // 8)) if p.rtx]
    assert [p.psn for p in again] == [p.psn for p in packets[:4]], "as many as may be in flight"
    assert end.nic.hw_counters(end.qpn, end.now)["local_ack_timeout_err"] == 1


@pytest.mark.parametrize("packets", [1, 2, 3, 40])
@pytest.mark.parametrize("linear", [0, 2, 7])
def test_a_silent_peer_is_given_up_after_the_sum_of_the_timeouts(packets: int, linear: int) -> None:
    """Whatever leaves when: docs/protocol.md §2 gives the time."""
    attributes = QpAttributes(timeout=8, retry_count=7, linear_retries=linear, congestion_window=packets * 4096)
    end = FarEnd(planes=2, uplinks=4, attributes=attributes)
    end.write(packets * 4096)
    began = end.now
    while end.nic.qp_state(end.qpn) is QpState.RTS:
        end.wait(TIMEOUT // 8)
    budget = sum(TIMEOUT << min(max(0, retry - linear), 6) for retry in range(8))
    assert budget <= end.now - began < budget * 11 / 10 + TIMEOUT // 4
    assert end.nic.hw_counters(end.qpn, end.now)["local_ack_timeout_err"] == 8


def test_a_queue_pair_that_waits_for_its_turn_is_woken_ever_less_often_and_sends_no_probe() -> None:
    """With many queue pairs a turn takes many probe timeouts; each needless wake-up is work for all of them."""
    end = FarEnd(attributes=QpAttributes(timeout=14))  # an ACK timeout of 16.8 ms
    warm(end)
    end.write(64 * 4096)
    assert len(end.data(1)) == 1  # the rest is queued
    sent, woken = end.now, []
    while (due := end.nic.wakeup()) is not None and due < sent + 9 * MS:  # then its port status is due
        woken.append(due - sent)
        end.now = due
        end.nic.tick(due)
    assert 3 < len(woken) < 10, woken
    assert all(later >= 2 * earlier for earlier, later in pairwise(woken[1:])), woken
    probes = [p for p in end.drain() if p.opcode == opcodes.PROBE]
    assert not probes


def test_what_leaves_after_a_long_wait_is_probed_for_as_soon_as_ever() -> None:
    """The wait for a turn spaces out looks at the timer, not the probe for what is lost afterwards."""
    end = FarEnd(attributes=QpAttributes(timeout=14))
    warm(end)
    end.write(4 * 4096)
    assert len(end.data(1)) == 1
    first = end.now
    while (due := end.nic.wakeup()) is not None and due < first + 4 * MS:
        end.now = due
        end.nic.tick(due)
    left = end.now
    assert len(end.data()) == 3
    probes = [p for p in end.wait(MS) if p.opcode == opcodes.PROBE]
    assert probes
    assert probes[0].time <= left + 200 * US
