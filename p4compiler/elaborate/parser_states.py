"""Parsers, lowered: the code of each state, and where it goes by the values of its keys."""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler import ir, tree
from p4compiler.check.sets import keys_of
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.calls import declare_variables
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.entries import ValueSet, lower_set
from p4compiler.elaborate.expressions import evaluate_all
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.values import SCALARS, BlockInstance, ValueSetValue, scalars
from p4compiler.sources import SourceSpan

ACCEPT, REJECT = "accept", "reject"


@dataclass(frozen=True, eq=False)
class LoweredCase:
    """A case of a select: a set for each key, or one value set for all; `target` is the name of a state."""

    sets: tuple[ValueSet, ...] | ValueSetValue
    target: str


@dataclass(frozen=True, eq=False)
class LoweredState:
    """A state; without keys the first case is taken."""

    name: str
    body: ir.Code
    keys: tuple[ir.FieldValue, ...]
    cases: tuple[LoweredCase, ...]
    span: SourceSpan


@dataclass(frozen=True, eq=False)
class LoweredParser:
    """A parser with bound parameters: what it does before its start, and its states, of which "start" is first."""

    prefix: str  # of the names of its states in the JSON
    setup: ir.Code
    states: tuple[LoweredState, ...]


def lower_parser(e: Elaborator, instance: BlockInstance, frame: Frame, prefix: str) -> LoweredParser:
    """The states of a parser that can be reached."""
    declaration = instance.declaration
    assert isinstance(declaration, tree.ParserDeclaration)
    outer, e.instance = e.instance, instance
    try:
        with e.in_mode("parser"), e.within(frame):
            with e.collecting() as setup:
                declare_variables(e, instance)
            states = tuple(_lower_state(e, state, frame) for state in _reached(e, declaration))
    finally:
        e.instance = outer
    return LoweredParser(prefix, tuple(setup), states)


def _reached(e: Elaborator, declaration: tree.ParserDeclaration) -> list[tree.StateDeclaration]:
    """The states that "start" leads to, in the order of their declarations."""
    states = {state.name: state for state in declaration.states or ()}
    waiting, reached = ["start"], {"start"}
    while waiting:
        transition = states[waiting.pop()].transition
        names = (
            [transition]
            if isinstance(transition, tree.Name)
            else [item.state for item in transition.cases]
            if transition
            else []
        )
        for name in names:
            if name.name in states and name.name not in reached:
                reached.add(name.name)
                waiting.append(name.name)
    return [state for state in declaration.states or () if state.name in reached]


def _lower_state(e: Elaborator, state: tree.StateDeclaration, frame: Frame) -> LoweredState:
    transition = state.transition
    with e.within(Frame(frame)), e.collecting() as code:
        e.parts.run_statements(e, state.statements)
        keys: tuple[ir.FieldValue, ...] = ()
        cases: tuple[LoweredCase, ...] = ()
        if transition is None:
            cases = (LoweredCase((), REJECT),)
        elif isinstance(transition, tree.Name):
            cases = (LoweredCase((), transition.name),)
        else:
            keys = _keys(e, transition)
            cases = tuple(_case(e, item, keys) for item in transition.cases)
    return LoweredState(state.name, tuple(code), keys, cases, state.span)


def _keys(e: Elaborator, node: tree.Select) -> tuple[ir.FieldValue, ...]:
    """The keys, each in a field."""
    out: list[ir.FieldValue] = []
    for value in evaluate_all(e, node.keys):
        for item in scalars(value):
            assert isinstance(item, SCALARS)
            is_element = isinstance(item, ir.FieldValue) and isinstance(item.header, ir.StackElement)
            if isinstance(item, ir.FieldValue) and not is_element:
                out.append(item)
            else:
                out.append(e.saved(item, node.span, "key"))
    return tuple(out)


def _case(e: Elaborator, node: tree.SelectBranch, keys: tuple[ir.FieldValue, ...]) -> LoweredCase:
    if isinstance(node.set, tree.Name):
        declaration = e.checked.names.get(node.set)
        if isinstance(declaration, tree.ValueSetDeclaration):
            found = e.frame.find(declaration)
            assert isinstance(found, ValueSetValue)
            e.found.value_sets.setdefault(found.name, found)
            return LoweredCase(found, node.state.name)
    if isinstance(node.set, tree.IndexExpression):
        raise Refusal("an array of value sets is not supported", node.set.span)
    sets = keys_of(node.set, len(keys))
    return LoweredCase(
        tuple(lower_set(e, item, key.type) for item, key in zip(sets, keys, strict=True)), node.state.name
    )
