"""The event loop of a process that owns a NIC: file descriptors, turns, and sleep with microsecond precision.

Each round the loop asks epoll which descriptors are ready and calls their handlers; then it calls every *turn*, a
function that does what is due (transmit frames, push completions) and returns when it wants to be called again; then it
sleeps until the earliest of those times or until a descriptor is ready. Timers need no sorting and no allocation: a NIC
knows its own earliest deadline, so the loop only takes a minimum.

It waits to the nanosecond (``event_wait.c``), with a timer slack of one nanosecond. Where the
kernel lacks that, epoll can only wait whole milliseconds: then the loop waits for the last one in select() on the epoll
descriptor, whose timeout is in microseconds. In both cases it asks which descriptors are ready once more when it wakes:
what has come meanwhile is handled in the same round.

A turn may request *rest*: then the loop sleeps without watching descriptors while no turn is due. A process that writes
to one of them meanwhile does not pay for waking this one, which costs more than most of its work.

Shared-memory rings (:class:`AwaitedRing`) have no descriptor that is ready whenever there is something to read: turns
look into them. Before the loop sleeps it has them ring, and it does not sleep if something has come.

A loop belongs to the thread that runs it. Other threads (and signal handlers) enter with :meth:`Loop.call_soon`,
:meth:`Loop.call` and :meth:`Loop.stop`, which write to a wake-up descriptor.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic_ns, sleep
from typing import Protocol, TypeVar

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
HUNG_UP = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP

_MILLISECOND = 1_000_000
_PR_SET_TIMERSLACK = 29
_SELECT_LIMIT = 1024  # FD_SETSIZE: select() cannot wait for a descriptor at or above it

T = TypeVar("T")
Handler = Callable[[int], None]
Turn = Callable[[int], "int | None"]


class AwaitedRing(Protocol):
    """What the loop needs of a ring (:class:`mrc_host.driver.frame_ring.FrameRing`)."""

    def fileno(self) -> int:
        """A descriptor that rings while armed; it is waited for edge-triggered."""

    def arm(self) -> bool:
        """Have it ring; False if there is something to read already."""

    def disarm(self) -> None:
        """Have it ring no more."""

    def hear(self) -> bool:
        """Take what rang, so that it can ring again; False if some was left."""


class Loop:
    """Calls handlers of ready descriptors and turns that are due.

    A handler gets the epoll mask. A turn gets the time (monotonic nanoseconds) and returns the time it wants to be
    called again: a time not in the future means at once, None means only after the next input.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        # To sleep in. A process that wakes one that waits for a descriptor in epoll is taken to sleep soon itself, so
        # the two share a processor, and the woken one waits for the other's turns to end; but not at one remove.
        self._outer = select.epoll()
        self._outer.register(self._epoll.fileno(), READABLE)
        self._wait = _precise_wait(self._outer.fileno())
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._handlers: dict[int, Handler] = {}
        self._turns: list[Turn] = []
        self._rings: list[AwaitedRing] = []
        self._calls: deque[Callable[[], None]] = deque()
        self._stopping = False
        self._rest_until = 0
        self._running_thread: int | None = None
        self.add(self._wake, READABLE, self._on_wake)

    # -- what the loop watches -------------------------------------------------------------------------------------

    def add(self, fd: int, mask: int, handler: Handler) -> None:
        """Call `handler` whenever `fd` is ready in the sense of the epoll `mask`."""
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler

    def modify(self, fd: int, mask: int) -> None:
        """Change what `fd` is watched for."""
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        """Stop watching `fd`, before it is closed. Unknown descriptors are ignored."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def add_turn(self, turn: Turn, *, first: bool = False) -> None:
        """Call `turn` every round, after the handlers, in the order of adding, or before all others."""
        self._turns.insert(0 if first else len(self._turns), turn)

    def remove_turn(self, turn: Turn) -> None:
        """Stop calling `turn`; an unknown one is ignored."""
        with contextlib.suppress(ValueError):
            self._turns.remove(turn)

    def add_ring(self, ring: AwaitedRing) -> None:
        """Wake when `ring` has something to read; a turn must read it."""
        bell, mask = ring.fileno(), READABLE | select.EPOLLET

        def rings(_mask: int) -> None:
            if not ring.hear():
                self.modify(bell, mask)  # reports it again

        self.add(bell, mask, rings)
        self._rings.append(ring)

    def remove_ring(self, ring: AwaitedRing) -> None:
        """Stop waiting for `ring`; an unknown one is ignored."""
        if ring in self._rings:
            self._rings.remove(ring)
            self.remove(ring.fileno())

    def rest(self, until: int) -> None:
        """For a turn: if the loop sleeps after this round, do not watch descriptors until `until`.

        A turn that is due still wakes it. Calls of :meth:`call_soon` and :meth:`stop` wait too.
        """
        self._rest_until = until

    # -- entering from elsewhere -----------------------------------------------------------------------------------

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run `function` in the loop's thread, soon. May be called from any thread."""
        self._calls.append(function)
        self._poke()

    def call(self, function: Callable[[], T], timeout_s: float | None = None) -> T:
        """Run `function` in the loop's thread and return its result (or raise its exception) here.

        Called from the loop's own thread it runs at once. Raises TimeoutError when the loop does not run it in time.
        """
        if self._running_thread == threading.get_ident():
            return function()
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)

        self.call_soon(run)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:  # a type of its own before Python 3.11
            raise TimeoutError("The loop did not run the call in time.") from None
        finally:
            future.cancel()

    def stop(self) -> None:
        """Make :meth:`run` return after the current round. May be called from any thread or signal handler."""
        self._stopping = True
        self._poke()

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until :meth:`stop`. An exception from a handler or turn ends the run and is raised."""
        self._running_thread = threading.get_ident()
        set_timer_slack()
        try:
            while not self._stopping:
                self._sleep_until(self._round())
        finally:
            self._running_thread = None
            self._stopping = False

    def _round(self) -> int | None:
        """Call handlers and turns; when the first turn wants to be called again: 0 at once, None only after input."""
        for fd, mask in self._ready():
            handler = self._handlers.get(fd)  # an earlier handler of this round may have removed it
            if handler is not None:
                handler(mask)
        deadline: int | None = None
        self._rest_until = 0
        now = monotonic_ns()
        for turn in self._turns:
            wanted = turn(now)
            if wanted is not None and (deadline is None or wanted < deadline):
                deadline = wanted
        return 0 if deadline is not None and deadline <= now else deadline

    def _sleep_until(self, deadline: int | None) -> None:
        if deadline == 0:
            return
        if self._rings and not self._rest_until:
            self._sleep_beside_rings(deadline)
        else:
            self._sleep(deadline)

    def close(self) -> None:
        """Release the loop's descriptors; watched descriptors stay open."""
        self._outer.close()
        self._epoll.close()
        os.close(self._wake)

    def _sleep_beside_rings(self, deadline: int | None) -> None:
        empty = True
        for ring in self._rings:
            empty = ring.arm() and empty
        if empty:
            self._sleep(deadline)
        for ring in self._rings:
            ring.disarm()

    def _sleep(self, deadline: int | None) -> None:
        if self._rest_until:
            until = self._rest_until if deadline is None else min(self._rest_until, deadline)
            sleep(max(0, until - monotonic_ns()) / 1e9)
            return
        wait = -1 if deadline is None else max(0, deadline - monotonic_ns())
        if self._wait is not None:
            self._wait(self._outer.fileno(), wait)
        elif wait < 0:
            self._epoll_wait(-1)
        elif wait >= 2 * _MILLISECOND:
            # half a millisecond less, because the conversion inside poll() rounds up
            self._epoll_wait((wait // _MILLISECOND - 0.5) / 1000)
        elif wait > 0:
            fd = self._epoll.fileno()
            if fd < _SELECT_LIMIT:
                select.select((fd,), (), (), wait / 1e9)
            else:
                self._epoll_wait(0.001)

    def _epoll_wait(self, timeout_s: float) -> None:
        # Only to sleep: level-triggered descriptors are reported again in the next round.
        self._epoll.poll(timeout_s, 1)

    def _ready(self) -> list[tuple[int, int]]:
        """Descriptors that are ready now, and their masks."""
        return self._epoll.poll(0) if self._wait is None else self._wait(self._epoll.fileno(), 0)

    def _on_wake(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def _poke(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.eventfd_write(self._wake, 1)


def _precise_wait(epoll: int) -> Callable[[int, int], list[tuple[int, int]]] | None:
    """``event_wait.wait``; None where the kernel cannot do it."""
    from mrc_host.driver.event_wait import wait

    try:
        wait(epoll, 0)
    except OSError:
        return None
    return wait


def set_timer_slack(nanoseconds: int = 1) -> None:
    """Ask the kernel to wake the calling thread's sleeps within `nanoseconds` (its default is 50 us).

    Without support in the kernel sleeps end a little late; nothing else changes.
    """
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(nanoseconds), 0, 0, 0)
