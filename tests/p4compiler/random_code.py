"""Random well-typed P4 statements, and what they compute: each is run in Python while it is written.

Variables are the fields of the header h of :func:`tests.p4compiler.compiled.around`, metadata, and locals of several
types. Functions change their arguments, so the order of evaluation shows in the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

DECLARATIONS = """
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> mix(in bit<8> x, inout bit<8> y) { y = y ^ x; if (y > 100) { return x; } return y; }
void add(inout bit<8> x, in bit<8> y) { x = x + y; }
void swap(inout bit<8> x, inout bit<8> y) { bit<8> t = x; x = y; y = t; }
bit<16> widen(in bit<8> x, out bit<16> y) { y = (bit<16>) x; y = y << 1; return y + 1; }
"""
LOCALS = "bit<32> w = 0; int<8> s = 0; int<16> t = 0; bit<5> v = 0; bool q = false;"
FIELDS = ("hdr.h.a", "hdr.h.b", "hdr.h.c", "hdr.h.d")
WIDE = ("hdr.h.e", "hdr.h.f")
DEEPEST = 4


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


BOOL, B8, B16, B32, B5, I8, I16 = Kind(0), Kind(8), Kind(16), Kind(32), Kind(5), Kind(8, True), Kind(16, True)
VARIABLES: dict[str, Kind] = {
    **dict.fromkeys(FIELDS, B8),
    **dict.fromkeys(WIDE, B16),
    "meta.m": B8,
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
        self.values |= dict(zip(FIELDS, frame[:4], strict=True))
        self.values["hdr.h.e"] = int.from_bytes(frame[4:6], "big")
        self.values["hdr.h.f"] = int.from_bytes(frame[6:8], "big")

    def header(self) -> bytes:
        """The header h as it leaves."""
        wide = b"".join(self.values[name].to_bytes(2, "big") for name in WIDE)
        return bytes(self.values[name] for name in FIELDS) + wide

    # --- statements ---

    def statement(self, depth: int = 0) -> str:
        """A statement, run."""
        kind = self._chance.randrange(10 if depth < DEEPEST else 7)
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
        return self._if(depth) if kind < 9 else self._block(depth + 1)

    def _add(self) -> str:
        """A call whose second argument may change the first after it was read."""
        name = self._chance.choice(FIELDS)
        before = self.values[name]
        text, value = self.expression(B8, 0)
        self.values[name] = B8.fit(before + value)
        return f"add({name}, {text});"

    def _slice(self) -> str:
        name = self._chance.choice((*FIELDS, *WIDE, "w"))
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
        choice = self._chance.randrange(4)
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
        kind = self._chance.choice((B8, B16, I8, B5, I16) if choice == 2 else (B8, B16, B32, BOOL))
        op = self._chance.choice(("==", "!=") if not kind.width else ("==", "!=", "<", "<=", ">", ">="))
        left, a = self.expression(kind, depth)
        right, b = self.expression(kind, depth)
        results = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return f"({left} {op} {right})", int(results[op])

    def _number(self, kind: Kind, depth: int) -> tuple[str, int]:
        choices = [self._operation, self._operation, self._choice, self._cast, self._shift]
        if not kind.signed:
            choices += [self._slice_of, self._concatenation]
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
        results = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
        return f"({left} {op} {right})", kind.fit(results[op])

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
        width = self._chance.choice([other.width for other in (B8, B16, B32, B5) if other.width != kind.width])
        from_ = self._chance.choice((Kind(width, kind.signed), Kind(kind.width, not kind.signed)))
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
        outer = self._chance.choice([other for other in (B8, B16, B32) if other.width >= kind.width] or [B32])
        if outer.width < kind.width:
            return self._operation(kind, depth)
        low = self._chance.randrange(outer.width - kind.width + 1)
        text, value = self.expression(outer, depth)
        return (
            f"{text}[{low + kind.width - 1}:{low}]" if "(" not in text else f"({text})[{low + kind.width - 1}:{low}]",
            kind.fit(value >> low),
        )

    def _concatenation(self, kind: Kind, depth: int) -> tuple[str, int]:
        if kind.width < 2:
            return self._operation(kind, depth)
        low = self._chance.randrange(1, kind.width)
        left, a = self.expression(Kind(kind.width - low), depth)
        right, b = self.expression(Kind(low), depth)
        return f"({left} ++ {right})", a << low | b

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
