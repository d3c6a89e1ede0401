"""A kernel switch in the fleet: its routes are read, compared, repaired and read again.

There is no P4Runtime. The switch is a network namespace, found by its shell in the run directory. Sockets made inside
list its routes, and report every change of its interfaces (``mrc_common.link_monitor``) and every change of routes and
neighbours that is not ours (``topologies.emulation.route_watch``). After each the routes are reconciled: the kernel
drops those of an interface that is taken down, and a port that is up again needs them; and a person may delete some.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from controller.events import Events
from controller.values import EventKind, Replanned, SwitchState, SwitchStatus
from mrc_common.link_monitor import LinkMonitor, LinkState
from topologies.emulation.kernel_programming import KernelRoutes
from topologies.emulation.namespaces import run_inside
from topologies.emulation.route_netlink import KernelRoute, Neighbour, RouteSocket
from topologies.emulation.route_watch import RouteWatch
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric, Switch
from topologies.kernel_routes import kernel_tables

_FIND_INTERVAL_S = 0.02
_ATTEMPTS = 100  # ports may go down or come up while routes are written
_MAX_PROBLEMS = 20


class FleetKernelSwitch:
    """One such switch. `notify`, to be set before it runs, gets the state of its interfaces and every change of it."""

    def __init__(self, fabric: Fabric, switch: Switch, events: Events | None = None) -> None:
        self.address = f"namespace of {switch.name}"
        self._tables = kernel_tables(fabric, switch)
        self.status = SwitchStatus(switch.name, SwitchState.CONNECTING, len(self._tables))
        self.changed = asyncio.Event()
        self.notify: Callable[[LinkState], None] = lambda state: None
        self._fabric = fabric
        self._switch = switch
        self._events = events or Events()
        self._stirred = asyncio.Event()
        self._lock = asyncio.Lock()
        self._view: _NamespaceView | None = None
        self._programmed = False  # has been verified before, so that repairs are news

    async def run(self) -> None:
        """Keep the switch as it should be; does not return."""
        pid = await self._found()
        try:
            view = await asyncio.to_thread(_NamespaceView.of, pid, self._fabric, self._switch, self._arrived)
        except (OSError, TimeoutError) as error:
            self.failed(f"cannot be looked at: {error}")
            return
        view.routes.tables = self._tables
        self._view = view
        loop = asyncio.get_running_loop()
        loop.add_reader(view.monitor.fileno(), view.monitor.on_readable)
        loop.add_reader(view.watch.fileno(), self._written, view.watch)
        try:
            for state in view.monitor.links().values():
                self.notify(state)
            while True:
                self._stirred.clear()
                await self.reconcile()
                await self._stirred.wait()
        finally:
            loop.remove_reader(view.monitor.fileno())
            loop.remove_reader(view.watch.fileno())
            async with self._lock:
                self._view = None
                view.close()

    async def _found(self) -> int:
        """Process id of the shell, once there is one."""
        run = RunDirectory(self._fabric.name)
        while (shell := run.shell(self._switch.name)) is None:
            await asyncio.sleep(_FIND_INTERVAL_S)
        return shell.pid

    def _arrived(self, state: LinkState) -> None:
        """A port has changed. Also called while the monitor is made, in a thread: all that is read again afterwards."""
        if self._view is not None:
            self._stirred.set()
            self.notify(state)

    def _written(self, watch: RouteWatch) -> None:
        if watch.changed():
            self._stirred.set()

    def expect_routes(self, without: frozenset[str]) -> None:
        """Before :meth:`run`: hold routes for plain IPv6 over none of these links."""
        self._tables = kernel_tables(self._fabric, self._switch, without)
        self.status = dataclasses.replace(self.status, entries=len(self._tables))

    async def reroute(self, without: frozenset[str]) -> Replanned:
        """Hold routes for plain IPv6 over none of these links; if the switch is not there yet, when it is."""
        async with self._lock:
            before, self._tables = self._tables, kernel_tables(self._fabric, self._switch, without)
            changes = sum(
                before.routes.get(prefix) != self._tables.routes.get(prefix)
                for prefix in before.routes.keys() | self._tables.routes.keys()
            )
            self.status = dataclasses.replace(self.status, entries=len(self._tables))
            if self._view is None:
                return Replanned(changes, False)
            self._view.routes.tables = self._tables
            await self._reconcile_locked(news=False)
            return Replanned(changes, self.status.state is SwitchState.VERIFIED)

    async def reconcile(self) -> SwitchStatus:
        """Read, compare, repair and read again; returns and remembers the outcome."""
        async with self._lock:
            return await self._reconcile_locked(news=True)

    async def _reconcile_locked(self, *, news: bool) -> SwitchStatus:
        """The same while the lock is held; with `news` repairs are an event."""
        if self._view is None:
            self.failed("is not reachable")
            return self.status
        try:
            found = await asyncio.to_thread(self._view.reconcile)
        except OSError as error:
            self.failed(f"refused a route: {error.strerror or error}")
            return self.status
        if found.absent:
            names = ", ".join(found.absent)
            self._set(SwitchState.CONNECTING, problems=(f"{self._switch.name} has no interface {names}",))
            return self.status
        problems = tuple(f"{self._switch.name}: {text}" for text in found.problems[:_MAX_PROBLEMS])
        self._set(
            SwitchState.FAILED if problems else SwitchState.VERIFIED,
            repaired=found.repaired,
            problems=problems,
            present=found.held,
            missing=len(found.problems),
        )
        if found.repaired and self._programmed and news:
            self._events.publish(EventKind.ENTRIES_REPAIRED, self._switch.name, f"{found.repaired} routes")
        self._programmed = self._programmed or not problems
        return self.status

    async def verified(self) -> None:
        """Wait until the switch holds what it should."""
        while self.status.state is not SwitchState.VERIFIED:
            self.changed.clear()
            await self.changed.wait()

    def failed(self, problem: str) -> None:
        """Note why the switch is not as it should be."""
        self._set(SwitchState.FAILED, problems=(f"{self._switch.name}: {problem}",))

    def _set(self, state: SwitchState, **values: object) -> None:
        cleared: dict[str, object] = {"repaired": 0, "problems": (), "present": 0, "missing": 0}
        changes: dict[str, object] = {**cleared, **values}
        self.status = dataclasses.replace(self.status, state=state, **changes)  # type: ignore[arg-type]
        self.changed.set()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How many routes and neighbours were repaired and are there now, and what is still not as it should be.

    Nothing is compared while interfaces are `absent`.
    """

    repaired: int = 0
    held: int = 0
    problems: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _NamespaceView:
    """Sockets inside the namespace of a switch."""

    monitor: LinkMonitor
    kernel: RouteSocket
    watch: RouteWatch
    routes: KernelRoutes

    @classmethod
    def of(cls, pid: int, fabric: Fabric, switch: Switch, on_change: Callable[[LinkState], None]) -> _NamespaceView:
        """The view of the namespace that a process is in. Raises OSError or TimeoutError."""

        def make() -> _NamespaceView:
            with contextlib.ExitStack() as stack:
                kernel = stack.enter_context(RouteSocket())
                watch = stack.enter_context(contextlib.closing(RouteWatch(kernel.port)))
                view = cls(LinkMonitor(on_change), kernel, watch, KernelRoutes(fabric, switch, kernel))
                stack.pop_all()
                return view

        return run_inside(pid, make)

    def close(self) -> None:
        """Close the sockets."""
        self.monitor.close()
        self.watch.close()
        self.kernel.close()

    def reconcile(self) -> _Outcome:
        """Compare, repair and compare again. OSError if the kernel refuses."""
        if absent := self.routes.absent():
            return _Outcome(absent=tuple(absent))
        attempts, repaired = _ATTEMPTS, 0
        while True:
            found = self.routes.compare()
            if not found:
                return _Outcome(repaired, found.held)
            attempts -= 1
            try:
                self.routes.repair(found)
            except OSError:
                if attempts == 0:
                    raise
                continue
            left = self.routes.compare()
            problems = [f"{_shown(one)} is missing" for one in left.missing]
            problems += [f"route {prefix} is not as it should be" for prefix in left.superfluous]
            repaired += max(0, len(found.missing) + len(found.superfluous) - len(problems))
            if not left or attempts == 0 or left.up == found.up:
                return _Outcome(repaired, left.held, tuple(problems))


def _shown(one: KernelRoute | Neighbour) -> str:
    return f"route {one.prefix}" if isinstance(one, KernelRoute) else f"neighbour {one.mac.hex(':')}"
