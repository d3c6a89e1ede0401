"""Faults in the simulated world: now or at a time, until a time or until cleared.

`Faults.add` takes any of `topologies.faults`; each kind's name is a method that does the same. What a fault names and
its parameters are checked at once, before anything happens. It then has an id, is listed while it is pending or active,
and may be cleared by that id.

This is the driver of the fault engine (:mod:`topologies.faults.engine`) in simulation: whatever the engine wants is so
at once. Switches hold its table entries, by which their P4 program loses, corrupts and swallows frames as in emulation;
channels go down, and are shaped. NICs are never touched: they learn of a fault as real ones would, by a port that goes
down or by what does not arrive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.core.native import END_OF_TIME, Channel
from simulation.errors import FaultError, SimulationError
from simulation.fault_counts import FaultCounts
from simulation.fault_limits import SIMULATION
from simulation.write_entries import replace_entries
from topologies.errors import FabricError
from topologies.fabric import Link, LinkEnd
from topologies.faults import KINDS, Fault, FaultState, kind_named
from topologies.faults.effect import PortShaping
from topologies.faults.engine import FaultChange, FaultEngine, Wanted
from topologies.faults.kind import Intermittent
from topologies.faults.record import FaultRecord

if TYPE_CHECKING:
    from simulation.world import SimulatedWorld

_UNSHAPED = PortShaping()


@dataclass(frozen=True, slots=True)
class ListedFault:
    """A fault as it is listed. `start` and `end` are times in ns; `end` is None until cleared by hand."""

    id: int
    fault: Fault
    start: int
    end: int | None
    state: FaultState


Listener = Callable[[int, ListedFault], None]


class Faults:
    """The faults of one world; `counts` is what switches have lost and corrupted for them."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.counts = FaultCounts()
        self._world = world
        self._clock = world.clock
        self._engine = FaultEngine(world.fabric, SIMULATION, seed=f"{world.seed} ")
        self._applied = Wanted()
        self._awaited: set[int] = set()  # times that have an event for what is due then
        self._places = {link.name: place for place, link in enumerate(world.fabric.links)}
        self._listeners: list[Listener] = []
        self._rest_expected = False
        self._closed = False

    # ---- listing and clearing -----------------------------------------------------------------------------------

    def list(self) -> tuple[ListedFault, ...]:
        """Every fault that is pending or active, in the order of adding."""
        return tuple(_listed(record, record.ends_at_ns) for record in self._engine.registry)

    def watch(self, listener: Listener) -> None:
        """Call ``listener(now, record)`` whenever a fault is added, becomes active or is cleared."""
        self._listeners.append(listener)

    @property
    def controller_present(self) -> bool:
        """False while a fault keeps the controller away. Static tables do not need it."""
        return not self._applied.controller_down

    def has_carrier(self, link: str) -> bool:
        """Whether no fault takes the carrier of this link now."""
        return link not in self._applied.down

    @contextlib.contextmanager
    def rest_expected(self) -> Iterator[None]:
        """For a world that is to run until no event is left.

        FaultError for a fault, now or added inside, that comes and goes without an end: it would do so for ever.
        """
        for record in self._engine.registry:
            _expect_end(record.fault, record.ends_at_ns)
        self._rest_expected = True
        try:
            yield
        finally:
            self._rest_expected = False

    def add(self, fault: Fault, *, at: int | None = None, until: int | None = None) -> int:
        """Add a fault; returns its id. `at` is a time in ns (None: now), `until` when it clears itself (None: never).

        FaultError names what does not exist or is out of range, or times in the wrong order.
        """
        self._check_open()
        now = self._clock.now
        if self._rest_expected:
            _expect_end(fault, until)
        for when in (at, until):
            if not isinstance(when, int | None):
                raise FaultError(f"A fault begins and ends at a whole number of ns, not {when!r}.")
            if when is not None and when >= END_OF_TIME:
                raise FaultError("A fault begins and ends before 2**62 ns (146 years): leave out what never comes.")
        start = now if at is None else at
        if start < now:
            raise FaultError(f"A fault cannot begin at {start} ns: it is {now} ns already.")
        if until is not None and until <= start:
            raise FaultError(f"A fault that begins at {start} ns must end later than that, not at {until} ns.")
        lasts = None if until is None else until - start
        try:
            record = self._engine.add(fault, now, start_at_ns=start, duration_ns=lasts)
        except FabricError as error:
            raise FaultError(f"{type(fault).__name__}: {error}") from None
        try:
            self._notify(record)
        finally:  # a fault that is listed begins and ends in time, whatever a listener raises
            try:
                # At once, not after what else is due now: at 0 the very first frame meets it.
                if start == now and record.id in self._engine.registry:  # else a listener has cleared it
                    self._made(self._engine.begin(record.id, now))
            finally:
                self._await_next()
        return _number(record)

    def clear(self, number: int) -> None:
        """Undo a fault, or keep it from happening. FaultError when there is none of this id (any more)."""
        self._check_open()
        if f"f{number}" not in self._engine.registry:
            raise FaultError(f"There is no fault {number}: it was cleared, or never added.")
        self._end(f"f{number}")

    def clear_all(self) -> None:
        """Clear every fault, scheduled ones too."""
        self._check_open()
        for record in self._engine.registry:
            if record.id in self._engine.registry:  # else a listener has cleared it
                self._end(record.id)

    def close(self, channels: Iterable[Channel]) -> None:
        """The world is about to free its switches: faults are listed and counted as they are now, and stay so."""
        self.counts.keep(channels)
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise FaultError("The world is closed: its faults do not change any more.")

    # ---- time ---------------------------------------------------------------------------------------------------

    def _await_next(self) -> None:
        due = self._engine.wakeup()
        if due is not None and due < END_OF_TIME and due not in self._awaited:
            self._awaited.add(due)
            self._clock.at(due, self._act, due)

    def _act(self, due: int, _: object) -> None:
        """Do all that is due; event handler."""
        self._awaited.discard(due)
        try:
            while (done := self._engine.tick(self._clock.now)) is not None:
                change, fault_id = done
                if change is FaultChange.BEGIN:
                    self._made(self._engine.registry.get(fault_id))
                elif change is FaultChange.END:
                    self._end(fault_id)
                else:
                    self._apply(self._engine.wanted())
        finally:  # the world may go on after a fault that could not be made
            self._await_next()

    def _made(self, record: FaultRecord) -> None:
        """A fault has just begun; it is struck out again, with a FaultError, if switches cannot hold it."""
        try:
            self._apply(self._engine.wanted())
        except (FabricError, SimulationError) as error:
            (gone,) = self._engine.clear([record.id], self._clock.now)
            self._notify(gone)
            what = f"{type(record.fault).__name__} at {self._clock.now} ns"
            raise FaultError(f"{what} cannot be combined with the current faults: {error}") from None
        self._notify(record)

    def _end(self, fault_id: str) -> None:
        (gone,) = self._engine.clear([fault_id], self._clock.now)
        self._apply(self._engine.wanted())
        self._notify(gone)

    # ---- what is wanted -----------------------------------------------------------------------------------------

    def _apply(self, wanted: Wanted) -> None:
        """Change what differs from what was applied before."""
        before = self._applied
        if wanted.entries is not before.entries:
            self._write(before, wanted)
        self._applied = wanted
        if wanted.shapes is not before.shapes:
            for end in dict.fromkeys((*before.shapes, *wanted.shapes)):
                shape = wanted.shapes.get(end, _UNSHAPED)
                if shape != before.shapes.get(end, _UNSHAPED):
                    self._world.shape(end, shape)
        self._set_up(before.down - wanted.down, True)
        self._set_up(wanted.down - before.down, False)
        if (rerouting := self._world.rerouting) is not None:
            rerouting.faults_changed(wanted.down, controller=not wanted.controller_down)

    def _write(self, before: Wanted, wanted: Wanted) -> None:
        old, new = before.entries or {}, wanted.entries or {}
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                switch = self._world.switch(name)
                self.counts.include(name, switch)
                replace_entries(switch, old.get(name, ()), new.get(name, ()))

    def _set_up(self, names: Iterable[str], up: bool) -> None:
        """Links lose or get their carrier: first what is on the way is lost, then the devices learn of it."""
        links = [self._world.fabric.link(name) for name in sorted(names, key=self._places.__getitem__)]
        for end in _ends(links):
            self._world.channel(end).set_up(up)
        for end in _ends(links):
            self._world.node(end.node).port_changed(end.port, up)

    def _notify(self, record: FaultRecord) -> None:
        listed = _listed(record, record.cleared_at_ns if record.state is FaultState.CLEARED else record.ends_at_ns)
        for listener in self._listeners:
            listener(self._clock.now, listed)

    # ---- shorthands ---------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Callable[..., int]:
        """A shorthand for each kind: ``faults.loss("h1@p0", 0.01, until=9_000)`` adds ``Loss("h1@p0", 0.01)``."""
        try:
            kind = kind_named(name)
        except FabricError as error:
            raise AttributeError(str(error), name=name, obj=self) from None

        def shorthand(*values: object, at: int | None = None, until: int | None = None, **named: object) -> int:
            return self.add(kind.fault(*values, **named), at=at, until=until)

        return shorthand

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *KINDS]


def _number(record: FaultRecord) -> int:
    return int(record.id[1:])


def _listed(record: FaultRecord, end: int | None) -> ListedFault:
    return ListedFault(_number(record), record.fault, record.starts_at_ns, end, record.state)


def _ends(links: Iterable[Link]) -> Iterator[LinkEnd]:
    for link in links:
        yield from (link.lower, link.upper)


def _expect_end(fault: Fault, end: int | None) -> None:
    """Raises FaultError for a fault that would keep a world busy forever."""
    if isinstance(fault, Intermittent) and end is None:
        what = getattr(fault, fault.kind.target.name) if fault.kind.target else fault.kind.name
        raise FaultError(
            f"The world never becomes idle while {what} {fault.comes_and_goes[0]} without an end: give the fault an end"
            " (until), or run the world to a time or until a coroutine is done."
        )
