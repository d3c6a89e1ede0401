"""Statements, and variables, which may be declared among them."""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler.sources import SourceSpan
from p4compiler.tree.expressions import CallExpression
from p4compiler.tree.nodes import Declaration, Expression, StatementNode, SyntaxNode, TypeNode


@dataclass(frozen=True, eq=False, slots=True)
class VariableDeclaration(Declaration):
    """``type name = value``."""

    type: TypeNode
    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class BlockStatement(StatementNode):
    """Statements in braces."""

    statements: tuple[StatementNode | Declaration, ...]
    end: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class EmptyStatement(StatementNode):
    """A semicolon alone."""


@dataclass(frozen=True, eq=False, slots=True)
class AssignStatement(StatementNode):
    """``target op= value``; `op` is empty for ``=``."""

    target: Expression
    op: str
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class CallStatement(StatementNode):
    """A call whose value is not used."""

    call: CallExpression


@dataclass(frozen=True, eq=False, slots=True)
class IfStatement(StatementNode):
    """``if (condition) yes else no``."""

    condition: Expression
    yes: StatementNode
    no: StatementNode | None


@dataclass(frozen=True, eq=False, slots=True)
class ReturnStatement(StatementNode):
    """``return value``."""

    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class ExitStatement(StatementNode):
    """``exit``."""


@dataclass(frozen=True, eq=False, slots=True)
class BreakStatement(StatementNode):
    """``break``."""


@dataclass(frozen=True, eq=False, slots=True)
class ContinueStatement(StatementNode):
    """``continue``."""


@dataclass(frozen=True, eq=False, slots=True)
class SwitchCase(SyntaxNode):
    """``label: body``; `label` is AnyValue for ``default``; without a body the next case's body counts."""

    label: Expression
    body: BlockStatement | None


@dataclass(frozen=True, eq=False, slots=True)
class SwitchStatement(StatementNode):
    """``switch (subject) { cases }``."""

    subject: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ForStatement(StatementNode):
    """``for (start; condition; step) body``."""

    start: tuple[StatementNode | Declaration, ...]
    condition: Expression
    step: tuple[StatementNode, ...]
    body: StatementNode


@dataclass(frozen=True, eq=False, slots=True)
class ForInStatement(StatementNode):
    """``for (type variable in collection) body``."""

    variable: VariableDeclaration
    collection: Expression
    body: StatementNode
