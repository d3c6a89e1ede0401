"""Extern objects of v1model: counters, meters, registers, hash and checksum calculations, field lists.

Actions refer to them by kind and position (`ObjectArg`); their run-time state belongs to the switch (state/). A
calculation is a function of packet contents; a checksum is a rule that a field equals a calculation.
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
    """The bytes after the parsed headers, as input of a calculation."""


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
    """Fields kept by clone, resubmit or recirculate, or the values of a digest. Primitives refer to it by `id`."""

    id: int
    name: str
    fields: tuple[FieldRef | ValidBit, ...]
