"""The faults of a fabric over time: a device, like a NIC or a switch, that a backend's driver drives.

It has no clock and touches nothing. The driver adds, clears and repairs, calls :meth:`FaultEngine.tick` when
:meth:`FaultEngine.wakeup` says, and after each of these makes the fabric be as :meth:`FaultEngine.wanted` says: which
links are down, the table entries of switches, how ports are shaped, whether the controller is away. That is what all
active faults take together, so overlapping faults need no care of their own: a link that two of them take down comes
back when the second one is cleared.

A fault that comes and goes is active all the time, but does nothing to links while they are off; it keeps its room in
tables, so that it can come back. Each change is one step of ``tick``, none is skipped; random times between two are
drawn from the seeds and the first link alone, so other faults change nothing about them. A change that comes late moves
the next one only where that would be over already.

In emulation a change can fail. So what would be without some faults can be asked beforehand, and a fault whose time is
over is left to the driver to clear.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from topologies.entries import TableEntry
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_entries import FaultTables, check_room
from topologies.faults.effect import Effect, PortShaping, combined_shapes
from topologies.faults.kind import Fault, FaultState, Intermittent
from topologies.faults.limits import FaultLimits
from topologies.faults.record import FaultRecord
from topologies.faults.registry import FaultRegistry


@dataclass(frozen=True, slots=True)
class Wanted:
    """What all active faults take together: links without carrier, entries by switch, shapes by port.

    `entries` is None for what is not known. `controller_down`: the controller is away.
    """

    down: frozenset[str] = frozenset()
    entries: Mapping[str, tuple[TableEntry, ...]] | None = field(default_factory=dict)
    shapes: Mapping[LinkEnd, PortShaping] = field(default_factory=dict)
    controller_down: bool = False


class FaultChange(enum.Enum):
    """What is due: a fault begins, its time is over, or one that comes and goes changes."""

    BEGIN = "begin"
    END = "end"
    TOGGLE = "toggle"


@dataclass(slots=True)
class _Toggle:
    """Links of a fault that comes and goes which change together; none: all of it changes."""

    fault: Intermittent
    links: tuple[str, ...]
    chance: Random
    on: bool = True

    def of(self, links: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these links of the fault change with it."""
        if not self.links or self.links == links:
            return links
        return tuple(link for link in self.links if link in links)


Due = tuple[FaultChange, str]
"""What was due, and the id of the fault."""
_Deadline = tuple[int, bool, int, FaultChange, str, _Toggle | None]


class FaultEngine:
    """The faults of one fabric. `seed` is what random times are drawn from besides the faults' own seeds."""

    def __init__(self, fabric: Fabric, limits: FaultLimits, *, seed: str = "") -> None:
        self.registry = FaultRegistry()
        self.limits = limits
        self._fabric = limits.seen(fabric)
        self._seed = seed
        self._deadlines: list[_Deadline] = []
        self._serial = itertools.count()
        self._holders: dict[str, set[str]] = {}  # by link that is down: the faults that hold it down
        self._toggles: dict[str, list[_Toggle]] = {}  # by fault that comes and goes
        self._tables = FaultTables()
        self._together: tuple[Mapping[str, tuple[TableEntry, ...]], Mapping[LinkEnd, PortShaping], bool] | None = None

    # ---- adding and clearing ----------------------------------------------------------------------------------------

    def add(
        self,
        fault: Fault,
        now: int,
        *,
        owner: str = "",
        start_at_ns: int | None = None,
        duration_ns: int | None = None,
    ) -> FaultRecord:
        """A fault that begins now or at a time, until it is cleared or for a time.

        It is pending; if its time has come already, :meth:`begin` it. FabricError if it names what is not there, a
        value is out of range or the backend has no such kind, FaultLimitError if there are too many.
        """
        effect = self.effect_of(fault)
        start = now if start_at_ns is None else max(now, start_at_ns)
        self.limits.check_times(start - now, duration_ns or 0)
        record = FaultRecord(
            id=self.registry.next_id(),
            fault=fault,
            links=effect.links,
            switches=effect.switches,
            owner=owner,
            state=FaultState.PENDING,
            starts_at_ns=start,
            ends_at_ns=start + duration_ns if duration_ns else None,
        )
        self._enter(record, effect)
        if start > now:
            self._at(start, FaultChange.BEGIN, record.id)
        return record

    def readmit(self, record: FaultRecord, now: int) -> None:
        """Go on with a fault of an engine before this one, on the links that it is still on; raises as :meth:`add`.

        It gets another id if one that goes on already has its own.
        """
        effect = self.part_of(record)
        record = replace(record, id=self.registry.id_for(record.id))
        self._enter(replace(record, links=effect.links, switches=effect.switches), effect)
        if record.state is FaultState.PENDING:
            self._at(record.starts_at_ns, FaultChange.BEGIN, record.id)
        else:
            self._hold(record.id, now)

    def effect_of(self, fault: Fault) -> Effect:
        """What a fault would do; FabricError if the backend cannot."""
        return self.limits.effect_of(self._fabric, fault)

    def part_of(self, record: FaultRecord) -> Effect:
        """What a fault of an engine before this one does on the links that it is still on; FabricError if nothing."""
        whole = self.effect_of(record.fault)
        part = whole.part(self._fabric, record.links) if record.links else whole
        if whole.links and not part.links:
            raise FabricError(f"fault {record.id} is on no link that this fabric has")
        return part

    def _enter(self, record: FaultRecord, effect: Effect) -> None:
        self.limits.check_room(len(self.registry))
        if isinstance(record.fault, Intermittent):
            self.limits.check_changes((*self.registry, record))
        self.registry.add(record, effect)
        if record.ends_at_ns is not None:
            self._at(record.ends_at_ns, FaultChange.END, record.id)

    def begin(self, fault_id: str, now: int) -> FaultRecord:
        """Begin a fault that is pending."""
        record = self.registry.change(fault_id, state=FaultState.ACTIVE, began_at_ns=now)
        self._hold(fault_id, now)
        return record

    def _hold(self, fault_id: str, now: int) -> None:
        """From now on a fault does what it does."""
        record = self.registry.get(fault_id)
        self._take_down(fault_id, self.registry.effect(fault_id).down)
        self._together = None
        if isinstance(fault := record.fault, Intermittent):
            self._toggles[fault_id] = [
                # A string is hashed the same way everywhere.
                _Toggle(fault, links, Random(f"{self._seed}{fault.seed} {''.join(links[:1])}"))
                for links in fault.groups(record.links)
            ]
            for toggle in self._toggles[fault_id]:
                self._at(now + fault.wait(True, toggle.chance), FaultChange.TOGGLE, fault_id, toggle)

    def clear(self, fault_ids: Iterable[str], now: int) -> tuple[FaultRecord, ...]:
        """Take faults back, those that are there; returns them as they are now, cleared."""
        ids = tuple(fault_ids)
        for fault_id in ids:
            if fault_id in self.registry:
                self._leave(fault_id, self.registry.effect(fault_id).down)
                self._toggles.pop(fault_id, None)
        self._together = None
        return self.registry.remove(ids, now)

    def repair(self, links: Collection[str], now: int) -> tuple[tuple[FaultRecord, ...], tuple[FaultRecord, ...]]:
        """Take every fault off some links; returns those that are gone, and those that are on others of their links."""
        touched = self.registry.on_links(links)
        gone = self.clear([record.id for record in touched if set(links).issuperset(record.links)], now)
        parts = {
            record.id: self._without(record.id, links) for record in touched if not set(links).issuperset(record.links)
        }
        for fault_id in parts:
            self._leave(fault_id, links)
        self._together = None
        return gone, self.registry.confine(parts)

    def _without(self, fault_id: str, links: Collection[str]) -> Effect:
        effect = self.registry.effect(fault_id)
        return effect.part(self._fabric, set(effect.links).difference(links))

    # ---- time -------------------------------------------------------------------------------------------------------

    def _at(self, when: int, change: FaultChange, fault_id: str, toggle: _Toggle | None = None) -> None:
        # At one time faults end before others begin, which may need their room, in whatever order they were added.
        heapq.heappush(
            self._deadlines, (when, change is not FaultChange.END, next(self._serial), change, fault_id, toggle)
        )

    def wakeup(self) -> int | None:
        """When the next thing is due, in ns; None: nothing is."""
        while self._deadlines:
            when, _, _, _, fault_id, toggle = self._deadlines[0]
            if fault_id in self.registry and (
                toggle is None or not toggle.links or toggle.of(self.registry.get(fault_id).links)
            ):
                return when
            heapq.heappop(self._deadlines)  # cleared or repaired meanwhile
        return None

    def tick(self, now: int) -> Due | None:
        """Do the earliest thing that is due, and say what; None if nothing is.

        A fault whose time is over is left to be cleared, and not mentioned again.
        """
        due = self.wakeup()
        if due is None or due > now:
            return None
        when, _, _, change, fault_id, toggle = heapq.heappop(self._deadlines)
        if change is FaultChange.BEGIN:
            self.begin(fault_id, now)
        elif toggle is not None:
            self._toggle(fault_id, toggle, when, now)
        return change, fault_id

    def _toggle(self, fault_id: str, toggle: _Toggle, due: int, now: int) -> None:
        toggle.on = not toggle.on
        effect = self.registry.effect(fault_id)
        (self._take_down if toggle.on else self._leave)(fault_id, toggle.of(effect.down))
        if effect.tables is not None or effect.shapes or effect.controller_down:  # not carriers alone
            self._together = None
        following = due + toggle.fault.wait(toggle.on, toggle.chance)
        self._at(max(following, now), FaultChange.TOGGLE, fault_id, toggle)

    # ---- what is wanted ---------------------------------------------------------------------------------------------

    def _take_down(self, fault_id: str, links: Iterable[str]) -> None:
        for link in links:
            self._holders.setdefault(link, set()).add(fault_id)

    def _leave(self, fault_id: str, links: Iterable[str]) -> None:
        for link in links:
            holders = self._holders.get(link, set())
            holders.discard(fault_id)
            if not holders:
                self._holders.pop(link, None)

    def wanted(self, without: Iterable[str] = (), off: Collection[str] = ()) -> Wanted:
        """What is to be so now, or would be without some faults, or with every fault off some links.

        FabricError if a switch cannot hold all of it.
        """
        gone = set(without)
        if not gone and not off:
            self._together = self._together or self._combined(gone, off)
            return Wanted(frozenset(self._holders), *self._together)
        down = frozenset(link for link, holders in self._holders.items() if holders - gone and link not in off)
        return Wanted(down, *self._combined(gone, off))

    def _combined(
        self, gone: Collection[str], off: Collection[str]
    ) -> tuple[Mapping[str, tuple[TableEntry, ...]], Mapping[LinkEnd, PortShaping], bool]:
        """Entries, shapes, and whether the controller is away."""
        active = self._active(gone, off)
        now = [self._while_off(fault_id, effect) for fault_id, effect in active.items()]
        if now != [*active.values()]:  # what is off has to fit when it comes back
            check_room(path for effect in active.values() if effect.tables is not None for path in effect.tables.paths)
        entries = self._tables.entries(effect.tables for effect in now if effect.tables is not None)
        return entries, combined_shapes(now), any(effect.controller_down for effect in now)

    def _active(self, gone: Collection[str], off: Collection[str]) -> dict[str, Effect]:
        """Effects of the faults that have begun, by id; of one that comes and goes, while it is on."""
        return {
            record.id: self._without(record.id, off) if off else self.registry.effect(record.id)
            for record in self.registry
            if record.state is FaultState.ACTIVE and record.id not in gone
        }

    def in_force(self) -> tuple[Effect, ...]:
        """What each fault does now: for a driver that makes neither entries nor shapes of it."""
        return tuple(self._while_off(fault_id, effect) for fault_id, effect in self._active((), ()).items())

    def _while_off(self, fault_id: str, effect: Effect) -> Effect:
        """The effect of a fault without the links of it that are off now."""
        off = [toggle for toggle in self._toggles.get(fault_id, ()) if not toggle.on]
        if not off:
            return effect
        left = set(effect.links).difference(*(toggle.links for toggle in off))
        return effect.part(self._fabric, left) if left else Effect()
