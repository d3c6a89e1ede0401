"""Everything that can be broken in the world: now or at a time, until a time or until cleared.

`Faults.add` takes any fault of `fault_kinds`; the methods named after them are shorthands. What a fault names and its
figures are checked at once, before anything happens. It then has an id, is listed while it is scheduled or active, and
may be cleared by that id. Several faults may hold on one line: their chances are independent, delays add up, the
lowest rate counts, and a link has its carrier only when no fault takes it.

Only lines and carriers are touched, never the devices: a NIC or a switch learns of a fault as a real one would, by its
port going down or by what does not arrive.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulation.errors import FaultError
from simulation.fault_kinds import (
    ControllerGone,
    Corruption,
    Delay,
    Effect,
    Fault,
    Flap,
    LinkDown,
    Loss,
    PathLoss,
    PortDown,
    Rate,
    Reordering,
    SwitchDead,
    SwitchSilent,
)
from simulation.line import Impairment, Line, combine
from simulation.seeds import derive
from topologies.errors import FabricError
from topologies.fabric import Endpoint, Link

if TYPE_CHECKING:
    from simulation.world import SimulatedWorld


class FaultState(enum.Enum):
    """Life of a fault."""

    SCHEDULED = "scheduled"
    ACTIVE = "active"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """A fault as it is listed. `start` and `end` are times in ns; `end` is None until cleared by hand."""

    id: int
    fault: Fault
    start: int
    end: int | None
    state: FaultState


Listener = Callable[[int, FaultRecord], None]


class Faults:
    """The faults of one world."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._clock = world.clock
        self._next = 1
        self._records: dict[int, FaultRecord] = {}
        self._impairments: dict[Line, dict[int, Impairment]] = {}
        self._carrier: dict[str, dict[int, None]] = {}  # by link: the faults that take its carrier
        self._controller: dict[int, None] = {}  # the faults that take the controller
        self._listeners: list[Listener] = []

    # ---- listing and clearing -----------------------------------------------------------------------------------

    def list(self) -> tuple[FaultRecord, ...]:
        """Every fault that is scheduled or active, in the order of adding."""
        return tuple(self._records.values())

    def watch(self, listener: Listener) -> None:
        """Call ``listener(now, record)`` whenever a fault is added, becomes active or is cleared."""
        self._listeners.append(listener)

    @property
    def controller_present(self) -> bool:
        """False while a fault keeps the controller away. Static tables do not need it."""
        return not self._controller

    def add(self, fault: Fault, *, at: int | None = None, until: int | None = None) -> int:
        """Add a fault; returns its id. `at` is a time in ns (None: now), `until` when it clears itself (None: never).

        FaultError names what does not exist or is out of range, or times in the wrong order.
        """
        now = self._clock.now
        start = now if at is None else at
        if start < now:
            raise FaultError(f"A fault cannot begin at {start} ns: it is {now} ns already.")
        if until is not None and until <= start:
            raise FaultError(f"A fault that begins at {start} ns must end later than that, not at {until} ns.")
        try:
            fault.effect(self._world.fabric)
        except FabricError as error:
            raise FaultError(f"{type(fault).__name__}: {error}") from None
        number = self._next
        self._next += 1
        self._records[number] = FaultRecord(number, fault, start, until, FaultState.SCHEDULED)
        self._tell(self._records[number])
        if at is None:
            self._begin(number, None)
        else:
            self._clock.at(start, self._begin, number)
        if until is not None:
            self._clock.at(until, self._end, number)
        return number

    def clear(self, number: int) -> None:
        """Undo a fault, or keep it from happening. FaultError when there is none of this id (any more)."""
        if number not in self._records:
            raise FaultError(f"There is no fault {number}: it was cleared, or never added.")
        self._end(number, None)

    def clear_all(self) -> None:
        """Clear every fault, scheduled ones too."""
        for number in tuple(self._records):
            self._end(number, None)

    def _begin(self, number: int, _: object) -> None:
        record = self._records.get(number)
        if record is None:
            return
        record = self._records[number] = replace(record, state=FaultState.ACTIVE)
        self._tell(record)
        if isinstance(record.fault, Flap):
            self._flap(number, True)
        else:
            self._apply(number, record.fault.effect(self._world.fabric))

    def _end(self, number: int, _: object) -> None:
        record = self._records.pop(number, None)
        if record is None:
            return
        self._withdraw(number)
        self._tell(replace(record, state=FaultState.CLEARED, end=self._clock.now))

    def _flap(self, number: int, down: bool) -> None:
        """Event handler: the link of a flapping fault goes down or comes up; schedules the next change."""
        record = self._records.get(number)
        if record is None:
            return
        fault = record.fault
        assert isinstance(fault, Flap)
        if down:
            self._apply(number, fault.effect(self._world.fabric))
        else:
            self._withdraw(number)
        seed = derive(self._world.seed, "flap", number)
        wait = fault.wait(down, seed, self._clock.now)
        self._clock.at(self._clock.now + wait, self._flap, number, not down)

    # ---- effects ------------------------------------------------------------------------------------------------

    def _apply(self, number: int, effect: Effect) -> None:
        for source, impairment in effect.lines:
            line = self._world.line(source)
            self._impairments.setdefault(line, {})[number] = impairment
            self._update(line)
        if effect.controller:
            self._controller[number] = None
        for link in effect.carrier:
            holders = self._carrier.setdefault(link.name, {})
            had_carrier = not holders
            holders[number] = None
            if had_carrier:
                self._set_carrier(link, False)

    def _withdraw(self, number: int) -> None:
        for line, impairments in tuple(self._impairments.items()):
            if impairments.pop(number, None) is not None:
                self._update(line)
            if not impairments:
                del self._impairments[line]
        self._controller.pop(number, None)
        for name, holders in tuple(self._carrier.items()):
            if number in holders:
                del holders[number]
                if not holders:
                    del self._carrier[name]
                    self._set_carrier(self._world.fabric.link(name), True)

    def _update(self, line: Line) -> None:
        line.impair(combine(self._impairments[line].values()))

    def _set_carrier(self, link: Link, up: bool) -> None:
        for end in (link.lower, link.upper):
            self._world.node(end.node).port_changed(end.port, up)

    def _tell(self, record: FaultRecord) -> None:
        for listener in self._listeners:
            listener(self._clock.now, record)

    # ---- shorthands (see `fault_kinds` for what each means) ---------------------------------------------------------

    def link_down(
        self, link: str, *, towards: str | None = None, at: int | None = None, until: int | None = None
    ) -> int:
        """:class:`LinkDown`."""
        return self.add(LinkDown(link, towards), at=at, until=until)

    def port_down(self, node: str, port: int, *, at: int | None = None, until: int | None = None) -> int:
        """:class:`PortDown`."""
        return self.add(PortDown(Endpoint(node, port)), at=at, until=until)

    def switch_dead(self, switch: str, *, at: int | None = None, until: int | None = None) -> int:
        """:class:`SwitchDead`."""
        return self.add(SwitchDead(switch), at=at, until=until)

    def switch_silent(self, switch: str, *, at: int | None = None, until: int | None = None) -> int:
        """:class:`SwitchSilent`."""
        return self.add(SwitchSilent(switch), at=at, until=until)

    def loss(
        self,
        link: str,
        probability: float,
        *,
        towards: str | None = None,
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`Loss`."""
        return self.add(Loss(link, probability, towards), at=at, until=until)

    def corruption(
        self,
        link: str,
        probability: float,
        *,
        towards: str | None = None,
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`Corruption`."""
        return self.add(Corruption(link, probability, towards), at=at, until=until)

    def reordering(
        self,
        link: str,
        probability: float,
        hold: int,
        *,
        towards: str | None = None,
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`Reordering`."""
        return self.add(Reordering(link, probability, hold, towards), at=at, until=until)

    def path_loss(
        self,
        ev: int,
        probability: float = 1.0,
        *,
        source: str = "*",
        destination: str = "*",
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`PathLoss`."""
        return self.add(PathLoss(ev, probability, source, destination), at=at, until=until)

    def rate(
        self,
        link: str,
        bits_per_second: int,
        *,
        towards: str | None = None,
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`Rate`."""
        return self.add(Rate(link, bits_per_second, towards), at=at, until=until)

    def delay(
        self, link: str, extra: int, *, towards: str | None = None, at: int | None = None, until: int | None = None
    ) -> int:
        """:class:`Delay`."""
        return self.add(Delay(link, extra, towards), at=at, until=until)

    def flap(
        self,
        link: str,
        down: int,
        up: int,
        *,
        at_random: bool = False,
        at: int | None = None,
        until: int | None = None,
    ) -> int:
        """:class:`Flap`."""
        return self.add(Flap(link, down, up, at_random), at=at, until=until)

    def controller_gone(self, *, at: int | None = None, until: int | None = None) -> int:
        """:class:`ControllerGone`."""
        return self.add(ControllerGone(), at=at, until=until)
