"""Reads JSON expressions into Expr trees and checks their kinds (data, boolean, header)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from p4runtime_shim import limits
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.expressions import (
    Binary,
    BoolConst,
    Choice,
    Const,
    Expr,
    FieldRef,
    HeaderEqual,
    HeaderExpr,
    HeaderRef,
    Local,
    RegisterCell,
    StackCount,
    StackItem,
    StackLast,
    Unary,
    ValidBit,
    VarbitEqual,
    is_boolean,
)
from p4runtime_shim.program.symbol_table import SymbolTable

_DATA_OPS = frozenset({"+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "two_comp_mod", "sat_cast", "usat_cast"})
_OF_HEADERS = {
    "header": ("dereference_header_stack", "dereference_stack", "access_union_header"),
    "header_union": ("dereference_union_stack",),
}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class ExpressionReader:
    """Reads expressions, resolving names with the symbol table."""

    def __init__(self, names: SymbolTable, node: JsonNode) -> None:
        self.names = names
        self.node = node

    def data(self, value: Any, depth: int = 0) -> Expr:
        """An integer expression."""
        expr = self.any(value, depth)
        if is_boolean(expr):
            self.node.fail("a boolean where a number is needed")
        return expr

    def boolean(self, value: Any, depth: int = 0) -> Expr:
        """A boolean expression."""
        expr = self.any(value, depth)
        if not is_boolean(expr):
            self.node.fail("a number where a boolean is needed")
        return expr

    def any(self, value: Any, depth: int = 0) -> Expr:
        """An expression of either kind."""
        if depth > limits.MAX_EXPRESSION_DEPTH:
            self.node.unsupported("expression nested too deeply")
        item = self.node.child(value)
        kind, inner = item.text("type"), item.raw("value")
        if kind == "expression":
            if isinstance(inner, dict) and "op" in inner:
                return self._operation(self.node.child(inner), depth)
            return self.any(inner, depth + 1)
        if kind == "field":
            return self._field(inner, depth)
        if kind == "hexstr":
            return Const(self.node.hex(inner))
        if kind == "bool":
            return BoolConst(bool(inner))
        if kind in ("local", "runtime_data"):
            if not isinstance(inner, int):
                self.node.fail("bad action parameter")
            return Local(inner)
        if kind == "stack_field":
            stack, field = self.node.pair(inner)
            return self.names.member(StackLast(self.names.stack(stack, self.node)), field, self.node)
        if kind == "union_stack_field":
            return self.union_stack_field(inner)
        if kind == "register":
            if not isinstance(inner, list) or len(inner) != 2:
                self.node.fail("bad register reference")
            index = self.data(inner[1], depth + 1)
            return RegisterCell(self.names.find("register_array", inner[0], self.node), index)
        return self.node.unsupported(f"expression of type {kind!r}")

    def union_stack_field(self, inner: Any) -> FieldRef | ValidBit:
        """[stack, member, field]: a field of a member of the last union of a stack."""
        if not isinstance(inner, list) or len(inner) != 3 or not isinstance(inner[2], str):
            self.node.fail("bad reference to a field of a stack of header unions")
        member = StackLast(self.names.union_stack_member(inner[0], inner[1], self.node))
        return self.names.member(member, inner[2], self.node)

    def union(self, value: Any, depth: int = 0) -> tuple[HeaderExpr, ...]:
        """The members of a header union."""
        if depth > limits.MAX_EXPRESSION_DEPTH:
            self.node.unsupported("expression nested too deeply")
        item = self.node.child(value)
        kind, inner = item.text("type"), item.raw("value")
        if kind == "header_union":
            return self.names.union(inner, self.node)
        if kind == "expression" and isinstance(inner, dict):
            if "op" not in inner:
                return self.union(inner, depth + 1)
            if inner["op"] == "dereference_union_stack":
                first = self.stack(inner.get("left"))
                index = self.data(inner.get("right"), depth + 1)
                return tuple(self._item(stack, index) for stack in self.names.stacks[first].members)
        return self.node.unsupported(f"header union of type {kind!r}")

    def _field(self, inner: Any, depth: int) -> FieldRef | ValidBit:
        """["header", "field"], or [{header expression}, "$valid$"]."""
        if isinstance(inner, list) and len(inner) == 2 and not isinstance(inner[0], str):
            if isinstance(inner[0], dict) and "op" in inner[0]:
                header = self.header({"type": "expression", "value": inner[0]}, depth + 1)
            else:
                header = self.header(inner[0], depth + 1)
            return self.names.member(header, str(inner[1]), self.node)
        return self.names.field(inner, self.node)

    def varbit(self, value: Any, depth: int = 0) -> FieldRef | None:
        """A varbit field; None for anything else."""
        while isinstance(value, dict) and value.get("type") == "expression":
            value = value.get("value")
            if isinstance(value, dict) and value.get("op") == "access_field":
                header, place = self.header(value.get("left"), depth + 1), value.get("right")
                varbit = self.names.type_of(header).varbit
                return FieldRef(header, place) if varbit is not None and place == varbit else None
        if not isinstance(value, dict):
            return None
        kind, inner = value.get("type"), value.get("value")
        if kind == "field" and isinstance(inner, list) and inner and isinstance(inner[0], str):
            found = self.names.any_field(inner, self.node)
        elif kind == "stack_field":
            stack, field = self.node.pair(inner)
            found = self.names.any_member(StackLast(self.names.stack(stack, self.node)), field, self.node)
        else:
            return None
        return found if isinstance(found, FieldRef) and self.names.is_varbit(found) else None

    def header(self, value: Any, depth: int = 0) -> HeaderExpr:
        """A header expression."""
        item = self.node.child(value)
        kind, inner = item.text("type"), item.raw("value")
        if kind == "header":
            return HeaderRef(self.names.header(inner, self.node))
        if kind == "stack_field":  # p4c names stack.last as [stack, "last"]
            return StackLast(self.names.stack(self.node.pair(inner)[0], self.node))
        if kind == "expression" and isinstance(inner, dict):
            if "op" not in inner:
                return self.header(inner, depth + 1)
            if inner["op"] in ("dereference_header_stack", "dereference_stack"):
                stack = self.stack(inner.get("left"))
                return self._item(stack, self.data(inner.get("right"), depth + 1))
            if inner["op"] == "access_union_header":
                members, place = self.union(inner.get("left"), depth + 1), inner.get("right")
                if not isinstance(place, int) or not 0 <= place < len(members):
                    self.node.fail("bad offset of a union member")
                return members[place]
            return self.node.unsupported(f"header expression {inner['op']!r}")
        return self.node.unsupported(f"header expression of type {kind!r}")

    def _item(self, stack: int, index: Expr) -> HeaderExpr:
        if isinstance(index, Const) and 0 <= index.value < len(self.names.stacks[stack].headers):
            return HeaderRef(self.names.stacks[stack].headers[index.value])
        return StackItem(stack, index)

    def stack(self, value: Any) -> int:
        """A header stack, or the first of the stacks that a stack of header unions is."""
        item = self.node.child(value)
        if item.text("type") == "header_union_stack":
            return self.names.union_stack(item.raw("value"), self.node)
        if item.text("type") != "header_stack":
            item.unsupported(f"stack of type {item.text('type')!r}")
        return self.names.stack(item.raw("value"), self.node)

    def _is(self, what: str, value: Any) -> bool:
        """Whether a value is a "header" or a "header_union"."""
        while isinstance(value, dict) and value.get("type") == "expression":
            value = value.get("value")
            if isinstance(value, dict) and "op" in value:
                return value["op"] in _OF_HEADERS[what]
        return isinstance(value, dict) and value.get("type") == what

    def _operation(self, node: JsonNode, depth: int) -> Expr:
        op = node.text("op")
        left, right = node.data.get("left"), node.data.get("right")
        deeper = depth + 1
        if op == "?":
            return self._choice(node, deeper)
        if op == "not":
            return Unary("not", self.boolean(right, deeper))
        if op == "d2b":
            return Unary("d2b", self.data(right, deeper))
        if op == "b2d":
            return Unary("b2d", self.boolean(right, deeper))
        if op == "~" or (op == "-" and left is None):
            return Unary(op, self.data(right, deeper))
        if op == "+" and left is None:
            return self.data(right, deeper)
        if op == "valid":
            return Unary("d2b", ValidBit(self.header(right, deeper)))
        if op == "valid_union":
            return self._any(Unary("d2b", ValidBit(header)) for header in self.union(right, deeper))
        if op in ("==", "!=") and self._is("header_union", left):
            pairs = zip(self.union(left, deeper), self.union(right, deeper), strict=False)
            equal = self._any(HeaderEqual(a, b, False) for a, b in pairs)
            return equal if op == "==" else Unary("not", equal)
        if op in ("last_stack_index", "size_stack"):
            return StackCount(self.stack(right), op == "last_stack_index")
        if op == "access_field":
            return self._access(node, left, right, deeper)
        if op in ("and", "or"):
            return Binary(op, self.boolean(left, deeper), self.boolean(right, deeper))
        if op in ("==", "!=") and self._is("header", left):
            return HeaderEqual(self.header(left, deeper), self.header(right, deeper), op == "!=")
        if op in ("==", "!=") and (varbit := self.varbit(left, deeper)) is not None:
            other = self.varbit(right, deeper)
            if other is None:
                node.unsupported("comparison of a varbit field with a number")
            return VarbitEqual(varbit, other, op == "!=")
        if op in ("==", "!="):
            a, b = self.any(left, deeper), self.any(right, deeper)
            if is_boolean(a) != is_boolean(b):
                node.fail("comparison of a number with a boolean")
            return Binary(op, a, b)
        if op in _COMPARISONS or op in _DATA_OPS:
            a, b = self.data(left, deeper), self.data(right, deeper)
            if op in ("two_comp_mod", "sat_cast", "usat_cast") and (
                not isinstance(b, Const) or not 1 <= b.value <= 4096
            ):
                node.unsupported(f"{op!r} with a width that is not a constant")
            return Binary(op, a, b)
        return node.unsupported(f"operation {op!r}")

    @staticmethod
    def _any(conditions: Iterable[Expr]) -> Expr:
        """Whether any of the conditions holds."""
        return reduce(lambda left, right: Binary("or", left, right), conditions)

    def _choice(self, node: JsonNode, depth: int) -> Expr:
        condition = self.boolean(node.raw("cond"), depth)
        yes, no = self.any(node.raw("left"), depth), self.any(node.raw("right"), depth)
        if is_boolean(yes) != is_boolean(no):
            node.fail("the branches of ? are of different kinds")
        return Choice(condition, yes, no)

    def _access(self, node: JsonNode, left: Any, right: Any, depth: int) -> Expr:
        header = self.header(left, depth)
        fields = self.names.type_of(header).fields
        if not isinstance(right, int) or not 0 <= right <= len(fields):
            node.fail("bad field offset")
        if right == self.names.type_of(header).varbit:
            node.unsupported(f"varbit field {fields[right].name!r} where a number is needed")
        return ValidBit(header) if right == len(fields) else FieldRef(header, right)
