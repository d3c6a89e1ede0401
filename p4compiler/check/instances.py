"""Instances: their constructors, and whether a parser or control is of the wanted type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from p4compiler import tree
from p4compiler.check.arguments import bind, check_known, record, takes
from p4compiler.check.checker import Checker
from p4compiler.check.conversions import Inference, converts
from p4compiler.check.expressions import (
    check_expression,
    convert,
)
from p4compiler.check.result import Bound
from p4compiler.check.scopes import Overloads
from p4compiler.diagnostics import Refusal
from p4compiler.types import (
    ANYTHING,
    UNKNOWN,
    ObjectType,
    Type,
    has_variables,
    substitute,
)


def check_instance(
    checker: Checker, node: tree.SyntaxNode, kind: ObjectType, given: Sequence[tree.Argument]
) -> ObjectType:
    """The type of a new object, whose constructor's arguments are checked; what is made is recorded at `node`."""
    declaration = kind.declaration
    parameters, constructor = _constructor(kind, given, node)
    bound = bind(parameters, given, f"{kind}", node, declaration)
    outer = dict(zip(declaration.type_parameters, kind.arguments, strict=False))
    if kind.arguments:
        bindings: dict[tree.TypeParameter, Type] = outer
    else:
        bindings = _infer_objects(checker, declaration, bound, node)
    for parameter, argument in bound:
        if argument is None:
            continue
        want = substitute(checker.checked.declared[parameter], bindings)
        have = check_expression(checker, argument)
        if not (isinstance(have, ObjectType) and isinstance(want, ObjectType)):
            convert(checker, argument, have, want)
            check_known(checker, argument)
        elif not fits_object(checker, have, want):
            why = _difference(checker, Inference(()), have, want)
            raise Refusal(f"{have} where {want} is expected: {why}", argument.span)
    arguments = tuple(bindings.get(item, ANYTHING) for item in declaration.type_parameters)
    made = ObjectType(declaration, arguments)
    record(checker, node, "constructor", constructor, bound, bindings, made)
    return made


def _constructor(
    kind: ObjectType, given: Sequence[tree.Argument], node: tree.SyntaxNode
) -> tuple[tuple[tree.Parameter, ...], tree.Prototype | None]:
    declaration = kind.declaration
    if isinstance(declaration, tree.PackageDeclaration):
        return declaration.parameters, None
    if isinstance(declaration, tree.ExternDeclaration):
        makers: Overloads = [item for item in declaration.methods if item.returns is None]
        if not makers:
            raise Refusal(f"{kind} has no constructor, so no instance of it can be made", node.span)
        fitting = [item for item in makers if takes(item.parameters, given)]
        chosen = (fitting or makers)[0]
        assert isinstance(chosen, tree.Prototype)
        return chosen.parameters, chosen
    body = declaration.states if isinstance(declaration, tree.ParserDeclaration) else declaration.body
    if body is None:
        raise Refusal(f"{kind} has no body, so no instance of it can be made", node.span)
    return declaration.constructor, None


def _infer_objects(
    checker: Checker, declaration: tree.Declaration, bound: Iterable[Bound], node: tree.SyntaxNode
) -> dict[tree.TypeParameter, Type]:
    assert isinstance(
        declaration, tree.ExternDeclaration | tree.ParserDeclaration | tree.ControlDeclaration | tree.PackageDeclaration
    )
    inference = Inference(declaration.type_parameters)
    for parameter, argument in bound:
        if argument is None:
            continue
        want, have = checker.checked.declared[parameter], check_expression(checker, argument)
        if isinstance(have, ObjectType) and isinstance(want, ObjectType):
            if not _match_objects(checker, inference, have, want):
                raise Refusal(f"{have} is no {want}: {_difference(checker, inference, have, want)}", argument.span)
        elif have != UNKNOWN and has_variables(want):
            inference.match(want, have)
    missing = [item.name for item in declaration.type_parameters if item not in inference.bindings]
    if missing and isinstance(declaration, tree.ExternDeclaration):
        raise Refusal(f"extern {declaration.name} needs a type argument for {missing[0]!r}", node.span)
    return inference.bindings


def fits_object(checker: Checker, have: ObjectType, want: ObjectType) -> bool:
    """Whether an object is of the wanted type, or is a parser or control with its parameters."""
    return converts(have, want) or _match_objects(checker, Inference(()), have, want)


def _pairs(
    checker: Checker, have: ObjectType, want: ObjectType
) -> list[tuple[tree.Parameter, Type, tree.Parameter, Type]] | None:
    a, b = have.declaration, want.declaration
    if (
        not isinstance(a, tree.ParserDeclaration | tree.ControlDeclaration)
        or type(a) is not type(b)
        or len(a.parameters) != len(b.parameters)
    ):
        return None
    mine = dict(zip(a.type_parameters, have.arguments, strict=False))
    theirs = dict(zip(b.type_parameters, want.arguments, strict=False))
    declared = checker.checked.declared
    return [
        (x, substitute(declared[x], mine), y, substitute(declared[y], theirs))
        for x, y in zip(a.parameters, b.parameters, strict=True)
    ]


def _match_objects(checker: Checker, inference: Inference, have: ObjectType, want: ObjectType) -> bool:
    if have.declaration is want.declaration:
        return inference.match(want, have)
    pairs = _pairs(checker, have, want)
    return pairs is not None and all(
        x.direction == y.direction and inference.match(pattern, kind) for x, kind, y, pattern in pairs
    )


def _difference(checker: Checker, inference: Inference, have: ObjectType, want: ObjectType) -> str:
    """How the parameters of a parser or control differ from those that are wanted."""
    pairs = _pairs(checker, have, want)
    if pairs is None:
        return (
            f"{len(have.declaration.parameters)} parameters"
            if hasattr(have.declaration, "parameters")
            else "another kind"
        )
    for x, kind, y, pattern in pairs:
        wanted = substitute(pattern, inference.bindings)
        if x.direction != y.direction or not inference.match(pattern, kind):
            return f"parameter {x.name!r} is `{x.direction} {kind}` where `{y.direction} {wanted}` is expected"
    return "its parameters differ"
