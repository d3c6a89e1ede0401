"""Types as they are written: what they stand for, and which may hold which."""

from __future__ import annotations

from p4compiler import tree
from p4compiler.check import constants
from p4compiler.check.checker import Checker
from p4compiler.diagnostics import Refusal, counted, did_you_mean
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    Enum,
    List,
    New,
    Object,
    Record,
    Stack,
    Tuple,
    Type,
    Varbit,
    Variable,
    base_of,
    substitute,
)

MAX_WIDTH = 65_536  # bits of a type
MAX_STACK = 4_096
MAX_RECORD_BITS = 1 << 20

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
        except Refusal as refusal:
            checker.diagnostics.add(refusal.diagnostic)
            found = UNKNOWN
        checker.checked.type_nodes[node] = found
    return found


def _resolve(checker: Checker, node: tree.TypeNode) -> Type:
    if isinstance(node, tree.PlainType):
        return _PLAIN[node.name]
    if isinstance(node, tree.SizedType):
        return _sized(checker, node)
    if isinstance(node, tree.StackType):
        return _stack(checker, node)
    if isinstance(node, tree.TupleType):
        return Tuple(tuple(resolve(checker, item) for item in node.items))
    if isinstance(node, tree.ListType):
        return List(resolve(checker, node.item))
    assert isinstance(node, tree.TypeName)
    return _named(checker, node)


def _sized(checker: Checker, node: tree.SizedType) -> Type:
    if node.width is None:
        return Bits(1)
    width = constants.number(checker, node.width, "the width of a type")
    if width is None:
        return UNKNOWN
    least = 1 if node.name == "int" else 0
    if not least <= width <= MAX_WIDTH:
        raise Refusal(f"{node.name}<{width}>: a width is from {least} to {MAX_WIDTH}", node.width.span)
    return Varbit(width) if node.name == "varbit" else Bits(width, node.name == "int")


def _stack(checker: Checker, node: tree.StackType) -> Type:
    element = resolve(checker, node.element)
    size = constants.number(checker, node.size, "the size of a stack")
    if size is None or element == UNKNOWN:
        return UNKNOWN
    if not 1 <= size <= MAX_STACK:
        raise Refusal(f"a stack has from 1 to {MAX_STACK} elements, not {size}", node.size.span)
    is_element = isinstance(element, Record) and element.kind in ("header", "header_union")
    if not is_element and not isinstance(element, Variable):
        raise Refusal(f"a stack of {element}: only headers and header unions can be in a stack", node.span)
    return Stack(element, size)


def _named(checker: Checker, node: tree.TypeName) -> Type:
    declaration = checker.lookup(node.name, node.span, absolute=node.absolute, what="type ")
    if declaration is None:
        return UNKNOWN
    checker.checked.names[node] = declaration
    arguments = tuple(resolve(checker, item) for item in node.arguments)
    kind = type_of(checker, declaration)
    if kind is None:
        raise Refusal(f"{node.name!r} is not a type", node.span)
    if not arguments:
        if isinstance(kind, Record) and kind.declaration.type_parameters:
            raise Refusal(f"{kind.name!r} needs {counted(len(kind.arguments), 'type argument')}", node.span)
        return kind
    return specialize(kind, arguments, node)


def specialize(kind: Type, arguments: tuple[Type, ...], node: tree.Node) -> Type:
    """A generic type with type arguments."""
    parameters: tuple[tree.TypeParameter, ...] = ()
    if isinstance(kind, Record | Object):
        parameters = kind.declaration.type_parameters
    if len(parameters) != len(arguments):
        has = counted(len(parameters), "type parameter")
        raise Refusal(f"{kind} has {has}, and {len(arguments)} type arguments are given", node.span)
    if isinstance(kind, Object):
        return Object(kind.declaration, arguments)
    return substitute(kind, dict(zip(parameters, arguments, strict=True)))


def type_of(checker: Checker, declaration: tree.Declaration) -> Type | None:
    """The type that a declaration declares; None if it declares none."""
    if isinstance(declaration, tree.TypeParameter):
        return Variable(declaration)
    if isinstance(declaration, tree.Extern | tree.Parser | tree.Control | tree.Package):
        return Object(declaration)
    if isinstance(declaration, tree.Struct | tree.Enum | tree.Typedef):
        return checker.checked.declared.get(declaration, UNKNOWN)
    return None


# --- declarations of types ---


def declare_struct(checker: Checker, node: tree.Struct) -> None:
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
        scope.used.update(scope.names)
    _limit_size(node, fields)
    arguments = tuple(Variable(parameter) for parameter in node.type_parameters)
    checker.checked.declared[node] = Record(node, arguments, fields)


def _limit_size(node: tree.Struct, fields: dict[str, Type]) -> None:
    from p4compiler.types import width_of

    if sum(width_of(item) for item in fields.values()) > MAX_RECORD_BITS:
        raise Refusal(f"{node.kind} {node.name!r} has more than {MAX_RECORD_BITS:,} bits", node.span)


def _may_hold(kind: str, field: Type) -> bool:
    field = base_of(field)
    if field == UNKNOWN or isinstance(field, Variable):
        return True
    if kind == "header_union":
        return isinstance(field, Record) and field.kind == "header"
    if kind == "header":
        if isinstance(field, Record):
            return field.kind == "struct" and all(_may_hold("header", item) for item in field.fields.values())
        return field == BOOL or isinstance(field, Bits | Varbit) or (isinstance(field, Enum) and field.base is not None)
    return not isinstance(field, Object) and field not in (INTEGER, VOID, MATCH_KIND, STRING, ANYTHING)


def declare_enum(checker: Checker, node: tree.Enum) -> None:
    """Check an enum and give it its type; the values of one with a base are known afterwards."""
    base: Bits | None = None
    if node.base is not None:
        resolved = base_of(resolve(checker, node.base))
        if not isinstance(resolved, Bits):
            raise Refusal(f"the values of an enum are of type bit<N> or int<N>, not {resolved}", node.base.span)
        base = resolved
    kind = Enum(node, node.name, base)
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
            from p4compiler.check.expressions import check_value

            check_value(checker, member.value, base)
            if constants.value(checker, member.value) is None:
                checker.error(f"the value of {member.name!r} is not known at compile time", member.value.span)


def declare_typedef(checker: Checker, node: tree.Typedef) -> None:
    """Check a typedef or a new type, and give it its type."""
    if isinstance(node.type, tree.Struct):
        declare_struct(checker, node.type)
        kind = checker.checked.declared[node.type]
    elif isinstance(node.type, tree.Enum):
        declare_enum(checker, node.type)
        kind = checker.checked.declared[node.type]
    else:
        kind = resolve(checker, node.type)
    if node.is_new:
        if not (isinstance(base_of(kind), Bits | Enum) or base_of(kind) in (BOOL, UNKNOWN)):
            raise Refusal(f"type {node.name!r} cannot be made of {kind}", node.span)
        kind = New(node, kind)
    checker.checked.declared[node] = kind


def member_of(kind: Enum, name: str) -> tree.EnumMember | None:
    """The member of an enum."""
    return next((item for item in kind.declaration.members if item.name == name), None)


def no_field(kind: Record, name: str) -> str:
    """The message for a field that is not there."""
    return f"{kind} has no field {name!r}{did_you_mean(name, kind.fields)}"
