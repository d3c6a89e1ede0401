"""How far a schedule is: which operations may start, what they wait for, and when they began and ended.

There is no loop and no message here: who drives it carries out sends and calcs, and says when these are done. A calc
keeps its CPU, and calcs of one CPU take it in the order in which they may start; sends and receives take no CPU.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from mrc_lab.workloads.schedules.schedule import Mailbox, OperationKind, Schedule, listed

NEVER: Final = -1

Cpu = tuple[int, int]
"""A rank, and the number of its CPU."""


class ScheduleProgress:
    """One run of a schedule. `began` and `ended` (ns) are by operation, `NEVER` where it did not come to that.

    `clock` says what time it is. `send` is called with the number of a send that starts, and `calculate` with a CPU
    that begins a calc and the time (ns) that it takes, for which `sent` and `received`, and `calculated` are the
    answers; none of them from within the call.
    """

    def __init__(
        self,
        schedule: Schedule,
        clock: Callable[[], int],
        send: Callable[[int], None],
        calculate: Callable[[Cpu, int], None],
    ) -> None:
        self._schedule, self._clock = schedule, clock
        self._send, self._calculate = send, calculate
        count = len(schedule.operations)
        self.began, self.ended = array("q", [NEVER]) * count, array("q", [NEVER]) * count
        self._after_done, self._after_start = schedule.followers()
        self._left = [len(one.requires) + len(one.irequires) for one in schedule.operations]
        self._ready: deque[int] = deque()
        self._remaining = count
        self._under_way = 0  # calcs, and messages that are not yet acknowledged or not yet there
        self._posted: defaultdict[int, Mailbox] = defaultdict(Mailbox)
        self._arrived: defaultdict[int, Mailbox] = defaultdict(Mailbox)
        self._calcs: defaultdict[Cpu, deque[int]] = defaultdict(deque)  # in order

    # ---- how far it is ----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is under way: either all is done, or what is left waits for what never comes."""
        return not self._under_way

    @property
    def done(self) -> bool:
        """Whether all operations are done, and all messages acknowledged."""
        return not self._remaining and not self._under_way

    def waiting(self, why: str) -> str:
        """What has started and is not done, or else what has not started, in words."""
        states = list(zip(self.began, self.ended, strict=True))
        started = [number for number, (began, ended) in enumerate(states) if began != NEVER and ended == NEVER]
        return listed(self._schedule, started or [number for number, one in enumerate(states) if one[1] == NEVER], why)

    def in_time(self) -> str:
        """How many are done, and what waits, for a run whose time is over."""
        done = sum(time != NEVER for time in self.ended)
        return (
            f"only {done} of {len(self._schedule.operations)} operations were done when the time was over:"
            f" {self.waiting('there waited')}"
        )

    def deadlock(self) -> str:
        """What waits although nothing is under way."""
        return self.waiting("a deadlock: nothing is under way, but there wait")

    def unread(self) -> str:
        """Messages that nobody has received, in words; empty if there are none."""
        numbers = [number for box in self._arrived.values() for number in box]
        return listed(self._schedule, numbers, "no receive took") if numbers else ""

    # ---- what happens -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start what waits for nothing."""
        self._ready.extend(number for number, count in enumerate(self._left) if not count)
        self._advance()

    def sent(self, number: int) -> None:
        """A send is acknowledged."""
        self._under_way -= 1
        self._done(number)
        self._advance()

    def received(self, number: int) -> None:
        """The message of a send has arrived, after those sent before it to the same rank."""
        self._under_way -= 1
        one = self._schedule.operations[number]
        receive = self._posted[one.peer].take(one.rank, one.tag)
        if receive is None:
            self._arrived[one.peer].put(one.rank, one.tag, number)
        else:
            self._done(receive)
        self._advance()

    def calculated(self, cpu: Cpu) -> None:
        """The time of a calc is over."""
        calcs = self._calcs[cpu]
        self._under_way -= 1
        self._done(calcs.popleft())
        if calcs:
            self._begin_calc(cpu)
        self._advance()

    def _advance(self) -> None:
        """Start all that may start."""
        while self._ready:
            self._start(self._ready.popleft())

    def _start(self, number: int) -> None:
        one = self._schedule.operations[number]
        if one.kind is OperationKind.CALC:
            cpu = one.rank, one.cpu
            self._under_way += 1
            self._calcs[cpu].append(number)
            if len(self._calcs[cpu]) == 1:
                self._begin_calc(cpu)
            return
        self.began[number] = self._clock()
        self._release(self._after_start[number])
        if one.kind is OperationKind.SEND:
            self._under_way += 2
            self._send(number)
        elif self._arrived[one.rank].take(one.peer, one.tag) is None:
            self._posted[one.rank].put(one.peer, one.tag, number)
        else:
            self._done(number)

    def _begin_calc(self, cpu: Cpu) -> None:
        """Begin the next calc of a CPU that has none."""
        number = self._calcs[cpu][0]
        self.began[number] = self._clock()
        self._release(self._after_start[number])
        self._calculate(cpu, self._schedule.operations[number].size)

    def _done(self, number: int) -> None:
        self.ended[number] = self._clock()
        self._remaining -= 1
        self._release(self._after_done[number])

    def _release(self, followers: list[int]) -> None:
        for follower in followers:
            self._left[follower] -= 1
            if not self._left[follower]:
                self._ready.append(follower)
