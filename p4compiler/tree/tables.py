"""Tables: their keys, actions, entries and other properties."""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler.tree.expressions import Argument, Name
from p4compiler.tree.nodes import Annotations, Declaration, Expression, SyntaxNode


@dataclass(frozen=True, eq=False, slots=True)
class TableKey(SyntaxNode):
    """``expression : match_kind`` in a table."""

    expression: Expression
    match_kind: Name
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class ActionReference(SyntaxNode):
    """An action of a table, with arguments for its parameters that have a direction."""

    action: Name
    arguments: tuple[Argument, ...] | None
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class DeclaredEntry(SyntaxNode):
    """An entry that the program gives a table."""

    keys: Expression
    action: ActionReference
    priority: Expression | None
    is_const: bool
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class TableProperty(SyntaxNode):
    """Any other property of a table."""

    name: str
    value: Expression
    is_const: bool
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class DeclaredEntries(SyntaxNode):
    """The entries of a table."""

    items: tuple[DeclaredEntry, ...]
    is_const: bool


@dataclass(frozen=True, eq=False, slots=True)
class TableDeclaration(Declaration):
    """A table."""

    keys: tuple[TableKey, ...] | None
    actions: tuple[ActionReference, ...] | None
    entries: DeclaredEntries | None
    properties: tuple[TableProperty, ...]
