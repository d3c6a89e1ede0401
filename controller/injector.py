"""Faults carried out: applied now or when their time comes, flapping, and taken back.

The registry says what is wanted, and :meth:`FaultInjector._apply` changes what differs from what was applied before:
links are taken down and up, switches get the entries of the P4 program's faults, ports their shape. So overlapping
faults need no care of their own, and what failed halfway is put right by applying the registry without it. One change
at a time.

A fault that begins later, ends by itself or flaps has a task that waits for its times. One whose time comes while a
switch is away (the controller has only just been started, say) is made there when the switch is back, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from controller.errors import BusyError, ControllerError
from controller.events import Events
from controller.fault_impairments import (
    LONGEST_NS,
    FaultImpairments,
    PortShaping,
    combined_shapes,
    impairments_of,
    part_of,
)
from controller.fault_registry import FaultRegistry, Wanted
from controller.values import Cleared, EventKind, FaultRecord
from topologies.entries import TableEntry
from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.fault_entries import FaultTables, fault_entries
from topologies.faults import Fault, FaultState
from topologies.faults.flap import Flap

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
MAX_CHANGES_PER_S = 1000  # of links that flap, all together: a change takes about a millisecond
MAX_TOGGLES = 2000  # links, or groups of them, that flap each in its own time
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
    ) -> None:
        self.registry = FaultRegistry()
        self._fabric = fabric
        self._switches = switches
        self._links = links
        self._events = events
        self._clock = clock
        self._changed = changed
        self._lock = asyncio.Lock()
        self._applied = Wanted()
        self._asked = Wanted()  # what was wanted last that could be done
        self._tables = FaultTables(fabric)
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._away: dict[str, tuple[str, ...]] = {}  # switches that have yet to make a fault that has just begun

    async def add(
        self, fault: Fault, *, owner: str = "", start_at_ns: int | None = None, duration_ns: int | None = None
    ) -> FaultRecord:
        """Make a fault, now or at a time, until it is cleared or for a time.

        FabricError if it names what is not there or a value is out of range, ControllerError if it cannot be made.
        """
        done = impairments_of(self._fabric, fault)
        now = self._clock()
        start = now if start_at_ns is None else max(now, start_at_ns)
        for what, value in (("begin", start - now), ("last", duration_ns or 0)):
            if not 0 <= value <= LONGEST_NS:
                raise FabricError(f"a fault cannot {what} {value} ns: 0 to {LONGEST_NS} ns are possible")
        record = FaultRecord(
            id=self.registry.next_id(),
            fault=fault,
            links=done.links,
            switches=tuple(fault_entries(self._fabric, done.entries)),
            owner=owner,
            state=FaultState.PENDING,
            starts_at_ns=start,
            ends_at_ns=start + duration_ns if duration_ns else None,
        )
        return await _to_its_end(self._enter(record, done))

    def _check_limits(self, record: FaultRecord) -> None:
        """BusyError if there are too many faults, or links would flap more often, or more of them, than is possible."""
        self.registry.check_room()
        if not isinstance(record.fault, Flap):
            return
        all_of_them = [one for one in (*self.registry, record) if isinstance(one.fault, Flap)]
        if sum(_changes_per_s(one) for one in all_of_them) > MAX_CHANGES_PER_S:
            raise BusyError(f"Links would flap more often than {MAX_CHANGES_PER_S} times a second, all together.")
        if sum(len(_groups(one)) for one in all_of_them) > MAX_TOGGLES:
            raise BusyError(f"More links would flap at random than {MAX_TOGGLES}, all together: clear some first.")

    async def _enter(self, record: FaultRecord, done: FaultImpairments) -> FaultRecord:
        """Put a record in the registry and begin it if it is time.

        It is written first: if this controller is killed in between, the next one knows what may be half made.
        """
        self._check_limits(record)
        self.registry.add(record, done)
        self._changed()
        self._publish(EventKind.FAULT_ADDED, record)
        if record.starts_at_ns <= self._clock():
            record = await self._begin(record.id)
        self._begin_life(record)
        return record

    def _begin_life(self, record: FaultRecord) -> None:
        if record.state is FaultState.PENDING or record.ends_at_ns is not None or isinstance(record.fault, Flap):
            self._lives[record.id] = asyncio.create_task(self._live(record.id), name=f"fault {record.id}")

    async def resume(self, records: Iterable[FaultRecord]) -> None:
        """Go on with the faults of a controller before this one. The caller gives switches theirs.

        What is more than a controller carries out is taken back, since nobody could clear it afterwards.
        """
        records = tuple(records)
        refused = []
        for record in records:
            try:
                self._check_limits(record)
            except BusyError:
                refused.append(record)
                continue
            with contextlib.suppress(FabricError):  # of a fabric that was changed meanwhile
                self.registry.add(replace(record, problem=""), self._all_impairments_of(record))
        if refused:
            _LOG.warning(
                "Of %d faults of the last controller, %d exceed the limits: undone.", len(records), len(refused)
            )
            await self.undo(refused)
        wanted = self.registry.wanted()
        async with self._lock:
            self._applied = Wanted(entries=wanted.entries)
            try:
                await self._apply(wanted)
            except ControllerError as error:
                for record in self.registry:
                    self.registry.change(record.id, problem=str(error))
        for record in self.registry:
            self._publish(EventKind.FAULT_ADDED, record)
            self._begin_life(record)
        self._changed()

    def _all_impairments_of(self, record: FaultRecord) -> FaultImpairments:
        """What a fault takes of the links that it is still on."""
        whole = impairments_of(self._fabric, record.fault)
        part = part_of(self._fabric, whole, record.links) if record.links else whole
        if whole.links and not part.links:
            raise FabricError(f"fault {record.id} is on no link that this fabric has")
        return part

    async def undo(self, records: Iterable[FaultRecord]) -> None:
        """Take back what a controller before this one did to links; reconciling the switches does the rest."""
        active = []
        for record in records:
            with contextlib.suppress(FabricError):
                active.append(self._all_impairments_of(record))
        down = frozenset(link for one in active for link in one.carrier)
        async with self._lock:
            self._applied = self._asked = Wanted(down, (), combined_shapes(active))
            await self._apply(Wanted())

    async def clear(self, records: Iterable[FaultRecord]) -> Cleared:
        """Take faults back. ControllerError if that is not possible: then they stay.

        At switches that cannot be reached they end when that changes.
        """
        return await _to_its_end(self._clear(tuple(records)))

    async def repair(self, links: Iterable[str]) -> Cleared:
        """Clear every fault on some links, and bring the links up whatever took them down.

        A fault stays on the others of its links. ControllerError if that is not possible: then everything stays.
        """
        return await _to_its_end(self._clear((), frozenset(links)))

    async def _clear(self, records: Iterable[FaultRecord], repaired: frozenset[str] = frozenset()) -> Cleared:
        """Take faults back, and any fault off the links that are `repaired`."""
        async with self._lock:
            records = [record for record in records if record.id in self.registry]
            touched = self.registry.on_links(repaired)
            records += [record for record in touched if repaired.issuperset(record.links)]
            parts = {
                record.id: part_of(self._fabric, self.registry.impairments_of(record.id), {*record.links} - repaired)
                for record in touched
                if not repaired.issuperset(record.links)
            }
            began = self._clock()
            before = self._applied.down
            await self._apply(self.registry.wanted(without=records, parts=parts), repaired, later=True)
            for record in records:
                life = self._lives.pop(record.id, None)
                if life is not None and life is not asyncio.current_task():
                    life.cancel()
            struck = self.registry.remove(records, self._clock())
            for record in struck:
                self._publish(EventKind.FAULT_CLEARED, record)
            switches = {name: tuple(fault_entries(self._fabric, part.entries)) for name, part in parts.items()}
            remaining = self.registry.confine(parts, switches)
            for record in remaining:
                self._publish(EventKind.FAULT_CHANGED, record)
            self._changed()
            up = (before - self._applied.down) | repaired
            names = tuple(link.name for link in self._fabric.links if link.name in up)
            return Cleared(struck, names, began, self._clock(), remaining)

    async def close(self, *, keep: bool) -> None:
        """End all tasks; take every fault back unless they are to stay. ControllerError names what could not be."""
        lives = list(self._lives.values())
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        self._lives.clear()
        if not keep:
            await self.clear(self.registry)

    # ---- what happens ---------------------------------------------------------------------------------------------

    async def _begin(self, fault_id: str, *, later: bool = False) -> FaultRecord:
        """Make a fault that is in the registry; it is struck out again if that fails.

        With `later`, switches that are away make it when they are back; until then the record says so.
        """
        async with self._lock:
            record = self.registry.get(fault_id)
            began = self._clock()
            record = self.registry.change(fault_id, state=FaultState.ACTIVE, began_at_ns=began)
            try:
                away = await self._apply(self.registry.wanted(), later=later)
            except ControllerError as error:
                record = self.registry.change(fault_id, problem=str(error))
                self.registry.remove([record], self._clock())
                with contextlib.suppress(ControllerError):  # some of it may be there
                    await self._apply(self.registry.wanted())
                self._publish(EventKind.FAULT_CLEARED, record)
                self._changed()
                raise
            if away:
                self._away[fault_id] = away
                problem = (
                    f"Not made yet at {', '.join(away)}, which cannot be reached: it is made there when that changes."
                )
                record = self.registry.change(fault_id, problem=problem)
            else:
                record = self.registry.change(fault_id, applied_at_ns=self._clock())
            self._publish(EventKind.FAULT_ACTIVE, record)
            self._changed()
            return record

    async def _live(self, fault_id: str) -> None:
        """Wait for a fault's times."""
        record = self.registry.get(fault_id)
        if record.state is FaultState.PENDING:
            await self._until(record.starts_at_ns)
            try:
                record = await self._begin(fault_id, later=True)
            except ControllerError:  # its event says why
                self._lives.pop(fault_id, None)
                return
        made = asyncio.create_task(self._made_later(fault_id, self._away.pop(fault_id, ())))
        swings = self._swings(record)
        try:
            if record.ends_at_ns is not None:
                await self._until(record.ends_at_ns)
            elif swings:
                await asyncio.gather(*swings)
            else:
                await made
                self._lives.pop(fault_id, None)
                return
        finally:
            for task in (made, *swings):
                task.cancel()
        try:
            await self._clear([record])
        except ControllerError as error:
            self.registry.change(fault_id, problem=f"It is over, but could not be taken back: {error}")

    async def _made_later(self, fault_id: str, away: tuple[str, ...]) -> None:
        """Wait for switches that were away when a fault's time came."""
        if not away:
            return
        await self._switches.verified(away)
        record = self.registry.change(fault_id, problem="", applied_at_ns=self._clock())
        self._publish(EventKind.FAULT_ACTIVE, record)
        self._changed()

    def _swings(self, record: FaultRecord) -> list[asyncio.Task[None]]:
        """A task for each set of links that go down and up together."""
        fault = record.fault
        if not isinstance(fault, Flap):
            return []
        return [asyncio.create_task(self._swing(record.id, fault, group)) for group in _groups(record)]

    async def _swing(self, fault_id: str, fault: Flap, links: tuple[str, ...]) -> None:
        chance = random.Random(f"{fault.seed} {links[0]}")  # a string is hashed the same way everywhere
        down, due = True, self._clock()
        while True:
            due = max(due + fault.wait(down, chance), self._clock())
            await self._until(due)
            down = not down
            async with self._lock:
                if fault_id not in self.registry or not set(links) & set(self.registry.get(fault_id).links):
                    return
                self.registry.exempt(fault_id, links, up=not down)
                problem = ""
                try:
                    await self._apply(self.registry.wanted())
                except ControllerError as error:
                    problem = str(error)
                if problem != self.registry.get(fault_id).problem:
                    self.registry.change(fault_id, problem=problem)

    async def _until(self, when: int) -> None:
        while (left := when - self._clock()) > 0:
            await asyncio.sleep(min(left / 1e9, 3600))

    async def _apply(
        self, wanted: Wanted, forced_up: frozenset[str] = frozenset(), *, later: bool = False
    ) -> tuple[str, ...]:
        """Change what differs from what was applied before, and take some links up whatever was.

        Returns the switches that will do it `later`, since they are away.
        """
        before = self._applied
        entries = self._entries(wanted) if wanted.entries != before.entries else {}  # refused before anything is done
        away: tuple[str, ...] = ()
        unknown: list[LinkEnd] = []
        if down := wanted.down - before.down:
            self._applied = Wanted(before.down | down, before.entries, before.shapes)
            await self._links.set_up(self._ordered(down), up=False)
        if wanted.entries != before.entries:
            # Unknown until done: if some switch refuses, others may have them.
            self._applied = Wanted(self._applied.down, None, before.shapes)
            away = await self._switches.set_faults(entries, later=later)
        if wanted.shapes != before.shapes:
            unknown = await self._shape(wanted)
        if forced := forced_up - wanted.down:
            await self._links.set_up(self._ordered(forced), up=True)
        if back := before.down - wanted.down - forced_up:
            await self._links.set_up(self._ordered(back), up=True, absent_ok=True)
        self._applied = replace(wanted, shapes={**wanted.shapes, **dict.fromkeys(unknown, _UNKNOWN)})
        self._asked = wanted
        return away

    def _entries(self, wanted: Wanted) -> Mapping[str, Iterable[TableEntry]]:
        """What switches are to hold; ControllerError if one cannot hold it all."""
        try:
            return self._tables.entries(wanted.entries or ())
        except FabricError as error:
            raise ControllerError(f"This fault cannot be combined with the current ones: {error}.") from None

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


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Complete a change even if its client disconnects meanwhile: half a change would stay."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be that nobody waits any more
    return await asyncio.shield(task)


def _groups(record: FaultRecord) -> list[tuple[str, ...]]:
    """Links of a flap that go down and up together."""
    apart = isinstance(record.fault, Flap) and record.fault.random
    return [(link,) for link in record.links] if apart else [record.links]


def _changes_per_s(record: FaultRecord) -> float:
    """How often a flap changes a link, on average."""
    fault = record.fault
    return 2e9 * len(record.links) / (fault.down + fault.up) if isinstance(fault, Flap) else 0.0
