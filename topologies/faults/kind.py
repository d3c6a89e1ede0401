"""A kind of fault: a frozen dataclass with parameters, declared by :func:`kind` with what else there is to say of it.

A kind is known by its name, which is that of its class (``LinkDown`` is ``link_down``), in experiment files, messages
and simulation. On the command line it is a line of words: first the links or switches that it is on, then its word,
then its parameters in order.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, TypeVar

from mrc_common import units
from mrc_common.declared.field_types import Quantity
from mrc_common.declared.sections import SectionKey, keys_of
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.effect import Effect
from topologies.faults.parameters import FaultPlace, is_flag, place_of

_TARGETS = (FaultPlace.LINK, FaultPlace.SWITCH, FaultPlace.NODE)


class BackendKind(enum.Enum):
    """Who makes faults."""

    SIMULATION = "simulation"
    EMULATION = "emulation"


class FaultState(enum.Enum):
    """Life of a fault."""

    PENDING = "pending"
    ACTIVE = "active"
    CLEARED = "cleared"


class Fault:
    """A fault: of which kind, what it names, its parameters, and what it does to a fabric."""

    __slots__ = ()
    kind: ClassVar[FaultKind]

    def check(self) -> None:
        """Raises FabricError if a value is out of range."""
        try:
            for parameter in self.kind.parameters:
                parameter.check(getattr(self, parameter.name))
        except ValueError as error:
            raise FabricError(str(error)) from None

    def effect(self, fabric: Fabric) -> Effect:
        """What it does; FabricError if it names what is not there. Values are in range (:meth:`check`)."""
        raise NotImplementedError

    def scaled(self, times: float, rates: float) -> Fault:
        """The same with its times and rates multiplied, but none below the least there is."""
        factors = {units.TIME.name: times, units.RATE.name: rates}
        changes = {
            parameter.name: max(int(of.low), round(getattr(self, parameter.name) * factors[of.unit.name]))
            for parameter in self.kind.parameters
            if isinstance(of := parameter.type, Quantity) and of.unit.name in factors
        }
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    def in_words(self) -> str:
        """What it is and where, in a line: ``link down h1@p0``, ``loss h1@p0 1 %``."""
        place = [getattr(self, self.kind.target.name)] if self.kind.target else []
        return " ".join(filter(None, [self.kind.name.replace("_", " "), *place, self.values_text()]))

    def values_text(self) -> str:
        """Its parameters in words, but for where it is and what is at its default: ``1 %``, ``down 1 s up 3 s``."""
        required = [parameter for parameter in self.kind.parameters if parameter.required]
        only = required[-1] if len(required) == (2 if self.kind.target else 1) else None
        words = []
        for parameter in self.kind.parameters:
            value = getattr(self, parameter.name)
            if parameter is self.kind.target or (not parameter.required and value == parameter.default):
                continue
            if not is_flag(parameter.type):
                bare = parameter is only and isinstance(parameter.type, Quantity)  # else a number says too little
                words.append(parameter.show(value) if bare else f"{parameter.name} {parameter.show(value)}")
            elif value:
                words.append(parameter.name)
        return " ".join(words)


class Intermittent(Fault):
    """A fault that comes and goes: while it is active, its effect is on and off in turn, starting with on.

    With `random` each link is on and off at its own times, which are drawn from `seed` besides the run's own. Messages
    say that it `comes_and_goes` (and that links would, in the plural), and name its two `states`.
    """

    __slots__ = ()
    random: bool = False
    seed: int = 0
    comes_and_goes: ClassVar[tuple[str, str]] = ("comes and goes", "come and go")
    states: ClassVar[tuple[str, str]] = ("on", "off")

    def times(self) -> tuple[int, int]:
        """How long it is on and off each time, in ns; the means if it is random."""
        raise NotImplementedError

    def wait(self, on: bool, chance: Random) -> int:
        """How long links keep their current state, in ns."""
        mean = self.times()[not on]
        return max(1, round(chance.expovariate(1.0) * mean)) if self.random else mean

    def groups(self, links: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Of the `links` that it is on, those that change together. One that is on no link changes as a whole."""
        return [(link,) for link in links] if self.random and links else [links]


FaultClass = TypeVar("FaultClass", bound=type[Fault])


@dataclass(frozen=True, slots=True)
class Spelling:
    """Parameters that people may give instead of the fields `instead_of`: `make` turns the former into the latter.

    `declared` is a dataclass with these parameters; `make` raises FabricError when they do not fit one another.
    """

    declared: type[Any]
    instead_of: tuple[str, ...]
    make: Callable[[Any], Mapping[str, Any]]

    @property
    def parameters(self) -> tuple[SectionKey, ...]:
        """What may be given."""
        return tuple(keys_of(self.declared).values())


@dataclass(frozen=True, slots=True)
class FaultKind:
    """All that there is to say of a kind.

    `word` stands for it on the command line, where `order` names the parameters that follow; `old` are names that it
    had. `spelling` is another way to give some of its fields.
    """

    name: str
    fault: type[Fault]
    summary: str
    parameters: tuple[SectionKey, ...]
    word: str
    old: tuple[str, ...]
    backends: frozenset[BackendKind]
    spelling: Spelling | None = None
    order: tuple[str, ...] = ()

    @property
    def target(self) -> SectionKey | None:
        """What says where it is, and stands before its word; None for kinds that begin with their word."""
        first = self.parameters[0] if self.parameters else None
        return first if first is not None and place_of(first.type) in _TARGETS else None

    @property
    def drawable(self) -> bool:
        """Whether it is on links or switches that a pattern matches, so that some of them may be drawn."""
        return self.target is not None and place_of(self.target.type) in (FaultPlace.LINK, FaultPlace.SWITCH)

    @property
    def further(self) -> tuple[SectionKey, ...]:
        """The parameters that follow its word on the command line."""
        known = {parameter.name: parameter for parameter in self.all_parameters}
        names = self.order or [parameter.name for parameter in self.parameters if parameter is not self.target]
        return tuple(known[name] for name in names)

    @property
    def all_parameters(self) -> tuple[SectionKey, ...]:
        """Those of both spellings."""
        return (*self.parameters, *(self.spelling.parameters if self.spelling else ()))

    @property
    def usage(self) -> str:
        """The line of words that makes one: ``LINK loss PROBABILITY [TOWARDS]``."""
        words = [*([self.target.name.upper()] if self.target else []), self.word]
        closing = 0
        for parameter in self.further:
            if parameter.required:
                words.append(parameter.name.upper())
            elif is_flag(parameter.type):  # may come behind any of those before it
                words.append("]" * closing + f"[{parameter.name}")
                closing = 1
            else:
                words.append(f"[{parameter.name.upper()}")
                closing += 1
        return (" ".join(words) + "]" * closing).replace(" ]", "] ")

    @property
    def example(self) -> str:
        """Such a line: ``h1@p0 loss 1%``."""
        place = [self.target.examples[0]] if self.target else []
        return " ".join([*place, self.word, *(p.examples[0] for p in self.further if p.required)])

    def names(self) -> frozenset[str]:
        """Whatever it may be called, on the command line too."""
        return frozenset({self.name, self.word, *self.old})

    def make(self, given: Mapping[str, Any]) -> Fault:
        """One with these parameters, in either spelling; FabricError names one that is unknown, missing or too many."""
        fields = {name: value for name, value in given.items() if name in {p.name for p in self.parameters}}
        other = {name: value for name, value in given.items() if name not in fields}
        if other:
            fields |= self._respelled(other, fields)
        for parameter in self.parameters:
            if parameter.required and parameter.name not in fields:
                instead = self.spelling is not None and parameter.name in self.spelling.instead_of
                names = " and ".join(p.name for p in self.spelling.parameters) if instead and self.spelling else ""
                other_way = f" (or {names})" if names else ""
                raise FabricError(f"{parameter.name}{other_way} is missing: {parameter.doc}")
        fault = self.fault(**fields)
        fault.check()
        return fault

    def _respelled(self, other: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {parameter.name: parameter for parameter in self.spelling.parameters} if self.spelling else {}
        for name in other:
            if name not in known:
                raise FabricError(
                    f"{self.name} has no {name[:40]!r}: it has {', '.join(p.name for p in self.all_parameters)}"
                )
        assert self.spelling is not None, "else something was unknown"
        if twice := [name for name in self.spelling.instead_of if name in fields]:
            raise FabricError(f"{twice[0]} says the same as {next(iter(other))}: give one of them")
        for name, parameter in known.items():
            if name not in other and parameter.required:
                raise FabricError(f"{name} is missing: {parameter.doc}")
        try:
            checked = {name: known[name].check(value) for name, value in other.items()}
        except ValueError as error:
            raise FabricError(str(error)) from None
        return self.spelling.make(self.spelling.declared(**checked))


DECLARED: dict[str, FaultKind] = {}
"""Every kind that was declared, by name; :data:`topologies.faults.KINDS` has them all."""


def kind(
    *,
    word: str = "",
    order: tuple[str, ...] = (),
    old: tuple[str, ...] = (),
    backends: tuple[BackendKind, ...] = tuple(BackendKind),
    spelling: Spelling | None = None,
) -> Callable[[FaultClass], FaultClass]:
    """Declare a kind of fault; see :class:`FaultKind`. Goes above ``@dataclass(frozen=True, slots=True)``."""

    def declare(cls: FaultClass) -> FaultClass:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        summary = (cls.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
        parameters = tuple(keys_of(cls).values())
        found = FaultKind(name, cls, summary, parameters, word or name, old, frozenset(backends), spelling, order)
        DECLARED[name] = cls.kind = found
        return cls

    return declare
