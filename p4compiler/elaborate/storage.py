"""Storage: the headers, stacks, unions and single fields that hold a program's variables, by unique names."""

from __future__ import annotations

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.values import HeaderValue, StackValue, StructValue, UnionValue, Value
from p4compiler.sources import Span
from p4compiler.types import Bits, Record, Stack, Tuple, Type, Varbit, base_of, is_scalar

SCALARS = "scalars"  # the header that holds single variables
MAX_HEADERS = 20_000


class Storage:
    """All variables; what is asked for is made once and has its name to itself."""

    def __init__(self) -> None:
        self.scalars: dict[str, Type] = {}
        self.headers: dict[str, Record] = {}
        self.stacks: dict[str, Stack] = {}
        self.unions: dict[str, tuple[Record, tuple[str, ...]]] = {}  # type, headers
        self.union_stacks: dict[str, tuple[Stack, tuple[str, ...]]] = {}  # type, unions
        self._taken: set[str] = {SCALARS, "standard_metadata"}

    def unique(self, name: str) -> str:
        """The name, or a similar one that is not taken."""
        if name in self._taken:
            number = 0
            while f"{name}_{number}" in self._taken:
                number += 1
            name = f"{name}_{number}"
        self._taken.add(name)
        return name

    def make(self, kind: Type, name: str, span: Span) -> Value:
        """A variable."""
        base = base_of(kind)
        if isinstance(base, Record):
            if base.kind == "struct":
                fields = {field: self.make(item, f"{name}.{field}", span) for field, item in base.fields.items()}
                return StructValue(kind, fields)
            name = self.unique(name)
            return self._header(base, name) if base.kind == "header" else self._union(base, name)
        if isinstance(base, Tuple):
            return StructValue(
                kind, {str(i): self.make(item, f"{name}.{i}", span) for i, item in enumerate(base.items)}
            )
        if isinstance(base, Stack):
            return self._stack(base, self.unique(name))
        if isinstance(base, Varbit):
            return self._varbit(kind, base, self.unique(name), span)
        if base == Bits(1, True):
            raise Refusal("a variable of type int<1> is not supported on this target", span)
        if not is_scalar(base):
            raise Refusal(f"a variable of type {kind} is not supported", span)
        name = self.unique(name)
        self.scalars[name] = kind
        return ir.Field(ir.HeaderName(SCALARS), name, kind)

    def _varbit(self, kind: Type, base: Varbit, name: str, span: Span) -> ir.Field:
        """A varbit variable: BMv2 has such fields at the end of headers only, so it is a header of its own."""
        declaration = tree.Struct(span, f"varbit_{base.width}_t", (), "header", (), ())
        self._header(Record(declaration, (), {"value": base}), name)
        return ir.Field(ir.HeaderName(name), "value", kind)

    def _header(self, kind: Record, name: str) -> HeaderValue:
        if len(self.headers) >= MAX_HEADERS:
            raise Refusal(f"the program has more than {MAX_HEADERS:,} headers", kind.declaration.span)
        if Bits(1, True) in map(base_of, kind.fields.values()):
            raise Refusal("a field of type int<1> is not supported on this target", kind.declaration.span)
        self.headers[name] = kind
        return HeaderValue(kind, ir.HeaderName(name))

    def _union(self, kind: Record, name: str) -> UnionValue:
        members = {}
        for field, item in kind.fields.items():
            assert isinstance(item, Record)
            members[field] = self._header(item, f"{name}.{field}")
        self.unions[name] = kind, tuple(f"{name}.{field}" for field in members)
        return UnionValue(kind, name, members)

    def _stack(self, kind: Stack, name: str) -> StackValue:
        element = kind.element
        assert isinstance(element, Record)
        names = tuple(f"{name}[{i}]" for i in range(kind.size))
        items: list[HeaderValue | UnionValue] = []
        if element.kind == "header":
            items += [self._header(element, item) for item in names]
            self.stacks[name] = kind
        else:
            items += [self._union(element, item) for item in names]
            self.union_stacks[name] = kind, names
        return StackValue(kind, name, tuple(items))
