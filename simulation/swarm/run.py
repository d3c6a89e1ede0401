"""Plays a scenario and lists everything that is not as it must be.

Applications use the verbs in coroutines, as anywhere else. Checked, all from the outside:

* the bytes of every write that succeeded are in the target's memory, and no byte outside of writes has changed;
* every request completes exactly once, in order; every WRITE_WITH_IMM is announced exactly once, in order, and when it
  is, everything before it on its queue pair is in memory;
* no queue pair fails unless its peer was out of reach for longer than its retry budget;
* first transmissions are spread evenly over the planes where nothing gave a reason to leave one;
* when all is done and every fault is over, the world comes to rest: no event left, no frame in a switch;
* no NIC uses a path while it is denied;
* no device met an error of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from mrc_host.config import TransportSettings
from mrc_host.values import (
    Completion,
    CompletionOpcode,
    CompletionStatus,
    PathEvent,
    PathState,
    PortEvent,
    QpType,
)
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from simulation.errors import StalledError
from simulation.seeds import generator
from simulation.swarm.balance import PlaneCounts
from simulation.swarm.denials import Denied, Denylists
from simulation.swarm.oracle import longest_damage, longest_separation, touched
from simulation.swarm.scenario import HORIZON, PlannedPair, PlannedWrite, Scenario
from simulation.timing import retry_budget
from simulation.world import SimulatedWorld, switch_drops

_GUARD = 64  # bytes between the targets of two writes
_REST = 5_000_000_000  # ns in which a world must come to rest
_SECOND = 1_000_000_000
_IMPOSSIBLE = ("no_pipeline", "bad_priority", "no_group", "no_session", "loop_limit", "assertion")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run. `violations` are sentences; none means that all is well."""

    seed: int
    violations: tuple[str, ...]
    trace: str
    frames: int
    packets: int
    failed_pairs: int
    end: int


@dataclass(slots=True)
class _Posted:
    """A write under way: where it lies in both memories, and what was heard of it."""

    number: int
    plan: PlannedWrite
    offset: int
    completions: list[Completion] = field(default_factory=list)
    announced: int = 0


@dataclass(slots=True)
class _Side:
    """One end of a pair: what it sends from, what it is written to, and its writes in order."""

    nic: str
    context: Context
    cq: CompletionQueue
    qp: QueuePair
    source: MemoryRegion
    target: MemoryRegion
    writes: list[_Posted]
    path_changed: bool = False
    announced: list[int] = field(default_factory=list)


def run(scenario: Scenario) -> Outcome:
    """Play it."""
    return _Run(scenario).play()


class _Run:
    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._counts = PlaneCounts(scenario.fabric)
        self._world = SimulatedWorld(
            scenario.fabric, seed=scenario.seed, delay=scenario.delay, queues=scenario.queues, trace=self._counts
        )
        self._violations: list[str] = []
        self._contexts: dict[str, Context] = {}
        self._sides: list[tuple[_Side, _Side]] = []
        self._left = 0
        self._done: asyncio.Event | None = None

    def play(self) -> Outcome:
        """Run to the end and look at everything."""
        scenario, world = self._scenario, self._world
        denials = []
        for planned in scenario.faults:
            if isinstance(planned.fault, Denied):
                denials.append((planned.fault, planned.start, planned.end))
            else:
                world.faults.add(planned.fault, at=planned.start, until=planned.end)
        Denylists(world, self._report).plan(denials)
        with world:
            try:
                world.run(self._job())
            except (TimeoutError, asyncio.TimeoutError):
                self._report(f"{self._left} completions or announcements are missing after {world.now} ns")
            except StalledError:
                self._report(
                    f"at {world.now} ns all is still, but {self._left} completions or announcements are missing"
                )
            end = world.now
            self._check_writes()
            failed = self._check_failures()
            self._check_balance()
            self._check_rest()
            cut = self._counts.cut()
            packets = sum(a.qp.counters().data_sent + b.qp.counters().data_sent for a, b in self._sides)
        return Outcome(scenario.seed, tuple(self._violations), cut.hash, cut.frames, packets, failed, end)

    def _report(self, text: str) -> None:
        self._violations.append(text)

    # ---- the job --------------------------------------------------------------------------------------------------

    async def _job(self) -> None:
        scenario = self._scenario
        self._done = asyncio.Event()
        for number, pair in enumerate(scenario.pairs):
            self._sides.append(self._connect(number, pair))
        tasks: list[asyncio.Task[None]] = []
        for number, sides in enumerate(self._sides):
            for back, side in enumerate(sides):
                remote = sides[1 - back]
                side.writes = self._layout(number, bool(back))
                self._left += len(side.writes) + sum(posted.plan.imm for posted in side.writes)
                tasks.append(asyncio.ensure_future(self._post(side, remote)))
                tasks.append(asyncio.ensure_future(self._collect(side, remote)))
        tasks += [asyncio.ensure_future(self._events(name, context)) for name, context in self._contexts.items()]
        last = max((fault.end for fault in scenario.faults), default=0)
        budget = max(retry_budget(pair.attributes, self._transport()) for pair in scenario.pairs)
        deadline = 2 * (HORIZON + last + 2 * budget) + _SECOND
        try:
            if self._left:
                await asyncio.wait_for(self._done.wait(), deadline / _SECOND)
            for task in tasks:
                if task.done() and task.exception() is not None:
                    raise task.exception()  # type: ignore[misc]
        finally:
            for task in tasks:
                task.cancel()

    def _transport(self) -> TransportSettings:
        return self._world.fabric.settings.transport

    def _connect(self, number: int, pair: PlannedPair) -> tuple[_Side, _Side]:
        world = self._world
        sides = []
        for back, name in enumerate((pair.first, pair.second)):
            context = self._contexts.get(name)
            if context is None:
                context = self._contexts[name] = world.open(name)
            sent, received = (
                sum(w.length + _GUARD for w in self._scenario.writes if w.pair == number and w.back == bool(direction))
                + _GUARD
                for direction in (back, 1 - back)
            )
            pd = context.alloc_pd()
            cq = context.create_cq(4096)
            source, target = pd.alloc_mr(sent), pd.alloc_mr(received)
            source.buffer[:] = generator(self._scenario.seed, "bytes", number, back).randbytes(sent)
            qp = pd.create_qp(cq, cq, pair.kind, pair.attributes)
            sides.append(_Side(name, context, cq, qp, source, target, []))
        first, second = sides
        first.qp.connect(second.qp.address)
        second.qp.connect(first.qp.address)
        return first, second

    def _layout(self, pair: int, back: bool) -> list[_Posted]:
        posted: list[_Posted] = []
        offset = _GUARD
        for plan in self._scenario.writes:
            if plan.pair == pair and plan.back == back:
                posted.append(_Posted(len(posted), plan, offset))
                offset += plan.length + _GUARD
        return posted

    async def _post(self, side: _Side, remote: _Side) -> None:
        loop = asyncio.get_running_loop()
        for posted in side.writes:
            plan = posted.plan
            await asyncio.sleep(max(0.0, plan.time / _SECOND - loop.time()))
            side.qp.post_write(
                side.source,
                posted.offset,
                plan.length,
                remote.target.address + posted.offset,
                remote.target.rkey,
                wr_id=posted.number,
                imm=posted.number if plan.imm else None,
            )

    async def _collect(self, side: _Side, remote: _Side) -> None:
        while True:
            completion = await side.cq.next()
            if completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
                self._announced(remote, side, completion)
            else:
                self._completed(side, remote, completion)

    def _completed(self, side: _Side, remote: _Side, completion: Completion) -> None:
        posted = side.writes[completion.wr_id]
        posted.completions.append(completion)
        if len(posted.completions) > 1:
            self._report(f"write {completion.wr_id} from {side.nic} completed twice")
            return
        waiting = [other.number for other in side.writes[: posted.number] if not other.completions]
        if waiting:
            self._report(f"write {posted.number} from {side.nic} completed before {waiting}")
        self._count()
        if completion.status is not CompletionStatus.SUCCESS and posted.plan.imm and not posted.announced:
            self._count()  # perhaps it never will be announced; if it is, that is no mistake

    def _announced(self, sender: _Side, receiver: _Side, completion: Completion) -> None:
        number = -1 if completion.imm is None else completion.imm
        if not 0 <= number < len(sender.writes) or not sender.writes[number].plan.imm:
            self._report(f"{receiver.nic} was told of a write {number} that {sender.nic} never posted with immediate")
            return
        posted = sender.writes[number]
        posted.announced += 1
        if posted.announced > 1:
            self._report(f"write {number} from {sender.nic} was announced {posted.announced} times")
            return
        if receiver.announced and receiver.announced[-1] > number:
            self._report(f"write {number} from {sender.nic} was announced after {receiver.announced[-1]}")
        receiver.announced.append(number)
        if completion.byte_len != posted.plan.length:
            self._report(f"write {number} from {sender.nic} was announced with {completion.byte_len} bytes")
        for earlier in sender.writes[: number + 1]:
            if not _equal(sender, receiver, earlier):
                self._report(f"write {number} from {sender.nic} was announced while {earlier.number} is not in memory")
                break
        if not posted.completions or posted.completions[0].status is CompletionStatus.SUCCESS:
            self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left <= 0 and self._done is not None:
            self._done.set()

    async def _events(self, name: str, context: Context) -> None:
        """Note which queue pairs had a reason to leave a path or a plane."""
        while True:
            event = await context.next_event()
            for pair in self._sides:
                for side in pair:
                    if side.nic != name:
                        continue
                    if isinstance(event, PathEvent):
                        moved = event.qpn == side.qp.qpn and event.new is not PathState.SKIP
                    else:
                        moved = isinstance(event, PortEvent)
                    side.path_changed |= moved

    # ---- judging --------------------------------------------------------------------------------------------------

    def _check_writes(self) -> None:
        for sides in self._sides:
            for side, remote in (sides, sides[::-1]):
                at = 0
                for posted in side.writes:
                    if any(remote.target.buffer[at : posted.offset]):
                        self._report(f"bytes before the target of write {posted.number} from {side.nic} have changed")
                    at = posted.offset + posted.plan.length
                    done = posted.completions and posted.completions[0].status is CompletionStatus.SUCCESS
                    if done and not _equal(side, remote, posted):
                        self._report(f"write {posted.number} from {side.nic} succeeded, but its bytes are wrong")
                if any(remote.target.buffer[at:]):
                    self._report(f"bytes behind the last target of {side.nic} have changed")

    def _check_failures(self) -> int:
        failed = 0
        for pair, sides in zip(self._scenario.pairs, self._sides, strict=True):
            reasons = [
                f"{c.status.value}, {c.reason}"
                for side in sides
                for posted in side.writes
                for c in posted.completions
                if c.status is not CompletionStatus.SUCCESS
            ]
            if not reasons:
                continue
            failed += 1
            if not self._excused(pair):
                self._report(f"the {pair.kind.name} queue pair {pair.first}-{pair.second} failed ({reasons[0]})")
        return failed

    def _excused(self, pair: PlannedPair) -> bool:
        """Whether the schedule of faults explains that the pair gave up."""
        fabric, faults, transport = self._scenario.fabric, self._scenario.faults, self._transport()
        once = 1024 << pair.attributes.timeout
        if pair.kind is QpType.RC:  # one path, and timeouts that do not grow
            return longest_damage(fabric, faults, pair.first, pair.second, once) >= once * pair.attributes.retry_count
        gap = 2 * once << transport.max_backoff
        budget = retry_budget(pair.attributes, transport)
        return longest_separation(fabric, faults, pair.first, pair.second, gap) >= budget

    def _check_balance(self) -> None:
        burst = self._transport().plane_burst
        for pair, sides in zip(self._scenario.pairs, self._sides, strict=True):
            for side, remote in (sides, sides[::-1]):
                counts = self._counts.counts.get((side.nic, remote.qp.qpn))
                if pair.kind is QpType.RC or counts is None or side.path_changed:
                    continue
                if touched(self._scenario.fabric, self._scenario.faults, side.nic):
                    continue
                sent = [counts[plane] for plane in range(self._scenario.fabric.planes)]
                if max(sent) - min(sent) > burst:
                    self._report(f"{side.nic} sent {sent} packets by plane, though no path was bad")

    def _check_rest(self) -> None:
        world = self._world
        last = max((fault.end for fault in self._scenario.faults), default=0)
        world.run(max(world.now, last) + _REST)
        if world.clock.heap:
            left = sorted(world.clock.heap)[0]
            self._report(f"the world is not at rest: {len(world.clock.heap)} events are left, first {left[2]!r}")
        for switch in self._scenario.fabric.switches:
            queued = sum(port.queued_packets for port in world.switch(switch.name).stats().ports.values())
            if queued:
                self._report(f"{queued} frames are stuck in {switch.name}")
        drops = switch_drops(world)
        for reason in _IMPOSSIBLE:
            if drops[reason]:
                self._report(f"switches dropped {drops[reason]} frames for {reason}")
        for nic in self._scenario.fabric.nics:
            errors = world.nic(nic.name).nic_counters()["drop_internal_error"]
            if errors:
                self._report(f"NIC {nic.name} had {errors} internal errors")


def _equal(sender: _Side, receiver: _Side, posted: _Posted) -> bool:
    place = slice(posted.offset, posted.offset + posted.plan.length)
    return bool(sender.source.buffer[place] == receiver.target.buffer[place])
