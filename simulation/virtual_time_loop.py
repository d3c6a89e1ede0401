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
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

from simulation.clock import Clock
from simulation.errors import StalledError

_SECOND = 1_000_000_000

T = TypeVar("T")


class _Waiting:
    """Stands where asyncio's loop has its selector."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.resting: Callable[[], None] | None = None

    def select(self, timeout: float | None) -> list[Any]:
        """Let the world run for `timeout` seconds, or until a callback is ready. There are never any descriptors."""
        clock = self._clock
        if timeout is None:
            if not clock.run() and self.resting is not None:
                self.resting()
        elif timeout > 0:
            clock.run(clock.now + max(1, round(timeout * _SECOND)))
        return []


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
        self._clock_resolution = 1e-9
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
        ready, scheduled = self._ready, self._scheduled
        if self._stopping or self._timer_cancelled_count or self._debug:
            super()._run_once()  # type: ignore[misc] # asyncio's own also removes cancelled timers
            return
        if not ready:
            self._selector.select(max(0.0, scheduled[0].when() - self.time()) if scheduled else None)
        due = self.time() + self._clock_resolution
        while scheduled and scheduled[0].when() < due:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

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
        """Run until the clock shows `when` (ns)."""
        handle = self.call_at(when / _SECOND, self.stop)
        try:
            self.run_forever()
        finally:
            handle.cancel()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._clock.stop()
