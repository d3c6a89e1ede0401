"""The applications of a plan: they post its writes when their time has come and take completions, with verbs alone.

A NIC has one context. Each end has a completion queue of its own, or all ends of a NIC share one (``SharedQueue``);
one coroutine takes from each queue, at its leisure where the plan says so (``SlowPoller``). A post that is refused for
want of room is repeated once something was taken from the queue, as applications do that post until it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from mrc_host.errors import ResourceExhaustedError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context
from mrc_host.verbs_types import AsyncEvent, Completion, EvProfile
from simulation.world import SimulatedWorld
from tests.swarm.application_faults import SharedQueue, SlowPoller
from tests.swarm.life_attributes import EV_PROFILE
from tests.swarm.queue_pair_ends import Posted, QueuePairEnd
from tests.swarm.scenario import FOREVER, Scenario

_CAPACITY = 4096  # of a queue that nobody shares
_SECOND = 1_000_000_000


class Applications:
    """All ends of a run. `completed` is called with every completion, `happened` with every asynchronous event."""

    def __init__(
        self,
        scenario: Scenario,
        world: SimulatedWorld,
        completed: Callable[[str, Completion], None],
        happened: Callable[[str, AsyncEvent], None],
    ) -> None:
        self._scenario, self._world = scenario, world
        self._completed, self._happened = completed, happened
        faults = [(planned.fault, planned) for planned in scenario.faults]
        self._capacity = {fault.nic: fault.capacity for fault, _ in faults if isinstance(fault, SharedQueue)}
        self._slow = [(fault, planned) for fault, planned in faults if isinstance(fault, SlowPoller)]
        self._contexts: dict[str, Context] = {}
        self._shared: dict[str, CompletionQueue] = {}
        self._polled: dict[str, asyncio.Event] = {}  # by NIC: something was taken from a queue
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}  # by NIC, of its present life
        self._posting: list[asyncio.Task[None]] = []
        self.pairs = [
            (QueuePairEnd(scenario, number, False), QueuePairEnd(scenario, number, True))
            for number in range(len(scenario.pairs))
        ]
        self.owners: dict[tuple[str, int], QueuePairEnd] = {}

    @property
    def ends(self) -> list[tuple[QueuePairEnd, QueuePairEnd]]:
        """Every end with the other one of its pair."""
        return [sides for pair in self.pairs for sides in (pair, pair[::-1])]

    def other(self, end: QueuePairEnd) -> QueuePairEnd:
        """The other end of its pair."""
        return self.pairs[end.number][not end.back]

    def start(self) -> None:
        """Make and connect everything, and begin to post."""
        for first, second in self.pairs:
            self.build(first)
            self.build(second)
            first.connect(second)
            second.connect(first)
        self._posting = [asyncio.ensure_future(self._post(end, other)) for end, other in self.ends if end.writes]

    def build(self, end: QueuePairEnd) -> None:
        """Make an end on its NIC, and what it needs there."""
        context = self._contexts.get(end.nic)
        if context is None:
            context = self._contexts[end.nic] = self._world.open(end.nic)
            floor = self._world.fabric.settings.transport.ev_min_active
            self._world.nic(end.nic).control.add_ev_profile(EV_PROFILE, EvProfile(ev_min_active=floor))
            self._polled.setdefault(end.nic, asyncio.Event())
            self._task(end.nic, self._events(end.nic, context))
        queue = self._shared.get(end.nic)
        if queue is None:
            queue = context.create_cq(self._capacity.get(end.nic, _CAPACITY))
            self._task(end.nic, self._collect(end.nic, queue))
            if end.nic in self._capacity:
                self._shared[end.nic] = queue
        end.build(context, queue, self._world.now)
        self.own(end)

    def own(self, end: QueuePairEnd) -> None:
        """Completions of this end's present queue pair are its."""
        self.owners[end.nic, end.qp.qpn] = end

    def forget(self, nic: str) -> None:
        """The NIC has crashed, and with it went all that was made there."""
        for task in self._tasks.pop(nic, []):
            task.cancel()
        self._contexts.pop(nic, None)
        self._shared.pop(nic, None)
        self._polled[nic].set()  # who waits for room there waits for nothing

    def all_settled(self) -> bool:
        """Whether no more completions are due."""
        return all(posted.settled() for end, _ in self.ends for posted in end.writes)

    def tasks(self) -> Iterable[asyncio.Task[None]]:
        """All coroutines."""
        return [*self._posting, *(task for tasks in self._tasks.values() for task in tasks)]

    # ---- what they do ---------------------------------------------------------------------------------------------

    def _task(self, nic: str, work: Coroutine[None, None, None]) -> None:
        self._tasks.setdefault(nic, []).append(asyncio.ensure_future(work))

    async def _post(self, end: QueuePairEnd, other: QueuePairEnd) -> None:
        loop = asyncio.get_running_loop()
        for posted in end.writes:
            await asyncio.sleep(max(0.0, posted.plan.time / _SECOND - loop.time()))
            while not await self._posted(end, other, posted):
                pass

    async def _posted(self, end: QueuePairEnd, other: QueuePairEnd, posted: Posted) -> bool:
        """Post when there is a connection; False when it has to be tried again."""
        await end.connected.wait()
        polled = self._polled[end.nic]
        polled.clear()
        life, plan = end.life, posted.plan
        assert life.peer is not None
        posted.life, posted.posted_at = life, self._world.now
        try:
            end.qp.post_write(
                end.source,
                posted.offset,
                plan.length,
                life.peer.region.info.address + posted.offset,
                life.peer.region.info.rkey,
                wr_id=posted.number,
                imm=posted.number if plan.imm else None,
            )
        except ResourceExhaustedError:
            posted.life = None
            await polled.wait()
            return False
        if not other.receives(posted):
            posted.frozen = bytes(posted.target())
        return True

    async def _collect(self, nic: str, queue: CompletionQueue) -> None:
        while True:
            pause = self._pause(nic)
            if pause:
                await asyncio.sleep(pause / _SECOND)
            completion = await queue.next()
            self._polled[nic].set()
            self._completed(nic, completion)

    def _pause(self, nic: str) -> int:
        now = self._world.now
        active = ((f.interval, p.end) for f, p in self._slow if f.nic == nic and p.start <= now < p.end)
        return max((min(interval, end - now) for interval, end in active), default=0)

    async def _events(self, nic: str, context: Context) -> None:
        while True:
            self._happened(nic, await context.next_event())


def give_up(end: QueuePairEnd) -> None:
    """Its NIC has forgotten what it had posted: it will never complete."""
    for posted in end.writes:
        if posted.life is not None and not posted.completions:
            posted.given_up = True


def give_up_posting(end: QueuePairEnd, healed_at: int) -> None:
    """It has no connection, and gets none before `healed_at`."""
    for posted in end.writes:
        if posted.life is None and healed_at >= FOREVER:
            posted.given_up = True
