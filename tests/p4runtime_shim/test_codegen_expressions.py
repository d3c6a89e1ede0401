"""Expressions: random trees compiled to C give what unbounded integers give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.builder import Builder, Json, call, const, expression, extract, field, send_to, wrapped

WIDTHS = (1, 2, 3, 7, 8, 9, 13, 16, 31, 32, 33, 48, 63, 64, 65, 80, 127, 128, 129, 191, 192, 193, 256, 300)
SIGNED_WIDTHS = (2, 7, 8, 16, 31, 33, 63, 64, 65, 127, 128, 129, 200)
EXPRESSIONS = 90

Values = dict[str, int]
Node = tuple[Json, Callable[[Values], int]]


class Generator:
    """Random expressions with an evaluator each."""

    def __init__(self, rng: random.Random, fields: dict[str, tuple[int, bool]]) -> None:
        self.rng = rng
        self.fields = fields

    def leaf(self) -> Node:
        """A field or constant."""
        if self.rng.random() < 0.7:
            name = self.rng.choice(sorted(self.fields))
            return field("h", name), lambda values: values[name]
        bits = self.rng.choice(WIDTHS)
        value = self.rng.choice([0, 1, (1 << bits) - 1, self.rng.getrandbits(bits)])
        if self.rng.random() < 0.2:
            value = -value
        return const(value), lambda _values: value

    def amount(self) -> Node:
        """A shift amount: constant, or a narrow field."""
        if self.rng.random() < 0.6:
            value = self.rng.choice([0, 1, 5, 16, 63, 64, 65, 127, 128, 200])
            return const(value), lambda _values: value
        return field("h", "u7"), lambda values: values["u7"]

    def data(self, depth: int) -> Node:
        """A number."""
        if depth == 0:
            return self.leaf()
        kind = self.rng.choice(
            ["+", "-", "*", "&", "|", "^", "~", "neg", "<<", ">>", "mask", "two", "sat", "usat", "?", "b2d", "/", "%"]
        )
        left, f = self.data(depth - 1)
        if kind == "~":
            return expression("~", None, left), lambda v: ~f(v)
        if kind == "neg":
            return expression("-", None, left), lambda v: -f(v)
        if kind in ("two", "sat", "usat", "mask"):
            return self.narrowed(kind, left, f)
        if kind in ("<<", ">>"):
            right, g = self.amount()
            if kind == "<<":
                return expression("<<", left, right), lambda v: f(v) << g(v)
            return expression(">>", left, right), lambda v: f(v) >> g(v)
        if kind == "?":
            condition, c = self.boolean(depth - 1)
            right, g = self.data(depth - 1)
            return expression("?", left, right, cond=condition), lambda v: f(v) if c(v) else g(v)
        if kind == "b2d":
            condition, c = self.boolean(depth - 1)
            return expression("b2d", None, condition), lambda v: int(c(v))
        right, g = self.data(depth - 1)
        if kind in ("/", "%"):
            return self.division(kind, left, f, right, g)
        operations: dict[str, Callable[[int, int], int]] = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "&": lambda a, b: a & b,
            "|": lambda a, b: a | b,
            "^": lambda a, b: a ^ b,
        }
        operation = operations[kind]
        return expression(kind, left, right), lambda v: operation(f(v), g(v))

    def narrowed(self, kind: str, left: Json, f: Callable[[Values], int]) -> Node:
        """Casts and masks."""
        bits = self.rng.choice([w for w in WIDTHS if w > 1])
        full = (1 << bits) - 1
        half = 1 << (bits - 1)
        if kind == "mask":
            mask = self.rng.choice([full, full, self.rng.getrandbits(bits)])
            return expression("&", left, const(mask)), lambda v: f(v) & mask
        if kind == "two":
            return expression("two_comp_mod", left, const(bits)), lambda v: ((f(v) + half) & full) - half
        if kind == "usat":
            return expression("usat_cast", left, const(bits)), lambda v: min(max(f(v), 0), full)
        return expression("sat_cast", left, const(bits)), lambda v: min(max(f(v), -half), half - 1)

    def division(
        self, kind: str, left: Json, f: Callable[[Values], int], right: Json, g: Callable[[Values], int]
    ) -> Node:
        """Of non-negative numbers; by zero gives 0."""
        a, b = expression("&", left, const((1 << 70) - 1)), expression("&", right, const((1 << 40) - 1))

        def value(v: Values) -> int:
            x, y = f(v) & ((1 << 70) - 1), g(v) & ((1 << 40) - 1)
            if y == 0:
                return 0
            return x // y if kind == "/" else x % y

        return expression(kind, a, b), value

    def boolean(self, depth: int) -> tuple[Json, Callable[[Values], bool]]:
        """A condition."""
        kind = self.rng.choice(["==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"])
        if kind in ("and", "or", "not") and depth > 0:
            left, f = self.boolean(depth - 1)
            if kind == "not":
                return expression("not", None, left), lambda v: not f(v)
            right, g = self.boolean(depth - 1)
            if kind == "and":
                return expression("and", left, right), lambda v: f(v) and g(v)
            return expression("or", left, right), lambda v: f(v) or g(v)
        x, p = self.data(max(depth - 1, 0))
        if kind == "d2b":
            return expression("d2b", None, x), lambda v: p(v) != 0
        y, q = self.data(max(depth - 1, 0))
        compare: dict[str, Callable[[int, int], bool]] = {
            "!=": lambda a, b: a != b,
            "<": lambda a, b: a < b,
            "<=": lambda a, b: a <= b,
            ">": lambda a, b: a > b,
            ">=": lambda a, b: a >= b,
        }
        test = compare.get(kind, lambda a, b: a == b)
        op = kind if kind in compare else "=="
        return expression(op, x, y), lambda v: test(p(v), q(v))


def _pack(items: list[tuple[int, int]]) -> bytes:
    """(value, width) pairs as bits, padded with zeros to a byte."""
    total, bits = 0, 0
    for value, width in items:
        total = (total << width) | (value & ((1 << width) - 1))
        bits += width
    pad = -bits % 8
    return (total << pad).to_bytes((bits + pad) // 8, "big")


def _program(rng: random.Random) -> tuple[str, dict[str, tuple[int, bool]], list[tuple[int, Any]]]:
    fields = {f"u{w}": (w, False) for w in WIDTHS} | {f"s{w}": (w, True) for w in SIGNED_WIDTHS}
    generator = Generator(rng, fields)
    builder = Builder()
    layout: list[tuple[str, int, bool]] = [(name, width, signed) for name, (width, signed) in fields.items()]
    pad = -sum(width for _, width, _ in layout) % 8
    builder.header_type("h_t", [*layout, *([("pad", pad)] if pad else [])])
    outputs: list[tuple[int, Any]] = []
    primitives = []
    for number in range(EXPRESSIONS):
        width = rng.choice(WIDTHS)
        tree, evaluate = generator.data(rng.randint(1, 4))
        outputs.append((width, evaluate))
        primitives.append(call("assign", field("out", f"o{number}"), wrapped(tree), line=number))
    out = [(f"o{number}", width) for number, (width, _) in enumerate(outputs)]
    pad = -sum(width for _, width in out) % 8
    builder.header_type("out_t", [*out, *([("pad", pad)] if pad else [])])
    builder.header("h", "h_t")
    builder.header("out", "out_t")
    builder.state("start", [extract("h")])
    builder.emit("out")
    builder.run(builder.action("a", [call("add_header", {"type": "header", "value": "out"}), *primitives, send_to(1)]))
    return builder.text(), fields, outputs


def _values(rng: random.Random, fields: dict[str, tuple[int, bool]]) -> Values:
    values: Values = {}
    for name, (width, signed) in fields.items():
        raw = rng.choice([0, 1, (1 << width) - 1, 1 << (width - 1), rng.getrandbits(width), rng.getrandbits(width)])
        values[name] = raw - (1 << width) if signed and raw >> (width - 1) else raw
    return values


@pytest.mark.parametrize("seed", [0, 1, 201, 325])
def test_random_expressions_match_python_integers(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    text, fields, outputs = _program(rng)
    with EmbeddedSwitch(Pipeline.load(text), ports=[0, 1], seed=0) as switch:
        for _ in range(120):
            values = _values(rng, fields)
            frame = _pack([(values[name], width) for name, (width, _) in fields.items()])
            switch.receive(0, frame, 0)
            got = switch.transmit(1, 0)
            assert got is not None
            total = int.from_bytes(got, "big")
            end = len(got) * 8
            for number, (width, evaluate) in enumerate(outputs):
                end -= width
                actual = (total >> end) & ((1 << width) - 1)
                assert actual == evaluate(values) & ((1 << width) - 1), f"expression {number} of {width} bits"
