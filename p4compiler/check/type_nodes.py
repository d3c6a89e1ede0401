"""Types as they are written: what they stand for, and which may hold which."""

from __future__ import annotations

from p4compiler import tree
from p4compiler.check import constants
from p4compiler.check.checker import Checker
from p4compiler.diagnostics import Refusal, counted, did_you_mean, shown
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    BitsType,
    ListType,
    ObjectType,
    RecordType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
    VarbitType,
    substitute,
)

MAX_WIDTH = 65_536  # bits of a type
MAX_STACK = 4_096
MAX_PARTS = 20_000  # types in a type

_PLAIN: dict[str, Type] = {
    "bool": BOOL,
    "error": ERROR,
    "string": STRING,
    "void": VOID,
    "match_kind": MATCH_KIND,
    "int": INTEGER,
    "_": ANYTHING,
}


def resolve(checker: Checker, node: tree.TypeNode) -> Type:
    """What a type stands for; UNKNOWN after an error, which is recorded."""
    found = checker.checked.type_nodes.get(node)
    if found is None:
        try:
            found = _resolve(checker, node)
            if found.parts > MAX_PARTS:
                raise Refusal(f"a type of more than {MAX_PARTS:,} parts", node.span)
        except Refusal as refusal:
            checker.diagnostics.add(refusal.diagnostic)
            found = UNKNOWN
        checker.checked.type_nodes[node] = found
    return found


def _resolve(checker: Checker, node: tree.TypeNode) -> Type:
    if isinstance(node, tree.PlainTypeNode):
        return _PLAIN[node.name]
    if isinstance(node, tree.SizedTypeNode):
        return _sized(checker, node)
    if isinstance(node, tree.StackTypeNode):
        return _stack(checker, node)
    if isinstance(node, tree.TupleTypeNode):
        return TupleType(tuple(resolve(checker, item) for item in node.items))
    if isinstance(node, tree.ListTypeNode):
        return ListType(resolve(checker, node.item))
    assert isinstance(node, tree.NamedTypeNode)
    return _named(checker, node)


def _sized(checker: Checker, node: tree.SizedTypeNode) -> Type:
    if node.width is None:
        return BitsType(1)
    width = constants.number(checker, node.width, "the width of a type")
    if width is None:
        return UNKNOWN
    least = 1 if node.name == "int" else 0
    if not least <= width <= MAX_WIDTH:
        raise Refusal(f"{node.name}<{shown(width)}>: a width is from {least} to {MAX_WIDTH}", node.width.span)
    return VarbitType(width) if node.name == "varbit" else BitsType(width, node.name == "int")


def _stack(checker: Checker, node: tree.StackTypeNode) -> Type:
    element = resolve(checker, node.element)
    size = constants.number(checker, node.size, "the size of a stack")
    if size is None or element == UNKNOWN:
        return UNKNOWN
    if not 1 <= size <= MAX_STACK:
        raise Refusal(f"a stack has from 1 to {MAX_STACK} elements, not {shown(size)}", node.size.span)
    is_element = isinstance(element, RecordType) and element.kind in ("header", "header_union")
    if not is_element and not isinstance(element, TypeVariable):
        raise Refusal(f"a stack of {element}: only headers and header unions can be in a stack", node.span)
    return StackType(element, size)


def _named(checker: Checker, node: tree.NamedTypeNode) -> Type:
    declaration = checker.lookup(node.name, node.span, absolute=node.absolute, what="type ")
    if declaration is None:
        return UNKNOWN
    checker.checked.names[node] = declaration
    arguments = tuple(resolve(checker, item) for item in node.arguments)
    kind = type_of(checker, declaration)
    if kind is None:
        raise Refusal(f"{node.name!r} is not a type", node.span)
    if not arguments:
        if (
            isinstance(kind, RecordType)
            and isinstance(declaration, tree.StructDeclaration)
            and declaration.type_parameters
        ):
            raise Refusal(f"{kind.name!r} needs {counted(len(kind.arguments), 'type argument')}", node.span)
        return kind
    return specialize(kind, arguments, node)


def specialize(kind: Type, arguments: tuple[Type, ...], node: tree.SyntaxNode) -> Type:
    """A generic type with type arguments."""
    parameters: tuple[tree.TypeParameter, ...] = ()
    if isinstance(kind, RecordType | ObjectType):
        parameters = kind.declaration.type_parameters
    if len(parameters) != len(arguments):
        has = counted(len(parameters), "type parameter")
        raise Refusal(f"{kind} has {has}, and {len(arguments)} type arguments are given", node.span)
    if isinstance(kind, ObjectType):
        return ObjectType(kind.declaration, arguments)
    return substitute(kind, dict(zip(parameters, arguments, strict=True)))


def type_of(checker: Checker, declaration: tree.Declaration) -> Type | None:
    """The type that a declaration declares; None if it declares none."""
    if isinstance(declaration, tree.TypeParameter):
        return TypeVariable(declaration)
    if isinstance(
        declaration, tree.ExternDeclaration | tree.ParserDeclaration | tree.ControlDeclaration | tree.PackageDeclaration
    ):
        return ObjectType(declaration)
    if isinstance(declaration, tree.StructDeclaration | tree.EnumDeclaration | tree.TypedefDeclaration):
        return checker.checked.declared.get(declaration, UNKNOWN)
    return None


def no_field(kind: RecordType, name: str) -> str:
    """The message for a field that is not there."""
    methods = ("isValid", "setValid", "setInvalid") if kind.kind == "header" else ()
    return f"{kind} has no field {name!r}{did_you_mean(name, [*kind.fields, *methods])}"
