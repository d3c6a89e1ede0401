"""Run a schedule over verbs, in the time of the backend's clock (ns), in which calcs are stretched by `time_scale`.

What may start is decided by `schedules.progress`. The replay ends when all operations are done, when a write fails, or
when nothing is under way and operations still wait (with wildcards this is not known before).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mrc_lab.errors import TransferError
from mrc_lab.workloads.schedules.messages import ScheduleMessages
from mrc_lab.workloads.schedules.progress import Cpu, ScheduleProgress
from mrc_lab.workloads.schedules.schedule import Schedule


class Replay:
    """One run of a schedule, how far it is in `progress`."""

    def __init__(
        self, schedule: Schedule, messages: ScheduleMessages, clock: Callable[[], int], time_scale: float = 1.0
    ) -> None:
        self._messages, self._clock, self._time_scale = messages, clock, time_scale
        self.progress = ScheduleProgress(schedule, clock, messages.send, self._calculate)
        self._over: asyncio.Future[None] | None = None
        messages.on_sent, messages.on_arrived, messages.failed = self._sent, self._received, self._fail

    async def run(self) -> None:
        """Do all of it. Raises TransferError or MrcError when a write fails, and TransferError for a deadlock."""
        self._over = asyncio.get_running_loop().create_future()
        self._messages.start()
        try:
            self.progress.begin()
            self._check_end()
            await self._over
        finally:
            await self._messages.stop()

    def _calculate(self, cpu: Cpu, time: int) -> None:
        self._compute_until(cpu, self._clock() + round(time * self._time_scale))

    def _compute_until(self, cpu: Cpu, end: int) -> None:
        """The CPU is busy until then; timers may be early by what a float of seconds cannot say."""
        late, loop = end - self._clock(), asyncio.get_running_loop()
        if late > 0:
            loop.call_later(late / 1e9, self._compute_until, cpu, end)
        else:
            loop.call_soon(self._calculated, cpu)

    def _calculated(self, cpu: Cpu) -> None:
        self.progress.calculated(cpu)
        self._check_end()

    def _sent(self, number: int) -> None:
        self.progress.sent(number)
        self._check_end()

    def _received(self, number: int) -> None:
        self.progress.received(number)
        self._check_end()

    def _check_end(self) -> None:
        if self._over is None or self._over.done():
            return
        if self.progress.done:
            self._over.set_result(None)
        elif self.progress.idle:
            self._fail(TransferError(self.progress.deadlock()))

    def _fail(self, error: Exception) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)
