"""A NIC of an application's own, in its process: no agent, and one wake-up for a message instead of three.

>>> with OwnNic.open("h1.json") as nic:
...     cq = nic.context.create_cq()
...     nic.run(serve(nic.context))  # a coroutine; or without asyncio: cq.wait(timeout_s=10)

The process must be in the host's network namespace and may open raw sockets, so it is root's. Nobody else can use the
NIC, ask it for its state or program it: the application is its only user.

**The NIC works while the application waits**: in verbs that wait or poll, in :meth:`OwnNic.run` whenever no coroutine
can go on, and after each post, which sends at once what may leave. While the application computes its NIC stands still:
it neither acknowledges nor retransmits, and peers that wait for longer than their ACK timeouts give it up. Where that
may happen let an agent run the NIC.

**Signals and forks**: what a signal's handler raises, as Ctrl-C's does, is raised when the NIC has done what it is
doing, never in the middle of its work. A forked child has no NIC, and the parent's stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from math import ceil
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mrc_common.frame_rings import FrameRingError
from mrc_host import compiled
from mrc_host.agent.config_file import load_config
from mrc_host.config import NicConfig
from mrc_host.errors import MrcError
from mrc_host.values import Access, Completion, MemoryRegionInfo, QpCounters, WorkRequest
from mrc_host.verbs.context import Context
from mrc_host.verbs.declaration import Verb
from mrc_host.verbs.errors import ClosedError, RejectedError
from mrc_host.verbs.local import LocalProvider

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing
    from mrc_host.driver.loop import Loop
    from mrc_host.driver.nic_work import NicWork
    from mrc_host.nic import Nic

T = TypeVar("T")
_LONGEST_BUSY_NS = 100_000  # that coroutines may go on without a round of the NIC


class OwnNic:
    """Runs the NIC that `config` describes until :meth:`close`; use it in a `with` statement.

    NicDriverError when its interfaces or rings are missing, somebody runs their NIC already, or this user may not open
    raw sockets. It belongs to the thread that makes it: while that lives, its verbs raise StateError in others.
    """

    def __init__(self, config: NicConfig, *, seed: int | None = None, beside: Path | None = None) -> None:
        """`seed` is that of the NIC's random choices, None for a random one.

        `beside` is where rings are looked for (``driver.ring_ends``): the configuration's file.
        """
        plain = ""
        try:
            compiled.use()
        except RuntimeError as error:  # parts of it were imported plain before: then all of it is
            plain = str(error)
        from mrc_host import plugins  # these not at the top: only now is it known which
        from mrc_host.driver.loop import Loop
        from mrc_host.driver.nic_claim import NicClaim
        from mrc_host.driver.nic_driver import NicDriver
        from mrc_host.driver.nic_work import NicWork
        from mrc_host.driver.packet import PacketSockets
        from mrc_host.nic import Nic

        self.running: asyncio.AbstractEventLoop | None = None  # in `run`
        self._closed = False
        for plugin in config.settings.transport.plugins:
            plugins.load(plugin)
        with contextlib.ExitStack() as stack:
            self._claim = NicClaim(port.interface for port in config.ports)
            stack.callback(self._claim.close)
            self.loop = Loop()
            stack.callback(self.loop.close)
            chosen = int.from_bytes(os.urandom(8), "big") if seed is None else seed
            nic = Nic(config, seed=chosen, incarnation=time.time_ns())
            sockets = PacketSockets({} if beside is None else _rings(beside, stack, plain))
            stack.callback(sockets.close)
            driver = NicDriver(nic, config, self.loop, open_port=sockets.open)
            stack.callback(driver.close)
            driver.start()
            self._work = NicWork(self.loop, nic.has_news)
            self._provider = _Provider(self, nic, self._work)
            self._context = Context(self._provider)
            stack.callback(self._provider.end, "This NIC is closed.")
            stack.callback(self._close_context)
            self._opened = stack.pop_all()
        _nics.add(self)

    @property
    def context(self) -> Context:
        """What the application has on the NIC, as from ``verbs.open``; once that is closed, a new one."""
        if self._context.closed and not self._closed:
            self._work.check_thread()
            self._context = Context(self._provider)
        return self._context

    def _close_context(self) -> None:
        with contextlib.suppress(MrcError):  # of what an interrupted verb has left half made: all of it goes now
            self._context.close()

    @classmethod
    def open(cls, config: str | Path) -> OwnNic:
        """The NIC of a configuration file, as agents take it, with the rings of a fabric that has some."""
        return cls(load_config(config), beside=Path(config))

    def work(self, deadline: int | None, interrupted: Callable[[], bool] | None = None) -> None:
        """Let the NIC do what is due, and then until `deadline` (monotonic ns; None: no limit) whatever becomes due.

        It ends when there is news for the application, or `interrupted` says so, which is asked after each round.
        """
        self._work.work(deadline, interrupted)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, as ``asyncio.run`` does, with the NIC working whenever none can go on.

        ClosedError if the NIC is closed, RejectedError within another event loop.
        """
        try:
            if self._closed:
                raise ClosedError("This NIC is closed.")
            self._work.check_thread()
            if _runs_asyncio():
                raise RejectedError("An event loop runs here already: await the coroutine instead of OwnNic.run.")
        except MrcError:
            main.close()
            raise
        try:
            loop = asyncio.SelectorEventLoop(_NicSelector(self.loop, self._work))
        except BaseException:
            main.close()
            raise
        before, self._work.busy, self.running = self._work.busy, True, loop
        try:
            return _run(loop, main)
        finally:
            self._work.busy, self.running = before, None

    def close(self) -> None:
        """Destroy everything on the NIC, and release its interfaces. Closing twice does nothing.

        RejectedError from within `run`, and from a callback of its verbs.
        """
        if not self._closed:
            self._work.whole(self._close)

    def _close(self) -> None:
        if self._closed:  # by the handler of a signal, just before
            return
        if self.running is not None:
            raise RejectedError("This NIC runs coroutines: close it when OwnNic.run has ended.")
        if self._work.busy:
            raise RejectedError("This NIC is at work: close it when the verb that it works for has returned.")
        self._closed = True
        try:
            self._work.work_held(0, None)  # acknowledgements that are due leave: a peer waits for them
        finally:
            self._opened.close()

    def leave_to_parent(self) -> None:
        """In a forked child: give up what it has of the NIC, without touching what it shares with the parent."""
        if not self._closed:
            self._closed, self.running = True, None
            self._provider.end("This NIC belongs to the parent process: open another after fork().")
            self._claim.close()
            self.loop.signals.leave_to_parent()

    def __enter__(self) -> OwnNic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Provider(LocalProvider):
    """Whoever asks in vain lets the NIC work: a program may do nothing but poll."""

    def __init__(self, owner: OwnNic, nic: Nic, work: NicWork) -> None:
        super().__init__(nic, monotonic_ns, poke=work.poke, advance=work.advance)
        work.attach(self.check, self.dispatch)
        self._owner, self._work = owner, work
        self._ended = ""  # why there is no NIC any more

    def check(self) -> None:
        """ClosedError when there is no NIC any more."""
        if self._ended:
            raise ClosedError(self._ended)

    def check_caller(self) -> None:
        """StateError in another thread than the NIC's."""
        self._work.check_thread()

    def alloc_pd(self) -> int:
        """A new protection domain's number."""
        self._work.check_thread()
        return super().alloc_pd()

    def dealloc_pd(self, pd: int) -> None:
        """Forget a protection domain."""
        self._work.check_thread()
        super().dealloc_pd(pd)

    def for_controller(self) -> LocalProvider:
        """The provider itself."""
        self._work.check_thread()
        return super().for_controller()

    def end(self, why: str) -> None:
        """There is no NIC any more: whatever asks for it gets ClosedError."""
        self._ended = why
        self._work.release()
        self._nic = cast("Nic", _NoNic(self._nic.config, why))

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Carry out a verb that is just a command of the NIC."""
        return self._work.whole(super().call, verb, arguments)

    def allocate_memory(
        self, pd: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Allocate and register memory."""
        return self._work.whole(super().allocate_memory, pd, length, access, address)  # type: ignore[no-any-return]

    def register_memory(
        self, pd: int, fd: int, offset: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Map part of a memfd and register it."""
        register = super().register_memory
        return self._work.whole(register, pd, fd, offset, length, access, address)  # type: ignore[no-any-return]

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """Create a completion queue."""
        return int(self._work.whole(super().create_cq, capacity, on_ready, on_notify))

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue."""
        self._work.whole(super().req_notify_cq, cq, solicited_only)

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""
        return self._work.whole(super().qp_counters, qpn)  # type: ignore[no-any-return]

    def deny_path(self, peer: bytes, ev: int, denied: bool, leased: bool = False) -> None:
        """Deny or allow a path."""
        self._work.whole(super().deny_path, peer, ev, denied, leased)

    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Post work requests."""
        self._work.whole(super().post_send, qpn, requests)

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take completions."""
        self._work.check_thread()
        found = super().poll_cq(cq, max_entries)
        if found or self._work.busy:
            return found
        self._work.work(0, None)
        return super().poll_cq(cq, max_entries)

    def refresh(self) -> None:
        """Process what has arrived."""
        self._work.check_thread()
        if self._work.busy:
            self.dispatch()
        else:
            self._work.work(0, None)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """RejectedError for any loop but that of `OwnNic.run`, in which nothing would ever arrive."""
        if loop is not self._owner.running:
            raise RejectedError("Run coroutines by OwnNic.run: the NIC does not work in any other event loop.")


class _NoNic:
    """In place of a NIC that is gone."""

    def __init__(self, config: NicConfig, why: str) -> None:
        self.config = config
        self._why = why

    def __getattr__(self, name: str) -> Any:
        raise ClosedError(self._why)


_nics: weakref.WeakSet[OwnNic] = weakref.WeakSet()


def _in_child() -> None:
    for nic in tuple(_nics):
        nic.leave_to_parent()


os.register_at_fork(after_in_child=_in_child)


def _runs_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _rings(beside: Path, stack: contextlib.ExitStack, plain: str) -> dict[str, FrameRing]:
    """The rings beside a configuration; `plain` says why the transport is not compiled, if that is known."""
    from mrc_host.driver import ring_ends
    from mrc_host.driver.packet import NicDriverError

    try:
        ends = ring_ends.found(beside, stack)
        if ends and plain:
            raise NicDriverError(f"Rings need the compiled transport. {plain}")
        return ring_ends.opened(ends)
    except FrameRingError as error:
        raise NicDriverError(str(error)) from None


class _NicSelector(selectors.EpollSelector):
    """What asyncio waits in: the NIC works meanwhile."""

    def __init__(self, loop: Loop, work: NicWork) -> None:
        super().__init__()
        self._loop, self._work = loop, work
        self._ready = False  # a descriptor that asyncio watches
        self._worked = 0
        loop.add(self.fileno(), selectors.EVENT_READ, self._on_ready)

    def _on_ready(self, _mask: int) -> None:
        self._ready = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As any selector; the NIC's news, too, end it."""
        found = super().select(0)
        now = monotonic_ns()
        waits = not found and (timeout is None or timeout > 0)
        if not waits and not self._work.poked and now - self._worked < _LONGEST_BUSY_NS:
            return found
        self._ready = False
        deadline = 0 if not waits else None if timeout is None else now + ceil(timeout * 1e9)
        self._work.work(deadline, lambda: self._ready)
        self._worked = now
        return found or super().select(0)

    def close(self) -> None:
        """As any selector."""
        try:
            self._loop.remove(self.fileno())
        finally:
            super().close()


def _run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    """What ``asyncio.run`` does, which takes no loop before Python 3.11."""
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        try:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
