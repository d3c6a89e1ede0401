"""What the checker learns of a program, for the passes after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from p4compiler import tree
from p4compiler.types import ObjectType, Type

Constant = (
    int | bool | str
)  # a number, a boolean, a string; an enum's value or an error is its name where it is no number

CORE_ERRORS = (  # numbered as BMv2 does, not by the order of their declarations
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)

Bound = tuple[tree.Parameter, tree.Expression | None]  # a parameter and its argument; None for `_` and left-out ones
Callee = (
    tree.ActionDeclaration
    | tree.FunctionDeclaration
    | tree.Prototype
    | tree.ParserDeclaration
    | tree.ControlDeclaration
    | tree.TableDeclaration
    | None
)


@dataclass(frozen=True)
class ResolvedCall:
    """A call: of what (`declaration`; None for built-in methods), with the types for its type parameters.

    `kind` is action, function, extern, method (of an extern object), apply, builtin (of a header, a stack or a type)
    or constructor. `arguments` are in the order of parameters. `object_type` is what a constructor makes.
    """

    kind: str
    declaration: Callee
    arguments: tuple[Bound, ...]
    bindings: dict[tree.TypeParameter, Type] = field(default_factory=dict)
    object_type: ObjectType | None = None

    def as_written(self, given: Sequence[tree.Argument]) -> tuple[Bound, ...]:
        """The arguments in the order in which the call gives them, which is that of their evaluation."""
        order = {argument.value: position for position, argument in enumerate(given)}
        return tuple(sorted(self.arguments, key=lambda item: order.get(item[1], len(order))))


@dataclass
class Checked:
    """A program without errors, with what its constructs mean."""

    program: tree.SyntaxTree
    types: dict[tree.Expression, Type] = field(default_factory=dict)  # before conversion
    conversions: dict[tree.Expression, Type] = field(default_factory=dict)  # to what it is converted without a cast
    names: dict[tree.SyntaxNode, tree.Declaration] = field(default_factory=dict)  # what names stand for, of types too
    calls: dict[tree.SyntaxNode, ResolvedCall] = field(default_factory=dict)  # of calls and instances
    constants: dict[tree.Expression, Constant] = field(default_factory=dict)  # values that are known
    declared: dict[tree.Declaration, Type] = field(default_factory=dict)  # types of variables, fields, parameters, ...
    type_nodes: dict[tree.TypeNode, Type] = field(default_factory=dict)
    actions: dict[tree.ActionReference, tree.ActionDeclaration] = field(default_factory=dict)
    field_lists: dict[tree.FieldDeclaration, tuple[int, ...]] = field(default_factory=dict)  # the lists that it is in
    errors: dict[str, int] = field(default_factory=lambda: {name: i for i, name in enumerate(CORE_ERRORS)})
    declared_errors: dict[str, None] = field(default_factory=dict)  # in the order of their declarations
    match_kinds: dict[str, int] = field(default_factory=dict)
