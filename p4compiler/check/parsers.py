"""Parsers: states, selects, and which states are reached."""

from __future__ import annotations

from p4compiler import tree
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_expression
from p4compiler.check.sets import sets_for
from p4compiler.check.statements import check_statements
from p4compiler.diagnostics import Note, did_you_mean
from p4compiler.types import INTEGER, UNKNOWN, AppliedType, TupleType, Type, base_of, is_scalar

_FINAL = ("accept", "reject")


def check_states(checker: Checker, node: tree.ParserDeclaration) -> None:
    """Check the states of a parser whose parameters and locals are declared."""
    assert node.states is not None
    states: dict[str, tree.StateDeclaration] = {}
    for state in node.states:
        if state.name in _FINAL:
            checker.error(f"state {state.name!r} is there already, in every parser", state.span)
        elif state.name in states:
            checker.error(
                f"state {state.name!r} is declared twice",
                state.span,
                Note("the other is here", states[state.name].span),
            )
        states[state.name] = state
    if "start" not in states:
        checker.error(f"parser {node.name!r} has no state 'start'", node.span)
        return
    for state in node.states:
        with checker.at("state", owner=node.name), checker.inside(is_body=True):
            check_statements(checker, state.statements)
            if state.transition is None:
                checker.diagnostics.warning(
                    "missing-transition", f"state {state.name!r} has no transition, so it rejects", state.span
                )
            elif isinstance(state.transition, tree.Name):
                _target(checker, state.transition, states)
            else:
                with checker.recorded():
                    _check_select(checker, state.transition, states)
    _check_reached(checker, node, states)


def _target(checker: Checker, name: tree.Name, states: dict[str, tree.StateDeclaration]) -> None:
    if name.name in _FINAL:
        return
    if name.name not in states:
        checker.error(f"state {name.name!r} is not declared{did_you_mean(name.name, [*states, *_FINAL])}", name.span)
        return
    checker.checked.names[name] = states[name.name]


def select_types(kinds: list[Type]) -> list[Type]:
    """The types of the keys; a tuple counts as its items."""
    if len(kinds) == 1 and isinstance(kinds[0], TupleType):
        return list(kinds[0].items)
    return kinds


def _check_select(checker: Checker, node: tree.Select, states: dict[str, tree.StateDeclaration]) -> None:
    kinds = select_types([check_expression(checker, key) for key in node.keys])
    for key, kind in zip(node.keys, kinds, strict=False):
        if kind == INTEGER:
            checker.error("a key of a select needs a width; cast it", key.span)
        elif not is_scalar(base_of(kind)) and kind != UNKNOWN:
            checker.error(f"a select over {kind} ('SelectExpression' cannot have it)", key.span)
        elif isinstance(kind, AppliedType):
            checker.error(f"a select over {kind}", key.span)
    has_default = False
    for case in node.cases:
        if has_default:
            checker.diagnostics.warning("unreachable", "this case comes after one that takes every value", case.span)
            has_default = False
        with checker.recorded():
            sets = sets_for(checker, case.set, kinds, "the sizes of the tuples differ")
            has_default = all(isinstance(item, tree.AnyValue) for item in sets)
        _target(checker, case.state, states)


def _check_reached(checker: Checker, node: tree.ParserDeclaration, states: dict[str, tree.StateDeclaration]) -> None:
    """Warn of states that nothing leads to; refuse a parser that never ends."""
    waiting, reached, ends = ["start"], {"start"}, False
    while waiting:
        state = states[waiting.pop()]
        for name in _targets(state):
            if name in _FINAL:
                ends = True
            elif name in states and name not in reached:
                reached.add(name)
                waiting.append(name)
    for name, state in states.items():
        if name not in reached and not checker.diagnostics.has_errors():
            checker.diagnostics.warning("unreachable", f"state {name!r} is never reached", state.span)
    if not ends and not checker.diagnostics.has_errors():
        checker.error(f"parser {node.name}: Parser never reaches accept or reject state", node.span)


def _targets(state: tree.StateDeclaration) -> list[str]:
    if state.transition is None:
        return ["reject"]
    if isinstance(state.transition, tree.Name):
        return [state.transition.name]
    takes_all = any(
        isinstance(item, tree.AnyValue)
        for case in state.transition.cases
        for item in (case.set.items if isinstance(case.set, tree.SetTuple) and len(case.set.items) == 1 else [case.set])
    )
    return [case.state.name for case in state.transition.cases] + ([] if takes_all else ["reject"])
