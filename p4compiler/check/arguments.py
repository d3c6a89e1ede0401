"""Arguments: which is for which parameter, the types that they give type parameters, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from p4compiler import tree
from p4compiler.check import constants, type_nodes
from p4compiler.check.checker import Checker
from p4compiler.check.conversions import Inference
from p4compiler.check.expressions import (
    check_expression,
    check_writable,
    convert,
    mismatch,
)
from p4compiler.check.result import Bound, Callee, ResolvedCall
from p4compiler.diagnostics import Note, Refusal, counted, did_you_mean
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    UNKNOWN,
    VOID,
    BitsType,
    CallableType,
    EnumType,
    ObjectType,
    Type,
    TypeItself,
    VarbitType,
    base_of,
    has_variables,
    substitute,
)

Bindings = Mapping[tree.TypeParameter, Type]


def takes(parameters: Sequence[tree.Parameter], given: Sequence[tree.Argument]) -> bool:
    """Whether the arguments are for these parameters, by number and names."""
    if len(given) > len(parameters):
        return False
    names = {argument.name or parameter.name for argument, parameter in zip(given, parameters, strict=False)}
    return names <= {item.name for item in parameters} and all(
        item.name in names or is_optional(item) for item in parameters
    )


def is_optional(parameter: tree.Parameter) -> bool:
    """Whether the argument may be left out."""
    return parameter.default is not None or tree.annotation(parameter.annotations, "optional") is not None


def bind(
    parameters: Sequence[tree.Parameter],
    given: Sequence[tree.Argument],
    what: str,
    node: tree.SyntaxNode,
    declaration: tree.Declaration | None = None,
) -> tuple[Bound, ...]:
    """Parameters with their arguments, in the order of parameters; raises Refusal."""
    notes = [Note("declared here", declaration.span)] if declaration and not declaration.span.source.standard else []
    values: dict[str, tree.Expression | None] = {}
    for position, argument in enumerate(given):
        if argument.name is None:
            if position >= len(parameters):
                has = counted(len(parameters), "parameter")
                raise Refusal(f"{counted(len(given), 'argument')} for {what}, which has {has}", node.span, *notes)
            name = parameters[position].name
        else:
            name = argument.name
            if all(item.name != name for item in parameters):
                hint = did_you_mean(name, [item.name for item in parameters])
                raise Refusal(f"{what} has no parameter {name!r}{hint}", argument.span, *notes)
        if name in values:
            raise Refusal(f"two arguments for parameter {name!r} of {what}", argument.span)
        values[name] = argument.value
    for parameter in parameters:
        if parameter.name not in values and not is_optional(parameter):
            raise Refusal(f"no argument for parameter {parameter.name!r} of {what}", node.span, *notes)
    return tuple((item, values.get(item.name, item.default)) for item in parameters)


def infer(
    checker: Checker,
    node: tree.SyntaxNode,
    parameters: tuple[tree.TypeParameter, ...],
    explicit: Sequence[tree.TypeNode],
    bound: Iterable[Bound],
    outer: Bindings,
) -> dict[tree.TypeParameter, Type]:
    """Types for the type parameters of what is called: those that are given, or those that the arguments show."""
    if explicit and len(explicit) != len(parameters):
        raise Refusal(
            f"{counted(len(explicit), 'type argument')} for {counted(len(parameters), 'type parameter')}", node.span
        )
    inference = Inference(parameters)
    for parameter, type_node in zip(parameters, explicit, strict=False):
        kind = type_nodes.resolve(checker, type_node)
        if kind != ANYTHING:
            inference.bindings[parameter] = kind
    arguments: list[tree.Expression] = []
    for parameter_, argument in bound:
        if argument is None:
            continue
        arguments.append(argument)
        have = check_expression(checker, argument)
        pattern = substitute(checker.checked.declared[parameter_], outer)
        if have != UNKNOWN and has_variables(pattern) and not inference.match(pattern, have):
            wanted = substitute(pattern, inference.bindings)
            raise Refusal(mismatch(have, wanted), argument.span)
    for parameter in parameters:
        if inference.bindings.get(parameter) == INTEGER:
            where = next((item for item in arguments if checker.checked.types.get(item) == INTEGER), None)
            raise Refusal("could not infer a width; write one, as in 16w0", where.span if where else node.span)
        if parameter not in inference.bindings:
            raise Refusal(f"could not infer a type for variable {parameter.name}", node.span)
    return {**outer, **inference.bindings}


def check_argument(
    checker: Checker, parameter: tree.Parameter, argument: tree.Expression | None, want: Type, node: tree.SyntaxNode
) -> None:
    """Check an argument against its parameter."""
    if argument is None:
        if parameter.direction != "out" and not is_optional(parameter):
            checker.error(f"'_' is no argument for parameter {parameter.name!r}, which is not 'out'", node.span)
        return
    have = check_expression(checker, argument)
    if isinstance(have, TypeItself | CallableType) or have == VOID:
        raise Refusal(f"{have} is not a value", argument.span)
    if parameter.direction in ("out", "inout"):
        if UNKNOWN not in (have, want) and have != want:
            text = f"{have} where {want} is expected: types of {parameter.direction} arguments must be equal"
            raise Refusal(text, argument.span)
        check_writable(checker, argument)
        return
    convert(checker, argument, have, want)


def check_known(checker: Checker, argument: tree.Expression) -> None:
    """Refuse an argument whose value is not known when the program is compiled."""
    if not is_known(checker, argument):
        raise Refusal("this argument must be a compile-time constant", argument.span)


def is_known(checker: Checker, node: tree.Expression) -> bool:
    """Whether the value is known at compile time, if perhaps only for each instance."""
    kind = checker.checked.types.get(node, UNKNOWN)
    if kind == UNKNOWN or isinstance(kind, ObjectType | TypeItself) or constants.value(checker, node) is not None:
        return True
    if isinstance(node, tree.Name):
        declaration = checker.checked.names.get(node)
        return isinstance(declaration, tree.ConstantDeclaration) or (
            isinstance(declaration, tree.Parameter) and declaration.direction == ""
        )
    if isinstance(node, tree.ListLiteral):
        return all(is_known(checker, item) for item in node.items)
    if isinstance(node, tree.RecordLiteral):
        return all(is_known(checker, item.value) for item in node.fields)
    if isinstance(node, tree.CastExpression | tree.UnaryExpression):
        return is_known(checker, node.operand)
    if isinstance(node, tree.BinaryExpression):
        return is_known(checker, node.left) and is_known(checker, node.right)
    if isinstance(node, tree.ChoiceExpression):
        return all(is_known(checker, item) for item in (node.condition, node.yes, node.no))
    if isinstance(node, tree.MemberExpression | tree.SliceExpression):
        return is_known(checker, node.base)
    return isinstance(node, tree.CallExpression) and checker.checked.calls[node].kind in ("constructor", "builtin")


def record(
    checker: Checker,
    node: tree.SyntaxNode,
    kind: str,
    declaration: Callee,
    bound: tuple[Bound, ...],
    bindings: Bindings,
    object_type: ObjectType | None = None,
) -> None:
    """Record what a call means."""
    checker.checked.calls[node] = ResolvedCall(kind, declaration, bound, dict(bindings), object_type)


def is_passable(kind: Type) -> bool:
    """Whether the control plane can give a value of this type to an action."""
    kind = base_of(kind)
    return (
        kind in (BOOL, UNKNOWN, ERROR, STRING)
        or isinstance(kind, BitsType | VarbitType)
        or (isinstance(kind, EnumType) and kind.base is not None)
    )
