"""Tables: keys, actions, the default action, entries and other properties."""

from __future__ import annotations

from collections.abc import Sequence

from p4compiler import tree
from p4compiler.check import constants
from p4compiler.check.arguments import bind, check_argument, check_known
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_expression, check_value
from p4compiler.check.result import Bound, ResolvedCall
from p4compiler.check.sets import sets_for
from p4compiler.diagnostics import Note, Refusal, did_you_mean, shown
from p4compiler.types import (
    BOOL,
    ERROR,
    INTEGER,
    UNKNOWN,
    BitsType,
    EnumType,
    ObjectType,
    Type,
    base_of,
    number_type,
)

_KNOWN = (
    "default_action",
    "size",
    "counters",
    "meters",
    "implementation",
    "support_timeout",
    "largest_priority_wins",
    "priority_delta",
    "const_entries",
)
_EXTERNS = {
    "counters": ("direct_counter",),
    "meters": ("direct_meter",),
    "implementation": ("action_profile", "action_selector"),
}
MAX_SIZE = 1 << 31


def check_table(checker: Checker, node: tree.TableDeclaration) -> None:
    """Check a table and declare it."""
    with checker.at("table", owner=node.name):
        for key in node.keys or ():
            with checker.recorded():
                _check_key(checker, key)
        if node.actions is None:
            checker.error(f"table {node.name!r} has no actions", node.span)
        _check_actions(checker, node.actions or ())
        seen: dict[str, tree.TableProperty] = {}
        for item in node.properties:
            if item.name in seen:
                checker.error(
                    f"property {item.name!r} is there twice", item.span, Note("the other is here", seen[item.name].span)
                )
            seen[item.name] = item
            with checker.recorded():
                _check_property(checker, node, item)
        if node.entries is not None:
            with checker.recorded():
                _check_entries(checker, node, node.entries)
    checker.declare(node)


def _check_key(checker: Checker, key: tree.TableKey) -> None:
    with checker.at("control"):  # a key may call functions, which run before the table is applied
        kind = check_expression(checker, key.expression)
    if key.match_kind.name not in checker.checked.match_kinds:
        hint = did_you_mean(key.match_kind.name, checker.checked.match_kinds)
        checker.error(f"match kind {key.match_kind.name!r} is not declared{hint}", key.match_kind.span)
    base = base_of(kind)
    if kind == INTEGER or not (isinstance(base, BitsType | EnumType) or base in (BOOL, ERROR, UNKNOWN)):
        raise Refusal(f"a key of type {kind}", key.span)
    if tree.annotation(key.annotations, "name") is None and not _has_name(key.expression):
        raise Refusal("Complex key expression requires a @name annotation", key.span)


def _has_name(node: tree.Expression) -> bool:
    """Whether the expression gives the key a name."""
    if isinstance(node, tree.Name | tree.NumberLiteral | tree.BooleanLiteral):
        return True
    if isinstance(node, tree.MemberExpression):
        return _has_name(node.base) or isinstance(node.base, tree.TypeExpression)
    if isinstance(node, tree.IndexExpression):
        return _has_name(node.base) and _has_name(node.index)
    if isinstance(node, tree.SliceExpression):
        return _has_name(node.base)
    if isinstance(node, tree.BinaryExpression):
        return node.op == "&" and _has_name(node.left) and _has_name(node.right)
    if isinstance(node, tree.CallExpression) and isinstance(node.function, tree.MemberExpression):
        return node.function.name in ("isValid", "lookahead") and _has_name(node.function.base)
    return isinstance(node, tree.UnaryExpression | tree.CastExpression) and _has_name(node.operand)


# --- actions ---


def _check_actions(checker: Checker, references: Sequence[tree.ActionReference]) -> None:
    seen: dict[tree.ActionDeclaration, tree.ActionReference] = {}
    for reference in references:
        with checker.recorded():
            action = _action(checker, reference.action)
            if action is None:
                continue
            if action in seen:
                checker.error(
                    f"action {action.name!r} is there twice (duplicates)",
                    reference.span,
                    Note("the other is here", seen[action].span),
                )
            seen[action] = reference
            checker.checked.actions[reference] = action
            _check_reference(checker, reference, action)


def _action(checker: Checker, node: tree.Name) -> tree.ActionDeclaration | None:
    declaration = checker.lookup(node.name, node.span, absolute=node.absolute, what="action ")
    if declaration is None:
        return None
    checker.checked.names[node] = declaration
    if not isinstance(declaration, tree.ActionDeclaration):
        raise Refusal(f"{node.name!r} is not an action", node.span, Note("declared here", declaration.span))
    return declaration


def _check_reference(checker: Checker, reference: tree.ActionReference, action: tree.ActionDeclaration) -> None:
    """In the list of actions, parameters with a direction get arguments, the others come with the entries."""
    directed = [item for item in action.parameters if item.direction]
    given = reference.arguments or ()
    if len(given) < len(directed):
        missing = directed[len(given)]
        note = Note("the parameter is here", missing.span)
        raise Refusal(f"action {action.name}(): parameter {missing.name} must be bound", reference.span, note)
    bound = bind(directed, given, f"action {action.name!r}", reference, action)
    with checker.at("control"):
        for parameter, argument in bound:
            check_argument(checker, parameter, argument, checker.checked.declared[parameter], reference)
            if argument is not None and _applies_table(checker, argument):
                raise Refusal("table invocation in action argument", argument.span)
    checker.checked.calls[reference] = ResolvedCall("action", action, bound)


def _applies_table(checker: Checker, node: tree.SyntaxNode) -> bool:
    call = checker.checked.calls.get(node)
    if call is not None and call.kind == "apply":
        return True
    return any(_applies_table(checker, part) for part in tree.children(node))


def check_action_data(
    checker: Checker,
    table: tree.TableDeclaration,
    name: tree.Name,
    given: Sequence[tree.Argument],
    node: tree.SyntaxNode,
) -> tree.ActionReference | None:
    """The reference of the table to an action that a default or an entry calls; its data are checked and recorded.

    None after an error.
    """
    action = _action(checker, name)
    if action is None:
        return None
    reference = next((item for item in table.actions or () if checker.checked.actions.get(item) is action), None)
    if reference is None:
        names = [item.action.name for item in table.actions or ()]
        text = f"action {name.name!r} is not in the actions of table {table.name!r}{did_you_mean(name.name, names)}"
        raise Refusal(text, name.span)
    directed = [item for item in action.parameters if item.direction]
    plain = [item for item in action.parameters if not item.direction]
    if len(given) == len(action.parameters):  # the arguments of the list of actions may be repeated
        listed = checker.checked.calls[reference].arguments
        for argument, (parameter, value) in zip(given, listed, strict=False):
            if argument.value is not None:
                check_expression(checker, argument.value)
            if not tree.is_same(argument.value, value):
                text = f"argument {parameter.name!r} of action {action.name!r} is not that in the list of actions"
                raise Refusal(text, argument.span, Note("the list has it here", reference.span))
        given = given[len(directed) :]
    bound = bind(plain, given, f"action {action.name!r}", node, action)
    data: list[Bound] = []
    for parameter, value in bound:
        if value is None:
            raise Refusal(f"no value for parameter {parameter.name!r} of action {action.name!r}", node.span)
        check_value(checker, value, checker.checked.declared[parameter])
        if not checker.diagnostics.has_errors():
            check_known(checker, value)
        data.append((parameter, value))
    checker.checked.calls[node] = ResolvedCall("action", action, tuple(data))
    return reference


# --- properties ---


def _check_property(checker: Checker, table: tree.TableDeclaration, item: tree.TableProperty) -> None:
    if item.name == "default_action":
        _check_default(checker, table, item)
    elif item.name == "size":
        size = constants.number(checker, item.value, "the size of a table")
        if size is not None and not 0 <= size < MAX_SIZE:
            raise Refusal(f"a table of {shown(size)} entries; a size is from 0 to {MAX_SIZE - 1:,}", item.value.span)
    elif item.name in _EXTERNS:
        kind = check_expression(checker, item.value)
        if kind != UNKNOWN and not (isinstance(kind, ObjectType) and kind.declaration.name in _EXTERNS[item.name]):
            raise Refusal(f"{item.name!r} is of type {' or '.join(_EXTERNS[item.name])}, not {kind}", item.value.span)
    elif item.name == "support_timeout":
        check_value(checker, item.value, BOOL)
    else:
        check_expression(checker, item.value)
        if item.name not in _KNOWN:
            hint = did_you_mean(item.name, [*_KNOWN, "key", "actions", "entries"])
            checker.diagnostics.warning(
                "unknown-property", f"property {item.name!r} of a table is not known{hint}", item.span
            )


def _check_default(checker: Checker, table: tree.TableDeclaration, item: tree.TableProperty) -> None:
    value = item.value
    given: Sequence[tree.Argument] = ()
    if isinstance(value, tree.CallExpression):
        given, value = value.arguments, value.function
    if not isinstance(value, tree.Name):
        raise Refusal("the default action is the name of an action, with its arguments", item.value.span)
    reference = check_action_data(checker, table, value, given, item)
    if reference is not None and tree.annotation(reference.annotations, "tableonly") is not None:
        raise Refusal(f"action {value.name!r} is marked tableonly, and is the default action", item.value.span)


# --- entries ---


def _check_entries(checker: Checker, table: tree.TableDeclaration, entries: tree.DeclaredEntries) -> None:
    if not table.keys:
        raise Refusal(f"table {table.name!r} has entries, but no keys", entries.span)
    kinds = [checker.checked.types.get(key.expression, UNKNOWN) for key in table.keys]
    for entry in entries.items:
        with checker.recorded():
            sets = sets_for(checker, entry.keys, kinds, "Size of entry keyset must match the table key set size")
            for set_, kind, key in zip(sets, kinds, table.keys, strict=True):
                _check_entry_key(checker, set_, kind, key)
            _check_entry_action(checker, table, entry)
    _check_priorities(checker, table, entries)


def _check_entry_key(checker: Checker, set_: tree.Expression, kind: Type, key: tree.TableKey) -> None:
    allowed = {
        "exact": (),
        "lpm": (tree.MaskExpression, tree.AnyValue),
        "ternary": (tree.MaskExpression, tree.AnyValue),
        "optional": (tree.AnyValue,),
        "range": (tree.RangeExpression, tree.AnyValue),
    }.get(key.match_kind.name)
    if (
        allowed is not None
        and isinstance(set_, tree.MaskExpression | tree.RangeExpression | tree.AnyValue)
        and not isinstance(set_, allowed)
    ):
        what = {tree.MaskExpression: "a mask", tree.RangeExpression: "a range", tree.AnyValue: "a wildcard"}[type(set_)]
        raise Refusal(f"{what} for a key that is {key.match_kind.name}", set_.span)
    if key.match_kind.name == "lpm" and isinstance(set_, tree.MaskExpression):
        mask, bits = constants.value(checker, set_.mask), number_type(kind)
        if isinstance(mask, int) and bits is not None:
            low = ~mask & ((1 << bits.width) - 1)
            if low & (low + 1):
                raise Refusal("invalid mask for an lpm key: its ones must be before its zeros", set_.mask.span)


def _check_entry_action(checker: Checker, table: tree.TableDeclaration, entry: tree.DeclaredEntry) -> None:
    action = entry.action
    reference = check_action_data(checker, table, action.action, action.arguments or (), entry)
    if reference is not None and tree.annotation(reference.annotations, "defaultonly") is not None:
        raise Refusal("Entry: Action marked with defaultonly used in table", entry.action.span)


def _check_priorities(checker: Checker, table: tree.TableDeclaration, entries: tree.DeclaredEntries) -> None:
    needs = any(key.match_kind.name in ("ternary", "range", "optional") for key in table.keys or ())
    for entry in entries.items:
        if entry.priority is not None and entries.is_const:
            checker.error("const entries have no priorities: the first that matches wins", entry.priority.span)
        elif entry.priority is not None:
            constants.number(checker, entry.priority, "the priority of an entry")
            if not needs:
                checker.error(
                    "this table's match kinds do not require priorities, but one is given", entry.priority.span
                )
        if entry.is_const and entries.is_const:
            checker.diagnostics.warning("redundant", "'const' of an entry of const entries", entry.span)
