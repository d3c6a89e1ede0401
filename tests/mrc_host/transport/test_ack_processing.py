"""ACK processing by itself: what SACKs, NACKs and transport ACKs do to what was sent, to paths and to requests."""

from __future__ import annotations

import random

import pytest

from mrc_host.config import UsidTemplate
from mrc_host.datapath import native
from mrc_host.transport.ack_processing import AckProcessing
from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.congestion import LinkParameters
from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.loss_detection import LossDetection
from mrc_host.transport.memory import MemoryTable
from mrc_host.transport.outgoing_messages import OutgoingMessages
from mrc_host.transport.paths import BAD, PathListener, PathSet
from mrc_host.transport.peer_frames import FrameTemplates
from mrc_host.transport.queue_pair_interfaces import PathMonitor, RequesterOwner
from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.requester_parts import RequesterParts
from mrc_host.transport.retransmission_timer import RetransmissionTimer
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.send_window import SendWindow
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.spurious_retransmissions import SpuriousRetransmissions
from mrc_host.transport.window import SharedWindows, WindowUser
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import Access, CompletionStatus, PathReason, PathState, WorkRequest, WrOpcode
from mrc_host.wire import control, headers
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import MASK
from tests.mrc_host.transport.parts import Answers, connection

FIRST = 1000
MTU = 4096
RTT = 10_000
PLANES, PATHS = 2, 4  # paths of each plane
UNIT = 17  # of a full packet, in the peer's count


class Owner(RequesterOwner, WindowUser, PathListener, PathMonitor):
    """The surroundings: a queue pair, and who wants to know about paths."""

    def __init__(self) -> None:
        self.error: tuple[CompletionStatus, str] | None = None
        self.bad: list[tuple[int, PathReason]] = []
        self.due: list[int] = []

    def arm(self, when: int) -> None:
        self.due.append(when)

    def armed(self) -> bool:
        return bool(self.due)

    def offer_data(self) -> None:
        pass

    def enter_error(self, status: CompletionStatus, reason: str, now: int) -> None:
        self.error = status, reason

    def window_opened(self) -> bool:
        return False

    def others_timed_out(self, now: int) -> None:
        pass

    def probe_for_others(self, interval: int, now: int) -> bool:
        return False

    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        if new == BAD:
            self.bad.append((index, reason))

    def answered(self, index: int, port: int, rtt: int, weight: int, now: int) -> tuple[int, int]:
        return rtt, rtt

    def trimmed(self, index: int, rtt: int) -> tuple[int, int]:
        return rtt, rtt


class NoFrames(FrameTemplates):
    def template(self, index: int, kind: int) -> native.Template:
        raise AssertionError("No packet is built here.")


class Rig:
    """ACK processing with the parts that it works on, and no requester."""

    def __init__(self, *, retry_count: int = 7) -> None:
        self.now = 1_000_000
        self.owner = owner = Owner()
        given = connection({"path_mtu": MTU}, congestion="fixed")
        self.stats = given.stats
        link = LinkParameters(mtu=MTU, window=64 * MTU)
        self.window = SendWindow(owner, given, link, SharedWindows())
        self.trips = [RoundTrip() for _ in range(PLANES)]
        self.paths = PathSet(
            bytes(plane for plane in range(PLANES) for _ in range(PATHS)),
            active_paths=None,
            backup_share=4,
            ev_min_active=1,
            rng=random.Random(1),
            listener=owner,
        )
        self.sent = SentPackets(self.window.cc, FIRST, PLANES, self.paths.each)
        memory = MemoryTable(random.Random(1))
        self._region = memory.register(0, memoryview(bytearray(64 * MTU)), Access.LOCAL_WRITE)
        self.cq = NicCompletionQueue(1, 64, set(), set())
        self.sends = SendQueue(5, 0, self.cq, memory, 64)
        self.spurious = SpuriousRetransmissions(self.stats)
        self.timer = RetransmissionTimer(self.trips, RetryPolicy(8, retry_count, 7, 6), 100)
        reordering = [ReorderWindow() for _ in range(2 * PLANES)]
        self.loss = LossDetection(
            self.sent, self.paths, self.window.cc, self.trips, reordering, self.stats, [0] * PLANES, reorder_fraction=25
        )
        evs = range(PLANES * PATHS)
        values = EntropyValues(evs, {ev: ev for ev in evs}, UsidTemplate(0, (), None), 1)
        self.messages = OutgoingMessages(self.sends, DataPackets(given, NoFrames()), 32)
        parts = RequesterParts(
            self.paths, self.sends, self.messages, self.window, self.sent, self.loss, self.spurious, self.timer
        )
        self.probes = parts.probes
        self.answers = Answers()
        self.acks = AckProcessing(owner, given, owner, self.answers, values, self.trips, parts)

    def write(self, packets: int = 1, *, path: int = 0) -> list[SentPacket]:
        """A message leaves, all of it on one path, a microsecond apart."""
        region = self._region
        self.sends.post(WorkRequest(0, WrOpcode.WRITE, region.address, region.lkey, packets * MTU, 0, 0))
        wqe = self.sends.start()
        records = []
        for _ in range(packets):
            self.now += 1_000
            record = self.sent.new_record()
            record.weight, record.wqe = MTU, wqe
            self.sent.transmitted(record, path // PATHS, 0, path, headers.timestamp(self.now), self.now)
            records.append(record)
        wqe.last_psn = records[-1].psn
        return records

    def sack(self, cumulative: int, bitmap: int = 0, *, of: SentPacket | None = None, **more: int) -> Drop | None:
        """A SACK a round trip later; PSNs count from the first. It answers `of`, or the packet of the cumulative.

        Or, with `probe`, the one of this `number` that was sent just now, if its `stamp` is not another.
        """
        stamp = headers.timestamp(self.now)
        self.now += RTT
        cack = FIRST + cumulative
        record = self.sent.record(cack) if of is None else of
        given = {"mark": control.MARK_NONE, "probe": 0, "number": record.psn - cack & 0xFFFF, "units": 0, **more}
        given.setdefault("stamp", stamp if given["probe"] else record.stamp)
        return self.acks.on_sack(
            Sack(
                mark=given["mark"], probe=bool(given["probe"]), ack_offset=given["number"],
                entropy=given.get("entropy", record.index), cack_psn=cack & MASK, mpr=8, bitmap_offset=1,
                bitmap=bitmap, timestamp=given["stamp"], rcvd_units=given["units"],
            ),
            0,
            self.now,
        )  # fmt: skip


def test_a_cumulative_psn_acknowledges_everything_before_it_and_frees_its_bytes() -> None:
    rig = Rig()
    records = rig.write(3)
    assert rig.sack(1, units=2 * UNIT) is None
    assert [record.state for record in records] == [FREE, FREE, OUT]
    assert rig.sent.in_flight == rig.window.cc.inflight == MTU
    assert rig.sent.una == FIRST + 2
    assert rig.timer.last_progress == rig.now


def test_a_sack_reports_arrivals_and_only_a_transport_ack_completes() -> None:
    """R2.11: it arrived, and it is carried out, are independent."""
    rig = Rig()
    rig.write(2)
    rig.sack(1, units=2 * UNIT)
    assert not rig.cq.poll(9)
    assert rig.acks.on_ack(FIRST + 1, False, 1, rig.now) is None
    (done,) = rig.cq.poll(9)
    assert (done.status, done.byte_len) == (CompletionStatus.SUCCESS, 2 * MTU)


def test_a_transport_ack_alone_acknowledges_its_packets() -> None:
    rig = Rig()
    rig.write(2)
    rig.write(1)
    assert rig.acks.on_ack(FIRST + 1, False, 1, rig.now) is None
    assert (rig.sent.una, rig.sent.in_flight, len(rig.cq.poll(9))) == (FIRST + 2, MTU, 1)


def test_a_transport_ack_acknowledges_what_arrived_of_unfinished_messages() -> None:
    """Its PSN is the cumulative one, which may get through where no SACK does."""
    rig = Rig()
    rig.write(1)
    rig.write(3)
    assert rig.acks.on_ack(FIRST + 2, False, 1, rig.now) is None
    assert (rig.sent.una, rig.sent.in_flight, len(rig.cq.poll(9))) == (FIRST + 3, MTU, 1)
    rig.now += 1_000
    assert rig.acks.on_ack(FIRST + 2, False, 1, rig.now) is None
    assert rig.timer.last_progress == rig.now - 1_000, "the same again is no progress"
    assert rig.acks.on_ack(FIRST + 3, False, 1, rig.now) is None
    assert (rig.sent.una, rig.sent.in_flight, rig.timer.last_progress) == (FIRST + 4, 0, rig.now)
    assert not rig.cq.poll(9), "the message is not complete"


@pytest.mark.parametrize(
    ("psn", "count", "drop"),
    [
        (FIRST + 9, 1, Drop.MALFORMED),  # PSNs never sent
        (FIRST - 2, 1, Drop.OTHER_LIFE),  # of an earlier connection
        (FIRST, 2, Drop.MALFORMED),  # more messages than there are
        (FIRST, 1, Drop.MALFORMED),  # the message ends after that PSN
    ],
)
def test_impossible_transport_acks_are_dropped(psn: int, count: int, drop: Drop) -> None:
    rig = Rig()
    rig.write(2)
    assert rig.acks.on_ack(psn, False, count, rig.now) is drop
    assert (rig.sent.una, len(rig.cq.poll(9))) == (FIRST, 0)


def test_sacks_of_psns_never_sent_or_of_an_earlier_connection_are_ignored() -> None:
    rig = Rig()
    (record,) = rig.write()
    assert rig.sack(1, of=record) is Drop.MALFORMED
    assert rig.sack(-2, of=record) is Drop.OTHER_LIFE
    assert (rig.sent.una, record.state, rig.stats.sacks_received) == (FIRST, OUT, 0)


def test_a_hole_becomes_a_loss_when_a_later_packet_of_its_path_arrives() -> None:
    """R2.12, R2.13."""
    rig = Rig()
    first, second = rig.write(2)
    rig.sack(-1, 0b10, of=second, units=UNIT)
    assert (first.state, second.state) == (LOST, FREE)
    assert rig.sent.next_lost() is first
    assert rig.stats.lost == 1


def test_the_acknowledged_packet_gives_its_planes_rtt_once() -> None:
    rig = Rig()
    (record,) = rig.write(path=PATHS)
    rig.sack(-1, 0, of=record)
    assert rig.trips[1].smoothed == RTT
    assert not rig.trips[0].smoothed
    rig.now += 50 * RTT
    rig.sack(-1, 0, of=record)
    assert rig.trips[1].smoothed == RTT, "it was counted before"


@pytest.mark.parametrize("entropy", [PATHS, control.NO_ENTROPY], ids=("answer", "sweep"))
def test_a_sack_of_a_sweep_answers_no_packet(entropy: int) -> None:
    """Its PSN and timestamp mean nothing, though a packet may have had these: at time 0 all do."""
    rig = Rig()
    rig.now = -1_000
    (record,) = rig.write(path=PATHS)
    assert record.stamp == 0
    rig.loss.mark_lost(record, "timeout")
    again = rig.spurious.remember(record)
    rig.now = RTT // 2
    rig.sent.transmitted(record, 0, 1, 0, 77, rig.now)
    again.again(record)
    rig.sack(-1, 0, of=record, number=1, stamp=0, entropy=entropy)
    assert bool(rig.trips[1].smoothed) == (entropy != control.NO_ENTROPY)


def test_an_unmarked_sack_confirms_its_path_and_a_mark_skips_it() -> None:
    """R1.13: SKIP_ONCE for a packet with ECN-CE, ALWAYS_SKIP for a path that the responder thinks bad."""
    rig = Rig()
    one, two, three = rig.write(path=1)[0], rig.write(path=2)[0], rig.write(path=3)[0]
    rig.sack(0, of=one, units=UNIT)
    rig.sack(1, of=two, mark=control.MARK_SKIP_ONCE, units=2 * UNIT)
    rig.sack(2, of=three, mark=control.MARK_ALWAYS_SKIP, units=3 * UNIT)
    assert rig.answers.working == [1]
    assert rig.paths.state(2) is PathState.SKIP
    assert rig.owner.bad == [(3, PathReason.PEER_SKIP)]
    assert rig.stats.marks_reported == 2


def test_an_overtaken_sack_acknowledges_but_shows_no_loss() -> None:
    rig = Rig()
    first, second, third = rig.write(3)
    rig.sack(-1, 0, of=first, units=3 * UNIT)
    rig.sack(-1, 0b10, of=second, units=UNIT)
    assert (first.state, second.state, third.state) == (OUT, FREE, OUT)


def test_a_nack_marks_one_packet_lost_and_suspects_no_path() -> None:
    rig = Rig()
    first, second = rig.write(2)
    nack = Nack(control.NACK_NO_RESOURCE, 0, 0, 0, first.psn & MASK, first.stamp)
    assert rig.acks.on_nack(nack, rig.now + RTT) is None
    assert (first.state, second.state) == (LOST, OUT)
    assert not rig.owner.bad
    assert rig.acks.on_nack(nack, rig.now + RTT) is None, "it is not on the way any more"
    assert rig.stats.lost == 1


def test_a_trimmed_packet_skips_its_path() -> None:
    rig = Rig()
    (record,) = rig.write(path=2)
    rig.acks.on_nack(Nack(control.NACK_TRIMMED, 0, 0, 0, record.psn & MASK, record.stamp), rig.now + RTT)
    assert (record.state, rig.paths.state(2)) == (LOST, PathState.SKIP)


def test_nacks_without_progress_use_up_the_retries() -> None:
    """R2.16."""
    rig = Rig(retry_count=1)
    (record,) = rig.write()
    ended = None
    for _ in range(200):
        rig.now += RTT
        nack = Nack(control.NACK_NO_RESOURCE, 0, 0, 0, record.psn & MASK, record.stamp)
        ended = rig.acks.on_nack(nack, rig.now)
        if ended is not None:
            break
        rig.sent.take_lost()
        rig.sent.transmitted(record, 0, 1, 0, headers.timestamp(rig.now), rig.now)
    assert ended is not None
    assert ended[0] is CompletionStatus.RETRY_EXCEEDED
    assert "no_resource" in ended[1]


def test_an_unexpected_event_nack_fails_the_queue_pair() -> None:
    rig = Rig()
    (record,) = rig.write()
    ended = rig.acks.on_nack(Nack(control.NACK_UNEXP_EVENT, 0, 0, 0, record.psn & MASK, record.stamp), rig.now)
    assert ended is not None
    assert ended[0] is CompletionStatus.REMOTE_OPERATION_ERROR


def test_a_probe_response_shows_losses_before_it_on_its_plane() -> None:
    rig = Rig()
    here, elsewhere = rig.write(path=0)[0], rig.write(path=PATHS)[0]
    for trip in rig.trips:
        for _ in range(16):
            trip.sample(RTT)  # it hardly varies
    rig.now += 3 * RTT // 2  # less than two, after which the other plane would be silent
    number = rig.probes.sent(0, 1, rig.now)
    rig.sack(-1, 0, of=here, probe=1, number=number)
    assert (here.state, elsewhere.state) == (LOST, OUT)
    assert rig.probes.unanswered == 0
    assert rig.answers.working == [1], "the path that the probe took"


def test_a_peer_reporting_less_than_before_fails_the_queue_pair() -> None:
    rig = Rig()
    first, _ = rig.write(2)
    rig.sack(0, of=first, units=UNIT)
    rig.now += RTT
    number = rig.probes.sent(0, 1, rig.now)
    rig.sack(-1, 0, of=first, probe=1, number=number, units=2 * UNIT)
    assert rig.owner.error is not None
    assert rig.owner.error[0] is CompletionStatus.REMOTE_OPERATION_ERROR


def test_an_answer_to_a_late_probe_of_an_earlier_life_says_nothing_of_this_one() -> None:
    """Each life numbers its probes from 1: swarm seed 2401366."""
    rig = Rig()
    first, _ = rig.write(2)
    rig.sack(0, of=first, units=UNIT)
    rig.now += RTT
    number = rig.probes.sent(0, 1, rig.now)
    working = list(rig.answers.working)
    rig.sack(-1, 0, of=first, probe=1, number=number, units=2 * UNIT, stamp=headers.timestamp(rig.now - 30 * RTT))
    assert rig.owner.error is None
    assert rig.probes.unanswered == 1
    assert rig.answers.working == working
