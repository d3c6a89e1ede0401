"""Reads the parser and deparser sections of the JSON."""

from __future__ import annotations

from typing import Any

from p4runtime_shim import limits
from p4runtime_shim.program.expression_reader import ExpressionReader
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.actions import Primitive
from p4runtime_shim.program.model.expressions import Const, Expr, FieldRef, StackLast, ValidBit
from p4runtime_shim.program.model.parser import (
    Advance,
    Extract,
    ExtractNext,
    Lookahead,
    Parser,
    ParserCall,
    ParserOp,
    ParserSet,
    ParserState,
    SelectCase,
    ValueSet,
    ValueSetCase,
    Verify,
)
from p4runtime_shim.program.primitive_reader import read_primitive
from p4runtime_shim.program.symbol_table import SymbolTable

_NOT_IN_PARSER = frozenset({"_jump", "_jump_if_zero", "exit"})


def read_parser(names: SymbolTable, root: JsonNode) -> Parser:
    """The parser called "parser", or the only one."""
    nodes = {node.text("name"): node for node in root.nodes("parsers", "parser")}
    value_sets = _ValueSetReader(root)
    if not nodes:
        return Parser((), None, value_sets.read())
    node = nodes.get("parser")
    if node is None:
        node = next(iter(nodes.values()))
    if len(nodes) > 1:
        node.unsupported(f"{len(nodes)} parsers")
    states = list(node.nodes("parse_states", "parser state"))
    index = {state.text("name"): position for position, state in enumerate(states)}
    start = node.data.get("init_state")
    if start is None:
        return Parser((), None, value_sets.read())
    read = tuple(_state(names, state, index, value_sets) for state in states)
    return Parser(read, _next(start, index, node), value_sets.read())


class _ValueSetReader:
    """The value sets of a program; the states that select on one say what its members match."""

    def __init__(self, root: JsonNode) -> None:
        self._nodes = list(root.nodes("parse_vsets", "parser value set"))
        self._index = {node.text("name"): position for position, node in enumerate(self._nodes)}
        self._widths: dict[int, tuple[int, ...]] = {}
        if len(self._index) < len(self._nodes):
            root.fail("two parser value sets have one name")

    def case(self, node: JsonNode, widths: list[int], target: int | None) -> ValueSetCase:
        """A transition of a state whose key has these widths."""
        if node.data.get("mask") is not None:
            node.unsupported("parser value set with a mask")
        position = node.lookup(self._index, node.raw("value"), "parser value set")
        total = self._nodes[position].integer("compressed_bitwidth")
        if sum(widths) != total or self._widths.setdefault(position, tuple(widths)) != tuple(widths):
            node.fail(f"key of {sum(widths)} bits for a parser value set of {total} bits")
        return ValueSetCase(position, target)

    def read(self) -> tuple[ValueSet, ...]:
        """All value sets, once all states are read."""
        return tuple(
            ValueSet(
                node.text("name"),
                self._widths.get(position),
                node.integer("max_size") if node.has("max_size") else None,
            )
            for position, node in enumerate(self._nodes)
        )


def _next(state_name: Any, index: dict[str, int], node: JsonNode) -> int | None:
    return None if state_name is None else node.lookup(index, state_name, "parser state")


def _state(names: SymbolTable, node: JsonNode, index: dict[str, int], value_sets: _ValueSetReader) -> ParserState:
    ops = tuple(_op(names, op) for op in node.nodes("parser_ops", f"{node.where}: operation"))
    key = tuple(_key(names, node, node.child(item)) for item in node.items("transition_key"))
    widths = [item.width if isinstance(item, Lookahead) else names.width(item) for item in key]
    cases: list[SelectCase | ValueSetCase] = []
    default: int | None = None
    for transition in node.nodes("transitions", f"{node.where}: transition"):
        kind = transition.data.get("type", "hexstr")
        target = _next(transition.data.get("next_state"), index, transition)
        if kind == "default" or transition.data.get("value") == "default":
            default = target
        elif kind == "hexstr":
            case = _case(transition, widths, target)
            if case is not None:
                cases.append(case)
        elif kind == "parse_vset":
            cases.append(value_sets.case(transition, widths, target))
        else:
            transition.fail(f"unknown transition type {kind!r}")
    return ParserState(node.text("name"), ops, key, tuple(cases), default)


def _key(names: SymbolTable, node: JsonNode, item: JsonNode) -> FieldRef | ValidBit | Lookahead:
    kind, value = item.text("type"), item.raw("value")
    if kind == "field":
        return names.field(value, node)
    if kind == "stack_field":
        stack, field = node.pair(value)
        return names.member(StackLast(names.stack(stack, node)), field, node)
    if kind == "union_stack_field":
        return ExpressionReader(names, node).union_stack_field(value)
    if kind == "lookahead":
        return _lookahead(value, node)
    return node.unsupported(f"select on {kind!r}")


def _lookahead(value: Any, node: JsonNode) -> Lookahead:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(v, int) and v >= 0 for v in value):
        node.fail("bad lookahead")
    if value[1] == 0 or value[1] > limits.MAX_VALUE_BITS:
        node.unsupported(f"lookahead of {value[1]} bits")
    if value[0] > limits.MAX_LOOKAHEAD_BITS:
        node.unsupported(f"lookahead over {value[0]} bits (at most {limits.MAX_LOOKAHEAD_BITS})")
    return Lookahead(value[0], value[1])


def _case(node: JsonNode, widths: list[int], target: int | None) -> SelectCase | None:
    """Split value and mask into their byte-padded components; None for a case that never matches."""
    value = node.hex(node.raw("value"))
    total = sum((width + 7) // 8 for width in widths) * 8
    mask = node.hex(node.raw("mask")) if node.has("mask") else (1 << total) - 1
    values, masks = [], []
    shift = total
    for width in widths:
        size = (width + 7) // 8 * 8
        shift -= size
        part, bits = (value >> shift) & ((1 << size) - 1), (mask >> shift) & ((1 << size) - 1)
        if part & bits & ~((1 << width) - 1):
            return None
        values.append(part & bits & ((1 << width) - 1))
        masks.append(bits & ((1 << width) - 1))
    return SelectCase(tuple(values), tuple(masks), target)


def _op(names: SymbolTable, node: JsonNode) -> ParserOp:
    op, params = node.text("op"), node.items("parameters")
    exprs = ExpressionReader(names, node)
    if not params:
        node.fail("no parameters")
    if op == "primitive":
        inner = node.child(params[0], f"{node.where} {op}")
        if inner.text("op") in _NOT_IN_PARSER:
            inner.unsupported(f"primitive {inner.text('op')!r} in a parser")
        return ParserCall(read_primitive(names, inner, 0))
    if op == "shift":
        return Advance(_shift(node, params[0]))
    first = node.child(params[0])
    if op in ("extract", "extract_VL"):
        return _extract(names, node, first, exprs.data(params[1]) if op == "extract_VL" and len(params) == 2 else None)
    if op == "set":
        return _set(names, node, exprs, params)
    if op == "verify" and len(params) == 2:
        return Verify(exprs.boolean(params[0]), exprs.data(params[1]))
    if op == "advance":
        return Advance(exprs.data(params[0]))
    return node.unsupported(f"parser operation {op!r}")


def _extract(names: SymbolTable, node: JsonNode, target: JsonNode, varbit: Expr | None) -> Extract | ExtractNext:
    kind, value = target.text("type"), target.raw("value")
    op: Extract | ExtractNext
    if kind == "regular":
        op = Extract(names.header(value, node), varbit)
        type_ = names.types[names.headers[op.header].type]
    elif kind == "stack":
        op = ExtractNext(names.stack(value, node), varbit)
        type_ = names.types[names.stacks[op.stack].type]
    elif kind == "union_stack":
        op = ExtractNext(names.union_stack_member(*node.pair(value), node), varbit)
        type_ = names.types[names.stacks[op.stack].type]
    else:
        node.unsupported(f"extract to {kind!r}")
    if (type_.varbit is None) != (varbit is None):
        node.unsupported(f"extract of {value!r} with{'out' if varbit is None else ''} a length of a varbit field")
    return op


def _shift(node: JsonNode, param: Any) -> Const:
    """The old `shift`: a number of bytes, plain or as {"value": n}."""
    value = param.get("value") if isinstance(param, dict) else param
    if not isinstance(value, int) or value < 0:
        node.fail("bad shift")
    if value * 8 > limits.MAX_LOOKAHEAD_BITS:
        node.unsupported(f"shift of {value} bytes (at most {limits.MAX_LOOKAHEAD_BITS // 8})")
    return Const(value * 8)


def _set(names: SymbolTable, node: JsonNode, exprs: ExpressionReader, params: list[Any]) -> ParserOp:
    if len(params) != 2:
        node.fail("set needs two parameters")
    varbits = exprs.varbit(params[0]), exprs.varbit(params[1])
    if varbits[0] is not None and varbits[1] is not None:
        return ParserCall(Primitive("assign_VL", (varbits[0], varbits[1]), node.source))
    target = exprs.data(params[0])
    if not isinstance(target, FieldRef):
        node.unsupported("set of something that is not a field")
    source = node.child(params[1])
    if source.text("type") == "lookahead":
        return ParserSet(target, _lookahead(source.raw("value"), node))
    return ParserSet(target, exprs.data(params[1]))


def read_deparser(names: SymbolTable, root: JsonNode) -> tuple[int, ...]:
    """The headers to emit, in order."""
    nodes = list(root.nodes("deparsers", "deparser"))
    if not nodes:
        return ()
    if len(nodes) > 1:
        nodes[1].unsupported(f"{len(nodes)} deparsers")
    node = nodes[0]
    if node.items("primitives"):
        first = next(node.nodes("primitives", "deparser primitive"))
        first.unsupported(f"primitive {first.data.get('op')!r}")
    order = tuple(names.header(name, node) for name in node.items("order"))
    if sum(names.types[names.headers[header].type].max_width for header in order) > 8 * limits.MAX_HEADERS_BYTES:
        node.unsupported(f"more than {limits.MAX_HEADERS_BYTES} bytes of headers")
    for header in order:
        if names.types[names.headers[header].type].width % 8:
            node.unsupported(f"emit of {names.headers[header].name!r}, which is not whole bytes")
    return order
