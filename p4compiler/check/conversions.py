"""Conversions without a cast, casts, and the inference of type arguments."""

from __future__ import annotations

from collections.abc import Collection

from p4compiler import tree
from p4compiler.types import (
    ANYTHING,
    BOOL,
    INTEGER,
    INVALID,
    UNKNOWN,
    BitsType,
    EnumType,
    ListType,
    NamedType,
    NewType,
    ObjectType,
    RecordType,
    SetType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
    base_of,
    substitute,
)


def converts(have: Type, want: Type) -> bool:
    """Whether a value of one type may stand where the other is wanted."""
    if have == want or UNKNOWN in (have, want) or ANYTHING in (have, want):
        return True
    if have == INTEGER:  # p4c takes it for a `type` of numbers too
        return isinstance(base_of(want), BitsType)
    if isinstance(have, EnumType) and isinstance(want, BitsType):
        return have.base == want
    if have == INVALID:
        return isinstance(want, RecordType) and want.kind in ("header", "header_union")
    if isinstance(have, TupleType):
        return _tuple_converts(have, want)
    if isinstance(have, NamedType) and isinstance(want, RecordType) and want.kind != "header_union":
        given = dict(zip(have.names, have.items, strict=True))
        complete = have.rest or given.keys() == want.fields.keys()
        return complete and all(
            name in want.fields and converts(item, want.fields[name]) for name, item in given.items()
        )
    if isinstance(have, ListType) and isinstance(want, ListType | StackType):
        return converts(have.item, want.item if isinstance(want, ListType) else want.element)
    if isinstance(have, ObjectType) and isinstance(want, ObjectType):
        return have.declaration is want.declaration and same_types(have.arguments, want.arguments)
    return False


def same_types(have: tuple[Type, ...], want: tuple[Type, ...]) -> bool:
    """Whether they are equal where both are known."""
    return len(have) == len(want) and all(
        a == b or ANYTHING in (a, b) or UNKNOWN in (a, b) for a, b in zip(have, want, strict=True)
    )


def _tuple_converts(have: TupleType, want: Type) -> bool:
    items = have.items
    if isinstance(want, RecordType) and want.kind != "header_union":
        wanted = tuple(want.fields.values())
    elif isinstance(want, TupleType):
        wanted = want.items
    elif isinstance(want, StackType):
        wanted = (want.element,) * want.size
    elif isinstance(want, ListType):
        wanted = (want.item,) * len(items)
    else:
        return False
    complete = len(items) == len(wanted) or (have.rest and len(items) < len(wanted))
    return complete and all(converts(a, b) for a, b in zip(items, wanted, strict=False))


def casts(have: Type, want: Type) -> bool:
    """Whether ``(want) value`` is allowed."""
    if converts(have, want):
        return True
    if isinstance(want, NewType):
        return casts(have, want.base)
    if isinstance(have, NewType):
        return casts(have.base, want)
    if isinstance(have, EnumType):
        return have.base is not None and casts(have.base, want)
    if isinstance(want, EnumType):
        return want.base is not None and casts(have, want.base)
    if isinstance(have, BitsType) and isinstance(want, BitsType):
        return have.signed == want.signed or have.width == want.width
    if have == BOOL:
        return want == BitsType(1)
    if want == BOOL:
        return have in (BitsType(1), INTEGER)
    return want == INTEGER and isinstance(have, BitsType)


class Inference:
    """Types for type parameters, from the types of arguments."""

    def __init__(self, parameters: Collection[tree.TypeParameter]) -> None:
        self._parameters = set(parameters)
        self.bindings: dict[tree.TypeParameter, Type] = {}

    def match(self, pattern: Type, have: Type) -> bool:
        """Bind the parameters in `pattern` so that a value of type `have` fits; False if that is impossible."""
        if isinstance(pattern, TypeVariable) and pattern.declaration in self._parameters:
            bound = self.bindings.get(pattern.declaration)
            if bound is None or bound in (INTEGER, ANYTHING, UNKNOWN):
                if bound is None or converts(bound, have):
                    self.bindings[pattern.declaration] = have
                    return True
                return False
            return converts(have, bound)
        if isinstance(pattern, RecordType) and isinstance(have, RecordType) and pattern.declaration is have.declaration:
            return self._match_all(pattern.arguments, have.arguments)
        if isinstance(pattern, ObjectType) and isinstance(have, ObjectType):
            if pattern.declaration is have.declaration:
                return self._match_all(pattern.arguments, have.arguments)
            return pattern == have
        if isinstance(pattern, StackType) and isinstance(have, StackType):
            return pattern.size == have.size and self.match(pattern.element, have.element)
        if isinstance(pattern, TupleType) and isinstance(have, TupleType):
            return self._match_all(pattern.items, have.items)
        if isinstance(pattern, ListType) and isinstance(have, TupleType):
            return all(self.match(pattern.item, item) for item in have.items)
        if isinstance(pattern, ListType | SetType) and type(have) is type(pattern):
            return self.match(pattern.item, have.item)
        return converts(have, substitute(pattern, self.bindings))

    def _match_all(self, patterns: tuple[Type, ...], have: tuple[Type, ...]) -> bool:
        return len(patterns) == len(have) and all(self.match(a, b) for a, b in zip(patterns, have, strict=True))


def comparable(kind: Type) -> bool:
    """Whether there is ``==`` for the type."""
    kind = base_of(kind)
    return not isinstance(kind, ObjectType)
