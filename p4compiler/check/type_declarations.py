"""Declarations of types: structs, headers, unions, enums, typedefs and new types."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.check import constants
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_value
from p4compiler.check.type_nodes import MAX_PARTS, resolve
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.cursor import Cursor
from p4compiler.parser.expressions import ExpressionParser
from p4compiler.types import (
    ANYTHING,
    BOOL,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    BitsType,
    EnumType,
    NewType,
    ObjectType,
    RecordType,
    Type,
    TypeVariable,
    VarbitType,
    base_of,
    number_type,
    width_of,
)

MAX_RECORD_BITS = 1 << 20


def declare_struct(checker: Checker, node: tree.StructDeclaration) -> None:
    """Check a struct, header or union, and give it its type."""
    fields: dict[str, Type] = {}
    with checker.inside() as scope:
        for parameter in node.type_parameters:
            checker.declare(parameter)
        for item in node.fields:
            kind = resolve(checker, item.type)
            checker.checked.declared[item] = kind
            if item.name in fields:
                checker.error(f"field {item.name!r} is there twice (duplicates declaration)", item.span)
            elif not _may_hold(node.kind, kind):
                checker.error(
                    f"field {item.name!r} of {node.kind} {node.name!r} cannot have type {kind}", item.type.span
                )
            fields[item.name] = kind
            _check_field_lists(checker, item)
        scope.used.update(scope.names)
    _limit_size(node, fields)
    arguments = tuple(TypeVariable(parameter) for parameter in node.type_parameters)
    checker.checked.declared[node] = RecordType(node, arguments, fields)


def _check_field_lists(checker: Checker, field: tree.FieldDeclaration) -> None:
    """The numbers in ``@field_list(a, b)``, which are expressions."""
    note = tree.annotation(field.annotations, "field_list")
    if note is None:
        return
    end = Token(lexer.END, "", note.span, starts_line=True)
    cursor = Cursor([*note.body, end], checker.diagnostics)
    parser = ExpressionParser(cursor)
    numbers: list[int] = []
    while cursor.token.kind != lexer.END:
        expression = parser.expression()
        kind = checker.expression(expression)
        known = constants.value(checker, expression)
        if not isinstance(known, int) or (kind != INTEGER and number_type(kind) is None):
            raise Refusal("@field_list needs numbers that are known at compile time", expression.span)
        numbers.append(int(known))
        if not cursor.accept(","):
            break
    checker.checked.field_lists[field] = tuple(numbers)


def _limit_size(node: tree.StructDeclaration, fields: dict[str, Type]) -> None:
    if sum(item.parts for item in fields.values()) > MAX_PARTS:
        raise Refusal(f"{node.kind} {node.name!r} has more than {MAX_PARTS:,} parts", node.span)
    if sum(width_of(item) for item in fields.values()) > MAX_RECORD_BITS:
        raise Refusal(f"{node.kind} {node.name!r} has more than {MAX_RECORD_BITS:,} bits", node.span)


def _may_hold(kind: str, field: Type) -> bool:
    field = base_of(field)
    if field == UNKNOWN or isinstance(field, TypeVariable):
        return True
    if kind == "header_union":
        return isinstance(field, RecordType) and field.kind == "header"
    if kind == "header":
        if isinstance(field, RecordType):
            return field.kind == "struct" and all(_may_hold("header", item) for item in field.fields.values())
        return (
            field == BOOL
            or isinstance(field, BitsType | VarbitType)
            or (isinstance(field, EnumType) and field.base is not None)
        )
    return not isinstance(field, ObjectType) and field not in (INTEGER, VOID, MATCH_KIND, STRING, ANYTHING)


def declare_enum(checker: Checker, node: tree.EnumDeclaration) -> None:
    """Check an enum and give it its type; the values of one with a base are known afterwards."""
    base: BitsType | None = None
    if node.base is not None:
        resolved = base_of(resolve(checker, node.base))
        if not isinstance(resolved, BitsType):
            raise Refusal(f"the values of an enum are of type bit<N> or int<N>, not {resolved}", node.base.span)
        base = resolved
    kind = EnumType(node, node.name, base)
    checker.checked.declared[node] = kind
    seen: set[str] = set()
    for member in node.members:
        if member.name in seen:
            checker.error(f"{member.name!r} is there twice (duplicates declaration)", member.span)
        seen.add(member.name)
        checker.checked.declared[member] = kind
        if base is None and member.value is not None:
            checker.error("only an enum with a type, such as `enum bit<8> E`, gives its members values", member.span)
        if base is not None and member.value is None:
            checker.error(f"{member.name!r} of enum {node.name!r} needs a value", member.span)
        if base is not None and member.value is not None:
            check_value(checker, member.value, base)
            if constants.value(checker, member.value) is None:
                checker.error(f"the value of {member.name!r} is not known at compile time", member.value.span)


def declare_typedef(checker: Checker, node: tree.TypedefDeclaration) -> None:
    """Check a typedef or a new type, and give it its type."""
    if isinstance(node.type, tree.StructDeclaration):
        declare_struct(checker, node.type)
        kind = checker.checked.declared[node.type]
    elif isinstance(node.type, tree.EnumDeclaration):
        declare_enum(checker, node.type)
        kind = checker.checked.declared[node.type]
    else:
        kind = resolve(checker, node.type)
    if node.is_new:
        if not (isinstance(base_of(kind), BitsType | EnumType) or base_of(kind) in (BOOL, UNKNOWN)):
            raise Refusal(f"type {node.name!r} cannot be made of {kind}", node.span)
        kind = NewType(node, kind)
    checker.checked.declared[node] = kind
