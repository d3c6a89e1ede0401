"""Declarations, and the whole program."""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler.sources import SourceSpan
from p4compiler.tree.expressions import Argument, Name
from p4compiler.tree.nodes import Declaration, Expression, StatementNode, SyntaxNode, TypeNode
from p4compiler.tree.statements import BlockStatement


@dataclass(frozen=True, eq=False, slots=True)
class TypeParameter(Declaration):
    """``T`` in ``f<T>(...)``."""


@dataclass(frozen=True, eq=False, slots=True)
class Parameter(Declaration):
    """``direction type name = default``; `direction` is empty, in, out or inout."""

    direction: str
    type: TypeNode
    default: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class ConstantDeclaration(Declaration):
    """``const type name = value``."""

    type: TypeNode
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class InstanceDeclaration(Declaration):
    """``type(arguments) name = { body }``."""

    type: TypeNode
    arguments: tuple[Argument, ...]
    body: tuple[Declaration, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class FieldDeclaration(Declaration):
    """A field of a struct, header or union."""

    type: TypeNode


@dataclass(frozen=True, eq=False, slots=True)
class StructDeclaration(Declaration):
    """A struct, header or header_union (`kind`)."""

    kind: str
    type_parameters: tuple[TypeParameter, ...]
    fields: tuple[FieldDeclaration, ...]


@dataclass(frozen=True, eq=False, slots=True)
class EnumMemberDeclaration(Declaration):
    """A value of an enum."""

    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class EnumDeclaration(Declaration):
    """An enum; with a `base` type its values are numbers."""

    base: TypeNode | None
    members: tuple[EnumMemberDeclaration, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Names(Declaration):
    """``error { ... }`` or ``match_kind { ... }`` (the declaration's name)."""

    members: tuple[EnumMemberDeclaration, ...]


@dataclass(frozen=True, eq=False, slots=True)
class TypedefDeclaration(Declaration):
    """``typedef``, or with `is_new` ``type``; of a type or of a struct or enum that is declared in it."""

    is_new: bool
    type: TypeNode | StructDeclaration | EnumDeclaration


@dataclass(frozen=True, eq=False, slots=True)
class Prototype(Declaration):
    """An extern function or a method; `returns` is None for a constructor."""

    returns: TypeNode | None
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    is_abstract: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class ExternDeclaration(Declaration):
    """A type of extern objects."""

    type_parameters: tuple[TypeParameter, ...]
    methods: tuple[Prototype, ...]


@dataclass(frozen=True, eq=False, slots=True)
class FunctionDeclaration(Declaration):
    """A function of the program's own."""

    returns: TypeNode
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    body: BlockStatement


@dataclass(frozen=True, eq=False, slots=True)
class ActionDeclaration(Declaration):
    """An action."""

    parameters: tuple[Parameter, ...]
    body: BlockStatement


@dataclass(frozen=True, eq=False, slots=True)
class SelectBranch(SyntaxNode):
    """``set: state``."""

    set: Expression
    state: Name


@dataclass(frozen=True, eq=False, slots=True)
class Select(SyntaxNode):
    """``select (keys) { cases }``."""

    keys: tuple[Expression, ...]
    cases: tuple[SelectBranch, ...]


@dataclass(frozen=True, eq=False, slots=True)
class StateDeclaration(Declaration):
    """A parser state; without a transition it goes to reject."""

    statements: tuple[StatementNode | Declaration, ...]
    transition: Name | Select | None


@dataclass(frozen=True, eq=False, slots=True)
class ParserDeclaration(Declaration):
    """A parser, or its type where `states` is None."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    states: tuple[StateDeclaration, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class ControlDeclaration(Declaration):
    """A control, or its type where `body` is None."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    body: BlockStatement | None


@dataclass(frozen=True, eq=False, slots=True)
class PackageDeclaration(Declaration):
    """A type of packages."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ValueSetDeclaration(Declaration):
    """``value_set<type>(size) name``."""

    type: TypeNode
    size: Expression


@dataclass(frozen=True, eq=False, slots=True)
class SyntaxTree:
    """All declarations of a program, those of included files too."""

    declarations: tuple[Declaration, ...]
    end: SourceSpan
