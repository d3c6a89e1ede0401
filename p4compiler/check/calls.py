"""Calls: what is called, with which arguments for which parameters, and whether it may be called there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from p4compiler import tree
from p4compiler.check import constants, type_nodes
from p4compiler.check.checker import Checker
from p4compiler.check.conversions import Inference, converts
from p4compiler.check.expressions import (
    HEADER_METHODS,
    SIZE_METHODS,
    check_expression,
    check_writable,
    convert,
    mismatch,
)
from p4compiler.check.result import Bound, Callee, ResolvedCall
from p4compiler.check.scopes import Overloads
from p4compiler.diagnostics import Note, Refusal, counted, did_you_mean
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    UNKNOWN,
    VOID,
    Applied,
    Bits,
    Callable,
    Enum,
    Object,
    Record,
    Stack,
    Table,
    Tuple,
    Type,
    TypeItself,
    Varbit,
    base_of,
    has_variables,
    is_header,
    substitute,
)

Bindings = Mapping[tree.TypeParameter, Type]


def check_call(checker: Checker, node: tree.Call) -> Type:
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
    if not isinstance(kind, Callable):
        raise Refusal(f"{kind} cannot be called", function.span)
    if isinstance(function, tree.Member):
        return _check_method(checker, node, function)
    assert isinstance(function, tree.Name)
    found = (checker.scope.outermost if function.absolute else checker.scope).find(function.name)
    assert found is not None
    scope, declaration = found
    if isinstance(declaration, tree.Action):
        return _call_action(checker, node, declaration)
    _refuse_outside_code(checker, node, function.name)
    return _call_function(checker, node, scope.overloads[function.name], node.arguments)


def _refuse_outside_code(checker: Checker, node: tree.Call, name: str) -> None:
    if checker.place.kind in ("top", "parser", "table") and name != "static_assert":
        raise Refusal(f"{name!r}: no function calls allowed in this context", node.span)


def _call_action(checker: Checker, node: tree.Call, action: tree.Action) -> Type:
    if checker.place.kind not in ("control", "action"):
        raise Refusal(f"{action.name}(): no action calls allowed in this context", node.span)
    bound = bind(action.parameters, node.arguments, f"action {action.name!r}", node, action)
    for parameter, argument in bound:
        check_argument(checker, parameter, argument, checker.checked.declared[parameter], node)
    _record(checker, node, "action", action, bound, {})
    return VOID


def _call_function(
    checker: Checker,
    node: tree.Call,
    candidates: Overloads,
    given: Sequence[tree.Argument],
    outer: Bindings | None = None,
) -> Type:
    function = _choose(candidates, given, node)
    kind = "function" if isinstance(function, tree.Function) else "extern" if outer is None else "method"
    bound = bind(function.parameters, given, f"{function.name!r}", node, function)
    _warn_if_deprecated(checker, function, node)
    bindings = infer(checker, node, function.type_parameters, node.type_arguments, bound, outer or {})
    for parameter, argument in bound:
        wanted = substitute(checker.checked.declared[parameter], bindings)
        check_argument(checker, parameter, argument, wanted, node)
        if parameter.direction == "" and kind != "function" and argument is not None:
            check_known(checker, argument)
    _record(checker, node, kind, function, bound, bindings)
    if function.name == "static_assert":
        _check_static_assert(checker, bound)
    assert function.returns is not None
    return substitute(checker.checked.type_nodes[function.returns], bindings)


def _choose(candidates: Overloads, given: Sequence[tree.Argument], node: tree.Call) -> tree.Prototype | tree.Function:
    if len(candidates) == 1:
        return candidates[0]
    fitting = [item for item in candidates if _takes(item.parameters, given)]
    if not fitting:
        counts = " or ".join(sorted({str(len(item.parameters)) for item in candidates}))
        notes = [Note("a candidate is here", item.span) for item in candidates[:3]]
        text = f"{candidates[0].name!r} takes {counts} arguments by other names, not these {len(given)}"
        raise Refusal(text, node.span, *notes)
    return fitting[0]


def _takes(parameters: Sequence[tree.Parameter], given: Sequence[tree.Argument]) -> bool:
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
    node: tree.Node,
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
    node: tree.Node,
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
    checker: Checker, parameter: tree.Parameter, argument: tree.Expression | None, want: Type, node: tree.Node
) -> None:
    """Check an argument against its parameter."""
    if argument is None:
        if parameter.direction != "out" and not is_optional(parameter):
            checker.error(f"'_' is no argument for parameter {parameter.name!r}, which is not 'out'", node.span)
        return
    have = check_expression(checker, argument)
    if isinstance(have, TypeItself | Callable) or have == VOID:
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
    if kind == UNKNOWN or isinstance(kind, Object) or constants.value(checker, node) is not None:
        return True
    if isinstance(node, tree.Name):
        declaration = checker.checked.names.get(node)
        return isinstance(declaration, tree.Constant) or (
            isinstance(declaration, tree.Parameter) and declaration.direction == ""
        )
    if isinstance(node, tree.ListLiteral):
        return all(is_known(checker, item) for item in node.items)
    if isinstance(node, tree.RecordLiteral):
        return all(is_known(checker, item.value) for item in node.fields)
    if isinstance(node, tree.Cast | tree.Unary):
        return is_known(checker, node.operand)
    if isinstance(node, tree.Binary):
        return is_known(checker, node.left) and is_known(checker, node.right)
    if isinstance(node, tree.Choice):
        return all(is_known(checker, item) for item in (node.condition, node.yes, node.no))
    if isinstance(node, tree.Member | tree.Slice):
        return is_known(checker, node.base)
    return isinstance(node, tree.Call) and checker.checked.calls[node].kind in ("constructor", "builtin")


def _check_static_assert(checker: Checker, bound: tuple[Bound, ...]) -> None:
    condition = bound[0][1]
    assert condition is not None
    if constants.value(checker, condition) is False:
        message = constants.value(checker, bound[1][1]) if len(bound) > 1 and bound[1][1] is not None else None
        raise Refusal(f"static_assert failed{f': {message}' if message else ''}", condition.span)


def _warn_if_deprecated(checker: Checker, function: tree.Prototype | tree.Function, node: tree.Call) -> None:
    text = tree.string_annotation(function.annotations, "deprecated")
    if text is not None:
        checker.diagnostics.warning("deprecated", f"{function.name!r} is deprecated: {text}", node.span)


def _record(
    checker: Checker,
    node: tree.Node,
    kind: str,
    declaration: Callee,
    bound: tuple[Bound, ...],
    bindings: Bindings,
    object_type: Object | None = None,
) -> None:
    checker.checked.calls[node] = ResolvedCall(kind, declaration, bound, dict(bindings), object_type)


# --- methods ---


def _check_method(checker: Checker, node: tree.Call, function: tree.Member) -> Type:
    base, name = checker.checked.types[function.base], function.name
    if isinstance(base, TypeItself) and isinstance(base.type, Object):
        return _apply(checker, node, base.type)  # `C.apply(...)`: an instance without a name
    if name in SIZE_METHODS:
        bind((), node.arguments, f"{name!r}", node)
        _record(checker, node, "builtin", None, (), {})
        return INTEGER
    if isinstance(base, Record):
        return _header_method(checker, node, base, function)
    if isinstance(base, Stack):
        return _stack_method(checker, node, function)
    if isinstance(base, Table):
        if checker.place.kind != "control":
            where = "action" if checker.place.kind == "action" else "context"
            raise Refusal(f"{base}: a table cannot be applied in this {where}", node.span)
        bind((), node.arguments, f"{base}", node)
        _record(checker, node, "apply", base.declaration, (), {})
        return Applied(base.declaration)
    assert isinstance(base, Object)
    if isinstance(base.declaration, tree.Extern):
        _refuse_outside_code(checker, node, name)
        methods: Overloads = [
            item for item in base.declaration.methods if item.name == name and item.returns is not None
        ]
        outer = dict(zip(base.declaration.type_parameters, base.arguments, strict=False))
        kind = _call_function(checker, node, methods, node.arguments, outer)
        _check_packet_call(checker, node, base, name)
        return kind
    return _apply(checker, node, base)


def _header_method(checker: Checker, node: tree.Call, base: Record, function: tree.Member) -> Type:
    bind((), node.arguments, f"{function.name!r}", node)
    _record(checker, node, "builtin", None, (), {})
    assert function.name in HEADER_METHODS
    if function.name == "isValid":
        return BOOL
    check_writable(checker, function.base)
    return VOID


def _stack_method(checker: Checker, node: tree.Call, function: tree.Member) -> Type:
    if len(node.arguments) != 1 or node.arguments[0].value is None:
        raise Refusal(f"{function.name!r} has one argument", node.span)
    count = constants.number(checker, node.arguments[0].value, f"the argument of {function.name!r}")
    if count is not None and count < 0:
        raise Refusal(f"{function.name!r} of {count} elements", node.span)
    check_writable(checker, function.base)
    _record(checker, node, "builtin", None, (), {})
    return VOID


def _check_packet_call(checker: Checker, node: tree.Call, base: Object, name: str) -> None:
    """What core.p4's packets take beyond their declaration."""
    owner = base.declaration.name
    if owner not in ("packet_in", "packet_out") or name not in ("extract", "emit", "lookahead"):
        return
    call = checker.checked.calls[node]
    kind = base_of(next(iter(call.bindings.values())))
    if name == "extract":
        if not is_header(kind) and kind != UNKNOWN:
            raise Refusal(f"{kind} cannot be extracted; only headers can", node.span)
        has_varbit = isinstance(kind, Record) and any(isinstance(item, Varbit) for item in kind.fields.values())
        if has_varbit != (len(call.arguments) == 2):
            text = "needs the size of its varbit field" if has_varbit else "has no varbit field"
            raise Refusal(f"extract: {kind} {text}", node.span)
    elif name == "emit" and not _can_emit(kind):
        raise Refusal(
            f"{kind} cannot be emitted; headers, header unions, and stacks and structs of them can", node.span
        )
    elif name == "lookahead" and isinstance(kind, Varbit):
        raise Refusal(f"lookahead of {kind}: its size is not known", node.span)


def _can_emit(kind: Type) -> bool:
    if isinstance(kind, Record):
        return kind.kind != "struct" or all(_can_emit(item) for item in kind.fields.values())
    if isinstance(kind, Tuple):
        return all(_can_emit(item) for item in kind.items)
    return kind == UNKNOWN or isinstance(kind, Stack)


def _apply(checker: Checker, node: tree.Call, kind: Object) -> Type:
    declaration = kind.declaration
    assert isinstance(declaration, tree.Parser | tree.Control)
    wanted = "state" if isinstance(declaration, tree.Parser) else "control"
    what = f"{wanted if wanted == 'control' else 'parser'} {declaration.name!r}"
    if checker.place.kind != wanted:
        raise Refusal(f"{what} cannot be applied in this context", node.span)
    bound = bind(declaration.parameters, node.arguments, what, node, declaration)
    given = dict(zip(declaration.type_parameters, kind.arguments, strict=False))
    parameters = () if kind.arguments else declaration.type_parameters
    bindings = infer(checker, node, parameters, node.type_arguments, bound, given)
    for parameter, argument in bound:
        check_argument(checker, parameter, argument, substitute(checker.checked.declared[parameter], bindings), node)
    _record(checker, node, "apply", declaration, bound, bindings, Object(declaration, kind.arguments))
    return VOID


# --- instances ---


def _anonymous_instance(checker: Checker, node: tree.Call, kind: Type) -> Type:
    if not isinstance(kind, Object):
        raise Refusal(f"type {kind} cannot be called", node.span)
    if checker.place.kind not in ("top", "table", "parser"):
        raise Refusal(f"{kind}: an instance cannot be made in code (invalid declaration)", node.span)
    if node.type_arguments:
        made = type_nodes.specialize(
            kind, tuple(type_nodes.resolve(checker, item) for item in node.type_arguments), node
        )
        assert isinstance(made, Object)
        kind = made
    return check_instance(checker, node, kind, node.arguments)


def check_instance(checker: Checker, node: tree.Node, kind: Object, given: Sequence[tree.Argument]) -> Object:
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
        if not (isinstance(have, Object) and isinstance(want, Object)):
            convert(checker, argument, have, want)
            check_known(checker, argument)
        elif not fits_object(checker, have, want):
            raise Refusal(f"{have} where {want} is expected", argument.span)
    arguments = tuple(bindings.get(item, ANYTHING) for item in declaration.type_parameters)
    made = Object(declaration, arguments)
    _record(checker, node, "constructor", constructor, bound, bindings, made)
    return made


def _constructor(
    kind: Object, given: Sequence[tree.Argument], node: tree.Node
) -> tuple[tuple[tree.Parameter, ...], tree.Prototype | None]:
    declaration = kind.declaration
    if isinstance(declaration, tree.Package):
        return declaration.parameters, None
    if isinstance(declaration, tree.Extern):
        makers: Overloads = [item for item in declaration.methods if item.returns is None]
        if not makers:
            raise Refusal(f"{kind} has no constructor, so no instance of it can be made", node.span)
        fitting = [item for item in makers if _takes(item.parameters, given)]
        chosen = (fitting or makers)[0]
        assert isinstance(chosen, tree.Prototype)
        return chosen.parameters, chosen
    body = declaration.states if isinstance(declaration, tree.Parser) else declaration.body
    if body is None:
        raise Refusal(f"{kind} has no body, so no instance of it can be made", node.span)
    return declaration.constructor, None


def _infer_objects(
    checker: Checker, declaration: tree.Declaration, bound: Iterable[Bound], node: tree.Node
) -> dict[tree.TypeParameter, Type]:
    assert isinstance(declaration, tree.Extern | tree.Parser | tree.Control | tree.Package)
    inference = Inference(declaration.type_parameters)
    for parameter, argument in bound:
        if argument is None:
            continue
        want, have = checker.checked.declared[parameter], check_expression(checker, argument)
        if isinstance(have, Object) and isinstance(want, Object):
            if not _match_objects(checker, inference, have, want):
                raise Refusal(f"{have} is no {want}: {_difference(checker, inference, have, want)}", argument.span)
        elif have != UNKNOWN and has_variables(want):
            inference.match(want, have)
    missing = [item.name for item in declaration.type_parameters if item not in inference.bindings]
    if missing and isinstance(declaration, tree.Extern):
        raise Refusal(f"extern {declaration.name} needs a type argument for {missing[0]!r}", node.span)
    return inference.bindings


def fits_object(checker: Checker, have: Object, want: Object) -> bool:
    """Whether an object is of the wanted type, or is a parser or control with its parameters."""
    return converts(have, want) or _match_objects(checker, Inference(()), have, want)


def _pairs(
    checker: Checker, have: Object, want: Object
) -> list[tuple[tree.Parameter, Type, tree.Parameter, Type]] | None:
    a, b = have.declaration, want.declaration
    if (
        not isinstance(a, tree.Parser | tree.Control)
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


def _match_objects(checker: Checker, inference: Inference, have: Object, want: Object) -> bool:
    if have.declaration is want.declaration:
        return inference.match(want, have)
    pairs = _pairs(checker, have, want)
    return pairs is not None and all(
        x.direction == y.direction and inference.match(pattern, kind) for x, kind, y, pattern in pairs
    )


def _difference(checker: Checker, inference: Inference, have: Object, want: Object) -> str:
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


def is_passable(kind: Type) -> bool:
    """Whether the control plane can give a value of this type to an action."""
    kind = base_of(kind)
    return (
        kind in (BOOL, UNKNOWN, ERROR, STRING)
        or isinstance(kind, Bits | Varbit)
        or (isinstance(kind, Enum) and kind.base is not None)
    )
