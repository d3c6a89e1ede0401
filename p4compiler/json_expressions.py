"""Expressions and arguments of primitives in BMv2's JSON.

BMv2 tells booleans from numbers: fields hold numbers, so a boolean field is read through ``d2b`` and a boolean result
written through ``b2d``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from p4compiler import ir
from p4compiler.diagnostics import Refusal
from p4compiler.types import BOOL, RecordType, StackType, Type, VarbitType, base_of, width_of

Json = dict[str, Any]


def hexstr(value: int, width: int = 0) -> str:
    """A number as BMv2 writes it, with the digits of its width."""
    digits = (width + 7) // 8 * 2
    return f"{'-' if value < 0 else ''}0x{abs(value):0{digits}x}"


def number(value: int, width: int = 0) -> Json:
    """A constant."""
    return {"type": "hexstr", "value": hexstr(value, width)}


def operation(op: str, left: Json | None, right: Json | None) -> Json:
    """An operation."""
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def flat_fields(kind: RecordType, prefix: str = "") -> list[tuple[str, Type]]:
    """The fields of a header, of which structs are flattened."""
    out: list[tuple[str, Type]] = []
    for name, item in kind.fields.items():
        base = base_of(item)
        if isinstance(base, RecordType):
            out += flat_fields(base, f"{prefix}{name}.")
        else:
            out.append((f"{prefix}{name}", item))
    return out


def argument(item: Json) -> Json:
    """The argument of a primitive: BMv2 wants an expression, or a field of stack.last, inside of another expression."""
    return {"type": "expression", "value": item} if item["type"] in ("expression", "stack_field") else item


def padding(fields: Iterable[tuple[str, Type]]) -> int:
    """The bits that fields need to be whole bytes, as BMv2's headers are; those of a varbit are whole bytes."""
    return -sum(width_of(kind) for _, kind in fields if not isinstance(base_of(kind), VarbitType)) % 8


class ExpressionWriter:
    """Writes expressions; it knows the stacks, for the positions of their fields."""

    def __init__(self, stacks: dict[str, StackType]) -> None:
        self._stacks = stacks

    def header(self, ref: ir.HeaderRef) -> Json:
        """A header."""
        if isinstance(ref, ir.HeaderName):
            return {"type": "header", "value": ref.name}
        if isinstance(ref, ir.StackElement):
            stack = {"type": "header_stack", "value": ref.stack}
            return operation("dereference_header_stack", stack, self.data(ref.index))
        if ref.end == "last" and not ref.member:
            return {"type": "stack_field", "value": [ref.stack, "last"]}
        raise Refusal("stack.next can only be extracted to", None)

    def place(self, item: ir.FieldValue | ir.Valid) -> Json:
        """A field, as a place; of a boolean field too it is a number."""
        name = "$valid$" if isinstance(item, ir.Valid) else item.name
        ref = item.header
        if isinstance(ref, ir.HeaderName):
            return {"type": "field", "value": [ref.name, name]}
        if isinstance(ref, ir.StackEnd):
            if ref.end == "next":
                raise Refusal("a field of stack.next cannot be used", None)
            if ref.member:
                return {"type": "union_stack_field", "value": [ref.stack, ref.member, name]}
            return {"type": "stack_field", "value": [ref.stack, name]}
        element = self._stacks[ref.stack].element
        assert isinstance(element, RecordType)
        fields = flat_fields(element)
        names = [field for field, _ in fields]
        position = len(names) + bool(padding(fields)) if name == "$valid$" else names.index(name)
        out = operation("access_field", self.header(ref), None)
        out["value"]["right"] = position
        return out

    def expression(self, item: ir.Scalar) -> Json:
        """A value inside of an expression: booleans are booleans."""
        if isinstance(item, ir.ConstantValue):
            if base_of(item.type) == BOOL:
                return {"type": "bool", "value": bool(item.value)}
            return number(item.value, width_of(item.type))
        if isinstance(item, ir.Valid) and item.is_union:
            assert isinstance(item.header, ir.HeaderName)
            return operation("valid_union", None, {"type": "header_union", "value": item.header.name})
        if isinstance(item, ir.FieldValue | ir.Valid):
            place = self.place(item)
            return operation("d2b", None, place) if base_of(item.type) == BOOL else place
        if isinstance(item, ir.ActionData):
            data: Json = {"type": "local", "value": item.index}
            return operation("d2b", None, data) if base_of(item.type) == BOOL else data
        if isinstance(item, ir.LastIndex):
            kind = "header_union_stack" if item.of_unions else "header_stack"
            return operation("last_stack_index", None, {"type": kind, "value": item.stack})
        if isinstance(item, ir.HeadersEqual):
            return operation("==", self.header(item.left), self.header(item.right))
        if isinstance(item, ir.OperationValue):
            left = self.expression(item.left) if item.left is not None else None
            out = operation(item.op, left, self.expression(item.right))
            if item.condition is not None:
                out["value"]["cond"] = self.expression(item.condition)
            return out
        raise Refusal("lookahead() is not possible here", None)

    def data(self, item: ir.Scalar) -> Json:
        """A value as the argument of a primitive: booleans are numbers."""
        is_boolean = base_of(item.type) == BOOL
        if isinstance(item, ir.ConstantValue):
            return number(item.value, width_of(item.type))
        if isinstance(item, ir.FieldValue):
            return argument(self.place(item))
        if isinstance(item, ir.ActionData):
            return {"type": "runtime_data", "value": item.index}
        return self.condition(item) if is_boolean else argument(self.expression(item))

    def condition(self, item: ir.Scalar) -> Json:
        """A condition as the argument of a primitive, where it is a number."""
        return argument(operation("b2d", None, self.expression(item)))
