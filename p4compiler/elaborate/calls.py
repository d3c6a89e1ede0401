"""Calls: their arguments, with copies in and out, and the bodies of what is called in their place.

P4 copies arguments into parameters before a call, and `out` and `inout` parameters back after it, from left to right.
A copy is left out only where nobody can tell (:func:`bind`): the callee is no action (which could name the variable
itself), the argument is a variable whose place is known, and no other argument of the call shares a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from p4compiler import ir, tree
from p4compiler.check.result import Bound, ResolvedCall
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import externs, instances, operations
from p4compiler.elaborate.assignments import assign, copied, frozen, has_runtime_index, initialise, overlap
from p4compiler.elaborate.elaborator import Body, Elaborator
from p4compiler.elaborate.expressions import (
    evaluate,
    known_number,
    locate,
    may_change,
    read,
)
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.values import (
    SCALARS,
    ActionValue,
    AppliedTable,
    BlockInstance,
    ExternInstance,
    HeaderValue,
    Location,
    PacketValue,
    SliceTarget,
    StackValue,
    StructValue,
    TableValue,
    UnionValue,
    Value,
    leaves,
)
from p4compiler.sources import SourceSpan
from p4compiler.types import (
    INTEGER,
    VOID,
    RecordType,
    StackType,
    Type,
    TypeItself,
    VarbitType,
    base_of,
    substitute,
    width_of,
)


def call(e: Elaborator, node: tree.CallExpression) -> Value | None:
    """The value of a call; None where it has none."""
    resolved = e.checked.calls[node]
    if resolved.kind == "builtin":
        return _builtin(e, node)
    if resolved.kind == "constructor":
        return instances.instantiate(e, node, "", (), e.path)
    if resolved.kind == "action":
        call_action(e, node, resolved)
        return None
    if resolved.kind == "function":
        return _call_function(e, node, resolved)
    if resolved.kind == "extern":
        return externs.call_function(e, node, resolved)
    assert isinstance(node.function, tree.MemberExpression)
    if resolved.kind == "method":
        return externs.call_method(e, evaluate(e, node.function.base), node, resolved)
    return _apply(e, node, node.function, resolved)


# --- built-in methods ---


def _builtin(e: Elaborator, node: tree.CallExpression) -> Value | None:
    function = node.function
    assert isinstance(function, tree.MemberExpression)
    name = function.name
    if "SizeIn" in name:
        kind = e.checked.types[function.base]
        kind = substitute(kind.type if isinstance(kind, TypeItself) else kind, e.frame.types)
        bits = width_of(kind) if name.startswith("max") else _least_width(kind)
        return ir.ConstantValue((bits + 7) // 8 if name.endswith("Bytes") else bits, INTEGER)
    base = evaluate(e, function.base)
    if isinstance(base, UnionValue):
        if not base.name:
            raise Refusal("the validity of an element of a stack of header unions is not supported", node.span)
        return ir.Valid(ir.HeaderName(base.name), True)
    if isinstance(base, HeaderValue):
        if name == "isValid":
            return ir.Valid(base.ref)
        if isinstance(base.ref, ir.StackEnd) and base.ref.end == "next":
            raise Refusal(f"{name}() of stack.next is not supported", node.span)
        e.emit(
            ir.PrimitiveStep(
                "add_header" if name == "setValid" else "remove_header", (ir.HeaderArgument(base.ref),), node.span
            )
        )
        return None
    if not isinstance(base, StackValue) or node.arguments[0].value is None:
        raise Refusal(f"{name}() of this is not supported", node.span)
    count = ir.ConstantValue(known_number(e, node.arguments[0].value), INTEGER)
    unions = any(isinstance(item, UnionValue) for item in base.items)
    op = "push" if name == "push_front" else "pop"
    e.emit(ir.PrimitiveStep(op, (ir.StackArgument(base.name, unions), count), node.span))
    return None


def _least_width(kind: Type) -> int:
    kind = base_of(kind)
    if isinstance(kind, VarbitType):
        return 0
    if isinstance(kind, RecordType):
        widths = [_least_width(item) for item in kind.fields.values()]
        return min(widths, default=0) if kind.kind == "header_union" else sum(widths)
    return kind.size * _least_width(kind.element) if isinstance(kind, StackType) else width_of(kind)


# --- arguments ---


@dataclass(frozen=True)
class _Given:
    """An argument that has been evaluated; `value` is None where `_` is given."""

    parameter: tree.Parameter
    value: Value | None
    location: Location | None
    span: SourceSpan
    is_copied: bool = False  # the value is that before a later argument changed the place

    @property
    def is_written(self) -> bool:
        return self.parameter.direction in ("out", "inout")


def evaluate_arguments(e: Elaborator, bound: Sequence[Bound], span: SourceSpan) -> list[_Given]:
    """The arguments of a call, evaluated from left to right: values that are read, places that are written."""
    out: list[_Given] = []
    for position, (parameter, node) in enumerate(bound):
        if node is None:
            out.append(_Given(parameter, None, None, span))
            continue
        changes = any(later is not None and may_change(e, later) for _, later in bound[position + 1 :])
        if parameter.direction in ("out", "inout"):
            location = frozen(e, locate(e, node), node.span)
            value: Value = read(e, location)
            is_copied = changes and parameter.direction == "inout"
            out.append(
                _Given(parameter, copied(e, value, node.span) if is_copied else value, location, node.span, is_copied)
            )
        else:
            value = evaluate(e, node)
            out.append(_Given(parameter, copied(e, value, node.span) if changes else value, None, node.span))
    return out


def bind(
    e: Elaborator, given: Sequence[_Given], frame: Frame, *, always_copy: bool, span: SourceSpan
) -> list[tuple[Location, Value, SourceSpan]]:
    """Give parameters their values in the callee's frame; what is to be copied back when the call ends."""
    copies: list[tuple[Location, Value, SourceSpan]] = []
    for item in given:
        others = [other for other in given if other is not item and other.value is not None]
        kind = substitute(e.checked.declared[item.parameter], frame.types)
        name = item.parameter.name
        if item.value is None:
            made = e.variable(kind, name, span)
            initialise(e, made, span)
            frame.values[item.parameter] = made
        elif not item.is_written:
            shared = any(other.is_written and overlap(item.value, other.value) for other in others)  # type: ignore[arg-type]
            frame.values[item.parameter] = _passed_in(e, item, kind, name, always_copy or shared)
        else:
            assert item.location is not None
            shared = any(overlap(read(e, item.location), other.value) for other in others)  # type: ignore[arg-type]
            is_part = isinstance(item.location, SliceTarget) or has_runtime_index(item.value)
            if not (always_copy or shared or is_part or item.is_copied):
                frame.values[item.parameter] = item.location  # type: ignore[assignment]
                if item.parameter.direction == "out":
                    initialise(e, item.value, item.span)
                continue
            _refuse_stack_end(item)
            made = e.variable(kind, name, span)
            if item.parameter.direction == "inout":
                assign(e, made, item.value, item.span)
            else:
                initialise(e, made, item.span)
            frame.values[item.parameter] = made
            copies.append((item.location, made, item.span))
    return copies


def _refuse_stack_end(item: _Given) -> None:
    """After the call `next` and `last` may be other elements."""
    assert item.value is not None
    for leaf in leaves(item.value):
        ref = leaf.ref if isinstance(leaf, HeaderValue) else leaf.header if isinstance(leaf, ir.FieldValue) else None
        if isinstance(ref, ir.StackEnd):
            text = f"stack.{ref.end} as the argument of an {item.parameter.direction} parameter is not supported"
            raise Refusal(text, item.span)


def _passed_in(e: Elaborator, item: _Given, kind: Type, name: str, must_copy: bool) -> Value:
    value = item.value
    assert value is not None
    if isinstance(value, ir.ConstantValue | ir.ActionData):
        return value
    if isinstance(value, AppliedTable):
        value = copied(e, value, item.span)
    is_variable = isinstance(value, ir.FieldValue | HeaderValue | StructValue | StackValue | UnionValue) and all(
        _has_known_place(leaf) for leaf in leaves(value)
    )
    if isinstance(value, SCALARS) and not (is_variable and not must_copy):
        return e.saved(_converted(value, kind), item.span, name)
    if is_variable and not must_copy:
        return value
    if isinstance(value, ir.TextArgument | PacketValue | ExternInstance | BlockInstance):
        return value
    made = e.variable(kind, name, item.span)
    assign(e, made, value, item.span)
    return made


def _converted(value: ir.Scalar, kind: Type) -> ir.Scalar:
    """A scalar as the type of the parameter."""
    return value if kind == INTEGER else operations.convert(value, kind)


def _has_known_place(leaf: ir.Scalar | HeaderValue) -> bool:
    if isinstance(leaf, HeaderValue):
        return isinstance(leaf.ref, ir.HeaderName)
    return isinstance(leaf, ir.ConstantValue) or (
        isinstance(leaf, ir.FieldValue) and isinstance(leaf.header, ir.HeaderName)
    )


# --- bodies ---


def run_body(
    e: Elaborator, statements: Sequence[tree.StatementNode | tree.Declaration], frame: Frame, body: Body
) -> tuple[ir.Statement, ...]:
    """The code of a body whose parameters are bound; a return leads to its end, where copies are due."""
    e.bodies.append(body)
    loops, e.loops = e.loops, []
    try:
        with e.within(frame), e.collecting() as code:
            e.parts.run_statements(e, statements)
    finally:
        e.bodies.pop()
        e.loops = loops
    with e.collecting() as after:
        for target, value, span in body.copies_out:
            assign(e, target, value, span)
    return (ir.BlockStep(body.label, tuple(code)), *after)


def call_action(e: Elaborator, node: tree.CallExpression, resolved: ResolvedCall) -> None:
    """Call an action from code: in an apply block it becomes an action of its own."""
    assert isinstance(resolved.declaration, tree.ActionDeclaration)
    action = evaluate(e, node.function)
    assert isinstance(action, ActionValue)
    if e.mode == "control" and not any(body.is_action for body in e.bodies):  # what an action calls is part of it
        e.use_action(action)
    with e.called(node.span), e.collecting() as code:
        given = evaluate_arguments(e, resolved.as_written(node.arguments), node.span)
        frame = Frame(home_of(e, resolved.declaration))
        copies = bind(e, given, frame, always_copy=True, span=node.span)
        before = tuple(code)
        code.clear()
        body = Body(e.new_label(), copies_out=copies, is_action=True)
        e.emit(*run_body(e, resolved.declaration.body.statements, frame, body))
    if e.mode == "control":
        e.emit(*_without_groups(before, action.name, tuple(code), node.span))
    else:
        e.emit(*before, *code)


def _without_groups(
    before: tuple[ir.Statement, ...], name: str, code: tuple[ir.Statement, ...], span: SourceSpan
) -> tuple[ir.Statement, ...]:
    """The group of a called action; the copies in belong to it unless they apply tables."""
    if all(isinstance(item, ir.AssignStep | ir.PrimitiveStep) for item in before):
        return (ir.GroupStep(name, (*before, *code), span),)
    return (*before, ir.GroupStep(name, code, span))


def home_of(e: Elaborator, declaration: tree.Declaration) -> Frame:
    """The frame in which an action is declared, with the parameters of its control as they are bound now."""
    frame: Frame | None = e.frame
    while frame is not None and declaration not in frame.values:
        frame = frame.parent
    return e.globals if frame is None or frame is e.globals else _innermost_block(e, frame)


def _innermost_block(e: Elaborator, home: Frame) -> Frame:
    """The frame just inside of `home` on the way to the present one: it holds the control's parameters."""
    frame = e.frame
    while frame.parent is not None and frame.parent is not home:
        frame = frame.parent
    return frame if frame.parent is home else home


def _call_function(e: Elaborator, node: tree.CallExpression, resolved: ResolvedCall) -> Value | None:
    declaration = resolved.declaration
    assert isinstance(declaration, tree.FunctionDeclaration)
    with e.called(node.span):
        types = {name: substitute(kind, e.frame.types) for name, kind in resolved.bindings.items()}
        frame = Frame(e.globals, types)
        given = evaluate_arguments(e, resolved.as_written(node.arguments), node.span)
        copies = bind(e, given, frame, always_copy=False, span=node.span)
        returns = substitute(e.checked.type_nodes[declaration.returns], types)
        result: Value | None = None
        if returns != VOID:
            result = e.variable(returns, declaration.name, node.span)
        body = Body(e.new_label(), result, copies)  # type: ignore[arg-type]
        e.emit(*run_body(e, declaration.body.statements, frame, body))
    return result


# --- apply ---


def _apply(
    e: Elaborator, node: tree.CallExpression, function: tree.MemberExpression, resolved: ResolvedCall
) -> Value | None:
    if isinstance(resolved.declaration, tree.TableDeclaration):
        table = evaluate(e, function.base)
        assert isinstance(table, TableValue)
        return AppliedTable(table, "")
    if isinstance(e.checked.types[function.base], TypeItself):
        assert resolved.object_type is not None
        instance = _unnamed(e, node, resolved)
    else:
        found = evaluate(e, function.base)
        assert isinstance(found, BlockInstance)
        instance = found
    types = {name: substitute(kind, e.frame.types) for name, kind in resolved.bindings.items()}
    with e.called(node.span):
        frame = Frame(instance.frame, types)
        bound = resolved.as_written(node.arguments)
        # what is declared may be only a type of controls, as a constructor's parameter has
        if instance.declaration is not resolved.declaration:
            declared = [parameter for parameter, _ in resolved.arguments]
            own = dict(zip(declared, instance.declaration.parameters, strict=True))
            bound = tuple((own[parameter], node_) for parameter, node_ in bound)
        given = evaluate_arguments(e, bound, node.span)
        copies = bind(e, given, frame, always_copy=False, span=node.span)
        if isinstance(resolved.declaration, tree.ParserDeclaration):
            _apply_parser(e, instance, frame, copies, node)
        else:
            apply_control(e, instance, frame, copies)
    return None


def _unnamed(e: Elaborator, node: tree.CallExpression, resolved: ResolvedCall) -> BlockInstance:
    """The instance of ``C.apply()``, made once for each instance of what applies it."""
    declaration = resolved.declaration
    assert isinstance(declaration, tree.ParserDeclaration | tree.ControlDeclaration)
    assert e.instance is not None
    made = e.instance.unnamed.get(declaration)
    if made is None:
        assert resolved.object_type is not None
        constructor = tree.CallExpression(node.span, node.function, (), ())
        e.checked.calls[constructor] = ResolvedCall("constructor", None, (), {}, resolved.object_type)
        new = instances.instantiate(e, constructor, declaration.name, (), e.path)
        assert isinstance(new, BlockInstance)
        made = e.instance.unnamed[declaration] = new
    return made


def declare_variables(e: Elaborator, instance: BlockInstance) -> None:
    """Make the variables of an instance at its first apply(), and give them their initial values at each."""
    for item in instance.declaration.locals:
        if not isinstance(item, tree.VariableDeclaration):
            continue
        value = evaluate(e, item.value) if item.value is not None else None
        if item not in instance.variables:
            instance.variables[item] = e.variable(e.declared(item), item.name, item.span)
        target = instance.variables[item]
        instance.frame.values[item] = target
        if value is None:
            initialise(e, target, item.span)
        else:
            assign(e, target, value, item.span)


def apply_control(
    e: Elaborator, instance: BlockInstance, frame: Frame, copies: list[tuple[Location, Value, SourceSpan]]
) -> None:
    """The code of a control whose parameters are bound in `frame`."""
    declaration = instance.declaration
    assert isinstance(declaration, tree.ControlDeclaration)
    assert declaration.body is not None
    outer, prefix = e.instance, e.prefix
    e.instance = instance
    e.prefix = f"{prefix}{instance.short}." if instance.short else prefix
    try:
        with e.within(frame), e.collecting() as setup:
            declare_variables(e, instance)
        body = Body(e.new_label(), copies_out=copies)
        e.emit(*setup, *run_body(e, declaration.body.statements, frame, body))
    finally:
        e.instance, e.prefix = outer, prefix


def _apply_parser(
    e: Elaborator,
    instance: BlockInstance,
    frame: Frame,
    copies: list[tuple[Location, Value, SourceSpan]],
    node: tree.CallExpression,
) -> None:
    prefix = e.prefix
    e.prefix = f"{prefix}{instance.short or instance.declaration.name}."
    try:
        lowered = e.parts.lower_parser(e, instance, frame, e.prefix)
    finally:
        e.prefix = prefix
    e.emit(ir.SubParserStep(lowered, node.span))
    for target, value, span in copies:
        assign(e, target, value, span)
