"""Waiting for a peer whose completion queue is full: no storm, no end, and no waiting for lost data."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState, QpType
from mrc_host.wire import headers, opcodes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, US, End, World, connect
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, warm


@pytest.mark.parametrize("kind", QpType)
def test_waiting_for_a_peer_that_does_not_poll_sends_little(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind, far_capacity=1, attributes=QpAttributes(retry_count=4))
    a.write(b, 512, imm=1)
    a.write(b, 512, imm=2)
    world.run(100 * MS)
    before = world.frames
    world.run(10_000 * MS)
    assert a.nic.qp_state(a.qpn) is QpState.RTS  # it answers, so it is there
    limit = 10_000 if kind is QpType.MRC else 50_000  # RC: one packet and one RNR NAK of 0.64 ms at a time
    assert world.frames - before < limit
    assert len(a.poll()) == 1
    start = world.now
    assert len(b.poll()) == 1
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert world.now - start < 20 * MS
    assert [c.status for c in a.done] == [CompletionStatus.SUCCESS] * 2
    assert [c.imm for c in b.poll()] == [2]


def test_probes_answered_without_progress_back_off() -> None:
    end = FarEnd(attributes=QpAttributes(timeout=14))
    end.write(1000)
    (packet,) = end.data()
    end.pass_time()
    end.sack(0, of=packet)  # it arrived, but is not completed
    asked: list[int] = []
    while end.now < 1000 * MS:
        for probe in end.wait(MS // 50):
            if probe.opcode == opcodes.PROBE:
                asked.append(probe.time)
                end.sack(0, probe=int.from_bytes(probe.body[16:18], "big"))
    gaps = [after - before for before, after in pairwise(asked)]
    assert len(gaps) > 10
    assert gaps[-1] > 8 * MS
    assert all(after > 1.5 * before for before, after in pairwise(gaps[:6]))
    assert end.nic.qp_counters(end.qpn).timeouts == 0


def test_answered_probes_do_not_count_as_progress_while_data_is_lost() -> None:
    world = World(2, 2, 4)
    a, b = connect(world, attributes=QpAttributes(retry_count=5, timeout=10))
    a.write(b, 512)
    world.run(10 * MS)
    a.poll()

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        return None if nic == 0 and frame[SRV6_PREFIX] <= opcodes.WRITE_ONLY_IMM else frame

    world.tap = tap
    a.write(b, 512)
    assert world.run(10_000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert a.poll()[0].status is CompletionStatus.RETRY_EXCEEDED


def test_rc_sends_rnr_naks_and_later_packets_are_not_a_gap() -> None:
    world = World(planes=2)
    world.record = True
    a, b = connect(world, kind=QpType.RC, far_capacity=1)
    first = b.nic.qp_counters(b.qpn)
    for number in range(4):
        a.write(b, 512, imm=number)
    world.run(3 * MS)
    start = 62
    answers = [f[start + 12] for _t, n, _p, f in world.sent if n == 1 and f[start] == opcodes.RC_ACK]
    assert answers.count(headers.SYNDROME_RNR | 12) >= 3
    assert headers.NAK_SEQUENCE not in answers
    naks = [t for t, n, _p, f in world.sent if n == 1 and f[start + 12] == headers.SYNDROME_RNR | 12]
    assert all(after - before >= 640_000 for before, after in pairwise(naks))
    while len(b.done) < 4:
        assert world.run(100 * MS, until=lambda: bool(b.poll()))
    assert [c.imm for c in b.done] == [0, 1, 2, 3]
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    assert first.data_received == 0


def test_rnr_timer_values_match_the_specification() -> None:
    ms = {0: 655.36, 1: 0.01, 5: 0.06, 12: 0.64, 20: 10.24, 31: 491.52}
    assert {code: headers.RNR_TIMES[code] / 1e6 for code in ms} == ms
    assert len(headers.RNR_TIMES) == 32


def test_progress_ends_the_doubled_wait_for_a_probe() -> None:
    """The timer may have been armed for the end of a longer wait than is due now."""
    end = FarEnd(planes=1, attributes=QpAttributes(timeout=14))
    warm(end)
    end.write(1000)
    (packet,) = end.data()
    probes = 0
    while probes < 6:
        probes += sum(p.opcode == opcodes.PROBE for p in end.wait(MS // 100))
    end.sack(packet.psn - FIRST_OUT)  # answers no packet, so it measures nothing
    end.ack(2)
    end.write(1000)  # this one is lost
    began, due = end.now, end.qp.requester.timer.pto()
    asked = [p.time for p in end.wait(4 * due) if p.opcode == opcodes.PROBE]
    assert asked[0] == began + due


def sharing(count: int, timeout: int = 8, *, patient: bool = False) -> tuple[World, list[tuple[End, End]]]:
    """Queue pairs between two NICs that share a congestion window; all but the first may be `patient`."""
    world = World(planes=2, uplinks=4, transport=TransportSettings(congestion="nscc", base_rtt=22 * US))
    retries = [255 if patient and number else 10 for number in range(count)]
    return world, [connect(world, attributes=QpAttributes(timeout=timeout, retry_count=n)) for n in retries]


def towards(frame: bytes) -> int:
    """Its destination's QPN."""
    return int.from_bytes(frame[SRV6_PREFIX + 5 : SRV6_PREFIX + 8], "big")


@pytest.mark.parametrize("posted_late", [False, True])
def test_all_who_share_the_window_to_a_silent_peer_use_up_their_retries_at_the_same_time(posted_late: bool) -> None:
    """The window soon holds one packet, which only one of them can have in flight."""
    world, alone = sharing(1)
    world.tap = lambda nic, port, to, frame, now: None
    began = world.now
    alone[0][0].write(alone[0][1], 1 << 20)
    assert world.run(until=lambda: bool(alone[0][0].poll()))
    budget = world.now - began

    world, pairs = sharing(6)
    world.tap = lambda nic, port, to, frame, now: None
    for number, (a, b) in enumerate(pairs):
        if posted_late and number:
            world.run(budget // 10)
        a.write(b, 1 << 20)
    last = world.now
    assert world.run(until=lambda: all(a.done or a.poll() for a, _ in pairs))
    assert {a.done[0].status for a, _ in pairs} == {CompletionStatus.RETRY_EXCEEDED}
    assert world.now - last < 2 * budget, "not one after another"


@pytest.mark.second_ring
@pytest.mark.either_transport
def test_a_thousand_without_answers_fail_as_soon_as_one() -> None:
    """Each is let into the window now and then, and queued at its ports, when its retry is due."""
    world, [(alone, far)] = sharing(1)
    world.tap = lambda nic, port, to, frame, now: None
    alone.write(far, 1 << 16)
    assert world.run(until=lambda: bool(alone.poll()))
    budget = world.now

    world, pairs = sharing(1000)
    world.tap = lambda nic, port, to, frame, now: None
    began = world.now
    for a, b in pairs:
        a.write(b, 1 << 16)
    world.run(began + 2 * budget - world.now)
    assert all(a.poll() for a, _ in pairs)


def test_a_queue_pair_without_answers_takes_turns_in_the_window_with_one_that_is_answered() -> None:
    world, pairs = sharing(2)
    (silent, far), (good, good_far) = pairs

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        """The far end of the first pair receives nothing."""
        return None if towards(frame) == far.qpn else frame

    world.tap = tap
    silent.write(far, 1 << 20)
    world.run(until=lambda: silent.nic.qp_counters(silent.qpn).timeouts >= 5)
    for imm in range(4):
        good.write(good_far, 100_000, imm=imm)

    def done() -> bool:
        good.poll()
        return len(good.done) == 4

    assert world.run(until=done)
    assert not silent.poll(), "long before the other one fails"
    assert {c.status for c in good.done} == {CompletionStatus.SUCCESS}


@pytest.mark.parametrize("count", [2, 12])
def test_writes_beside_queue_pairs_that_timed_out_take_a_round_trip_a_packet_at_most(count: int) -> None:
    """Those that timed out leave room, however many they are, and however long their timeouts have become."""
    world, pairs = sharing(count, patient=True)
    (good, good_far), *others = pairs

    def time() -> int:
        began = world.now
        good.write(good_far, 20_000)
        assert world.run(10 * MS, until=lambda: bool(good.poll()))
        return world.now - began

    alone = max(time() for _ in range(4))
    silent = {far.qpn for _, far in others}
    world.tap = lambda nic, port, to, frame, now: None if towards(frame) in silent else frame
    for a, b in others:
        a.write(b, 1 << 20)
    world.run(200 * MS)
    waits = []
    for _ in range(40):
        waits.append(time())
        world.run(5 * MS)
    assert max(waits) <= alone + 5 * 22 * US, "five packets, for which there is room one at a time"
    assert not any(a.poll() for a, _ in others)


def test_a_queue_pair_does_not_fail_behind_silent_ones_while_its_own_far_end_answers() -> None:
    """It waits for more than ten RTOs of its own, and loses its first packets."""
    world, pairs = sharing(6, patient=True)
    (good, _), *others = pairs
    silent = {other.qpn for _, other in others}
    lost = True
    world.tap = lambda nic, port, to, frame, now: None if towards(frame) in silent or lost else frame
    for a, b in pairs:
        a.write(b, 1 << 20)
    world.run(until=lambda: good.nic.qp_counters(good.qpn).timeouts >= 5)
    lost = False
    world.run(until=lambda: bool(good.poll()))
    assert good.done[0].status is CompletionStatus.SUCCESS


def test_one_that_begins_to_wait_makes_those_that_backed_off_probe_at_its_own_intervals() -> None:
    """It is new, and owes nothing yet; the others have backed off in an outage of seconds."""
    world, _ = sharing(0)
    tired, tired_far = connect(world, attributes=QpAttributes(timeout=14, retry_count=255))
    tired.write(tired_far, 100_000)
    assert world.run(until=lambda: bool(tired.poll())), "round trips are known"
    probes: list[int] = []
    outage = True

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if frame[SRV6_PREFIX] == opcodes.PROBE and towards(frame) == tired_far.qpn:
            probes.append(now)
        return None if outage else frame

    world.tap = tap
    tired.write(tired_far, 1 << 20)
    world.run(3000 * MS)
    probes.clear()
    began = world.now
    late, late_far = connect(world, attributes=QpAttributes(timeout=14))
    late.write(late_far, 4096)
    world.run(20 * MS)
    asked = sorted({now - began for now in probes})
    assert len(asked) >= 4, "doubling from its first probe timeout on"
    outage = False
    assert world.run(20 * MS, until=lambda: bool(late.poll()))


def beside_an_idle_one(planes: int) -> tuple[World, End, End]:
    """A queue pair with an idle mate, whose far end receives nothing from now on."""
    world = World(planes=planes, uplinks=4, transport=TransportSettings(congestion="nscc", base_rtt=22 * US))
    near, far = connect(world, attributes=QpAttributes(timeout=10, retry_count=10))
    connect(world)
    near.write(far, 1 << 16)
    assert world.run(5 * MS, until=lambda: bool(near.poll()))
    world.tap = lambda nic, port, to, frame, now: None if nic == 0 and towards(frame) == far.qpn else frame
    return world, near, far


def test_one_that_leaves_room_to_others_fails_though_it_is_queued_at_a_port_that_went_down() -> None:
    world, near, far = beside_an_idle_one(2)
    near.write(far, 1 << 16)
    world.pump(0)
    assert near.qp.data_mask == 0b11, "both ports are busy"
    world.set_port(0, 1, False)
    assert world.run(60 * MS, until=lambda: len(near.done) + len(near.poll()) == 2)
    assert near.done[-1].status is CompletionStatus.RETRY_EXCEEDED


@pytest.mark.parametrize("interval", [MS // 2, MS, 3 * MS])
def test_news_of_the_peers_ports_postpones_no_retry_of_one_that_leaves_room_to_others(interval: int) -> None:
    """Each is a reason to probe."""
    world, near, far = beside_an_idle_one(3)
    near.write(far, 1 << 16)
    up = True

    def flap() -> None:
        nonlocal up
        up = not up
        world.set_port(1, 2, up)
        world.at(world.now + interval, flap)

    flap()
    assert world.run(60 * MS, until=lambda: len(near.done) + len(near.poll()) == 2)
    assert near.done[-1].status is CompletionStatus.RETRY_EXCEEDED


def test_one_that_waits_keeps_its_timer_when_it_is_the_first_to_time_out() -> None:
    """What it had in flight went with its plane, and another one, which is patient, fills the window."""
    world = World(planes=2, transport=TransportSettings(base_rtt=30 * US, assumed_rate=4_000_000_000))
    patient, patient_far = connect(world, attributes=QpAttributes(timeout=14))
    near, far = connect(world, attributes=QpAttributes(timeout=8, retry_count=3))
    for a, b in ((patient, patient_far), (near, far)):
        a.write(b, 1 << 16)
    assert world.run(5 * MS, until=lambda: bool(near.done or near.poll()) and bool(patient.done or patient.poll()))
    world.tap = lambda nic, port, to, frame, now: None if nic == 0 else frame
    near.write(far, 4096)
    world.run(US)
    patient.write(patient_far, 1 << 20)
    world.run(110 * US)
    requester = near.qp.requester
    assert requester is not None
    assert requester.timer.probing_since
    plane = next(number // 2 for number, lane in enumerate(requester.sent.lanes) if lane.head() is not None)
    requester.window.cc.cwnd = 4352  # as marks and losses of others may leave it
    world.set_port(0, plane, False)
    assert requester.window.waiting()
    for _ in range(20):
        world.run(100 * US)
        assert len(near.done) + len(near.poll()) == 2 or near.qp.timer_at
    assert near.done[-1].status is CompletionStatus.RETRY_EXCEEDED
