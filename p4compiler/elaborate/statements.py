"""Statements to code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import operations
from p4compiler.elaborate.assignments import assign, frozen, initialise
from p4compiler.elaborate.calls import call
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.expressions import convert, evaluate, locate, may_change, read, scalar
from p4compiler.elaborate.tables import apply_table
from p4compiler.elaborate.values import (
    SCALARS,
    ActionValue,
    AppliedTable,
    ListValue,
    StackValue,
    StructValue,
    Value,
)
from p4compiler.types import INTEGER, BitsType, Type, number_type

EXIT = 0  # the label of the end of everything


def run_statements(e: Elaborator, statements: Sequence[tree.StatementNode | tree.Declaration]) -> None:
    """Emit the code of statements in the present frame."""
    for statement in statements:
        _RUN[type(statement)](e, statement)
        if isinstance(
            statement, tree.ReturnStatement | tree.ExitStatement | tree.BreakStatement | tree.ContinueStatement
        ):
            break


def branch(e: Elaborator, statement: tree.StatementNode | None) -> ir.Code:
    """The code of a branch."""
    with e.collecting() as code:
        if statement is not None:
            run_statements(e, [statement])
    return tuple(code)


# --- declarations ---


def _variable(e: Elaborator, node: tree.VariableDeclaration) -> None:
    value = evaluate(e, node.value) if node.value is not None else None
    target = e.variable(e.declared(node), node.name, node.span)
    if value is None:
        initialise(e, target, node.span)
    else:
        assign(e, target, value, node.span)
    e.frame.values[node] = target


def _constant(e: Elaborator, node: tree.ConstantDeclaration) -> None:
    e.frame.values[node] = evaluate(e, node.value)


def _instance(e: Elaborator, node: tree.InstanceDeclaration) -> None:
    raise Refusal("an instance in code is not supported", node.span)


# --- simple statements ---


def _block(e: Elaborator, node: tree.BlockStatement) -> None:
    run_statements(e, node.statements)


def _assign(e: Elaborator, node: tree.AssignStatement) -> None:
    target = locate(e, node.target)
    if may_change(e, node.value):
        target = frozen(e, target, node.span)
    if not node.op:
        assign(e, target, evaluate(e, node.value), node.span)
        return
    old = read(e, target)
    assert isinstance(old, SCALARS)
    if may_change(e, node.value):
        old = e.saved(old, node.span)
    new = scalar(e, node.value)
    assign(e, target, operations.convert(operations.binary(node.op, old, new, node.span), old.type), node.span)


def _call(e: Elaborator, node: tree.CallStatement) -> None:
    value = call(e, node.call)
    if isinstance(value, AppliedTable):
        apply_table(e, value.table, node.span)


def _if(e: Elaborator, node: tree.IfStatement) -> None:
    value = evaluate(e, node.condition)
    if isinstance(value, AppliedTable):
        yes = lambda: branch(e, node.yes)  # noqa: E731 (the branches come after the table)
        no = lambda: branch(e, node.no)  # noqa: E731
        hit, miss = (yes, no) if value.part == "hit" else (no, yes)
        apply_table(e, value.table, node.span, hit=hit, miss=miss)
        return
    assert isinstance(value, SCALARS)
    if isinstance(value, ir.ConstantValue):  # the other branch is no part of the program, nor are its tables
        e.emit(*branch(e, node.yes if value.value else node.no))
        return
    yes_code, no_code = branch(e, node.yes), branch(e, node.no)
    if yes_code or no_code:
        e.emit(ir.IfStep(value, yes_code, no_code, node.condition.span))


def _return(e: Elaborator, node: tree.ReturnStatement) -> None:
    if e.mode in ("checksum", "deparser"):  # they become lists of checksums and headers
        raise Refusal("'return' in a control of checksums or a deparser is not supported", node.span)
    body = e.bodies[-1]
    if node.value is not None:
        assert body.result is not None
        assign(e, body.result, evaluate(e, node.value), node.span)
    e.emit(ir.JumpStep(body.label))


def _exit(e: Elaborator, node: tree.ExitStatement) -> None:
    for body in reversed(e.bodies):  # what is due when they end
        for target, value, span in body.copies_out:
            assign(e, target, value, span)
    e.emit(ir.PrimitiveStep("exit", (), node.span), ir.JumpStep(EXIT))


# --- switch ---


def _switch(e: Elaborator, node: tree.SwitchStatement) -> None:
    subject = evaluate(e, node.subject)
    if isinstance(subject, AppliedTable) and subject.part == "action_run":
        cases = lambda: _action_cases(e, node)  # noqa: E731 (they come after the table)
        apply_table(e, subject.table, node.span, cases=cases)
        return
    value = scalar(e, node.subject) if isinstance(subject, AppliedTable) else subject
    assert isinstance(value, SCALARS)
    if not isinstance(value, ir.ConstantValue | ir.FieldValue):
        value = e.saved(value, node.span, "switch")
    tests: list[tuple[ir.Scalar, ir.Code]] = []
    default: ir.Code = ()
    condition: ir.Scalar = operations.FALSE
    is_default = False
    for case in node.cases:
        if isinstance(case.label, tree.AnyValue):
            is_default = True
        else:
            label = scalar(e, case.label)
            if label.type == INTEGER:
                label = operations.convert(label, value.type)
            condition = operations.both(condition, operations.binary("==", value, label, case.span), "or")
        if case.body is not None:
            if is_default or condition == operations.TRUE:  # nothing after it is reached
                default = branch(e, case.body)
                break
            if condition != operations.FALSE:
                tests.append((condition, branch(e, case.body)))
            condition, is_default = operations.FALSE, False
    out = default
    for test, code in reversed(tests):
        out = (ir.IfStep(test, code, out, node.span),)
    e.emit(*out)


def _action_cases(e: Elaborator, node: tree.SwitchStatement) -> dict[str, ir.Code]:
    out: dict[str, ir.Code] = {}
    waiting: list[str] = []
    for case in node.cases:
        if isinstance(case.label, tree.AnyValue):
            waiting.append("")
        else:
            action = evaluate(e, case.label)
            assert isinstance(action, ActionValue)
            waiting.append(action.name)
        if case.body is not None:
            code = branch(e, case.body)
            out |= dict.fromkeys(waiting, code)
            waiting = []
    return out


# --- loops ---


def _for(e: Elaborator, node: tree.ForStatement) -> None:
    run_statements(e, node.start)

    def step() -> None:
        run_statements(e, node.step)

    _loop(e, lambda: scalar(e, node.condition), node.body, step, node)


def _loop(
    e: Elaborator,
    condition: Callable[[], ir.Scalar],
    body: tree.StatementNode,
    step: Callable[[], None],
    node: tree.StatementNode,
) -> None:
    end, body_end = e.new_label(), e.new_label()
    with e.collecting() as code:
        test = condition()
        if isinstance(test, ir.ConstantValue) and not test.value:
            return
        e.emit(ir.IfStep(test, (), (ir.JumpStep(end),), node.span))
        e.loops.append((end, body_end))
        inner = branch(e, body)
        e.loops.pop()
        e.emit(ir.BlockStep(body_end, inner))
        step()
    e.emit(ir.BlockStep(end, (ir.LoopStep(tuple(code), node.span),)))


def _for_in(e: Elaborator, node: tree.ForInStatement) -> None:
    target = e.variable(e.declared(node.variable), node.variable.name, node.span)
    e.frame.values[node.variable] = target
    if isinstance(node.collection, tree.RangeExpression):
        assert isinstance(target, ir.FieldValue)
        _for_in_range(e, node, node.collection, target)
        return
    collection = evaluate(e, node.collection)
    if isinstance(collection, StructValue):
        items: tuple[Value, ...] = tuple(collection.fields.values())
    elif isinstance(collection, ListValue | StackValue):
        items = collection.items
    else:
        raise Refusal("a loop over this is not supported", node.collection.span)
    _unrolled(e, node, target, items)


def _unrolled(e: Elaborator, node: tree.ForInStatement, target: Value, items: tuple[Value, ...]) -> None:
    kind = getattr(target, "type", None)
    end = e.new_label()
    with e.collecting() as code:
        for item in items:
            body_end = e.new_label()
            assert isinstance(kind, Type)
            assign(e, target, convert(e, item, kind, node.span), node.span)
            e.loops.append((end, body_end))
            inner = branch(e, node.body)
            e.loops.pop()
            e.emit(ir.BlockStep(body_end, inner))
    e.emit(ir.BlockStep(end, tuple(code)))


def _for_in_range(
    e: Elaborator, node: tree.ForInStatement, collection: tree.RangeExpression, target: ir.FieldValue
) -> None:
    """The counter has a bit more than the variable, so that the last value may be the greatest."""
    bits = number_type(target.type)
    if bits is None:
        raise Refusal(f"a loop over a range of {target.type}", node.span)
    wide = BitsType(bits.width + 1, bits.signed)
    counter = e.saved(operations.cast(scalar(e, collection.low), wide), node.span, "counter")
    high: ir.Scalar = operations.cast(scalar(e, collection.high), wide)
    if not isinstance(high, ir.ConstantValue):
        high = e.saved(high, node.span, "last")

    def condition() -> ir.Scalar:
        e.emit(ir.AssignStep(target, operations.cast(counter, target.type), node.span))
        return operations.binary("<=", counter, high, node.span)

    def step() -> None:
        one = ir.ConstantValue(1, wide)
        e.emit(ir.AssignStep(counter, operations.binary("+", counter, one, node.span), node.span))

    _loop(e, condition, node.body, step, node)


def _break(e: Elaborator, node: tree.BreakStatement) -> None:
    e.emit(ir.JumpStep(e.loops[-1][0]))


def _continue(e: Elaborator, node: tree.ContinueStatement) -> None:
    e.emit(ir.JumpStep(e.loops[-1][1]))


_RUN: dict[type, Callable[[Elaborator, Any], None]] = {
    tree.VariableDeclaration: _variable,
    tree.ConstantDeclaration: _constant,
    tree.InstanceDeclaration: _instance,
    tree.BlockStatement: _block,
    tree.EmptyStatement: lambda e, node: None,
    tree.AssignStatement: _assign,
    tree.CallStatement: _call,
    tree.IfStatement: _if,
    tree.ReturnStatement: _return,
    tree.ExitStatement: _exit,
    tree.SwitchStatement: _switch,
    tree.ForStatement: _for,
    tree.ForInStatement: _for_in,
    tree.BreakStatement: _break,
    tree.ContinueStatement: _continue,
}
