"""Reads primitive calls and checks their arguments; primitives that are not listed here are rejected at load time.

A signature has one word per argument: `lvalue` (a field that is written), `varbit` (a varbit field), `data`,
`bool_data` (data used as a boolean), `header`, `stack`, `union`, `offset` (position of a primitive), `text`, `values`,
or the kind of a named object.
"""

from __future__ import annotations

from typing import Any

from p4runtime_shim.program.expression_reader import ExpressionReader
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.actions import (
    Arg,
    HeaderArg,
    ListArg,
    ObjectArg,
    Primitive,
    StackArg,
    TextArg,
    UnionArg,
)
from p4runtime_shim.program.model.expressions import Const, Expr, FieldRef, Local, RegisterCell, Unary, is_boolean
from p4runtime_shim.program.symbol_table import SymbolTable

SIGNATURES: dict[str, tuple[str, ...]] = {
    "assign": ("lvalue", "data"),
    "modify_field": ("lvalue", "data"),
    "add": ("lvalue", "data", "data"),
    "subtract": ("lvalue", "data", "data"),
    "add_to_field": ("lvalue", "data"),
    "subtract_from_field": ("lvalue", "data"),
    "bit_and": ("lvalue", "data", "data"),
    "bit_or": ("lvalue", "data", "data"),
    "bit_xor": ("lvalue", "data", "data"),
    "shift_left": ("lvalue", "data", "data"),
    "shift_right": ("lvalue", "data", "data"),
    "modify_field_rng_uniform": ("lvalue", "data", "data"),
    "modify_field_with_hash_based_offset": ("lvalue", "data", "calculation", "data"),
    "assign_VL": ("varbit", "varbit"),
    "assign_header": ("header", "header"),
    "copy_header": ("header", "header"),
    "assign_header_stack": ("stack", "stack"),
    "assign_union": ("union", "union"),
    "assign_union_stack": ("stack", "stack"),
    "add_header": ("header",),
    "add_header_fast": ("header",),
    "remove_header": ("header",),
    "push": ("stack", "data"),
    "pop": ("stack", "data"),
    "drop": (),
    "mark_to_drop": ("header",),
    "no_op": (),
    "exit": (),
    "_jump": ("offset",),
    "_jump_if_zero": ("data", "offset"),
    "count": ("counter_array", "data"),
    "execute_meter": ("meter_array", "data", "lvalue"),
    "register_read": ("lvalue", "register_array", "data"),
    "register_write": ("register_array", "data", "data"),
    "truncate": ("data",),
    "generate_digest": ("data", "data"),
    "clone_ingress_pkt_to_egress": ("data", "data"),
    "clone_egress_pkt_to_egress": ("data", "data"),
    "resubmit": ("data",),
    "recirculate": ("data",),
    "assert": ("data",),
    "assume": ("data",),
    "log_msg": ("text", "values"),
}


def read_primitive(names: SymbolTable, node: JsonNode, count: int) -> Primitive:
    """One primitive call of an action (or parser state) with `count` primitives."""
    op = node.text("op")
    signature = SIGNATURES.get(op)
    if signature is None:
        # What BMv2 has no primitive for is an extern of the program's own; p4c calls it by its name.
        node.unsupported(f"custom extern {op!r}")
    node.where = f"primitive {op!r} of {node.where}"
    params = node.items("parameters")
    if len(params) != len(signature):
        node.fail(f"{len(params)} arguments where {len(signature)} are needed")
    args = tuple(_argument(names, node, kind, param) for kind, param in zip(signature, params, strict=True))
    for kind, arg in zip(signature, args, strict=True):
        if kind == "offset" and not (isinstance(arg, Const) and 0 <= arg.value <= count):
            node.unsupported("jump to a place that is not a constant")
    return Primitive(op, args, node.source)


def _argument(names: SymbolTable, node: JsonNode, kind: str, param: Any) -> Arg:
    exprs = ExpressionReader(names, node)
    item = node.child(param)
    if kind == "header":
        return HeaderArg(exprs.header(param))
    if kind == "varbit":
        varbit = exprs.varbit(param)
        if varbit is None:
            node.fail("no varbit field where one is needed")
        return varbit
    if kind == "stack":
        return StackArg(exprs.stack(param))
    if kind == "union":
        return UnionArg(exprs.union(param))
    if kind == "text":
        return TextArg(item.text("value"))
    if kind == "values":
        return ListArg(tuple(_number(exprs.any(value)) for value in item.items("value")))
    if kind.endswith("_array") or kind == "calculation":
        if item.text("type") != kind:
            node.unsupported(f"{kind} of type {item.text('type')!r}")
        return ObjectArg(kind, names.find(kind, item.raw("value"), node))
    value = exprs.any(param)
    if kind == "lvalue":
        if not isinstance(value, FieldRef | RegisterCell):
            node.unsupported("assignment to something that is not a field")
        return value
    return _number(value)


def _number(value: Expr) -> Expr:
    """Convert a boolean, which p4c passes where BMv2 expects data (assert, assume), to 0 or 1."""
    return Unary("b2d", value) if is_boolean(value) else value


def check_locals(node: JsonNode, primitive: Primitive, params: int) -> None:
    """Check that the action parameters used by the primitive exist."""
    stack: list[object] = list(primitive.args)
    while stack:
        item = stack.pop()
        if isinstance(item, Local) and not 0 <= item.index < params:
            node.fail(f"action parameter {item.index} does not exist")
        if isinstance(item, tuple):
            stack.extend(item)
        elif hasattr(item, "__dataclass_fields__"):
            stack.extend(getattr(item, name) for name in item.__dataclass_fields__)
