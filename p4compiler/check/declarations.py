"""Declarations at the top of a program: types, externs, functions, actions, parsers, controls, packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from p4compiler import tree
from p4compiler.check import constants, type_declarations, type_nodes
from p4compiler.check.arguments import is_passable
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_value
from p4compiler.check.parsers import check_states
from p4compiler.check.statements import (
    check_constant,
    check_instance_declaration,
    check_statements,
    check_variable,
)
from p4compiler.check.tables import MAX_SIZE, check_table
from p4compiler.diagnostics import Note, Refusal, shown
from p4compiler.types import INTEGER, STRING, UNKNOWN, VOID, ObjectType, RecordType, SetType

FIRST_VERSION, LAST_VERSION = 20180101, 20200408  # of v1model.p4


def check_program(checker: Checker) -> None:
    """Check all declarations in their order."""
    for declaration in checker.program.declarations:
        with checker.recorded():
            check_declaration(checker, declaration)
            if declaration.name == "__v1model_version" and isinstance(declaration, tree.ConstantDeclaration):
                _check_version(checker, declaration)


def _check_version(checker: Checker, node: tree.ConstantDeclaration) -> None:
    """Refuse versions of v1model that do not exist, which programs choose by V1MODEL_VERSION."""
    literal = node.value.operand if isinstance(node.value, tree.UnaryExpression) else node.value
    version = literal.value if isinstance(literal, tree.NumberLiteral) else None
    if version is None or literal is not node.value:
        raise Refusal("expected v1model version to be a non-negative number", node.value.span)
    if not FIRST_VERSION <= version <= LAST_VERSION:
        text = f"initial supported version is {FIRST_VERSION}, latest is {LAST_VERSION}"
        raise Refusal(f"{version}: unknown v1model version; {text}", node.value.span)


def check_declaration(checker: Checker, node: tree.Declaration) -> None:
    """Check a declaration and declare its name; raises Refusal."""
    _CHECKS[type(node)](checker, node)


# --- types ---


def _struct(checker: Checker, node: tree.StructDeclaration) -> None:
    checker.checked.declared[node] = UNKNOWN
    try:
        type_declarations.declare_struct(checker, node)
    finally:
        checker.declare(node)


def _enum(checker: Checker, node: tree.EnumDeclaration) -> None:
    checker.checked.declared[node] = UNKNOWN
    try:
        type_declarations.declare_enum(checker, node)
    finally:
        checker.declare(node)


def _typedef(checker: Checker, node: tree.TypedefDeclaration) -> None:
    checker.checked.declared[node] = UNKNOWN
    try:
        type_declarations.declare_typedef(checker, node)
    finally:
        checker.declare(node)


def _names(checker: Checker, node: tree.Names) -> None:
    known = checker.checked.errors if node.name == "error" else checker.checked.match_kinds
    for member in node.members:
        if node.name == "error":
            checker.checked.declared_errors[member.name] = None
        if member.name not in known:
            known[member.name] = len(known)
        elif not node.span.source.standard:
            checker.error(f"{node.name} {member.name!r} is declared twice (duplicates declaration)", member.span)


# --- callables ---


def declare_parameters(checker: Checker, parameters: Sequence[tree.Parameter], what: str) -> None:
    """Declare parameters in the present scope."""
    seen_default = False
    for parameter in parameters:
        kind = type_nodes.resolve(checker, parameter.type)
        if kind == VOID:
            kind = checker.error(f"parameter {parameter.name!r} cannot be void", parameter.span)
        if isinstance(kind, ObjectType) and parameter.direction and what != "prototype":
            checker.error(f"parameter {parameter.name!r}: a {kind} cannot have a direction", parameter.span)
        if kind in (INTEGER, STRING) and parameter.direction and what != "prototype":
            checker.error(f"parameter {parameter.name!r}: {kind} cannot have a direction", parameter.span)
        if isinstance(kind, RecordType) and kind.declaration.type_parameters and not kind.arguments:
            kind = checker.error(f"{kind} needs type arguments", parameter.type.span)
        checker.checked.declared[parameter] = kind
        if parameter.default is not None:
            seen_default = True
            if parameter.direction not in ("", "in"):
                checker.error(
                    f"parameter {parameter.name!r}: an {parameter.direction} parameter has no default", parameter.span
                )
            check_value(checker, parameter.default, kind)
        elif seen_default and tree.annotation(parameter.annotations, "optional") is None:
            checker.error(
                f"parameter {parameter.name!r} without a default comes after one with a default", parameter.span
            )
        checker.declare(parameter)


def _declare_types(checker: Checker, parameters: Sequence[tree.TypeParameter]) -> None:
    for parameter in parameters:
        checker.declare(parameter)


def _prototype(checker: Checker, node: tree.Prototype) -> None:
    with checker.inside():
        _declare_types(checker, node.type_parameters)
        if node.returns is not None:
            type_nodes.resolve(checker, node.returns)
        declare_parameters(checker, node.parameters, "prototype")


def _extern_function(checker: Checker, node: tree.Prototype) -> None:
    _prototype(checker, node)
    checker.declare(node)


def _extern(checker: Checker, node: tree.ExternDeclaration) -> None:
    checker.declare(node)
    with checker.inside():
        _declare_types(checker, node.type_parameters)
        for method in node.methods:
            _prototype(checker, method)


def _function(checker: Checker, node: tree.FunctionDeclaration) -> None:
    with checker.inside(is_body=True):
        _declare_types(checker, node.type_parameters)
        returns = type_nodes.resolve(checker, node.returns)
        declare_parameters(checker, node.parameters, "function")
        with checker.at("function", returns, node.name):
            check_statements(checker, node.body.statements)
    if returns not in (VOID, UNKNOWN) and not always_returns(node.body):
        checker.error(f"function {node.name!r} may end without returning a value", node.span)
    checker.declare(node)


def always_returns(statement: tree.StatementNode | tree.Declaration) -> bool:
    """Whether every way through the statement ends in a return or an exit."""
    if isinstance(statement, tree.ReturnStatement | tree.ExitStatement):
        return True
    if isinstance(statement, tree.BlockStatement):
        return any(always_returns(item) for item in statement.statements)
    if isinstance(statement, tree.IfStatement):
        return statement.no is not None and always_returns(statement.yes) and always_returns(statement.no)
    if isinstance(statement, tree.SwitchStatement):
        has_default = any(isinstance(case.label, tree.AnyValue) for case in statement.cases)
        bodies = [case.body for case in statement.cases if case.body is not None]
        return has_default and all(always_returns(body) for body in bodies)
    return False


def _action(checker: Checker, node: tree.ActionDeclaration) -> None:
    with checker.inside(is_body=True):
        declare_parameters(checker, node.parameters, "action")
        plain = False
        for parameter in node.parameters:
            kind = checker.checked.declared[parameter]
            if not parameter.direction and not is_passable(kind):
                text = "has a type which is not bit<>, int<>, bool, type or serializable enum"
                checker.error(f"Action parameter {parameter.name} {text}: {kind}", parameter.span)
            if parameter.direction and plain:
                text = f"parameter {parameter.name!r} with a direction comes after parameters without one"
                checker.error(text, parameter.span)
            plain = plain or not parameter.direction
        with checker.at("action", owner=node.name):
            check_statements(checker, node.body.statements)
    checker.declare(node)


# --- parsers, controls, packages ---


def _parser(checker: Checker, node: tree.ParserDeclaration) -> None:
    _declare_early(checker, node, node.states is None)
    with checker.inside() as scope:
        _declare_types(checker, node.type_parameters)
        declare_parameters(checker, node.constructor, "constructor")
        declare_parameters(checker, node.parameters, "parser")
        if node.states is not None:
            _check_locals(checker, node.locals, node.name)
            check_states(checker, node)
        else:
            scope.used.update(scope.names)
    if node.states is not None:
        checker.declare(node)


def _control(checker: Checker, node: tree.ControlDeclaration) -> None:
    _declare_early(checker, node, node.body is None)
    with checker.inside():
        _declare_types(checker, node.type_parameters)
        declare_parameters(checker, node.constructor, "constructor")
        declare_parameters(checker, node.parameters, "control")
        if node.body is not None:
            _check_locals(checker, node.locals, node.name)
            with checker.at("control", owner=node.name), checker.inside(is_body=True):
                check_statements(checker, node.body.statements)
    if node.body is not None:
        checker.declare(node)


def _declare_early(checker: Checker, node: tree.Declaration, is_type: bool) -> None:
    """A parser or control cannot use itself, so only one that is a mere type is declared before it is checked."""
    if is_type:
        checker.declare(node)


def _check_locals(checker: Checker, declarations: Sequence[tree.Declaration], owner: str) -> None:
    checker.locals = declarations
    with checker.at("parser", owner=owner):
        for item in declarations:
            with checker.recorded():
                if isinstance(item, tree.VariableDeclaration):
                    with checker.at("control", owner=owner):  # its initial value may call functions
                        check_variable(checker, item)
                else:
                    check_declaration(checker, item)
    checker.locals = ()


def _value_set(checker: Checker, node: tree.ValueSetDeclaration) -> None:
    kind = type_nodes.resolve(checker, node.type)
    size = constants.number(checker, node.size, "the size of a value set")
    if size is not None and not 0 <= size < MAX_SIZE:
        checker.error(f"a value set of {shown(size)} members; a size is from 0 to {MAX_SIZE - 1:,}", node.size.span)
    checker.checked.declared[node] = SetType(kind)
    checker.declare(node)


def _package(checker: Checker, node: tree.PackageDeclaration) -> None:
    with checker.inside() as scope:
        _declare_types(checker, node.type_parameters)
        declare_parameters(checker, node.parameters, "package")
        scope.used.update(scope.names)
    checker.declare(node)


def _variable(checker: Checker, node: tree.VariableDeclaration) -> None:
    check_variable(checker, node)


def _check_main(checker: Checker, node: tree.InstanceDeclaration) -> None:
    check_instance_declaration(checker, node)
    checker.scope.used.add(node.name)
    if node.body is not None:
        note = Note("its body is here", node.body[0].span if node.body else node.span)
        raise Refusal("instances with a body (abstract methods) are not supported", node.span, note)


_CHECKS: dict[type, Callable[[Checker, Any], None]] = {
    tree.StructDeclaration: _struct,
    tree.EnumDeclaration: _enum,
    tree.TypedefDeclaration: _typedef,
    tree.Names: _names,
    tree.ConstantDeclaration: check_constant,
    tree.Prototype: _extern_function,
    tree.ExternDeclaration: _extern,
    tree.FunctionDeclaration: _function,
    tree.ActionDeclaration: _action,
    tree.ParserDeclaration: _parser,
    tree.ControlDeclaration: _control,
    tree.PackageDeclaration: _package,
    tree.InstanceDeclaration: _check_main,
    tree.VariableDeclaration: _variable,
    tree.ValueSetDeclaration: _value_set,
    tree.TableDeclaration: check_table,
}
