"""Storage: the headers, stacks, unions and single fields that hold a program's variables, by unique names."""

from __future__ import annotations

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.values import HeaderValue, StackValue, StructValue, UnionValue, Value
from p4compiler.sources import SourceSpan
from p4compiler.types import BitsType, RecordType, StackType, TupleType, Type, VarbitType, base_of, is_scalar
from p4compiler.unique_names import UniqueNames

SCALARS = "scalars"  # the header that holds single variables
MAX_HEADERS = 20_000


class Storage:
    """All variables; what is asked for is made once and has its name to itself."""

    def __init__(self) -> None:
        self.scalars: dict[str, Type] = {}
        self.headers: dict[str, RecordType] = {}
        self.stacks: dict[str, StackType] = {}
        self.unions: dict[str, tuple[RecordType, tuple[str, ...]]] = {}  # type, headers
        self.union_stacks: dict[str, tuple[StackType, tuple[str, ...]]] = {}  # type, unions
        self._names = UniqueNames(SCALARS, "standard_metadata")

    def make(self, kind: Type, name: str, span: SourceSpan) -> Value:
        """A variable."""
        base = base_of(kind)
        if isinstance(base, RecordType):
            if base.kind == "struct":
                fields = {field: self.make(item, f"{name}.{field}", span) for field, item in base.fields.items()}
                return StructValue(kind, fields)
            name = self._names.take(name)
            return self._header(base, name) if base.kind == "header" else self._union(base, name)
        if isinstance(base, TupleType):
            return StructValue(
                kind, {str(i): self.make(item, f"{name}.{i}", span) for i, item in enumerate(base.items)}
            )
        if isinstance(base, StackType):
            return self._stack(base, self._names.take(name))
        if isinstance(base, VarbitType):
            return self._varbit(kind, base, self._names.take(name), span)
        if base == BitsType(1, True):
            raise Refusal("a variable of type int<1> is not supported on this target", span)
        if not is_scalar(base):
            raise Refusal(f"a variable of type {kind} is not supported", span)
        name = self._names.take(name)
        self.scalars[name] = kind
        return ir.FieldValue(ir.HeaderName(SCALARS), name, kind)

    def _varbit(self, kind: Type, base: VarbitType, name: str, span: SourceSpan) -> ir.FieldValue:
        """A varbit variable: BMv2 has such fields at the end of headers only, so it is a header of its own."""
        declaration = tree.StructDeclaration(span, f"varbit_{base.width}_t", (), "header", (), ())
        self._header(RecordType(declaration, (), {"value": base}), name)
        return ir.FieldValue(ir.HeaderName(name), "value", kind)

    def _header(self, kind: RecordType, name: str) -> HeaderValue:
        if len(self.headers) >= MAX_HEADERS:
            raise Refusal(f"the program has more than {MAX_HEADERS:,} headers", kind.declaration.span)
        if BitsType(1, True) in map(base_of, kind.fields.values()):
            raise Refusal("a field of type int<1> is not supported on this target", kind.declaration.span)
        self.headers[name] = kind
        return HeaderValue(kind, ir.HeaderName(name))

    def _union(self, kind: RecordType, name: str) -> UnionValue:
        members = {}
        for field, item in kind.fields.items():
            assert isinstance(item, RecordType)
            members[field] = self._header(item, f"{name}.{field}")
        self.unions[name] = kind, tuple(f"{name}.{field}" for field in members)
        return UnionValue(kind, name, members)

    def _stack(self, kind: StackType, name: str) -> StackValue:
        element = kind.element
        assert isinstance(element, RecordType)
        names = tuple(f"{name}[{i}]" for i in range(kind.size))
        items: list[HeaderValue | UnionValue] = []
        if element.kind == "header":
            items += [self._header(element, item) for item in names]
            self.stacks[name] = kind
        else:
            items += [self._union(element, item) for item in names]
            self.union_stacks[name] = kind, names
        return StackValue(kind, name, tuple(items))
