"""Random well-typed P4 statements, and what they compute: each is run in Python while it is written.

Variables are the fields of the header h of :func:`tests.p4compiler.compiled.around`, metadata, and locals of several
types. Functions change their arguments, so the order of evaluation shows in the result.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass

DECLARATIONS = """
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> mix(in bit<8> x, inout bit<8> y) { y = y ^ x; if (y > 100) { return x; } return y; }
void add(inout bit<8> x, in bit<8> y) { x = x + y; }
void swap(inout bit<8> x, inout bit<8> y) { bit<8> t = x; x = y; y = t; }
bit<16> widen(in bit<8> x, out bit<16> y) { y = (bit<16>) x; y = y << 1; return y + 1; }
"""
LOCALS = """
bit<32> w = 0; int<8> s = 0; int<16> t = 0; bit<5> v = 0; bool q = false;
bit<100> l = 0; int<33> k = 0; int<4> u = 0; bit<1> o = 0; bit<48> m = 0; int<70> n = 0;
"""
FIELDS = ("hdr.h.a", "hdr.h.b", "hdr.h.c", "hdr.h.d")
WIDE = ("hdr.h.e", "hdr.h.f")
STACK = tuple(f"hdr.s[{index}].{name}" for index in range(3) for name in "xy")
DEEPEST = 4
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


@dataclass(frozen=True)
class Kind:
    """``bit<width>`` or ``int<width>``; a width of 0 is bool."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>" if self.width else "bool"

    def fit(self, value: int) -> int:
        """The value in this type."""
        value &= (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value


BOOL, B1, B2, B5, B8, B16, B32, B48, B100 = (Kind(width) for width in (0, 1, 2, 5, 8, 16, 32, 48, 100))
I4, I8, I16, I33, I70 = (Kind(width, True) for width in (4, 8, 16, 33, 70))
NUMBERS = (B1, B5, B8, B16, B32, B48, B100, I4, I8, I16, I33, I70)
VARIABLES: dict[str, Kind] = {
    **dict.fromkeys((*FIELDS, *STACK), B8),
    **dict.fromkeys(WIDE, B16),
    "meta.m": B8,
    "meta.pair.x": B8,
    "l": B100,
    "k": I33,
    "u": I4,
    "o": B1,
    "m": B48,
    "n": I70,
    "w": B32,
    "s": I8,
    "t": I16,
    "v": B5,
    "q": BOOL,
}


class Code:
    """Statements under construction, and the values of all variables after them."""

    def __init__(self, chance: random.Random, frame: bytes) -> None:
        self._chance = chance
        self.values: dict[str, int] = dict.fromkeys(VARIABLES, 0)
        self.values["meta.i"] = 0
        self.values |= dict(zip(FIELDS, frame[:4], strict=True)) | dict(zip(STACK, frame[10:16], strict=True))
        self.values["hdr.h.e"] = int.from_bytes(frame[4:6], "big")
        self.values["hdr.h.f"] = int.from_bytes(frame[6:8], "big")

    def header(self) -> bytes:
        """The header h as it leaves."""
        wide = b"".join(self.values[name].to_bytes(2, "big") for name in WIDE)
        return bytes(self.values[name] for name in FIELDS) + wide

    # --- statements ---

    def statement(self, depth: int = 0) -> str:
        """A statement, run."""
        kind = self._chance.randrange(14 if depth < DEEPEST else 10)
        if kind < 5:
            name = self._chance.choice(list(VARIABLES))
            text, value = self.expression(VARIABLES[name], 0)
            self.values[name] = value
            return f"{name} = {text};"
        if kind == 5:
            left, right = self._chance.sample(FIELDS, 2)
            self.values[left], self.values[right] = self.values[right], self.values[left]
            return f"swap({left}, {right});"
        if kind == 6:
            return self._slice() if self._chance.randrange(2) else self._add()
        if kind < 10:
            return (self._index, self._element, self._changed)[kind - 7]()
        return self._if(depth) if kind < 12 else self._switch(depth) if kind < 13 else self._block(depth + 1)

    def _index(self) -> str:
        self.values["meta.i"] = self._chance.randrange(3)
        return f"meta.i = {self.values['meta.i']};"

    def _element(self) -> str:
        """An assignment to an element of the stack by an index that the packet has."""
        field = self._chance.choice("xy")
        name = f"hdr.s[{self.values['meta.i']}].{field}"
        text, self.values[name] = self.expression(B8, 0)
        return f"hdr.s[meta.i].{field} = {text};"

    def _changed(self) -> str:
        """An assignment with an operation, of which the target is the left operand."""
        name = self._chance.choice([item for item, kind in VARIABLES.items() if kind.width])
        kind, before = VARIABLES[name], self.values[name]
        op = self._chance.choice(list(OPERATIONS))
        text, value = self.expression(kind, 1)
        self.values[name] = kind.fit(OPERATIONS[op](before, value))
        return f"{name} {op}= {text};"

    def _switch(self, depth: int) -> str:
        kind = self._chance.choice((B1, B8, I8))
        subject, value = self.expression(kind, 1)
        labels = {kind.fit(value + self._chance.choice((0, 1, 2, 5))) for _ in range(3)}
        parts, taken = [], False
        waiting = False
        for label in labels:
            waiting = waiting or label == value
            text = f"({kind}) {label}:"
            if self._chance.random() < 0.7:
                text += f" {self._unless(not waiting, lambda: self._block(depth + 1))}"
                taken, waiting = taken or waiting, False
            parts.append(text)
        parts.append(f"default: {self._unless(taken, lambda: self._block(depth + 1))}")
        return f"switch ({subject}) {{ {' '.join(parts)} }}"

    def _add(self) -> str:
        """A call whose second argument may change the first after it was read."""
        name = self._chance.choice(FIELDS)
        before = self.values[name]
        text, value = self.expression(B8, 0)
        self.values[name] = B8.fit(before + value)
        return f"add({name}, {text});"

    def _slice(self) -> str:
        name = self._chance.choice((*FIELDS, *WIDE, "w", "l", "m"))
        width = VARIABLES[name].width
        low = self._chance.randrange(width)
        high = self._chance.randrange(low, width)
        text, value = self.expression(Kind(high - low + 1), 1)
        part = ((1 << (high - low + 1)) - 1) << low
        self.values[name] = self.values[name] & ~part | value << low
        return f"{name}[{high}:{low}] = {text};"

    def _block(self, depth: int) -> str:
        return f"{{ {' '.join(self.statement(depth) for _ in range(self._chance.randint(1, 3)))} }}"

    def _if(self, depth: int) -> str:
        condition, value = self.expression(BOOL, 0)
        yes = self._unless(not value, lambda: self._block(depth + 1))
        no = self._unless(bool(value), lambda: self._block(depth + 1))
        return f"if ({condition}) {yes} else {no}"

    def _unless(self, skipped: bool, make: object) -> str:
        """Code that is written, and forgotten if it is not run."""
        before = dict(self.values)
        assert callable(make)
        text: str = make()
        if skipped:
            self.values = before
        return text

    # --- expressions ---

    def expression(self, kind: Kind, depth: int) -> tuple[str, int]:
        """An expression of a type, and its value."""
        if depth >= DEEPEST or self._chance.random() < 0.2:
            return self._leaf(kind)
        return self._boolean(depth + 1) if not kind.width else self._number(kind, depth + 1)

    def _leaf(self, kind: Kind) -> tuple[str, int]:
        names = [name for name, other in VARIABLES.items() if other == kind]
        if kind == B8 and self._chance.random() < 0.1:
            field = self._chance.choice("xy")
            return f"hdr.s[meta.i].{field}", self.values[f"hdr.s[{self.values['meta.i']}].{field}"]
        if names and self._chance.random() < 0.7:
            name = self._chance.choice(names)
            return name, self.values[name]
        if not kind.width:
            value = self._chance.randrange(2)
            return ("true" if value else "false"), value
        bits = self._chance.choice((0, 1, (1 << kind.width) - 1, self._chance.getrandbits(kind.width)))
        bits &= (1 << (kind.width - kind.signed)) - 1  # a signed literal is not negative
        return f"{kind.width}{'s' if kind.signed else 'w'}{bits}", bits

    def _boolean(self, depth: int) -> tuple[str, int]:
        choice = self._chance.randrange(5)
        if choice == 4:
            text, value = self.expression(B1, depth)
            return f"((bool) {text})", value
        if choice == 0:
            text, value = self.expression(BOOL, depth)
            return f"(!{text})", int(not value)
        if choice == 1:
            op = self._chance.choice(("&&", "||"))
            left, a = self.expression(BOOL, depth)
            before = dict(self.values)
            right, b = self.expression(BOOL, depth)
            if bool(a) == (op == "||"):
                self.values, b = before, a  # the right side is not evaluated
            return f"({left} {op} {right})", b
        kind = self._chance.choice(NUMBERS if choice == 2 else (B8, B16, B32, BOOL))
        op = self._chance.choice(("==", "!=") if not kind.width else ("==", "!=", "<", "<=", ">", ">="))
        left, a = self.expression(kind, depth)
        right, b = self.expression(kind, depth)
        results = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return f"({left} {op} {right})", int(results[op])

    def _number(self, kind: Kind, depth: int) -> tuple[str, int]:
        choices = [self._operation, self._operation, self._choice, self._cast, self._shift, self._concatenation]
        if not kind.signed:
            choices += [self._slice_of, self._division]
        if kind == B8:
            choices += [self._call]
        return self._chance.choice(choices)(kind, depth)

    def _operation(self, kind: Kind, depth: int) -> tuple[str, int]:
        op = self._chance.choice(("+", "-", "*", "&", "|", "^", "|+|", "|-|", "~", "-"))
        if op == "~" or (op == "-" and self._chance.random() < 0.3):
            text, value = self.expression(kind, depth)
            return f"({op}{text})", kind.fit(~value if op == "~" else -value)
        left, a = self.expression(kind, depth)
        right, b = self.expression(kind, depth)
        if op in ("|+|", "|-|"):
            low, high = (
                (-(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1) if kind.signed else (0, (1 << kind.width) - 1)
            )
            return f"({left} {op} {right})", max(low, min(high, a + b if op == "|+|" else a - b))
        return f"({left} {op} {right})", kind.fit(OPERATIONS[op](a, b))

    def _division(self, kind: Kind, depth: int) -> tuple[str, int]:
        op = self._chance.choice("/%")
        left, a = self.expression(kind, depth)
        b = self._chance.randrange(1, 1 << kind.width)
        return f"({left} {op} {kind.width}w{b})", a // b if op == "/" else a % b

    def _choice(self, kind: Kind, depth: int) -> tuple[str, int]:
        condition, value = self.expression(BOOL, depth)
        before = dict(self.values)
        yes, a = self.expression(kind, depth)
        after_yes, self.values = self.values, before
        no, b = self.expression(kind, depth)
        if value:
            self.values = after_yes
        return f"({condition} ? {yes} : {no})", a if value else b

    def _cast(self, kind: Kind, depth: int) -> tuple[str, int]:
        if kind == B1 and self._chance.randrange(2):
            text, value = self.expression(BOOL, depth)
            return f"((bit<1>) {text})", value
        width = self._chance.choice([other.width for other in NUMBERS if other.width != kind.width])
        if kind.signed or width == 1:
            width = max(2, width)
        signs = (kind.signed, not kind.signed) if kind.width > 1 else (False, False)
        from_ = self._chance.choice((Kind(width, signs[0]), Kind(kind.width, signs[1])))
        text, value = self.expression(from_, depth)
        return f"(({kind}) {text})", kind.fit(value)

    def _shift(self, kind: Kind, depth: int) -> tuple[str, int]:
        op = self._chance.choice(("<<", ">>"))
        left, a = self.expression(kind, depth)
        if self._chance.randrange(2):
            distance = self._chance.randrange(kind.width + 2)
            right = str(distance)
        else:
            right, distance = self.expression(self._chance.choice((B5, B16)), depth)
        return f"({left} {op} {right})", kind.fit(a << distance if op == "<<" else a >> distance)

    def _slice_of(self, kind: Kind, depth: int) -> tuple[str, int]:
        outer = self._chance.choice([other for other in NUMBERS if other.width >= kind.width] or [kind])
        low = self._chance.randrange(outer.width - kind.width + 1)
        text, value = self.expression(outer, depth)
        return (
            f"{text}[{low + kind.width - 1}:{low}]" if "(" not in text else f"({text})[{low + kind.width - 1}:{low}]",
            kind.fit(value >> low),
        )

    def _concatenation(self, kind: Kind, depth: int) -> tuple[str, int]:
        if kind.width < 4:
            return self._operation(kind, depth)
        low = self._chance.randrange(2, kind.width - 1)
        left, a = self.expression(Kind(kind.width - low, kind.signed), depth)
        right, b = self.expression(Kind(low, self._chance.random() < 0.3), depth)
        return f"({left} ++ {right})", a << low | b & ((1 << low) - 1)

    def _call(self, kind: Kind, depth: int) -> tuple[str, int]:
        name = self._chance.choice(FIELDS)
        if self._chance.randrange(2):
            self.values[name] = B8.fit(self.values[name] + 1)
            return f"bump({name})", self.values[name]
        text, value = self.expression(B8, depth)
        self.values[name] ^= value
        return f"mix({text}, {name})", value if self.values[name] > 100 else self.values[name]


def program(chance: random.Random, frame: bytes, statements: int) -> tuple[str, bytes]:
    """Statements of an apply block, and the header that leaves for a frame."""
    code = Code(chance, frame)
    lines = [code.statement() for _ in range(statements)]
    return "\n".join(lines), code.header()
