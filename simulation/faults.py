"""Everything that can be broken in the world: now or at a time, until a time or until cleared.

`Faults.add` takes any of `topologies.faults`; each kind's name is a method that does the same. What a fault names and
its parameters are checked at once, before anything happens. It then has an id, is listed while it is pending or active,
and may be cleared by that id. Several faults may hold on one channel: their chances are independent, delays add up, the
lowest rate counts, and a link has its carrier only when no fault takes it.

Only channels and carriers are touched, never the devices: a NIC or a switch learns of a fault as a real one would, by
its port going down or by what does not arrive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulation.channel import Channel, Impairment, combine
from simulation.errors import FaultError
from simulation.fault_impairments import FaultImpairments, down, impairments_of
from simulation.seeds import generator
from topologies.errors import FabricError
from topologies.fabric import Link
from topologies.faults import KINDS, Fault, FaultState, kind_named
from topologies.faults.flap import Flap

if TYPE_CHECKING:
    from simulation.world import SimulatedWorld


@dataclass(frozen=True, slots=True)
class ListedFault:
    """A fault as it is listed. `start` and `end` are times in ns; `end` is None until cleared by hand."""

    id: int
    fault: Fault
    start: int
    end: int | None
    state: FaultState


@dataclass(frozen=True, slots=True)
class _Toggle:
    """Links that go down and up together for a flapping fault."""

    number: int
    fault: Flap
    links: tuple[Link, ...]


Listener = Callable[[int, ListedFault], None]


class Faults:
    """The faults of one world."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._clock = world.clock
        self._next = 1
        self._records: dict[int, ListedFault] = {}
        self._impairments: dict[Channel, dict[int, Impairment]] = {}
        self._carrier: dict[str, dict[int, None]] = {}  # by link: the faults that take its carrier
        self._controller: dict[int, None] = {}  # the faults that take the controller
        self._listeners: list[Listener] = []
        self._rest_expected = False

    # ---- listing and clearing -----------------------------------------------------------------------------------

    def list(self) -> tuple[ListedFault, ...]:
        """Every fault that is pending or active, in the order of adding."""
        return tuple(self._records.values())

    def watch(self, listener: Listener) -> None:
        """Call ``listener(now, record)`` whenever a fault is added, becomes active or is cleared."""
        self._listeners.append(listener)

    @property
    def controller_present(self) -> bool:
        """False while a fault keeps the controller away. Static tables do not need it."""
        return not self._controller

    def has_carrier(self, link: str) -> bool:
        """Whether no fault takes the carrier of this link now."""
        return not self._carrier.get(link)

    @contextlib.contextmanager
    def rest_expected(self) -> Iterator[None]:
        """For a world that is to run until no event is left: FaultError for a flap without an end, now or added inside.

        Its links would go down and up for ever.
        """
        for record in self._records.values():
            _expect_end(record.fault, record.end)
        self._rest_expected = True
        try:
            yield
        finally:
            self._rest_expected = False

    def add(self, fault: Fault, *, at: int | None = None, until: int | None = None) -> int:
        """Add a fault; returns its id. `at` is a time in ns (None: now), `until` when it clears itself (None: never).

        FaultError names what does not exist or is out of range, or times in the wrong order.
        """
        now = self._clock.now
        if self._rest_expected:
            _expect_end(fault, until)
        for when in (at, until):
            if not isinstance(when, int | None):
                raise FaultError(f"A fault begins and ends at a whole number of ns, not {when!r}.")
        start = now if at is None else at
        if start < now:
            raise FaultError(f"A fault cannot begin at {start} ns: it is {now} ns already.")
        if until is not None and until <= start:
            raise FaultError(f"A fault that begins at {start} ns must end later than that, not at {until} ns.")
        try:
            impairments_of(self._world.fabric, fault)
        except FabricError as error:
            raise FaultError(f"{type(fault).__name__}: {error}") from None
        number = self._next
        self._next += 1
        self._records[number] = ListedFault(number, fault, start, until, FaultState.PENDING)
        self._notify(self._records[number])
        if start == now:  # at once, not after what else is due now: at 0 the very first frame meets it
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
        self._notify(record)
        if isinstance(record.fault, Flap):
            links = self._world.fabric.find_links(record.fault.link)
            for group in ((link,) for link in links) if record.fault.random else (links,):
                self._flap(_Toggle(number, record.fault, group), True)
        else:
            self._apply(number, impairments_of(self._world.fabric, record.fault))

    def _end(self, number: int, _: object) -> None:
        record = self._records.pop(number, None)
        if record is None:
            return
        self._withdraw(number)
        self._notify(replace(record, state=FaultState.CLEARED, end=self._clock.now))

    def _flap(self, toggle: _Toggle, is_down: bool) -> None:
        """Links of a flapping fault go down or come up; schedules the next change."""
        number = toggle.number
        if number not in self._records:
            return
        if is_down:
            self._apply(number, down(toggle.links))
        else:
            self._withdraw(number, toggle.links)
        chance = generator(self._world.seed, "flap", number, toggle.fault.seed, toggle.links[0].name, self._clock.now)
        wait = toggle.fault.wait(is_down, chance)
        self._clock.at(self._clock.now + wait, self._flap, toggle, not is_down)

    # ---- impairments --------------------------------------------------------------------------------------------

    def _apply(self, number: int, impairments: FaultImpairments) -> None:
        for source, impairment in impairments.channels:
            channel = self._world.channel(source)
            self._impairments.setdefault(channel, {})[number] = impairment
            self._update(channel)
        if impairments.controller:
            self._controller[number] = None
        for link in impairments.carrier:
            holders = self._carrier.setdefault(link.name, {})
            had_carrier = not holders
            holders[number] = None
            if had_carrier:
                self._set_carrier(link, False)

    def _withdraw(self, number: int, links: Iterable[Link] | None = None) -> None:
        """Take back what a fault does, everywhere or on some links."""
        if links is None:
            channels, names = tuple(self._impairments), tuple(self._carrier)
        else:
            channels = tuple(self._world.channel(end) for link in links for end in (link.lower, link.upper))
            names = tuple(link.name for link in links)
        for channel in channels:
            impairments = self._impairments.get(channel, {})
            if impairments.pop(number, None) is not None:
                self._update(channel)
            if not impairments:
                self._impairments.pop(channel, None)
        self._controller.pop(number, None)
        for name in names:
            holders = self._carrier.get(name, {})
            if number in holders:
                del holders[number]
                if not holders:
                    del self._carrier[name]
                    self._set_carrier(self._world.fabric.link(name), True)

    def _update(self, channel: Channel) -> None:
        channel.impair(combine(self._impairments[channel].values()))

    def _set_carrier(self, link: Link, up: bool) -> None:
        for end in (link.lower, link.upper):
            self._world.node(end.node).port_changed(end.port, up)

    def _notify(self, record: ListedFault) -> None:
        for listener in self._listeners:
            listener(self._clock.now, record)

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


def _expect_end(fault: Fault, end: int | None) -> None:
    """Raises FaultError for a fault that would keep a world busy forever."""
    if isinstance(fault, Flap) and end is None:
        raise FaultError(
            f"The world never becomes idle while {fault.link} flaps without an end: give the fault an end (until),"
            " or run the world to a time or until a coroutine is done."
        )
