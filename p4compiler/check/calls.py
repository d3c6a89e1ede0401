"""Calls: what is called, with which arguments for which parameters, and whether it may be called there."""

from __future__ import annotations

from collections.abc import Sequence

from p4compiler import tree
from p4compiler.check import constants, type_nodes
from p4compiler.check.arguments import Bindings, bind, check_argument, check_known, infer, record, takes
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import (
    HEADER_METHODS,
    SIZE_METHODS,
    check_expression,
    check_writable,
)
from p4compiler.check.instances import check_instance
from p4compiler.check.result import Bound
from p4compiler.check.scopes import Overloads
from p4compiler.diagnostics import Note, Refusal, shown
from p4compiler.types import (
    BOOL,
    INTEGER,
    UNKNOWN,
    VOID,
    AppliedType,
    CallableType,
    ObjectType,
    RecordType,
    StackType,
    TableType,
    TupleType,
    Type,
    TypeItself,
    VarbitType,
    base_of,
    is_header,
    substitute,
)


def check_call(checker: Checker, node: tree.CallExpression) -> Type:
    """The type of a call's result; what is called is recorded."""
    function = node.function
    kind = check_expression(checker, function)
    if kind == UNKNOWN:
        for argument in node.arguments:
            if argument.value is not None:
                check_expression(checker, argument.value)
        return UNKNOWN
    if isinstance(kind, TypeItself):
        return _anonymous_instance(checker, node, kind.type)
    if not isinstance(kind, CallableType):
        raise Refusal(f"{kind} cannot be called", function.span)
    if isinstance(function, tree.MemberExpression):
        return _check_method(checker, node, function)
    assert isinstance(function, tree.Name)
    found = (checker.scope.outermost if function.absolute else checker.scope).find(function.name)
    assert found is not None
    scope, declaration = found
    if isinstance(declaration, tree.ActionDeclaration):
        return _call_action(checker, node, declaration)
    _refuse_outside_code(checker, node, function.name)
    return _call_function(checker, node, scope.overloads[function.name], node.arguments)


def _refuse_outside_code(checker: Checker, node: tree.CallExpression, name: str) -> None:
    if checker.place.kind in ("top", "parser", "table") and name != "static_assert":
        raise Refusal(f"{name!r}: no function calls allowed in this context", node.span)


def _call_action(checker: Checker, node: tree.CallExpression, action: tree.ActionDeclaration) -> Type:
    if checker.place.kind not in ("control", "action"):
        raise Refusal(f"{action.name}(): no action calls allowed in this context", node.span)
    bound = bind(action.parameters, node.arguments, f"action {action.name!r}", node, action)
    for parameter, argument in bound:
        check_argument(checker, parameter, argument, checker.checked.declared[parameter], node)
    record(checker, node, "action", action, bound, {})
    return VOID


def _call_function(
    checker: Checker,
    node: tree.CallExpression,
    candidates: Overloads,
    given: Sequence[tree.Argument],
    outer: Bindings | None = None,
) -> Type:
    function = _choose(candidates, given, node)
    kind = "function" if isinstance(function, tree.FunctionDeclaration) else "extern" if outer is None else "method"
    bound = bind(function.parameters, given, f"{function.name!r}", node, function)
    _warn_if_deprecated(checker, function, node)
    bindings = infer(checker, node, function.type_parameters, node.type_arguments, bound, outer or {})
    for parameter, argument in bound:
        wanted = substitute(checker.checked.declared[parameter], bindings)
        check_argument(checker, parameter, argument, wanted, node)
        if parameter.direction == "" and kind != "function" and argument is not None:
            check_known(checker, argument)
    record(checker, node, kind, function, bound, bindings)
    if function.name == "static_assert":
        _check_static_assert(checker, bound)
    assert function.returns is not None
    return substitute(checker.checked.type_nodes[function.returns], bindings)


def _choose(
    candidates: Overloads, given: Sequence[tree.Argument], node: tree.CallExpression
) -> tree.Prototype | tree.FunctionDeclaration:
    if len(candidates) == 1:
        return candidates[0]
    fitting = [item for item in candidates if takes(item.parameters, given)]
    if not fitting:
        counts = " or ".join(sorted({str(len(item.parameters)) for item in candidates}))
        notes = [Note("a candidate is here", item.span) for item in candidates[:3]]
        text = f"{candidates[0].name!r} takes {counts} arguments by other names, not these {len(given)}"
        raise Refusal(text, node.span, *notes)
    return fitting[0]


def _check_static_assert(checker: Checker, bound: tuple[Bound, ...]) -> None:
    condition = bound[0][1]
    assert condition is not None
    if constants.value(checker, condition) is False:
        message = constants.value(checker, bound[1][1]) if len(bound) > 1 and bound[1][1] is not None else None
        raise Refusal(f"static_assert failed{f': {message}' if message else ''}", condition.span)


def _warn_if_deprecated(
    checker: Checker, function: tree.Prototype | tree.FunctionDeclaration, node: tree.CallExpression
) -> None:
    text = tree.string_annotation(function.annotations, "deprecated")
    if text is not None:
        checker.diagnostics.warning("deprecated", f"{function.name!r} is deprecated: {text}", node.span)


# --- methods ---


def _check_method(checker: Checker, node: tree.CallExpression, function: tree.MemberExpression) -> Type:
    base, name = checker.checked.types[function.base], function.name
    if isinstance(base, TypeItself) and isinstance(base.type, ObjectType):
        return _apply(checker, node, base.type)  # `C.apply(...)`: an instance without a name
    if name in SIZE_METHODS:
        bind((), node.arguments, f"{name!r}", node)
        record(checker, node, "builtin", None, (), {})
        return INTEGER
    if isinstance(base, RecordType):
        return _header_method(checker, node, base, function)
    if isinstance(base, StackType):
        return _stack_method(checker, node, function)
    if isinstance(base, TableType):
        if checker.place.kind != "control":
            where = "action" if checker.place.kind == "action" else "context"
            raise Refusal(f"{base}: a table cannot be applied in this {where}", node.span)
        bind((), node.arguments, f"{base}", node)
        record(checker, node, "apply", base.declaration, (), {})
        return AppliedType(base.declaration)
    assert isinstance(base, ObjectType)
    if isinstance(base.declaration, tree.ExternDeclaration):
        _refuse_outside_code(checker, node, name)
        methods: Overloads = [
            item for item in base.declaration.methods if item.name == name and item.returns is not None
        ]
        outer = dict(zip(base.declaration.type_parameters, base.arguments, strict=False))
        kind = _call_function(checker, node, methods, node.arguments, outer)
        _check_packet_call(checker, node, base, name)
        return kind
    return _apply(checker, node, base)


def _header_method(
    checker: Checker, node: tree.CallExpression, base: RecordType, function: tree.MemberExpression
) -> Type:
    bind((), node.arguments, f"{function.name!r}", node)
    record(checker, node, "builtin", None, (), {})
    assert function.name in HEADER_METHODS
    if function.name == "isValid":
        return BOOL
    check_writable(checker, function.base)
    return VOID


def _stack_method(checker: Checker, node: tree.CallExpression, function: tree.MemberExpression) -> Type:
    if len(node.arguments) != 1 or node.arguments[0].value is None:
        raise Refusal(f"{function.name!r} has one argument", node.span)
    count = constants.number(checker, node.arguments[0].value, f"the argument of {function.name!r}")
    if count is not None and count < 0:
        raise Refusal(f"{function.name!r} of {shown(count)} elements", node.span)
    check_writable(checker, function.base)
    record(checker, node, "builtin", None, (), {})
    return VOID


def _check_packet_call(checker: Checker, node: tree.CallExpression, base: ObjectType, name: str) -> None:
    """What core.p4's packets take beyond their declaration."""
    owner = base.declaration.name
    if owner not in ("packet_in", "packet_out") or name not in ("extract", "emit", "lookahead"):
        return
    call = checker.checked.calls[node]
    kind = base_of(next(iter(call.bindings.values())))
    if name == "extract":
        if not is_header(kind) and kind != UNKNOWN:
            raise Refusal(f"{kind} cannot be extracted; only headers can", node.span)
        has_varbit = isinstance(kind, RecordType) and any(isinstance(item, VarbitType) for item in kind.fields.values())
        if has_varbit != (len(call.arguments) == 2):
            text = "needs the size of its varbit field" if has_varbit else "has no varbit field"
            raise Refusal(f"extract: {kind} {text}", node.span)
    elif name == "emit" and not _can_emit(kind):
        raise Refusal(
            f"{kind} cannot be emitted; headers, header unions, and stacks and structs of them can", node.span
        )
    elif name == "lookahead" and isinstance(kind, VarbitType):
        raise Refusal(f"lookahead of {kind}: its size is not known", node.span)


def _can_emit(kind: Type) -> bool:
    if isinstance(kind, RecordType):
        return kind.kind != "struct" or all(_can_emit(item) for item in kind.fields.values())
    if isinstance(kind, TupleType):
        return all(_can_emit(item) for item in kind.items)
    return kind == UNKNOWN or isinstance(kind, StackType)


def _apply(checker: Checker, node: tree.CallExpression, kind: ObjectType) -> Type:
    declaration = kind.declaration
    assert isinstance(declaration, tree.ParserDeclaration | tree.ControlDeclaration)
    wanted = "state" if isinstance(declaration, tree.ParserDeclaration) else "control"
    what = f"{wanted if wanted == 'control' else 'parser'} {declaration.name!r}"
    if checker.place.kind != wanted:
        raise Refusal(f"{what} cannot be applied in this context", node.span)
    bound = bind(declaration.parameters, node.arguments, what, node, declaration)
    given = dict(zip(declaration.type_parameters, kind.arguments, strict=False))
    parameters = () if kind.arguments else declaration.type_parameters
    bindings = infer(checker, node, parameters, node.type_arguments, bound, given)
    for parameter, argument in bound:
        check_argument(checker, parameter, argument, substitute(checker.checked.declared[parameter], bindings), node)
    record(checker, node, "apply", declaration, bound, bindings, ObjectType(declaration, kind.arguments))
    return VOID


def _anonymous_instance(checker: Checker, node: tree.CallExpression, kind: Type) -> Type:
    if not isinstance(kind, ObjectType):
        raise Refusal(f"type {kind} cannot be called", node.span)
    if checker.place.kind not in ("top", "table", "parser"):
        raise Refusal(f"{kind}: an instance cannot be made in code (invalid declaration)", node.span)
    if node.type_arguments:
        made = type_nodes.specialize(
            kind, tuple(type_nodes.resolve(checker, item) for item in node.type_arguments), node
        )
        assert isinstance(made, ObjectType)
        kind = made
    return check_instance(checker, node, kind, node.arguments)
