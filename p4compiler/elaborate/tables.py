"""Tables and the actions that they call, lowered when a table is first applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import entries, operations
from p4compiler.elaborate.assignments import same_place
from p4compiler.elaborate.calls import bind, evaluate_arguments, home_of, run_body
from p4compiler.elaborate.elaborator import Body, Elaborator
from p4compiler.elaborate.expressions import evaluate, known_number, may_change, scalar
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.values import ActionValue, ExternInstance, TableValue
from p4compiler.sources import SourceSpan
from p4compiler.types import BitsType, RecordType, Type, base_of

DEFAULT_SIZE = 1024

Following = ir.Code | Callable[[], ir.Code] | None


@dataclass(frozen=True, eq=False)
class LoweredAction:
    """An action that a table calls; `parameters` are those that come with the entries."""

    action: ActionValue
    parameters: tuple[tree.Parameter, ...]
    types: tuple[Type, ...]
    body: ir.Code
    annotations: tree.Annotations = ()  # of the table's reference to it

    @property
    def name(self) -> str:
        """The control plane's name."""
        return self.action.name


@dataclass(frozen=True, eq=False)
class LoweredKey:
    """A key: a field, or the validity of a header."""

    name: str
    match_kind: str
    value: ir.FieldValue | ir.Valid
    annotations: tree.Annotations
    span: SourceSpan


@dataclass(eq=False)
class LoweredTable:
    """A table."""

    declaration: tree.TableDeclaration
    name: str
    keys: list[LoweredKey] = field(default_factory=list)
    actions: list[LoweredAction] = field(default_factory=list)
    default: tuple[LoweredAction, tuple[int, ...]] | None = None
    default_is_const: bool = False
    size: int = DEFAULT_SIZE
    counters: ExternInstance | None = None
    meters: ExternInstance | None = None
    implementation: ExternInstance | None = None
    entries: list[entries.LoweredEntry] | None = None
    entries_are_const: bool = False
    has_timeout: bool = False

    def find(self, declaration: tree.ActionDeclaration) -> LoweredAction:
        """The lowered form of one of its actions."""
        return next(item for item in self.actions if item.action.declaration is declaration)


def apply_table(
    e: Elaborator,
    table: TableValue,
    span: SourceSpan,
    *,
    hit: Following = None,
    miss: Following = None,
    cases: Callable[[], Mapping[str, ir.Code]] | None = None,
) -> None:
    """Emit the application of a table, and what follows it; what follows is evaluated after the table."""
    if e.mode != "control":
        raise Refusal(f"table {table.declaration.name!r} cannot be applied here", span)
    lowered = lower_table(e, table, span)
    e.emit(ir.ApplyStep(lowered, _code(hit), _code(miss), cases() if cases else None, span))


def _code(following: Following) -> ir.Code | None:
    return following() if callable(following) else following


def lower_table(e: Elaborator, table: TableValue, span: SourceSpan) -> LoweredTable:
    """The table, lowered once; keys that are expressions are evaluated at each application."""
    if table.lowered is not None:
        _apply_again(e, table, table.lowered, span)
        return table.lowered
    declaration = table.declaration
    lowered = LoweredTable(declaration, table.name)
    table.lowered, table.frame = lowered, e.frame
    if table.name in e.found.tables:
        raise Refusal(f"two tables have the control-plane name {table.name!r}", declaration.span)
    e.found.tables[table.name] = lowered
    keys = declaration.keys or ()
    lowered.keys = [_lower_key(e, *pair) for pair in zip(keys, _key_values(e, keys), strict=True)]
    e.table = table
    lowered.actions = [_lower_reference(e, item) for item in declaration.actions or ()]
    e.table = None
    _set_default(e, lowered)
    for item in declaration.properties:
        _set_property(e, lowered, item)
    if declaration.entries is not None:
        lowered.entries = entries.lower_entries(e, lowered, declaration.entries)
        lowered.entries_are_const = declaration.entries.is_const
    return lowered


def _apply_again(e: Elaborator, table: TableValue, lowered: LoweredTable, span: SourceSpan) -> None:
    """A table that is applied in a second place needs its keys in the same fields."""
    _refuse_other_arguments(e, table, span)
    nodes = table.declaration.keys or ()
    for key, node, value in zip(lowered.keys, nodes, _key_values(e, nodes), strict=True):
        if value != key.value:
            if not isinstance(key.value, ir.FieldValue) or not _is_spilled(e, key, node.expression, value):
                text = f"table {table.declaration.name!r} is applied in two places with different keys"
                raise Refusal(f"{text}; BMv2 has each table once", span)
            e.emit(ir.AssignStep(key.value, value, node.span))


def _refuse_other_arguments(e: Elaborator, table: TableValue, span: SourceSpan) -> None:
    """The actions have the arguments with which the control was applied first."""
    assert table.frame is not None
    for parameter in _outer_parameters(e, table.declaration.actions or ()):
        first, now = table.frame.find(parameter), e.frame.find(parameter)
        if first is not now and (first is None or now is None or not same_place(first, now)):
            text = f"table {table.declaration.name!r} is applied in two places, and its actions use parameter"
            text += f" {parameter.name!r} of their control, which has different arguments; BMv2 has each table once"
            raise Refusal(text, span)


def _outer_parameters(e: Elaborator, nodes: Iterable[tree.SyntaxNode]) -> set[tree.Parameter]:
    """The parameters that actions, and what they call, name and that are not their own."""
    found: set[tree.Parameter] = set()
    own: set[tree.Parameter] = set()
    waiting, seen = list(nodes), set[tree.ActionDeclaration]()
    while waiting:
        node = waiting.pop()
        waiting += tree.children(node)
        declaration = e.checked.names.get(node) if isinstance(node, tree.Name) else None
        if isinstance(declaration, tree.Parameter):
            found.add(declaration)
        elif isinstance(declaration, tree.ActionDeclaration) and declaration not in seen:
            seen.add(declaration)
            own.update(declaration.parameters)
            waiting.append(declaration.body)
    return found - own


def _is_spilled(e: Elaborator, key: LoweredKey, node: tree.Expression, value: ir.Scalar) -> bool:
    return not isinstance(value, ir.Valid) and not (
        isinstance(value, ir.FieldValue) and isinstance(value.header, ir.HeaderName)
    )


# --- keys ---


def _key_values(e: Elaborator, keys: Sequence[tree.TableKey]) -> list[ir.Scalar]:
    """The values of keys, of which none changes by a later one."""
    out: list[ir.Scalar] = []
    for position, key in enumerate(keys):
        value = scalar(e, key.expression)
        if any(may_change(e, later.expression) for later in keys[position + 1 :]):
            value = e.saved(value, key.span, "key")
        out.append(value)
    return out


def _lower_key(e: Elaborator, node: tree.TableKey, value: ir.Scalar) -> LoweredKey:
    name = tree.string_annotation(node.annotations, "name") or key_name(e, node.expression)
    is_place = isinstance(value, ir.FieldValue | ir.Valid) and isinstance(value.header, ir.HeaderName)
    if not is_place or (isinstance(value, ir.Valid) and value.is_union):
        value = e.saved(value, node.span, "key")
    assert isinstance(value, ir.FieldValue | ir.Valid)
    return LoweredKey(name or "key", node.match_kind.name, value, node.annotations, node.span)


def key_name(e: Elaborator, node: tree.Expression) -> str | None:
    """The name that p4c gives a key without @name; None where the expression gives none."""
    if isinstance(node, tree.Name):
        return node.name
    if isinstance(node, tree.NumberLiteral):
        return hex(node.value) if node.text.lower().rpartition("w")[2].startswith("0x") else str(node.value)
    if isinstance(node, tree.MemberExpression):
        name = _member_name(e, node)
        if name.startswith("."):
            return name[1:]
        base = key_name(e, node.base)
        return f"{base}.{name}" if base else None
    if isinstance(node, tree.IndexExpression):
        parts = [key_name(e, item) for item in (node.base, node.index)]
        return f"{parts[0]}[{parts[1]}]" if all(parts) else None
    if isinstance(node, tree.SliceExpression):
        parts = [key_name(e, item) for item in (node.base, node.high, node.low)]
        return f"{parts[0]}[{parts[1]}:{parts[2]}]" if all(parts) else None
    if isinstance(node, tree.BinaryExpression) and node.op == "&":
        parts = [key_name(e, item) for item in (node.left, node.right)]
        return f"{parts[0]} & {parts[1]}" if all(parts) else None
    if (
        isinstance(node, tree.CallExpression)
        and isinstance(node.function, tree.MemberExpression)
        and node.function.name == "isValid"
    ):
        return f"{key_name(e, node.function.base)}.$valid$"
    return None


def _member_name(e: Elaborator, node: tree.MemberExpression) -> str:
    """The name of a field, or what its @name says."""
    base = e.checked.types[node.base]
    if isinstance(base, RecordType):
        declared = next((item for item in base.declaration.fields if item.name == node.name), None)
        if declared is not None:
            return tree.string_annotation(declared.annotations, "name") or node.name
    return node.name


# --- actions ---


def _lower_reference(e: Elaborator, reference: tree.ActionReference) -> LoweredAction:
    action = evaluate(e, reference.action)
    assert isinstance(action, ActionValue)
    return lower_action(e, action, reference)


def lower_action(e: Elaborator, action: ActionValue, reference: tree.ActionReference | None) -> LoweredAction:
    """The action with the arguments that a table's list of actions gives; its other parameters come with entries."""
    e.use_action(action)
    declaration = action.declaration
    plain = tuple(item for item in declaration.parameters if not item.direction)
    types = tuple(e.declared(item) for item in plain)
    bound = e.checked.calls[reference].as_written(reference.arguments or ()) if reference is not None else ()
    frame = Frame(home_of(e, declaration))
    for index, (parameter, kind) in enumerate(zip(plain, types, strict=True)):
        frame.values[parameter] = _action_data(index, kind)
    with e.called(declaration.span), e.in_mode("action"), e.collecting() as code:
        given = evaluate_arguments(e, bound, declaration.span)
        copies = bind(e, given, frame, always_copy=True, span=declaration.span)
        body = Body(e.new_label(), copies_out=copies, is_action=True)
        e.emit(*run_body(e, declaration.body.statements, frame, body))
    annotations = reference.annotations if reference is not None else ()
    return LoweredAction(action, plain, types, tuple(code), annotations)


def _action_data(index: int, kind: Type) -> ir.Scalar:
    """A parameter as a value: BMv2 keeps its bits, so those of a signed one are read as such."""
    base = base_of(kind)
    data = ir.ActionData(index, kind)
    if isinstance(base, BitsType) and base.signed:
        return ir.OperationValue("two_comp_mod", data, ir.ConstantValue(base.width, BitsType(32)), kind)
    return data


# --- properties ---


def _set_default(e: Elaborator, lowered: LoweredTable) -> None:
    node = next((item for item in lowered.declaration.properties if item.name == "default_action"), None)
    if node is None:
        found = next((item for item in lowered.actions if item.name == "NoAction"), None)
        if found is None:
            found = _no_action(e, lowered.declaration)
            if found is None:
                return
            lowered.actions.append(found)
        lowered.default = (found, ())
        return
    call = e.checked.calls[node]
    assert isinstance(call.declaration, tree.ActionDeclaration)
    lowered.default = (lowered.find(call.declaration), entries.action_data(e, call))
    lowered.default_is_const = node.is_const


def _no_action(e: Elaborator, table: tree.TableDeclaration) -> LoweredAction | None:
    """core.p4's NoAction, which a table without a default action gets for this alone."""
    declaration = next(
        (
            item
            for item in e.checked.program.declarations
            if isinstance(item, tree.ActionDeclaration) and item.name == "NoAction"
        ),
        None,
    )
    if declaration is None:
        return None
    action = e.globals.find(declaration)
    if action is None:
        action = e.globals.values[declaration] = ActionValue(declaration, e.control_name(declaration, ""))
    assert isinstance(action, ActionValue)
    lowered = lower_action(e, action, None)
    note = tree.Annotation(table.span, "defaultonly", (), False)
    return LoweredAction(lowered.action, (), (), lowered.body, (note,))


def _set_property(e: Elaborator, lowered: LoweredTable, item: tree.TableProperty) -> None:
    if item.name == "size":
        lowered.size = known_number(e, item.value) or DEFAULT_SIZE
    elif item.name == "support_timeout":
        lowered.has_timeout = scalar(e, item.value) == operations.TRUE
    elif item.name in ("counters", "meters", "implementation"):
        instance = evaluate(e, item.value)
        assert isinstance(instance, ExternInstance)
        if isinstance(item.value, tree.CallExpression):
            name = tree.string_annotation(item.annotations, "name")
            instance.name = name or f"{lowered.name}.{instance.kind}"
            instance.annotations = item.annotations
        if item.name != "implementation" and instance.tables and instance.tables[0] is not lowered:
            raise Refusal(f"{instance.kind} {instance.name!r} is attached to two tables", item.span)
        setattr(lowered, item.name, instance)
        instance.tables.append(lowered)
