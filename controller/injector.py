"""Faults carried out: the driver of the fault engine (:mod:`topologies.faults.engine`) in emulation.

The engine says what is wanted, and :meth:`FaultInjector._apply` changes what differs from what was applied before:
links are taken down and up, switches get the entries of the P4 program's faults, ports their shape. So what failed
halfway is put right by applying what is wanted without it. One change at a time. A fault is in the registry before
anything is changed, and is struck out of it after it has been taken back: if this controller is killed in between, the
next one knows what may be half made.

While the engine has something due, a task waits for that. A fault whose time comes while a switch is away (the
controller has only just been started, say) is made there when the switch is back, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from controller.errors import BusyError, ControllerError
from controller.events import Events
from controller.fault_limits import EMULATION
from controller.to_its_end import to_its_end
from controller.values import Cleared, EventKind
from topologies.entries import TableEntry
from topologies.errors import FabricError, FaultLimitError, UnknownFaultError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.faults import Fault, FaultState
from topologies.faults.effect import PortShaping, combined_shapes
from topologies.faults.engine import FaultChange, FaultEngine, Wanted
from topologies.faults.limits import FaultLimits
from topologies.faults.record import FaultRecord

_LOG = logging.getLogger(__name__)

_LONGEST_SLEEP_S = 3600
_UNKNOWN = PortShaping(-1, -1)  # of a port: equal to none that is wanted


class Switches(Protocol):
    """Who has switches hold the entries of faults (:class:`controller.fleet.Fleet`)."""

    async def set_faults(self, entries: Mapping[str, Iterable[TableEntry]], *, later: bool = False) -> tuple[str, ...]:
        """Each switch holds these and no others; with `later`, those that are returned when they are back."""

    async def verified(self, names: Iterable[str]) -> None:
        """Wait until switches hold what they should."""


class Links(Protocol):
    """Who changes links (:class:`controller.links.FabricLinks`)."""

    async def set_up(self, links: Iterable[Link], *, up: bool, absent_ok: bool = False) -> None:
        """Take links down or up; ControllerError if one is not there any more, unless that is all the same."""

    def prepare_shaping(self) -> None:
        """Have a first change of a port's shape, later, made in time."""

    async def shape(self, shapes: Mapping[LinkEnd, PortShaping | None]) -> None:
        """Shape what leaves ports; None: as it was made."""


class FaultInjector:
    """The faults of a fabric. `changed` is called whenever the registry has changed."""

    def __init__(
        self,
        fabric: Fabric,
        switches: Switches,
        links: Links,
        events: Events,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        changed: Callable[[], None] = lambda: None,
        limits: FaultLimits = EMULATION,
    ) -> None:
        self._engine = FaultEngine(fabric, limits)
        self.registry = self._engine.registry
        self._fabric = fabric
        self._switches = switches
        self._links = links
        self._events = events
        self._clock = clock
        self._changed = changed
        self._lock = asyncio.Lock()
        self._applied = Wanted()
        self._asked = Wanted()  # what was wanted last that could be done
        self._unsure: dict[str, str] = {}  # links that are up or down, since a change of them failed, and why
        self._clockwork: asyncio.Task[None] | None = None  # waits for what is due
        self._sooner = asyncio.Event()  # something may be due earlier than it thinks
        self._away: dict[str, asyncio.Task[None]] = {}  # by fault: waits for switches that have yet to make it

    async def add(
        self, fault: Fault, *, owner: str = "", start_at_ns: int | None = None, duration_ns: int | None = None
    ) -> FaultRecord:
        """Make a fault, now or at a time, until it is cleared or for a time.

        FabricError if it names what is not there or a value is out of range, ControllerError if it cannot be made.
        """
        return await to_its_end(self._add(fault, owner, start_at_ns, duration_ns))

    async def _add(self, fault: Fault, owner: str, start_at_ns: int | None, duration_ns: int | None) -> FaultRecord:
        now = self._clock()
        try:
            record = self._engine.add(fault, now, owner=owner, start_at_ns=start_at_ns, duration_ns=duration_ns)
        except FaultLimitError as error:
            raise BusyError(str(error)) from None
        self._changed()
        self._publish(EventKind.FAULT_ADDED, record)
        if self.registry.effect(record.id).shapes:
            self._links.prepare_shaping()
        if record.starts_at_ns <= now:
            async with self._lock:
                self.get(record.id)  # unless it was cleared meanwhile
                self._engine.begin(record.id, self._clock())
                record = await self._make(record.id, later=False)
        self._keep_time()
        return record

    def get(self, fault_id: str) -> FaultRecord:
        """The fault with an id; ControllerError if it is not in force."""
        try:
            return self.registry.get(fault_id)
        except UnknownFaultError as error:
            raise ControllerError(str(error)) from None

    def wanted_entries(self) -> Mapping[str, Iterable[TableEntry]]:
        """The entries of faults that switches are to hold now, by switch."""
        return self._engine.wanted().entries or {}

    async def resume(self, records: Iterable[FaultRecord]) -> None:
        """Go on with the faults of a controller before this one. The caller gives switches theirs.

        What is more than a controller carries out is taken back, since nobody could clear it afterwards.
        """
        records = tuple(records)
        refused = [record for record in records if not self._readmit(record)]
        if refused:
            _LOG.warning(
                "Of %d faults of the last controller, %d exceed the limits: undone.", len(records), len(refused)
            )
            await self.undo(refused)
        self._clear_what_has_no_room()
        wanted = self._engine.wanted()
        async with self._lock:
            self._applied = Wanted(entries=wanted.entries)
            try:
                await self._apply(wanted)
            except ControllerError as error:
                for record in self.registry:
                    self.registry.change(record.id, problem=str(error))
        for record in self.registry:
            self._publish(EventKind.FAULT_ADDED, record)
        self._changed()
        self._keep_time()

    def _readmit(self, record: FaultRecord) -> bool:
        """Enter a fault of a controller before this one; False if there are too many."""
        with contextlib.suppress(FabricError):  # of a fabric that was changed meanwhile
            try:
                self._engine.readmit(replace(record, problem=""), self._clock())
            except FaultLimitError:
                return False
        return True

    def _clear_what_has_no_room(self) -> None:
        """Clear the newest losses on paths until switches have room for the others: a fault file may be outgrown."""
        while refusal := self._refusal():
            lossy = [record.id for record in self.registry if self._fills_a_table(record)]
            _LOG.warning("Fault %s of the last controller is cleared: %s.", lossy[-1], refusal)
            self.registry.change(lossy[-1], problem=f"It could not be resumed: {refusal}.")
            self._engine.clear([lossy[-1]], self._clock())

    def _refusal(self) -> str:
        try:
            self._engine.wanted()
        except FabricError as error:
            return str(error)
        return ""

    def _fills_a_table(self, record: FaultRecord) -> bool:
        tables = self.registry.effect(record.id).tables
        return record.state is FaultState.ACTIVE and tables is not None and bool(tables.paths)

    async def undo(self, records: Iterable[FaultRecord]) -> None:
        """Take back what a controller before this one did to links; reconciling the switches does the rest."""
        effects = []
        for record in records:
            with contextlib.suppress(FabricError):
                effects.append(self._engine.part_of(record))
        down = frozenset(link for effect in effects for link in effect.down)
        async with self._lock:
            self._applied = self._asked = Wanted(down, shapes=combined_shapes(effects))
            await self._apply(Wanted())

    async def clear(self, records: Iterable[FaultRecord]) -> Cleared:
        """Take faults back. ControllerError if that is not possible: then they stay.

        At switches that cannot be reached they end when that changes.
        """
        return await to_its_end(self._clear(tuple(records)))

    async def repair(self, links: Iterable[str]) -> Cleared:
        """Clear every fault on some links, and bring the links up whatever took them down.

        A fault stays on the others of its links. ControllerError if that is not possible: then everything stays.
        """
        return await to_its_end(self._clear((), frozenset(links)))

    async def _clear(self, records: Iterable[FaultRecord], repaired: frozenset[str] = frozenset()) -> Cleared:
        async with self._lock:
            return await self._take_back([record.id for record in records], repaired)

    async def _take_back(self, fault_ids: list[str], repaired: frozenset[str] = frozenset()) -> Cleared:
        """Take faults back, and any fault off the links that are `repaired`."""
        began = self._clock()
        before = self._applied.down
        wanted = self._wanted(fault_ids, repaired)
        try:
            await self._apply(wanted, repaired, later=True)
        except ControllerError:
            with contextlib.suppress(ControllerError):  # some of it may have been taken back
                await self._apply(self._wanted())
            raise
        gone = self._engine.clear(fault_ids, self._clock())
        also, remaining = self._engine.repair(repaired, self._clock())
        gone += also
        for record in gone:
            if (waiting := self._away.pop(record.id, None)) is not None:
                waiting.cancel()
            self._publish(EventKind.FAULT_CLEARED, record)
        for record in remaining:
            self._publish(EventKind.FAULT_CHANGED, record)
        self._changed()
        up = (before - self._applied.down) | repaired
        names = tuple(link.name for link in self._fabric.links if link.name in up)
        return Cleared(gone, names, began, self._clock(), remaining)

    async def close(self, *, keep: bool) -> None:
        """End all tasks; take every fault back unless they are to stay. ControllerError names what could not be."""
        tasks = [task for task in (self._clockwork, *self._away.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._clockwork = None
        self._away.clear()
        if not keep:
            await self.clear(self.registry)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        """Something may be due, or earlier than before."""
        if self._clockwork is None or self._clockwork.done():
            self._clockwork = asyncio.create_task(self._wait_and_act(), name="faults")
        self._sooner.set()

    async def _wait_and_act(self) -> None:
        while (due := self._engine.wakeup()) is not None:
            self._sooner.clear()
            left = due - self._clock()
            if left > 0:  # not by wait_for, which may lose that this task is cancelled (Python below 3.12)
                sooner = asyncio.create_task(self._sooner.wait())
                try:
                    await asyncio.wait((sooner,), timeout=min(left / 1e9, _LONGEST_SLEEP_S))
                finally:
                    sooner.cancel()
            else:
                async with self._lock:
                    try:
                        await self._act()
                    except Exception:
                        _LOG.exception("a fault could not be changed; others go on")

    async def _act(self) -> None:
        """Do the earliest thing that is due."""
        done = self._engine.tick(self._clock())
        if done is None:  # it was cleared while another change was made
            return
        change, fault_id = done
        problem = ""
        try:
            if change is FaultChange.BEGIN:
                await self._make(fault_id, later=True)
            elif change is FaultChange.END:
                await self._take_back([fault_id])
            else:
                away = await self._apply(self._wanted(), later=True)
                problem = _not_made_yet(away) if away else ""
                self._check_links(fault_id)
        except ControllerError as error:
            problem = str(error)
        if change is FaultChange.END and problem:
            problem = f"It is over, but could not be taken back: {problem}"
        elif change is not FaultChange.TOGGLE:  # of one that could not be made the event says why
            return
        if problem != self.registry.get(fault_id).problem:
            self.registry.change(fault_id, problem=problem)

    # ---- what happens -----------------------------------------------------------------------------------------------

    async def _make(self, fault_id: str, *, later: bool) -> FaultRecord:
        """Make a fault that has just begun; it is struck out again if that fails.

        With `later`, switches that are away make it when they are back; until then the record says so.
        """
        try:
            away = await self._apply(self._wanted(), later=later)
            self._check_links(fault_id)
        except ControllerError as error:
            self.registry.change(fault_id, problem=str(error))
            (record,) = self._engine.clear([fault_id], self._clock())
            with contextlib.suppress(ControllerError):  # some of it may be there
                await self._apply(self._wanted())
            self._publish(EventKind.FAULT_CLEARED, record)
            self._changed()
            raise
        if away:
            record = self.registry.change(fault_id, problem=_not_made_yet(away))
            self._away[fault_id] = asyncio.create_task(self._made_later(fault_id, away), name=f"fault {fault_id}")
        else:
            record = self.registry.change(fault_id, applied_at_ns=self._clock())
        self._publish(EventKind.FAULT_ACTIVE, record)
        self._changed()
        return record

    async def _made_later(self, fault_id: str, away: tuple[str, ...]) -> None:
        """Wait for switches that were away when a fault's time came."""
        await self._switches.verified(away)
        del self._away[fault_id]
        record = self.registry.change(fault_id, problem="", applied_at_ns=self._clock())
        self._publish(EventKind.FAULT_ACTIVE, record)
        self._changed()

    def _wanted(self, without: Iterable[str] = (), off: frozenset[str] = frozenset()) -> Wanted:
        """What the engine wants, or would; ControllerError if a switch cannot hold it all."""
        try:
            return self._engine.wanted(without, off)
        except FabricError as error:
            raise ControllerError(f"This fault cannot be combined with the current ones: {error}.") from None

    async def _apply(
        self, wanted: Wanted, forced_up: frozenset[str] = frozenset(), *, later: bool = False
    ) -> tuple[str, ...]:
        """Change what differs from what was applied before, and take some links up whatever was.

        Returns the switches that will do it `later`, since they are away.
        """
        before = self._applied
        away: tuple[str, ...] = ()
        unknown: list[LinkEnd] = []
        if down := wanted.down - before.down:
            await self._set_up(down, up=False)
        for link in wanted.down.intersection(self._unsure) - down:
            with contextlib.suppress(ControllerError):  # other faults need not wait for it
                await self._set_up((link,), up=False)
        if wanted.entries != before.entries:
            # Unknown until done: if some switch refuses, others may have them.
            self._applied = Wanted(self._applied.down, None, before.shapes)
            away = await self._switches.set_faults(wanted.entries or {}, later=later)
        if wanted.shapes != before.shapes:
            unknown = await self._shape(wanted)
        if forced := forced_up - wanted.down:
            await self._set_up(forced, up=True)
        if back := before.down - wanted.down - forced_up:
            await self._set_up(back, up=True, absent_ok=True)
        self._applied = replace(wanted, shapes={**wanted.shapes, **dict.fromkeys(unknown, _UNKNOWN)})
        self._asked = wanted
        return away

    async def _set_up(self, names: Collection[str], *, up: bool, absent_ok: bool = False) -> None:
        """Take links down or up. Until they are known to be up they count as down."""
        if not up:
            self._applied = replace(self._applied, down=self._applied.down.union(names))
        try:
            await self._links.set_up(self._ordered(names), up=up, absent_ok=absent_ok)
        except ControllerError as error:
            self._unsure.update(dict.fromkeys(names, str(error)))
            raise
        if up:
            self._applied = replace(self._applied, down=self._applied.down.difference(names))
        for name in names:
            self._unsure.pop(name, None)

    def _check_links(self, fault_id: str) -> None:
        """ControllerError if links of a fault may not be as it wants them."""
        for link in self.registry.effect(fault_id).down:
            if link in self._unsure:
                raise ControllerError(self._unsure[link])

    async def _shape(self, wanted: Wanted) -> list[LinkEnd]:
        """Shape ports that are not as they should be; returns those that are still of unknown shape.

        Those are ports where an earlier change failed, and of which this one wants nothing else: of a host that has
        gone, say. They are tried again, but other faults need not wait for them.
        """
        before = self._applied.shapes
        ends = dict.fromkeys((*before, *wanted.shapes))
        changes = {end: wanted.shapes.get(end) for end in ends if before.get(end) != wanted.shapes.get(end)}
        self._applied = Wanted(self._applied.down, wanted.entries, {**before, **dict.fromkeys(changes, _UNKNOWN)})
        again = [end for end in changes if wanted.shapes.get(end) == self._asked.shapes.get(end)]
        if concerned := {end: shape for end, shape in changes.items() if end not in again}:
            await self._links.shape(concerned)
        return [end for end in again if not await self._can_shape(end, changes[end])]

    async def _can_shape(self, end: LinkEnd, shape: PortShaping | None) -> bool:
        try:
            await self._links.shape({end: shape})
        except ControllerError:
            return False
        return True

    def _ordered(self, names: Iterable[str]) -> list[Link]:
        wanted = set(names)
        return [link for link in self._fabric.links if link.name in wanted]

    def _publish(self, kind: EventKind, record: FaultRecord) -> None:
        self._events.publish(kind, record.id, record.problem, record)


def _not_made_yet(away: Iterable[str]) -> str:
    return f"Not made yet at {', '.join(away)}, which cannot be reached: it is made there when that changes."
