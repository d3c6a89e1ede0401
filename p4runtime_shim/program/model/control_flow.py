"""Control flow of ingress and egress: a graph of tables, conditions and calls.

A `NodeRef` names the next node by kind and position; None is the end. The successor of a table depends on the action
that ran, or on hit or miss; that of a condition on its value. Const entries and default actions are part of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.actions import SourceInfo
from p4runtime_shim.program.model.expressions import Expr, FieldRef, ValidBit

NodeRef = tuple[str, int]  # ("table" | "condition" | "call", position)


@dataclass(frozen=True, slots=True)
class Key:
    """A key field of a table. `kind` is exact, lpm, ternary, range, optional or valid; `mask` a static mask or None."""

    name: str
    kind: str
    source: FieldRef | ValidBit
    width: int
    mask: int | None


@dataclass(frozen=True, slots=True)
class FixedCall:
    """An action with constant arguments."""

    action: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FixedEntry:
    """A const entry: for each key (value, mask or prefix length or high bound); BMv2 priority (lower wins)."""

    match: tuple[tuple[int, int], ...]
    call: FixedCall
    priority: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `kind` is exact, lpm, ternary or range; `profile` the position of its action profile or None."""

    name: str
    keys: tuple[Key, ...]
    kind: str
    profile: int | None
    size: int
    counters: bool
    timeout: bool  # entries have idle timeouts
    meter: int | None
    actions: tuple[int, ...]
    next_by_action: tuple[tuple[int, NodeRef | None], ...]
    next_hit: NodeRef | None
    next_miss: NodeRef | None
    by_hit: bool  # the next node depends on hit or miss, not on the action
    default: FixedCall | None
    default_const: bool
    entries: tuple[FixedEntry, ...]
    entries_const: bool
    base_next: NodeRef | None
    source: SourceInfo


@dataclass(frozen=True, slots=True)
class Condition:
    """A branch of a control."""

    name: str
    expr: Expr
    yes: NodeRef | None
    no: NodeRef | None
    source: SourceInfo


@dataclass(frozen=True, slots=True)
class Call:
    """An action called from a control outside of any table."""

    name: str
    action: int
    next: NodeRef | None


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """Ingress or egress."""

    name: str
    start: NodeRef | None
    tables: tuple[int, ...]
    conditions: tuple[int, ...]
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """An action profile, or selector when `algorithm` is not None."""

    name: str
    size: int
    algorithm: str | None
    inputs: tuple[FieldRef | ValidBit, ...]
