"""Actions: parameters, and primitives that run in order.

Primitives have BMv2's names. Their arguments are checked by program/primitive_reader.py, so an `Arg` here always has
the class that its primitive expects. Jumps inside an action name positions of primitives.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.expressions import Expr, HeaderExpr


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A location in the P4 source; line 0 if the JSON has none."""

    file: str | None = None
    line: int = 0
    fragment: str = ""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive call: name and arguments, checked and resolved by program/primitive_reader.py."""

    op: str
    args: tuple[Arg, ...]
    source: SourceInfo


@dataclass(frozen=True, slots=True)
class HeaderArg:
    """A header argument."""

    header: HeaderExpr


@dataclass(frozen=True, slots=True)
class StackArg:
    """A header stack argument."""

    stack: int


@dataclass(frozen=True, slots=True)
class UnionArg:
    """A header union argument: its members."""

    headers: tuple[HeaderExpr, ...]


@dataclass(frozen=True, slots=True)
class ObjectArg:
    """A counter, meter, register or calculation argument, by position."""

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class TextArg:
    """A string argument (log_msg)."""

    text: str


@dataclass(frozen=True, slots=True)
class ListArg:
    """A list of expressions (log_msg)."""

    items: tuple[Expr, ...]


Arg = Expr | HeaderArg | StackArg | UnionArg | ObjectArg | TextArg | ListArg


@dataclass(frozen=True, slots=True)
class Param:
    """An action parameter."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    """An action: parameters, and primitives in order (jumps name positions)."""

    name: str
    params: tuple[Param, ...]
    primitives: tuple[Primitive, ...]
    source: SourceInfo
