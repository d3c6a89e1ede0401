"""Extern objects of v1model: counters, meters, registers, hash and checksum calculations, field lists.

Actions name them by kind and position (`ObjectArg`); what they hold at run time is the switch's (state/). A calculation
is a function of packet contents, a checksum the rule that a field equals one.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.expressions import Expr, FieldRef, HeaderRef, ValidBit


@dataclass(frozen=True, slots=True)
class Counter:
    """An indirect counter array."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter array, or the direct meter of `table` with its result field."""

    name: str
    size: int
    packets: bool
    table: str | None
    result: FieldRef | None


@dataclass(frozen=True, slots=True)
class Register:
    """A register array."""

    name: str
    size: int
    width: int


@dataclass(frozen=True, slots=True)
class Bits:
    """Constant bits of a calculation's input."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class Payload:
    """What follows the parsed headers, as input of a calculation."""


CalcInput = FieldRef | ValidBit | HeaderRef | Bits | Payload


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over fields."""

    name: str
    algorithm: str
    inputs: tuple[CalcInput, ...]


@dataclass(frozen=True, slots=True)
class Checksum:
    """A field kept equal to a calculation: verified after the parser, updated before the deparser."""

    name: str
    target: FieldRef
    calculation: int
    verify: bool
    update: bool
    condition: Expr | None


@dataclass(frozen=True, slots=True)
class FieldList:
    """Fields that survive clone, resubmit or recirculate; or the values of a digest. `id` as the primitives name it."""

    id: int
    name: str
    fields: tuple[FieldRef | ValidBit, ...]
