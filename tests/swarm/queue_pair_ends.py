"""The two ends of a planned pair, their lives, and the writes that each end posts in them.

A :class:`Life` is one connection of one end, from its creation or reset to the next reset, its destruction or the crash
of its NIC. It belongs to the life of the other end that it was connected to; only two lives that belong to each other
can be expected to talk. What a dead life's packets may still do to memory is nothing: its slots are frozen.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from mrc_host.errors import MrcError
from mrc_host.transport.states import TAKES
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context, ProtectionDomain
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import Endpoint, QueuePair
from mrc_host.verbs_types import Completion, CompletionStatus, QpAttributes, QpState, QpType
from simulation.seeds import generator
from tests.swarm.life_attributes import draw, first_psn
from tests.swarm.scenario import Masks, PlannedPair, PlannedWrite, Scenario

GUARD = 64  # bytes between the targets of two writes


@dataclass(slots=True, eq=False)
class Life:
    """One connection of one end: where it lies in memory, with whom, from when to when (ns).

    `psn` is the first PSN that the application chose for it, if it did. `agreed` is the number of the attributes that
    it was connected with, which the end that connects to it uses too; `attributes` are its own.
    """

    endpoint: Endpoint
    region: MemoryRegion
    buffer: memoryview
    started: int
    attributes: QpAttributes
    psn: int | None = None
    agreed: int | None = None
    peer: Life | None = None
    ended: int | None = None
    revoked: int | None = None  # when the memory was deregistered

    @property
    def qpn(self) -> int:
        """Its queue pair's number."""
        return self.endpoint.qp.qpn

    def broken(self) -> int | None:
        """Since when it need not work: its end or its peer's, a peer that belongs to another, memory that is gone."""
        peer = self.peer
        if peer is None:
            return self.started
        times = [time for time in (self.ended, peer.ended, self.revoked, peer.revoked) if time is not None]
        if peer.peer is not self:
            times.append(self.started)
        return min(times, default=None)


@dataclass(slots=True, eq=False)
class Posted:
    """A write: where it lies in both memories, and its completions. `number` counts those of its end."""

    number: int
    plan: PlannedWrite
    offset: int
    life: Life | None = None
    completions: list[Completion] = field(default_factory=list)
    posted_at: int = 0
    done_at: int = 0
    announced: int = 0
    given_up: bool = False  # its NIC forgot it, or its end never got a connection
    frozen: bytes | None = None  # what the target held when it ought to have been left alone

    @property
    def succeeded(self) -> bool:
        """Whether it was reported so."""
        return bool(self.completions) and self.completions[0].status is CompletionStatus.SUCCESS

    @property
    def failed(self) -> bool:
        """Whether it was reported so."""
        return bool(self.completions) and self.completions[0].status is not CompletionStatus.SUCCESS

    def target(self) -> memoryview:
        """Its bytes at the receiver."""
        assert self.life is not None
        assert self.life.peer is not None
        return self.life.peer.buffer[self.offset : self.offset + self.plan.length]

    def masks(self) -> Masks:
        """The planes that the ends of its pair kept to, the first and the second, in the life that it was posted in."""
        assert self.life is not None
        assert self.life.peer is not None
        own, other = self.life.attributes.planes, self.life.peer.attributes.planes
        return (other, own) if self.plan.back else (own, other)

    def settled(self) -> bool:
        """Whether all its completions have arrived."""
        if self.given_up:
            return True
        if not self.completions:
            return False
        if not (self.plan.imm and self.succeeded) or self.announced:
            return True
        return self.life is None or self.life.peer is None or self.life.peer.ended is not None


class QueuePairEnd:
    """One end of a pair: what it sends from, what it is written to, its present life and its writes in order."""

    def __init__(self, scenario: Scenario, number: int, back: bool) -> None:
        self._scenario = scenario
        self.pair: PlannedPair = scenario.pairs[number]
        self.number, self.back = number, back
        self.nic = self.pair.second if back else self.pair.first
        self.away = False  # its NIC has forgotten it
        self.connected = asyncio.Event()
        self.writes = _layout(scenario, number, back)
        self.lives: list[Life] = []
        self.announced: list[int] = []
        self.path_changed = False
        self._received = _size(scenario, number, not back)
        self._bytes = generator(scenario.seed, "bytes", number, int(back)).randbytes(_size(scenario, number, back))

    @property
    def life(self) -> Life:
        """The present one, or the last."""
        return self.lives[-1]

    @property
    def planes(self) -> int:
        """The mask of planes on which it sent in any of its lives."""
        return reduce(or_, (life.attributes.planes for life in self.lives))

    @property
    def baseline(self) -> bool:
        """Whether it is no queue pair of MRC: then it may wait for timeouts, and does not look for paths that work."""
        return self.pair.kind is not QpType.MRC

    def source_of(self, posted: Posted) -> bytes:
        """What a write of this end is to bring."""
        return self._bytes[posted.offset : posted.offset + posted.plan.length]

    def build(self, context: Context, queue: CompletionQueue, now: int) -> None:
        """Make everything on a NIC that knows nothing of this end."""
        self._pd: ProtectionDomain = context.alloc_pd()
        self._queue = queue
        self.source = self._pd.alloc_mr(len(self._bytes))
        self.source.buffer[:] = self._bytes
        self.region = self._pd.alloc_mr(self._received)
        self._buffer = self.region.buffer
        self.away = False
        self._create(now)

    def _create(self, now: int) -> None:
        psn = self._next_psn()
        created = replace(self.pair.created(self.back), send_psn=psn)
        self.qp: QueuePair = self._pd.create_qp(self._queue, self._queue, self.pair.kind, created)
        self._begin(psn, now)

    def _next_psn(self) -> int | None:
        return first_psn(self._scenario, self.number, self.back, len(self.lives))

    def _begin(self, psn: int | None, now: int) -> None:
        old = self.lives[-1].revoked if self.lives and self.lives[-1].region is self.region else None
        endpoint = self.qp.endpoint()
        if psn is not None:  # given to the queue pair when it was created, or yet to be
            endpoint = Endpoint(replace(endpoint.qp, psn=psn))
        created = self.pair.created(self.back)
        self.lives.append(Life(endpoint, self.region, self._buffer, now, created, psn, revoked=old))

    def renew(self, recreate: bool, now: int) -> None:
        """End the present life and begin another, not connected yet."""
        self.end_life(now)
        if recreate:
            self.qp.close()
            self._create(now)
        else:
            self.qp.modify(QpState.RESET)
            self._begin(self._next_psn(), now)

    def end_life(self, now: int) -> None:
        """From now on nothing that was sent to this life may change memory."""
        self.connected.clear()
        if self.life.ended is None:
            self.life.ended = now

    def connect(self, other: QueuePairEnd) -> None:
        """Belong to the present life of `other`; MrcError leaves the queue pair in RESET."""
        agreed = other.life.agreed
        number = max(len(self.lives), len(other.lives)) if agreed is None else agreed
        wanted = draw(self._scenario, self.number, number)[self.back]
        try:
            self._connect(other.life, dict(wanted.given))
        except MrcError:
            if self.qp.state is not QpState.RESET:
                self.qp.modify(QpState.RESET)
            raise
        self._check(other.life, wanted.all)
        self.life.agreed, self.life.attributes = number, wanted.all
        self.life.peer = other.life
        self.connected.set()
        for posted in other.writes:  # connected to a life that goes on, this end gets what that one sends
            if posted.life is other.life:
                posted.frozen = None

    def _connect(self, other: Life, given: dict[str, object]) -> None:
        """In one step if there is nothing to give; the peer's PSN comes with its endpoint, as an attribute, or both."""
        chance = generator(self._scenario.seed, "connect", self.number, int(self.back), len(self.lives))
        remote = other.endpoint.qp
        if other.psn is not None and chance.random() < 0.7:
            given["receive_psn"] = other.psn
            if chance.random() < 0.5:
                remote = replace(remote, psn=None)
        if self.life.psn is not None and self.qp.query().attributes.send_psn != self.life.psn:
            given["send_psn"] = self.life.psn
        if not given:
            self.qp.connect(remote)
            return
        for state in (QpState.INIT, QpState.RTR, QpState.RTS):
            changes = {name: value for name, value in given.items() if name in TAKES[state]}
            self.qp.modify(state, remote=remote if state is QpState.RTR else None, **changes)  # type: ignore[arg-type]

    def _check(self, other: Life, wanted: QpAttributes) -> None:
        """The queue pair has what this life was given, and otherwise what it was created with."""
        wanted = replace(wanted, send_psn=self.life.endpoint.qp.psn, receive_psn=other.endpoint.qp.psn)
        found = self.qp.query().attributes
        if found != wanted:
            raise AssertionError(f"{self.nic} has {found} in life {len(self.lives)}, but must have {wanted}")

    def revoke(self, now: int) -> None:
        """Deregister the memory that is written to."""
        if self.life.revoked is None:
            self.life.revoked = now
            self.region.close()

    def freeze(self, sender: QueuePairEnd) -> None:
        """Remember what `sender` has written into the memory of the present life, which may not change any more."""
        for posted in sender.writes:
            if posted.frozen is None and self.receives(posted):
                posted.frozen = bytes(posted.target())

    def receives(self, posted: Posted) -> bool:
        """Whether the present life may be written to by this write of the other end."""
        life = posted.life
        if life is None or self.life.ended is not None or self.life.revoked is not None:
            return False
        return life.peer is self.life or self.life.peer is life


def _layout(scenario: Scenario, pair: int, back: bool) -> list[Posted]:
    posted: list[Posted] = []
    offset = GUARD
    for plan in scenario.writes:
        if plan.pair == pair and plan.back == back:
            posted.append(Posted(len(posted), plan, offset))
            offset += plan.length + GUARD
    return posted


def _size(scenario: Scenario, pair: int, back: bool) -> int:
    return sum(w.length + GUARD for w in scenario.writes if w.pair == pair and w.back == back) + GUARD
