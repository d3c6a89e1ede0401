"""A fault injector in virtual time, over links and switches that only record their commands, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from controller.errors import ControllerError
from controller.events import Events
from controller.fault_limits import EMULATION
from controller.injector import FaultInjector
from controller.values import Event, FleetStatus, LinkEndInfo, LinkStatus
from simulation.core.native import Clock
from simulation.virtual_time_loop import VirtualTimeLoop
from topologies.emulation.link_counters import Traffic
from topologies.entries import TableEntry
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.faults.effect import PortShaping
from topologies.faults.limits import FaultLimits

SECOND = 1_000_000_000
MS = 1_000_000

T = TypeVar("T")


class Links:
    """Stands for FabricLinks: which links are down, and every change as (time, link, up).

    A link says how many it is in what was asked for by the frames that it has carried upwards, of 100 bytes each.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.down: set[str] = set()
        self.changes: list[tuple[int, str, bool]] = []
        self.shapes: dict[LinkEnd, PortShaping] = {}
        self.broken = ""
        self.broken_shape: LinkEnd | None = None
        self.absent = ""
        self.slow_s = 0.0
        self.prepared = False  # for shaping

    def prepare_shaping(self) -> None:
        self.prepared = True

    async def read(self, links: Iterable[Link]) -> list[LinkStatus]:
        def end(place: LinkEnd) -> LinkEndInfo:
            return LinkEndInfo(place.node, place.port, f"{place.node}-{place.port}")

        return [
            LinkStatus(
                name=link.name,
                kind=link.kind,
                plane=link.plane,
                lower=end(link.lower),
                upper=end(link.upper),
                rate_bps=link.rate_bps,
                up=link.name not in self.down,
                upward=Traffic(number, 100 * number),
                downward=Traffic(),
                fault_ids=(),
                read_at_ns=7,
            )
            for number, link in enumerate(links)
        ]

    async def set_up(self, links: Iterable[Link], *, up: bool, absent_ok: bool = False) -> None:
        await asyncio.sleep(self.slow_s)
        for link in links:
            if link.name == self.absent:
                if absent_ok:
                    self.down.discard(link.name)
                    continue
                raise ControllerError(f"Interface of {link.name} does not exist on this machine.")
            if link.name == self.broken:
                raise ControllerError(f"Interface of {link.name} does not exist on this machine.")
            (self.down.discard if up else self.down.add)(link.name)
            self.changes.append((self._now(), link.name, up))

    async def shape(self, shapes: Mapping[LinkEnd, PortShaping | None]) -> None:
        for end, shape in shapes.items():
            if end == self.broken_shape:
                raise ControllerError(f"{end.node} cannot be shaped.")
            if shape is not None and shape.delay:
                raise ControllerError("Switch t0-0@p0 is BMv2.")
            if shape is None:
                self.shapes.pop(end, None)
            else:
                self.shapes[end] = shape


class Switches:
    """Stands for Fleet: the entries of faults by switch. The switch `away` is not reachable until it is `back`."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[TableEntry, ...]] = {}
        self.status = FleetStatus("ctltest", True, ())
        self.reconciled = 0
        self.away = ""
        self.back = asyncio.Event()

    async def reconcile(self) -> None:
        self.reconciled += 1

    async def set_faults(self, entries: Mapping[str, Iterable[TableEntry]], *, later: bool = False) -> tuple[str, ...]:
        before, found = self.entries, {name: tuple(found) for name, found in entries.items()}
        concerned = bool(set(found.get(self.away, ())) - set(before.get(self.away, ())))
        if concerned and not later:
            raise ControllerError(f"Switch {self.away} is not reachable, so it can make no fault.")
        self.entries = found
        return (self.away,) if concerned else ()

    async def verified(self, names: Iterable[str]) -> None:
        assert list(names) == [self.away]
        await self.back.wait()


class Engine:
    """An injector and everything around it; `run` drives it, `seconds` lets time pass."""

    def __init__(self, fabric: Fabric, loop: VirtualTimeLoop, clock: Clock, limits: FaultLimits) -> None:
        self.clock = clock
        self._loop = loop
        self.links = Links(lambda: clock.now)
        self.switches = Switches()
        self.events = Events(clock=lambda: clock.now)
        self.saved = 0
        self.when_saved: Callable[[], None] = lambda: None
        self.injector = FaultInjector(
            fabric,
            self.switches,
            self.links,
            self.events,
            clock=lambda: clock.now,
            changed=self._save,
            limits=limits,
        )
        self.registry = self.injector.registry
        self.subscription = self.events.subscribe()

    def _save(self) -> None:
        self.saved += 1
        self.when_saved()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns, with as much virtual time as it takes."""
        return self._loop.run_until_complete(coroutine)

    def seconds(self, seconds: float) -> None:
        """Let time pass."""
        self.run(asyncio.sleep(seconds))

    def new_events(self) -> list[Event]:
        """Events since this was asked last."""

        async def take() -> list[Event]:
            found: list[Event] = []
            with contextlib.suppress(asyncio.TimeoutError):
                while True:
                    found.append(await asyncio.wait_for(self.subscription.next(), 0.000001))
            return found

        return self.run(take())


@contextlib.contextmanager
def engine(fabric: Fabric, limits: FaultLimits = EMULATION) -> Iterator[Engine]:
    """An engine of its own; what it still waits for is ended."""
    clock = Clock()
    loop = VirtualTimeLoop(clock)
    try:
        one = Engine(fabric, loop, clock, limits)
        yield one
        one.run(one.injector.close(keep=True))
    finally:
        loop.close()
