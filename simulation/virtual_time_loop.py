"""An asyncio event loop in virtual time, so that the very coroutines that run on real hosts run here.

It is asyncio's own loop with another idea of waiting: where a real loop sleeps in its selector until a descriptor is
ready or a timer is due, this one lets the world run until an event makes a coroutine ready or the clock shows the
timer's time. Coroutines take no virtual time themselves, and are resumed in the order in which they became ready, so
a run stays a function of its seed. Work handed to a thread (`asyncio.to_thread`) is done at once, in place. Sockets,
pipes and signals do not exist here: asking for one raises NotImplementedError.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from math import ulp
from typing import Any, TypeVar

from mrc_common.nested_loops import outer_loop_suspended
from simulation.core.native import END_OF_TIME, Clock
from simulation.errors import SimulationError, StalledError

_SECOND = 1_000_000_000
_RESOLUTION = 0.5e-9  # of asyncio's own turns: a timer of the next ns is not due
_MANY = 100  # cancelled timers that are always tolerated

T = TypeVar("T")


class _Waiting:
    """Stands where asyncio's loop has its selector."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.resting: Callable[[], None] | None = None
        self.until = END_OF_TIME  # the world runs no further

    def select(self, timeout: float | None) -> list[Any]:
        """Let the world run for `timeout` seconds, or until a callback is ready. There are never any descriptors."""
        if timeout is None or timeout > 0:
            self.wait(None if timeout is None else self._clock.now + max(1, round(timeout * _SECOND)))
        return []

    def wait(self, until: int | None) -> None:
        """Let the world run until a callback is ready or the clock shows `until` (ns); None: to its rest."""
        if until is not None or self.until < END_OF_TIME:
            self._clock.run(self.until if until is None else min(until, self.until))
        elif not self._clock.run() and self.resting is not None:
            self.resting()


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """The loop of one world. `time()` is the world's time in seconds.

    Its turns are asyncio's, without what is for descriptors, other threads and slow callbacks: small messages take a
    turn or two each. In debug mode all of asyncio's checks are made.
    """

    _debug: bool
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._clock_resolution = _RESOLUTION
        self._selector = _Waiting(clock)

    def time(self) -> float:
        """The world's time, in seconds."""
        return self._clock.now / _SECOND

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        """As any loop; if an event of the world does it, the world pauses after that event."""
        self._clock.stop()
        if self._debug:
            return super().call_soon(callback, *args, context=context)
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # asyncio's own does that two calls further down
        return handle

    def _run_once(self) -> None:
        """What is ready; if nothing is, the world goes on until something is."""
        if self._debug:
            self._clock_resolution = max(_RESOLUTION, ulp(self.time()))
            super()._run_once()  # type: ignore[misc]
        else:
            self._turn()
        if self._clock.now >= self._selector.until:
            self.stop()

    def _turn(self) -> None:
        if self._timer_cancelled_count:
            self._forget_cancelled()
        ready, scheduled, clock = self._ready, self._scheduled, self._clock
        if not ready and not self._stopping:
            due = _due(scheduled[0]) if scheduled else END_OF_TIME
            if due > clock.now:
                self._selector.wait(due if due < END_OF_TIME else None)
        while scheduled and _due(scheduled[0]) <= clock.now:
            ready.append(self._take_timer())
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _forget_cancelled(self) -> None:
        """Remove cancelled timers: those that would be next, and all where they are more than the others."""
        scheduled = self._scheduled
        if len(scheduled) > _MANY and 2 * self._timer_cancelled_count > len(scheduled):
            for timer in scheduled:
                timer._scheduled = not timer.cancelled()  # type: ignore[attr-defined]
            scheduled[:] = [timer for timer in scheduled if not timer.cancelled()]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            self._take_timer()

    def _take_timer(self) -> asyncio.TimerHandle:
        timer = heapq.heappop(self._scheduled)
        timer._scheduled = False  # type: ignore[attr-defined]
        return timer

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do it now, here: a thread's work takes no virtual time, and its end must not depend on real time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def run_forever(self) -> None:
        """As any loop, but also while another one runs in this thread, as in a notebook: that waits meanwhile."""
        with outer_loop_suspended():
            super().run_forever()

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        """As any loop, but also while another one runs in this thread."""
        with outer_loop_suspended():
            return super().run_until_complete(future)

    def run_to_rest(self) -> None:
        """Run until nothing is left to happen; coroutines may still wait for something that never will."""
        self._selector.resting = self.stop
        try:
            self.run_forever()
        finally:
            self._selector.resting = None

    def run_task(self, task: asyncio.Future[T]) -> T:
        """Run until `task` is done and return its result. Raises StalledError if no event is left before that."""

        def stalled() -> None:
            raise StalledError("No event is left, but a coroutine still waits: nothing will ever wake it.")

        self._selector.resting = stalled
        try:
            return self.run_until_complete(task)
        finally:
            self._selector.resting = None

    def run_to_time(self, when: int) -> None:
        """Run until the clock shows `when` (ns). SimulationError for a time that no clock shows."""
        if when >= END_OF_TIME:
            raise SimulationError(f"A world ends after 146 years; it cannot run to {when} ns.")
        self._selector.until = when
        try:
            self.run_forever()
        finally:
            self._selector.until = END_OF_TIME

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._clock.stop()


def _due(timer: asyncio.TimerHandle) -> int:
    """When a timer is due, in whole ns: seconds have not one floating point number for each; END_OF_TIME for never."""
    when = timer.when() * _SECOND
    return round(when) if when < END_OF_TIME else END_OF_TIME
