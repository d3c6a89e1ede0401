"""Each rule of the swarm's oracle finds a defect that is planted for it, and the failing plan shrinks to what it needs.

The defects are planted at the edges of the NIC: in its verbs, in the frames that it is given, in when it is woken.
"""

from dataclasses import replace

import pytest

from mrc_host.nic import Nic
from mrc_host.transport.control_plane import NicControlPlane
from mrc_host.transport.qp import NicQueuePair
from mrc_host.verbs.local import LocalProvider
from mrc_host.verbs_types import (
    CompletionOpcode,
    PathEvent,
    PathReason,
    PathState,
    QpAttributes,
    QpState,
)
from mrc_host.wire import opcodes
from simulation import world
from tests.simulation.worlds import GIGA
from tests.swarm.application_faults import Manner, Mute, Reconnect, Revoke, SharedQueue, SlowPoller
from tests.swarm.denylists import Denied, addresses
from tests.swarm.plans import caught, fabric, plan, write
from tests.swarm.run import run
from tests.swarm.scenario import FOREVER, ScenarioFault
from topologies.clos import multi_plane_clos
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss

pytestmark = pytest.mark.plain_transport

MS = 1_000_000
_OPCODE = 14 + 40 + 40 + 8


def test_finds_success_before_the_bytes_arrive(monkeypatch, buffers):
    """A completion comes before its bytes: they are taken away for the time of the poll, and are there in the end."""
    honest = LocalProvider.poll_cq
    missing = []

    def poll(self, cq, limit):
        for buffer, held in missing:
            buffer[:] = held
        missing.clear()
        found = honest(self, cq, limit)
        if any(entry.opcode is CompletionOpcode.WRITE for entry in found):
            for target in (buffers[-3], buffers[-1]):
                missing.append((target, bytes(target)))
                target[:] = bytes(len(target))
        return found

    monkeypatch.setattr(LocalProvider, "poll_cq", poll)
    caught(plan(), "its bytes are not in memory", faults=0, writes=1)


@pytest.mark.parametrize("kept", ["attributes", "receive_psn"])
def test_finds_attributes_of_an_earlier_life(monkeypatch, kept):
    honest = NicQueuePair.reset

    def reset(self, now):
        attributes = self.life.attributes
        honest(self, now)
        if kept == "receive_psn":
            attributes = replace(self.life.attributes, receive_psn=attributes.receive_psn)
        self.life = replace(self.life, attributes=attributes)

    monkeypatch.setattr(NicQueuePair, "reset", reset)
    together = Reconnect(0, False, Manner.TOGETHER, False, 0)
    faults = [ScenarioFault(together, time, time + 1) for time in (50_000, 100_000, 150_000, 200_000)]
    found = plan()
    found = replace(found, pairs=tuple(replace(pair, renewed=True) for pair in found.pairs), faults=tuple(faults))
    outcome = run(found)
    assert any("must have" in text or "contradicts" in text for text in outcome.violations), outcome.violations


@pytest.mark.parametrize("fault", [Reconnect(0, False, Manner.TOGETHER, False, 0), Revoke(0, True)])
def test_finds_memory_changed_after_its_connection_ended(monkeypatch, buffers, fault):
    """A packet that is late lands where the life, or the region, that it was for is over."""
    late = set()
    for name in ("modify_qp", "deregister_memory"):
        honest = getattr(LocalProvider, name)

        def over(self, *arguments, honest=honest, **named):
            honest(self, *arguments, **named)
            late.add(id(buffers[-1]))

        monkeypatch.setattr(LocalProvider, name, over)
    honest_post = LocalProvider.post_send

    def post(self, qpn, requests):
        if id(buffers[-1]) in late:
            buffers[-1][64] ^= 1  # the first byte of the first target of h1's writes
        honest_post(self, qpn, requests)

    monkeypatch.setattr(LocalProvider, "post_send", post)
    writes = [write(time=1, length=50_000), write(time=9_000, length=10)]
    caught(plan((fault, 4_000, 4_001), writes=writes), "was over", faults=1, writes=2)


def test_finds_bytes_no_write_sent(monkeypatch, buffers):
    """Something else than its own bytes is in the target of a write that failed."""
    fault = (LinkDown("h1@*", "*"), 0, FOREVER)
    honest = LocalProvider.poll_cq

    def poll(self, cq, limit):
        found = honest(self, cq, limit)
        if found:
            buffers[-1][70:80] = b"0123456789"
        return found

    monkeypatch.setattr(LocalProvider, "poll_cq", poll)
    caught(plan(fault, writes=[write(), write(time=5)]), "left other bytes than its own", faults=1, writes=1)


class Chatty(Nic):
    """Says its last word to a queue pair again every 5 us for some milliseconds."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.word, self.next, self.again = None, 0, False

    def transmit(self, port, now):
        frame = super().transmit(port, now)
        if frame is not None:
            if frame[_OPCODE] in (opcodes.TRANSPORT_ACK, opcodes.SACK, opcodes.PROBE):
                self.word = frame
        elif self.again:
            self.again = False
            return self.word
        return frame

    def tick(self, now):
        super().tick(now)
        if self.word is not None and self.next <= now:
            self.next, self.again = now + 5_000, now < 8 * MS

    def wakeup(self):
        due = super().wakeup()
        if self.word is None or self.next >= 8 * MS:
            return due
        return self.next if due is None else min(due, self.next)


@pytest.mark.second_ring
def test_finds_a_packet_storm(monkeypatch):
    """A NIC goes on and on while all wait for an application that sleeps."""
    monkeypatch.setattr(world, "Nic", Chatty)
    sleeper = (SlowPoller("h3", 9 * MS), 1_000, 9 * MS)
    crowd = (SharedQueue("h3", 1), 0, 9 * MS)
    caught(plan(sleeper, crowd, writes=[write(imm=True) for _ in range(3)]), "in which nothing moved")


class Deaf(Nic):
    """Hears nothing between two times."""

    since, until = 20_000, 3 * MS

    def receive(self, port, frame, now):
        if not self.since <= now < self.until:
            super().receive(port, frame, now)


def test_finds_an_unnecessary_timeout(monkeypatch):
    monkeypatch.setattr(world, "Nic", Deaf)
    caught(plan(), "ACK timeouts passed", faults=0, writes=1)


def test_finds_an_outage_longer_than_the_fault(monkeypatch):
    monkeypatch.setattr(world, "Nic", Deaf)
    monkeypatch.setattr(Deaf, "since", 20_000)
    monkeypatch.setattr(Deaf, "until", 200_000)
    on = multi_plane_clos("swarm", planes=2, t0=2, t1=4, hosts=4, rate_bps=100 * GIGA)
    cut = (LinkDown("t0-*:t1-0@p*"), 1, 2_000)
    made = plan(cut, on=on, writes=[write(time=0, length=1_000_000), write(time=0)])
    caught(made, "on the paths that were left", faults=1, writes=1)


class Late(Nic):
    """Comes late to what is due."""

    def wakeup(self):
        due = super().wakeup()
        return None if due is None else max(due, 300 * MS)


def test_finds_a_delay_after_all_faults_ended(monkeypatch):
    monkeypatch.setattr(world, "Nic", Late)
    cut = (LinkDown("h1@*", "*"), 1_000, 100_000)
    caught(plan(cut, writes=[write(time=500), write(time=2_000)]), "after all trouble", faults=1, writes=1)


def test_finds_a_queue_pair_that_waits_for_silent_ones(monkeypatch):
    monkeypatch.setattr(world, "Nic", Deaf)
    monkeypatch.setattr(Deaf, "until", 100 * MS)
    silent = (Mute(1, True), 0, FOREVER)
    made = plan(silent, pairs=2, writes=[write(time=30_000), write(time=30_000, pair=1)])
    caught(made, "though only other queue pairs were silent", faults=1, writes=1)


def test_finds_an_allowed_path_left_unused(monkeypatch):
    """A NIC that does not listen when paths are allowed again."""
    honest = NicControlPlane.set_path_denied

    def deaf(self, peer, ev, denied, now):
        if denied:
            honest(self, peer, ev, denied, now)

    monkeypatch.setattr(NicControlPlane, "set_path_denied", deaf)
    denied = (Denied((("h1", "h3", 0),)), 1_000, 50_000)
    caught(plan(denied), "paths to h3 out of use", faults=1, writes=0)


class Stubborn(Nic):
    """Takes no port status update after the first 200 us."""

    def receive(self, port, frame, now):
        if now < 200_000 or frame[_OPCODE] != opcodes.ENDPOINT_REQUEST:
            super().receive(port, frame, now)


def test_finds_a_port_wrongly_believed_down(monkeypatch):
    monkeypatch.setattr(world, "Nic", Stubborn)
    caught(
        plan((LinkDown("h1@p0"), 50_000, 300_000)), "still believes that ports [0] of h1 are down", faults=1, writes=0
    )


def test_finds_a_dead_path_reported_good(monkeypatch):
    """Whenever a path goes bad, it is reported as good again a while later."""
    honest = Nic.async_events

    def hasty(self):
        found = honest(self)
        bad = [event for event in found if isinstance(event, PathEvent) and event.new is PathState.ASSUMED_BAD]
        news = [
            replace(event, time=event.time + 5 * MS, old=event.new, new=PathState.GOOD, reason=PathReason.PROBE)
            for event in bad
        ]
        return [*found, *news]

    monkeypatch.setattr(Nic, "async_events", hasty)
    cut = (LinkDown("t0-0:t1-0@p0", "*"), 1_000, 40 * MS)
    caught(plan(cut, writes=[write(length=100_000)]), "though it has carried no data", faults=1, writes=1)


def test_finds_unequal_shares():
    """The windows of a contest are equal in a plan; here one shuts, which the rule cannot know."""
    made = plan(pairs=2, attributes=QpAttributes(congestion_window=1 << 20))
    slow = replace(made.pairs[0], second="h4", attributes=replace(made.pairs[0].attributes, congestion_window=4096))
    writes = tuple(write(time=0, length=100_000, pair=number % 2) for number in range(8))
    made = replace(made, pairs=(made.pairs[0], slow), writes=writes, contest=(0, 1))
    caught(made, "unequal shares", faults=0, writes=2)


def test_finds_too_few_active_paths(monkeypatch):
    """NICs that know but two of the paths."""
    transport = replace(fabric().settings.transport, ev_min_active=16)
    made = replace(fabric(), settings=replace(fabric().settings, transport=transport))
    honest = world.nic_config

    def blinkered(*arguments):
        config = honest(*arguments)
        return replace(config, destinations=tuple(replace(peer, evs=peer.evs[:1]) for peer in config.destinations))

    monkeypatch.setattr(world, "nic_config", blinkered)
    attributes = QpAttributes(mpr=64, mpr_dest=64, congestion_window=1 << 18)
    loss = (Loss("*", 0.0001), 0, 9 * MS)
    made = plan(loss, on=made, attributes=attributes, writes=[write(length=2_500_000), write(length=100)])
    caught(made, "should be in use", faults=1, writes=1)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"bytes_completed": 1}, "bytes completed, but"),
        ({"duplicates_received": 1 << 20}, "duplicates, but"),
        ({"data_received": 1 << 20}, "more data packets than"),
        ({"spurious_retransmitted": 1 << 20}, "more spurious retransmissions"),
        ({"late": 1 << 20}, "more late packets"),
    ],
)
def test_finds_inconsistent_counters(monkeypatch, changes, text):
    honest = LocalProvider.qp_counters

    def wrong(self, qpn):
        found = honest(self, qpn)
        return replace(found, **{name: getattr(found, name) + count for name, count in changes.items()})

    monkeypatch.setattr(LocalProvider, "qp_counters", wrong)
    caught(plan(), text, faults=0, writes=0)


def test_finds_a_failure_while_a_plane_worked(monkeypatch):
    """A NIC that gives up while only one of its planes is silent."""
    honest = Nic.post_send

    def weary(self, qpn, request, now):
        if now > 50_000:
            self.modify_qp(qpn, QpState.ERROR, now)
        honest(self, qpn, request, now)

    monkeypatch.setattr(Nic, "post_send", weary)
    caught(plan((LinkDown("*@p0", "*"), 10_000, FOREVER)), "failed (flushed", faults=1, writes=2)


def test_finds_a_request_that_never_completes(monkeypatch):
    """All paths are denied for good, and the NIC says nothing."""
    routes = tuple(addresses(fabric(), "h1").values())
    honest = LocalProvider.poll_cq
    monkeypatch.setattr(
        LocalProvider,
        "poll_cq",
        lambda self, cq, limit: [entry for entry in honest(self, cq, limit) if not entry.reason],
    )
    caught(plan((Denied(routes), 0, FOREVER), writes=[write(), write(time=9)]), "missing", faults=1, writes=1)


def test_the_plans_run_clean_without_a_planted_defect():
    assert run(plan()).violations == ()
