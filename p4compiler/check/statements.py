"""Statements, and the declarations among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from p4compiler import tree
from p4compiler.check import constants, type_nodes
from p4compiler.check.arguments import is_known
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_expression, check_value, check_writable, convert
from p4compiler.check.instances import check_instance
from p4compiler.diagnostics import Note, Refusal, did_you_mean, shown
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    UNKNOWN,
    VOID,
    AppliedType,
    CallableType,
    EnumType,
    ListType,
    ObjectType,
    RecordType,
    StackType,
    TupleType,
    Type,
    TypeItself,
    TypeVariable,
    base_of,
    is_scalar,
    number_type,
)

Code = tree.StatementNode | tree.Declaration


def check_statements(checker: Checker, statements: Sequence[Code]) -> None:
    """Check statements in the present scope; errors are recorded."""
    ended: str | None = None
    for statement in statements:
        if ended and not isinstance(statement, tree.EmptyStatement):
            checker.diagnostics.warning("unreachable", f"code after '{ended}' is never run", statement.span)
            ended = None
        with checker.recorded():
            check_statement(checker, statement)
        if isinstance(
            statement, tree.ReturnStatement | tree.ExitStatement | tree.BreakStatement | tree.ContinueStatement
        ):
            ended = tree.noun(statement)


def check_statement(checker: Checker, statement: Code) -> None:
    """Check one statement; raises Refusal."""
    _CHECKS[type(statement)](checker, statement)


def _nested(checker: Checker, statement: Code) -> None:
    with checker.inside(is_body=True):
        check_statements(checker, [statement])


# --- declarations ---


def check_variable(checker: Checker, node: tree.VariableDeclaration) -> None:
    """Check a variable and declare it."""
    kind = type_nodes.resolve(checker, node.type)
    checker.checked.declared[node] = kind
    base = base_of(kind)
    if not (is_scalar(base) or isinstance(base, RecordType | StackType | TupleType | TypeVariable) or base == UNKNOWN):
        checker.error(f"a variable cannot have type {kind}", node.type.span)
        checker.checked.declared[node] = UNKNOWN
    if node.value is not None:
        _check_initial(checker, node.value, checker.checked.declared[node])
    checker.declare(node)


def _check_initial(checker: Checker, value: tree.Expression, kind: Type) -> None:
    have = check_expression(checker, value)
    if have == ANYTHING:
        checker.checked.conversions[value] = kind
    _refuse_non_value(have, value)
    convert(checker, value, have, kind)


def _refuse_non_value(kind: Type, node: tree.Expression) -> None:
    if isinstance(kind, TypeItself | CallableType | AppliedType) or kind == VOID:
        raise Refusal(f"{kind} is not a value", node.span)


def check_constant(checker: Checker, node: tree.ConstantDeclaration) -> None:
    """Check a constant and declare it."""
    kind = type_nodes.resolve(checker, node.type)
    checker.checked.declared[node] = kind
    with checker.recorded():
        _check_initial(checker, node.value, kind)
        is_number = is_scalar(kind) or kind == INTEGER
        if is_number and not checker.diagnostics.has_errors() and not is_known(checker, node.value):
            checker.error("the value of a constant must be known at compile time", node.value.span)
    checker.declare(node)


def check_instance_declaration(checker: Checker, node: tree.InstanceDeclaration) -> None:
    """Check an instance and declare it."""
    kind = type_nodes.resolve(checker, node.type)
    checker.checked.declared[node] = UNKNOWN
    with checker.recorded():
        if kind != UNKNOWN and not isinstance(kind, ObjectType):
            raise Refusal(f"type {kind} cannot be instantiated", node.type.span)
        if checker.place.kind not in ("top", "parser"):
            raise Refusal(f"{node.name}: invalid declaration: an instance cannot be in code, only beside it", node.span)
        if isinstance(kind, ObjectType):
            made = check_instance(checker, node, kind, node.arguments)
            checker.checked.declared[node] = made
            if checker.scope.parent is None and isinstance(
                kind.declaration, tree.ParserDeclaration | tree.ControlDeclaration
            ):
                raise Refusal(f"{node.name}: cannot instantiate a parser or control at top-level", node.span)
    checker.declare(node)


# --- statements ---


def _block(checker: Checker, node: tree.BlockStatement) -> None:
    with checker.inside(is_body=True):
        check_statements(checker, node.statements)


def _assign(checker: Checker, node: tree.AssignStatement) -> None:
    kind = check_expression(checker, node.target)
    _refuse_non_value(kind, node.target)
    if kind == UNKNOWN:
        check_expression(checker, node.value)
        return
    check_writable(checker, node.target)
    have = check_expression(checker, node.value)
    _refuse_non_value(have, node.value)
    if not node.op:
        if have == ANYTHING:
            checker.checked.conversions[node.value] = kind
        convert(checker, node.value, have, kind)
        return
    if number_type(kind) is None:
        raise Refusal(f"'{node.op}=' of {kind}", node.span)
    whole = node.target.span.to(node.value.span)
    result = check_expression(checker, tree.BinaryExpression(whole, node.op, node.target, node.value))
    if result not in (kind, UNKNOWN):
        raise Refusal(f"'{node.op}=' of {kind} and {have}", node.span)


def _call(checker: Checker, node: tree.CallStatement) -> None:
    kind = check_expression(checker, node.call)
    call = checker.checked.calls.get(node.call)
    if call is not None and call.kind == "constructor":
        raise Refusal(f"{kind}: an instance cannot be made in code", node.span)


def _if(checker: Checker, node: tree.IfStatement) -> None:
    kind = check_expression(checker, node.condition)
    if isinstance(kind, AppliedType):
        raise Refusal("the result of a table is no condition; use .hit or .miss", node.condition.span)
    convert(checker, node.condition, kind, BOOL)
    _nested(checker, node.yes)
    if node.no is not None:
        _nested(checker, node.no)


def _return(checker: Checker, node: tree.ReturnStatement) -> None:
    place = checker.place
    if place.kind == "state":
        raise Refusal("'return' in a parser", node.span)
    if node.value is None:
        if place.returns != VOID:
            raise Refusal(f"'return' without a value, where {place.returns} is returned", node.span)
        return
    have = check_expression(checker, node.value)
    if place.kind != "function" or place.returns == VOID:
        raise Refusal("nothing is returned here", node.value.span)
    convert(checker, node.value, have, place.returns)


def _exit(checker: Checker, node: tree.ExitStatement) -> None:
    if checker.place.kind not in ("control", "action"):
        raise Refusal("'exit' is for controls and actions", node.span)


def _leave_loop(checker: Checker, node: tree.BreakStatement | tree.ContinueStatement) -> None:
    if not checker.place.loops:
        raise Refusal(f"'{tree.noun(node)}' outside of a loop", node.span)


def _for(checker: Checker, node: tree.ForStatement) -> None:
    with checker.inside(is_body=True):
        check_statements(checker, node.start)
        check_value(checker, node.condition, BOOL)
        check_statements(checker, node.step)
        with checker.loop():
            _nested(checker, node.body)


def _for_in(checker: Checker, node: tree.ForInStatement) -> None:
    with checker.inside(is_body=True):
        check_variable(checker, node.variable)
        checker.written.add(node.variable)
        kind = checker.checked.declared[node.variable]
        if isinstance(node.collection, tree.RangeExpression):
            for bound in (node.collection.low, node.collection.high):
                check_value(checker, bound, kind)
        else:
            collection = check_expression(checker, node.collection)
            if isinstance(collection, StackType):
                convert(checker, node.collection, collection.element, kind)
            elif isinstance(collection, ListType | TupleType):
                items = collection.items if isinstance(collection, TupleType) else (collection.item,)
                for item in items:
                    convert(checker, node.collection, item, kind)
                checker.checked.conversions.pop(node.collection, None)
            elif collection != UNKNOWN:
                raise Refusal(
                    f"a loop over {collection}; ranges, header stacks and lists have elements", node.collection.span
                )
        with checker.loop():
            _nested(checker, node.body)


# --- switch ---


def _switch(checker: Checker, node: tree.SwitchStatement) -> None:
    kind = check_expression(checker, node.subject)
    if kind == UNKNOWN:
        for case in node.cases:
            if case.body is not None:
                _nested(checker, case.body)
        return
    if isinstance(kind, AppliedType) and not kind.runs:
        raise Refusal("a switch over a table needs .action_run", node.subject.span)
    if isinstance(kind, AppliedType):
        _check_action_labels(checker, node, kind.declaration)
    elif (
        isinstance(kind, EnumType)
        or number_type(kind)
        or kind == INTEGER
        or base_of(kind) == BOOL
        or base_of(kind) == ERROR
    ):
        _check_value_labels(checker, node, kind)
    else:
        raise Refusal(f"a switch over {kind}", node.subject.span)
    default: tree.SwitchCase | None = None
    for case in node.cases:
        if isinstance(case.label, tree.AnyValue):
            if default is not None:
                checker.error(
                    "switch has multiple 'default' labels", case.span, Note("the other is here", default.span)
                )
            default = case
        elif default is not None:
            checker.error("'default' is the last case of a switch", default.span)
        if case.body is not None:
            _nested(checker, case.body)


def _check_action_labels(checker: Checker, node: tree.SwitchStatement, table: tree.TableDeclaration) -> None:
    seen: dict[tree.Declaration, tree.Expression] = {}
    names = [item.action.name for item in table.actions or ()]
    for case in node.cases:
        if isinstance(case.label, tree.AnyValue):
            continue
        if not isinstance(case.label, tree.Name):
            checker.error("the label of a switch over action_run is the name of an action", case.label.span)
            continue
        declaration = checker.lookup(case.label.name, case.label.span, absolute=case.label.absolute)
        if declaration is None:
            continue
        checker.checked.names[case.label] = declaration
        if declaration not in [checker.checked.names.get(item.action) for item in table.actions or ()]:
            text = f"table {table.name!r} has no action {case.label.name!r}"
            checker.error(
                text + did_you_mean(case.label.name, names),
                case.label.span,
                Note("its actions are here", table.span),
            )
        elif declaration in seen:
            checker.error(
                f"action {case.label.name!r} has two cases",
                case.label.span,
                Note("the other is here", seen[declaration].span),
            )
        seen[declaration] = case.label


def _check_value_labels(checker: Checker, node: tree.SwitchStatement, kind: Type) -> None:
    seen: dict[object, tree.Expression] = {}
    for case in node.cases:
        if isinstance(case.label, tree.AnyValue):
            continue
        check_value(checker, case.label, kind)
        value = constants.value(checker, case.label)
        if value is None:
            if not checker.diagnostics.has_errors():
                checker.error("the label of a case must be known at compile time", case.label.span)
        elif value in seen:
            checker.error(
                f"value {shown(value) if isinstance(value, int) else value} has two cases",
                case.label.span,
                Note("the other is here", seen[value].span),
            )
        else:
            seen[value] = case.label


_CHECKS: dict[type, Callable[[Checker, Any], None]] = {
    tree.BlockStatement: _block,
    tree.EmptyStatement: lambda checker, node: None,
    tree.AssignStatement: _assign,
    tree.CallStatement: _call,
    tree.IfStatement: _if,
    tree.ReturnStatement: _return,
    tree.ExitStatement: _exit,
    tree.BreakStatement: _leave_loop,
    tree.ContinueStatement: _leave_loop,
    tree.ForStatement: _for,
    tree.ForInStatement: _for_in,
    tree.SwitchStatement: _switch,
    tree.VariableDeclaration: check_variable,
    tree.ConstantDeclaration: check_constant,
    tree.InstanceDeclaration: check_instance_declaration,
}
