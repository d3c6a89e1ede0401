"""Run a schedule: start each operation once it may, and keep when it started and was done.

Times are those of the backend's clock (ns). A calc keeps its CPU for its time, stretched by `time_scale`, and calcs of
one CPU take it in the order in which they may start; sends and receives take no CPU. The replay ends when all
operations are done, when a write fails, or when nothing is under way and operations still wait (with wildcards this is
not known before).
"""

from __future__ import annotations

import asyncio
from array import array
from collections import defaultdict, deque
from collections.abc import Callable

from mrc_lab.errors import TransferError
from mrc_lab.workloads.schedules.messages import ScheduleMessages
from mrc_lab.workloads.schedules.schedule import Mailbox, OperationKind, Schedule, listed

NEVER = -1


class Replay:
    """One run of a schedule. `began` and `ended` are by operation, `NEVER` where it did not come to that."""

    def __init__(
        self, schedule: Schedule, messages: ScheduleMessages, clock: Callable[[], int], time_scale: float = 1.0
    ) -> None:
        self._schedule, self._messages = schedule, messages
        self._clock, self._time_scale = clock, time_scale
        count = len(schedule.operations)
        self.began, self.ended = array("q", [NEVER]) * count, array("q", [NEVER]) * count
        self._after_done, self._after_start = schedule.followers()
        self._left = [len(one.requires) + len(one.irequires) for one in schedule.operations]
        self._ready: deque[int] = deque()
        self._remaining = count
        self._under_way = 0  # calcs, and messages that are not yet acknowledged or not yet there
        self._posted: defaultdict[int, Mailbox] = defaultdict(Mailbox)
        self._arrived: defaultdict[int, Mailbox] = defaultdict(Mailbox)
        self._calcs: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)  # by rank and CPU, in order
        self._over: asyncio.Future[None] | None = None
        self._advancing = False
        messages.on_sent, messages.on_arrived, messages.failed = self._sent, self._received, self._fail

    async def run(self) -> None:
        """Do all of it. Raises TransferError or MrcError when a write fails, and TransferError for a deadlock."""
        self._over = asyncio.get_running_loop().create_future()
        self._ready.extend(number for number, count in enumerate(self._left) if not count)
        self._messages.start()
        try:
            self._advance()
            await self._over
        finally:
            await self._messages.stop()

    def waiting(self, why: str) -> str:
        """What has started and is not done, or else what has not started, in words."""
        states = list(zip(self.began, self.ended, strict=True))
        started = [number for number, (began, ended) in enumerate(states) if began != NEVER and ended == NEVER]
        return listed(self._schedule, started or [number for number, one in enumerate(states) if one[1] == NEVER], why)

    def unread(self) -> str:
        """Messages that nobody has received, in words; empty if there are none."""
        numbers = [number for box in self._arrived.values() for number in box]
        return listed(self._schedule, numbers, "no receive took") if numbers else ""

    def _advance(self) -> None:
        """Start all that may start; then see whether this is the end."""
        if self._advancing:
            return  # the loop below is at it
        self._advancing = True
        while self._ready:
            self._start(self._ready.popleft())
        self._advancing = False
        if self._over is None or self._over.done():
            return
        if not self._remaining and not self._under_way:
            self._over.set_result(None)
        elif not self._under_way:
            self._fail(TransferError(self.waiting("a deadlock: nothing is under way, but there wait")))

    def _start(self, number: int) -> None:
        one, now = self._schedule.operations[number], self._clock()
        if one.kind is OperationKind.CALC:
            cpu = one.rank, one.cpu
            self._under_way += 1
            self._calcs[cpu].append(number)
            if len(self._calcs[cpu]) == 1:
                self._calculate(cpu)
            return
        self.began[number] = now
        self._release(self._after_start[number])
        if one.kind is OperationKind.SEND:
            self._under_way += 2
            self._messages.send(number)
        elif self._arrived[one.rank].take(one.peer, one.tag) is None:
            self._posted[one.rank].put(one.peer, one.tag, number)
        else:
            self._done(number)

    def _calculate(self, cpu: tuple[int, int]) -> None:
        """Begin the next calc of a CPU that has none."""
        number, now = self._calcs[cpu][0], self._clock()
        self.began[number] = now
        self._release(self._after_start[number])
        self._compute_until(cpu, now + round(self._schedule.operations[number].size * self._time_scale))

    def _compute_until(self, cpu: tuple[int, int], end: int) -> None:
        """The CPU is busy until then; timers may be early by what a float of seconds cannot say."""
        late, loop = end - self._clock(), asyncio.get_running_loop()
        if late > 0:
            loop.call_later(late / 1e9, self._compute_until, cpu, end)
        else:
            loop.call_soon(self._calculated, cpu)

    def _calculated(self, cpu: tuple[int, int]) -> None:
        calcs = self._calcs[cpu]
        self._under_way -= 1
        self._done(calcs.popleft())
        if calcs:
            self._calculate(cpu)
        self._advance()

    def _sent(self, number: int) -> None:
        self._under_way -= 1
        self._done(number)
        self._advance()

    def _received(self, number: int) -> None:
        self._under_way -= 1
        one = self._schedule.operations[number]
        receive = self._posted[one.peer].take(one.rank, one.tag)
        if receive is None:
            self._arrived[one.peer].put(one.rank, one.tag, number)
        else:
            self._done(receive)
        self._advance()

    def _done(self, number: int) -> None:
        self.ended[number] = self._clock()
        self._remaining -= 1
        self._release(self._after_done[number])

    def _release(self, followers: list[int]) -> None:
        for follower in followers:
            self._left[follower] -= 1
            if not self._left[follower]:
                self._ready.append(follower)

    def _fail(self, error: Exception) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)
