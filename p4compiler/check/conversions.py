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
    Bits,
    Enum,
    List,
    Named,
    New,
    Object,
    Record,
    Set,
    Stack,
    Tuple,
    Type,
    Variable,
    base_of,
    substitute,
)


def converts(have: Type, want: Type) -> bool:
    """Whether a value of one type may stand where the other is wanted."""
    if have == want or UNKNOWN in (have, want) or ANYTHING in (have, want):
        return True
    if have == INTEGER:
        return isinstance(want, Bits)
    if isinstance(have, Enum) and isinstance(want, Bits):
        return have.base == want
    if have == INVALID:
        return isinstance(want, Record) and want.kind in ("header", "header_union")
    if isinstance(have, Tuple):
        return _tuple_converts(have, want)
    if isinstance(have, Named) and isinstance(want, Record) and want.kind != "header_union":
        given = dict(zip(have.names, have.items, strict=True))
        complete = have.rest or given.keys() == want.fields.keys()
        return complete and all(
            name in want.fields and converts(item, want.fields[name]) for name, item in given.items()
        )
    if isinstance(have, List) and isinstance(want, List | Stack):
        return converts(have.item, want.item if isinstance(want, List) else want.element)
    if isinstance(have, Object) and isinstance(want, Object):
        return have.declaration is want.declaration and same_types(have.arguments, want.arguments)
    return False


def same_types(have: tuple[Type, ...], want: tuple[Type, ...]) -> bool:
    """Whether they are equal where both are known."""
    return len(have) == len(want) and all(
        a == b or ANYTHING in (a, b) or UNKNOWN in (a, b) for a, b in zip(have, want, strict=True)
    )


def _tuple_converts(have: Tuple, want: Type) -> bool:
    items = have.items
    if isinstance(want, Record) and want.kind != "header_union":
        wanted = tuple(want.fields.values())
    elif isinstance(want, Tuple):
        wanted = want.items
    elif isinstance(want, Stack):
        wanted = (want.element,) * want.size
    elif isinstance(want, List):
        wanted = (want.item,) * len(items)
    else:
        return False
    complete = len(items) == len(wanted) or (have.rest and len(items) < len(wanted))
    return complete and all(converts(a, b) for a, b in zip(items, wanted, strict=False))


def casts(have: Type, want: Type) -> bool:
    """Whether ``(want) value`` is allowed."""
    if converts(have, want):
        return True
    if isinstance(want, New):
        return casts(have, want.base)
    if isinstance(have, New):
        return casts(have.base, want)
    if isinstance(have, Enum):
        return have.base is not None and casts(have.base, want)
    if isinstance(want, Enum):
        return want.base is not None and casts(have, want.base)
    if isinstance(have, Bits) and isinstance(want, Bits):
        return have.signed == want.signed or have.width == want.width
    if have == BOOL:
        return want == Bits(1)
    if want == BOOL:
        return have in (Bits(1), INTEGER)
    return want == INTEGER and isinstance(have, Bits)


class Inference:
    """Types for type parameters, from the types of arguments."""

    def __init__(self, parameters: Collection[tree.TypeParameter]) -> None:
        self._parameters = set(parameters)
        self.bindings: dict[tree.TypeParameter, Type] = {}

    def match(self, pattern: Type, have: Type) -> bool:
        """Bind the parameters in `pattern` so that a value of type `have` fits; False if that is impossible."""
        if isinstance(pattern, Variable) and pattern.declaration in self._parameters:
            bound = self.bindings.get(pattern.declaration)
            if bound is None or bound in (INTEGER, ANYTHING, UNKNOWN):
                if bound is None or converts(bound, have):
                    self.bindings[pattern.declaration] = have
                    return True
                return False
            return converts(have, bound)
        if isinstance(pattern, Record) and isinstance(have, Record) and pattern.declaration is have.declaration:
            return self._match_all(pattern.arguments, have.arguments)
        if isinstance(pattern, Object) and isinstance(have, Object):
            if pattern.declaration is have.declaration:
                return self._match_all(pattern.arguments, have.arguments)
            return pattern == have
        if isinstance(pattern, Stack) and isinstance(have, Stack):
            return pattern.size == have.size and self.match(pattern.element, have.element)
        if isinstance(pattern, Tuple) and isinstance(have, Tuple):
            return self._match_all(pattern.items, have.items)
        if isinstance(pattern, List) and isinstance(have, Tuple):
            return all(self.match(pattern.item, item) for item in have.items)
        if isinstance(pattern, List | Set) and type(have) is type(pattern):
            return self.match(pattern.item, have.item)
        return converts(have, substitute(pattern, self.bindings))

    def _match_all(self, patterns: tuple[Type, ...], have: tuple[Type, ...]) -> bool:
        return len(patterns) == len(have) and all(self.match(a, b) for a, b in zip(patterns, have, strict=True))


def comparable(kind: Type) -> bool:
    """Whether there is ``==`` for the type."""
    kind = base_of(kind)
    return not isinstance(kind, Object)
