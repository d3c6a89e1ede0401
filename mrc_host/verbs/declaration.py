"""Declaration of a verb of the NIC: once, as the signature of a method whose body is its docstring.

:func:`verb` makes such a method callable. A call is passed, with its arguments by name, to the object's ``call``, which
carries it out on a NIC device in this process (:mod:`mrc_host.verbs.device`) or sends it to an agent
(:mod:`mrc_host.verbs.remote.connection`). The agent decodes and checks requests by the same declaration
(:mod:`mrc_host.verbs.remote.verb_arguments`). Callers see the signature, so types are checked as for any method.

An argument's type says what is accepted for it. ``Annotated`` adds what a type cannot express: an :class:`IntegerRange`
or :class:`Length`, an object's number and whose it must be (:class:`Handle`), a descriptor sent beside the message
(:class:`Descriptor`), or some of a value's fields (:class:`FieldsOf`).
"""

from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Caller(enum.Enum):
    """Who may call a verb: clients of either socket, or of the controller's only."""

    APPLICATION = "application"
    CONTROLLER = "controller"


class ObjectKind(enum.Enum):
    """Kinds of objects that a client can have on a NIC."""

    PD = "protection domain"
    CQ = "completion queue"
    QP = "queue pair"
    REGION = "memory region"


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """An integer from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Length:
    """A string or bytes of `low` to `high` `units`."""

    low: int
    high: int
    units: str = "bytes"


@dataclass(frozen=True, slots=True)
class Handle:
    """The number of an object of the calling client or, with `any_client`, of any client."""

    kind: ObjectKind
    any_client: bool = False


@dataclass(frozen=True, slots=True)
class Descriptor:
    """An open file's descriptor, sent along with the request."""


@dataclass(frozen=True, slots=True)
class FieldsOf:
    """Some fields of a dataclass whose fields all have defaults, by name."""

    kind: type


U32 = Annotated[int, IntegerRange(0, (1 << 32) - 1)]
U64 = Annotated[int, IntegerRange(0, (1 << 64) - 1)]
U62 = Annotated[int, IntegerRange(0, (1 << 62) - 1)]
Address = Annotated[bytes, Length(16, 16)]  # of a NIC: IPv6
OwnPd = Annotated[int, Handle(ObjectKind.PD)]
OwnCq = Annotated[int, Handle(ObjectKind.CQ)]
OwnQp = Annotated[int, Handle(ObjectKind.QP)]
AnyQp = Annotated[int, Handle(ObjectKind.QP, any_client=True)]
OwnRegion = Annotated[int, Handle(ObjectKind.REGION)]


@dataclass(frozen=True, slots=True)
class VerbParameter:
    """An argument of a verb: its type (`optional`: or None), and the `rule` that ``Annotated`` adds to that.

    `default` is ``inspect.Parameter.empty`` where it must be given.
    """

    name: str
    kind: Any
    optional: bool
    rule: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty


class Verb:
    """A verb as it was declared. See :func:`verb`."""

    def __init__(self, function: Callable[..., Any], caller: Caller, timed: bool, sends: bool) -> None:
        self.name = function.__name__
        self.caller = caller
        self.timed = timed
        self.sends = sends
        self.function = function
        self._signature = inspect.signature(function)
        self._names = tuple(self._signature.parameters)[1:]  # without self
        self._all_names = frozenset(self._names)

    @cached_property
    def parameters(self) -> dict[str, VerbParameter]:
        """Its arguments by name, in order."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        given = self._signature.parameters
        return {name: _parameter(name, hints[name], given[name].default) for name in self._names}

    @cached_property
    def result(self) -> Any:
        """The type of its result."""
        return typing.get_type_hints(self.function)["return"]

    def bind(self, verbs: Verbs, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, defaults included; TypeError as for any function."""
        if not named and len(arguments) == len(self._names):
            return dict(zip(self._names, arguments, strict=True))
        if not arguments and named.keys() == self._all_names:
            return named
        bound = self._signature.bind(verbs, *arguments, **named)
        bound.apply_defaults()
        by_name = bound.arguments
        del by_name["self"]
        return by_name


def verb(*, caller: Caller = Caller.APPLICATION, timed: bool = False, sends: bool = False) -> Callable[[F], F]:
    """Declare a verb that `caller` may call.

    `timed`: the device's command takes the time, as `now`. `sends`: likewise, and the NIC may have something to send
    afterwards.
    """

    def declare(function: F) -> F:
        declared = Verb(function, caller, timed or sends, sends)

        @functools.wraps(function)
        def call(self: Verbs, *arguments: Any, **named: Any) -> Any:
            return self.call(declared, declared.bind(self, arguments, named))

        call.verb = declared  # type: ignore[attr-defined]
        return cast("F", call)

    return declare


class Verbs(ABC):
    """Base of classes that declare verbs, and of those that carry them out."""

    @abstractmethod
    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Carry out a verb that the class has no method of its own for."""


def declared_by(verbs: type) -> dict[str, Verb]:
    """The verbs that a class and those it derives from declare, by name."""
    return {
        name: member.verb
        for base in reversed(verbs.__mro__)
        for name, member in vars(base).items()
        if hasattr(member, "verb")
    }


def _parameter(name: str, hint: Any, default: Any) -> VerbParameter:
    optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
        optional = True
    rule = None
    if typing.get_origin(hint) is Annotated:
        hint, rule = typing.get_args(hint)
    return VerbParameter(name, hint, optional, rule, default)
