"""Generates the C of expressions, with BMv2's unbounded arithmetic.

There are two ways to compile a number. `exact` produces its value, in a C integer wide enough for every intermediate
result (see c_integers.py). `modular` produces it modulo 2**bits, which is enough for an assignment or a mask;
additions, products, left shifts and bit operations then use integers of the target's size. Since p4c masks after nearly
every operation, almost everything is modular. Comparisons that the intervals decide become constants, which also avoids
compiler warnings.
"""

from __future__ import annotations

from dataclasses import replace

from p4runtime_shim.codegen.c_integers import (
    I64,
    U64,
    U128,
    CType,
    Interval,
    convert,
    extend,
    kind_of,
    limbs,
    literal,
    modular_kind,
    signed,
    storage,
    unsigned,
)
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.intervals import Intervals, cast_width
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.actions import SourceInfo
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
    Unary,
    ValidBit,
    VarbitEqual,
    is_boolean,
)

_C_OPS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_ORDER = {"<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


class ExpressionCompiler:
    """Compiles the expressions of one action (with its parameters), or of a control or parser (without)."""

    def __init__(self, layout: ProgramLayout, action: int | None = None, source: SourceInfo | None = None) -> None:
        self.layout = layout
        self.program = layout.program
        self.intervals = Intervals(self.program, action, source)
        self._action = action

    # --- exact values ---

    def exact(self, expr: Expr) -> tuple[str, CType]:
        """The value and its kind."""
        interval = self.intervals.of(expr)
        if interval.constant:
            kind = kind_of(interval, self.layout)
            return literal(interval.low, kind), kind
        if isinstance(expr, FieldRef):
            return self._load(expr)
        if isinstance(expr, ValidBit):
            return f"(uint64_t){self.valid(expr.header)}", U64
        if isinstance(expr, Local):
            return self._local(expr)
        if isinstance(expr, RegisterCell):
            return self._register(expr)
        if isinstance(expr, StackCount):
            count = f"(uint64_t)h->{self.layout.count(expr.stack)}"
            return f"({count} - 1)" if expr.minus_one else f"({count})", U64
        if isinstance(expr, Unary):
            return self._exact_unary(expr)
        if isinstance(expr, Choice):
            kind = kind_of(interval, self.layout)
            yes, no = self.exact_as(expr.yes, kind), self.exact_as(expr.no, kind)
            return f"({self.boolean(expr.condition)} ? {yes} : {no})", kind
        assert isinstance(expr, Binary)
        return self._exact_binary(expr, interval)

    def exact_as(self, expr: Expr, kind: CType) -> str:
        """The value in a kind that can hold it."""
        interval = self.intervals.of(expr)
        if interval.constant:
            return literal(interval.low, kind)
        code, own = self.exact(expr)
        return convert(code, own, kind)

    def _load(self, ref: FieldRef) -> tuple[str, CType]:
        field = self.program.field(ref)
        place = self.layout.field(ref, self._index(ref.header))
        kind = modular_kind(field.width, self.layout)
        if kind.wide:
            if field.signed:
                return f"{kind.prefix}_sext({place}, {field.width})", kind
            return self._grown(place, field.width)
        if field.signed:
            own = I64 if field.width <= 64 else CType(128, True)
            return f"sext{own.bits}({place}, {field.width})", own
        return f"({kind.name}){place}", kind

    def _grown(self, place: str, width: int) -> tuple[str, CType]:
        """Add a limb to an unsigned wide value that fills its limbs, since two's complement needs one more bit."""
        kind = kind_of(unsigned(width), self.layout)
        own = modular_kind(width, self.layout)
        if own == kind:
            return place, kind
        count = own.bits // 64
        return f"{kind.prefix}_limbs({place}.w, {count}, 0)", kind

    def _local(self, expr: Local) -> tuple[str, CType]:
        assert self._action is not None
        width = self.intervals.param(expr).width
        word = self.layout.param_words(self._action)[expr.index]
        if width <= 64:
            return f"a[{word}]", U64
        if width <= 128:
            return f"U128(a[{word + 1}], a[{word}])", U128
        kind = kind_of(unsigned(width), self.layout)
        return f"{kind.prefix}_limbs(a + {word}, {limbs(width)}, 0)", kind

    def register_place(self, expr: RegisterCell) -> tuple[str, str]:
        """(condition that the index is in range, lvalue of the cell)."""
        register = self.program.registers[expr.register]
        index = self.index(expr.index)
        cell = f"((({storage(register.width)} *)(void *)s->registers[{expr.register}].cells)[{index}])"
        return f"{index} < {register.size}", cell

    def _register(self, expr: RegisterCell) -> tuple[str, CType]:
        width = self.program.registers[expr.register].width
        condition, cell = self.register_place(expr)
        kind = modular_kind(width, self.layout)
        if kind.wide:
            grown, own = self._grown(cell, width)
            return f"({condition} ? {grown} : {literal(0, own)})", own
        return f"({condition} ? ({kind.name}){cell} : 0)", kind

    def _exact_unary(self, expr: Unary) -> tuple[str, CType]:
        if expr.op == "b2d":
            return f"(uint64_t)({self.boolean(expr.operand)})", U64
        kind = kind_of(self.intervals.of(expr).union(self.intervals.of(expr.operand)), self.layout)
        inner = self.exact_as(expr.operand, kind)
        if kind.wide:
            zero = literal(0, kind)
            return (f"{kind.prefix}_not({inner})" if expr.op == "~" else f"{kind.prefix}_sub({zero}, {inner})"), kind
        return f"({expr.op}{inner})", kind

    def _exact_binary(self, expr: Binary, interval: Interval) -> tuple[str, CType]:
        op = expr.op
        a, b = self.intervals.of(expr.left), self.intervals.of(expr.right)
        if op == "&" and (a.low >= 0 or b.low >= 0):
            bits = min(i.high.bit_length() for i in (a, b) if i.low >= 0)
            if (a.low >= 0 and b.low >= 0) or a.constant or b.constant:
                code = self.masked(expr, max(bits, 1))
                return self._unsigned_exact(code, max(bits, 1))
        if op == "two_comp_mod":
            return self._sign_extended(expr)
        if op in ("sat_cast", "usat_cast"):
            return self._saturated(expr, interval)
        if op in ("<<", ">>"):
            return self._exact_shift(expr, interval)
        kind = kind_of(interval.union(a, b), self.layout)
        left, right = self.exact_as(expr.left, kind), self.exact_as(expr.right, kind)
        if op in ("/", "%"):
            if a.low < 0 or b.low < 0:
                raise self.intervals.unsupported(f"{op!r} of numbers that may be negative")
            name = "div" if op == "/" else "mod"
            prefix = f"{kind.prefix}_{name}" if kind.wide else f"{name}{kind.bits}"
            return f"{prefix}({left}, {right})", kind
        if kind.wide:
            return f"{kind.prefix}_{_C_OPS[op]}({left}, {right})", kind
        return f"({left} {op} {right})", kind

    def _unsigned_exact(self, code: str, bits: int) -> tuple[str, CType]:
        """A masked modular value as an exact one."""
        kind = modular_kind(bits, self.layout)
        if not kind.wide:
            return code, kind
        own = kind_of(unsigned(bits), self.layout)
        return convert(code, kind, own) if bits < kind.bits else self._grown(code, bits)[0], own

    def _sign_extended(self, expr: Binary) -> tuple[str, CType]:
        width = cast_width(expr)
        inner = self.intervals.of(expr.left)
        if inner.low >= signed(width).low and inner.high <= signed(width).high:
            return self.exact(expr.left)
        code = self.modular(expr.left, width)
        kind = modular_kind(width, self.layout)
        if kind.wide:
            return f"{kind.prefix}_sext({code}, {width})", kind
        return f"sext{kind.bits}({code}, {width})", CType(kind.bits, True)

    def _saturated(self, expr: Binary, interval: Interval) -> tuple[str, CType]:
        inner = self.intervals.of(expr.left)
        kind = kind_of(interval.union(inner), self.layout)
        code = self.exact_as(expr.left, kind)
        low, high = literal(interval.low, kind), literal(interval.high, kind)
        value = f"({{ {kind.name} v_ = {code}; "
        less, more = _compare("v_", low, "<", kind), _compare(high, "v_", "<", kind)
        result = "v_"
        if inner.low < interval.low:
            result = f"{less} ? {low} : {result}"
        if inner.high > interval.high:
            result = f"{more} ? {high} : {result}"
        return f"__extension__ {value}{result}; }})", kind

    def _exact_shift(self, expr: Binary, interval: Interval) -> tuple[str, CType]:
        a, amount = self.intervals.of(expr.left), self.intervals.of(expr.right)
        kind = kind_of(interval.union(a), self.layout)
        left = self.exact_as(expr.left, kind)
        count = literal(amount.low, U64) if amount.constant and amount.low >= 0 else self.index(expr.right)
        if expr.op == "<<":
            if kind.wide:
                return f"{kind.prefix}_shl({left}, {count})", kind
            flat = CType(kind.bits, False)
            return convert(f"shl{kind.bits}({convert(left, kind, flat)}, {count})", flat, kind), kind
        if kind.wide:
            return f"{kind.prefix}_sar({left}, {count})", kind
        if amount.constant and 0 <= amount.low < kind.bits:
            return f"({left} >> {amount.low})", kind
        return f"{'sar' if kind.signed else 'shr'}{kind.bits}({left}, {count})", kind

    # --- modulo 2**bits ---

    def modular(self, expr: Expr, bits: int) -> str:
        """The value in modular_kind(bits); only its low `bits` bits are valid."""
        kind = modular_kind(bits, self.layout)
        interval = self.intervals.of(expr) if not _may_explode(expr) else None
        if interval is not None and interval.constant:
            return literal(interval.low & ((1 << bits) - 1), kind)
        if isinstance(expr, Binary) and expr.op in _C_OPS:
            if expr.op == "&":
                return self._and_modular(expr, bits)
            left, right = self.modular(expr.left, bits), self.modular(expr.right, bits)
            if kind.wide:
                return f"{kind.prefix}_{_C_OPS[expr.op]}({left}, {right})"
            return f"({left} {expr.op} {right})"
        if isinstance(expr, Binary) and expr.op == "<<":
            return self._shift_modular(expr, bits, kind)
        if isinstance(expr, Binary) and expr.op == "two_comp_mod" and cast_width(expr) >= bits:
            return self.modular(expr.left, bits)
        if isinstance(expr, Unary) and expr.op in ("~", "-"):
            inner = self.modular(expr.operand, bits)
            if kind.wide:
                zero = literal(0, kind)
                return f"{kind.prefix}_not({inner})" if expr.op == "~" else f"{kind.prefix}_sub({zero}, {inner})"
            return f"({expr.op}{inner})"
        if isinstance(expr, Choice):
            yes, no = self.modular(expr.yes, bits), self.modular(expr.no, bits)
            return f"({self.boolean(expr.condition)} ? {yes} : {no})"
        code, own = self.exact(expr)
        return convert(code, own, kind)

    def _and_modular(self, expr: Binary, bits: int) -> str:
        """With a constant mask, the other operand needs only as many bits as the mask."""
        kind = modular_kind(bits, self.layout)
        left, right = expr.left, expr.right
        if isinstance(left, Const):
            left, right = right, left
        if isinstance(right, Const) and right.value >= 0:
            mask = right.value & ((1 << bits) - 1)
            need = max(1, mask.bit_length())
            inner = modular_kind(need, self.layout)
            code = self.masked(left, need) if mask == (1 << need) - 1 else self._and(left, mask, need)
            return extend(code, inner, kind) if kind.bits >= inner.bits else convert(code, inner, kind)
        a, b = self.modular(left, bits), self.modular(right, bits)
        return f"{kind.prefix}_and({a}, {b})" if kind.wide else f"({a} & {b})"

    def _and(self, expr: Expr, mask: int, bits: int) -> str:
        kind = modular_kind(bits, self.layout)
        code = self.modular(expr, bits)
        if kind.wide:
            return f"{kind.prefix}_and({code}, {literal(mask, kind)})"
        return f"({code} & {literal(mask, kind)})"

    def _shift_modular(self, expr: Binary, bits: int, kind: CType) -> str:
        amount = self.intervals.of(expr.right)
        if amount.constant:
            if amount.low >= bits:
                return literal(0, kind)
            code = convert(
                self.modular(expr.left, bits - amount.low), modular_kind(bits - amount.low, self.layout), kind
            )
            if kind.wide:
                return f"{kind.prefix}_shl({code}, {amount.low})"
            return f"({code} << {amount.low})" if amount.low else code
        code, count = self.modular(expr.left, bits), self.index(expr.right)
        return f"{kind.prefix}_shl({code}, {count})" if kind.wide else f"shl{kind.bits}({code}, {count})"

    def masked(self, expr: Expr, bits: int) -> str:
        """The value modulo 2**bits in modular_kind(bits); the higher bits are 0."""
        code = self.modular(expr, bits)
        kind = modular_kind(bits, self.layout)
        if self._clean(expr, bits):
            return code
        if bits == kind.bits:
            return code
        if kind.wide:
            return f"{kind.prefix}_mask({code}, {bits})"
        return f"({code} & {literal((1 << bits) - 1, kind)})"

    def _clean(self, expr: Expr, bits: int) -> bool:
        """True if `modular` leaves the higher bits 0: no step can borrow, wrap or sign-extend."""
        if _may_explode(expr):
            return False
        interval = self.intervals.of(expr)
        if interval.low < 0 or interval.high >= 1 << bits:
            return False
        if interval.constant:
            return True
        if isinstance(expr, Choice):
            return self._clean(expr.yes, bits) and self._clean(expr.no, bits)
        if isinstance(expr, Unary):
            return expr.op == "b2d"
        if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*", "&", "|", "^", "<<", "two_comp_mod"):
            return True
        if expr.op in ("-", "two_comp_mod"):
            return False
        if expr.op == "<<":
            return isinstance(expr.right, Const) and self._clean(expr.left, bits - expr.right.value)
        sides = [self._clean(side, bits) for side in (expr.left, expr.right)]
        return any(sides) if expr.op == "&" else all(sides)

    def index(self, expr: Expr) -> str:
        """A non-negative number as uint64_t, saturated."""
        code, kind = self.exact(expr)
        if kind.wide:
            return f"{kind.prefix}_clamp({code})"
        if kind.bits == 128:
            return f"clamp64((u128){code})"
        return code if kind == U64 else f"(uint64_t){code}"

    # --- headers and booleans ---

    def _index(self, header: HeaderExpr) -> str:
        return self.index(header.index) if isinstance(header, StackItem) else ""

    def header(self, header: HeaderExpr) -> str:
        """The C lvalue of a header."""
        return self.layout.header(header, self._index(header))

    def place(self, ref: FieldRef) -> str:
        """The C lvalue of a field."""
        return self.layout.field(ref, self._index(ref.header))

    def is_metadata(self, header: HeaderExpr) -> bool:
        """True for metadata, which is always valid."""
        return isinstance(header, HeaderRef) and self.program.headers[header.header].metadata

    def valid(self, header: HeaderExpr) -> str:
        """The validity of a header."""
        return "1" if self.is_metadata(header) else f"{self.header(header)}.valid"

    def invalidate_others(self, header: HeaderExpr, w: Writer) -> None:
        """A member of a union became valid, if the header is one: no other is."""
        others: list[HeaderExpr] = []
        if isinstance(header, HeaderRef):
            union = self.program.headers[header.header].union
            if union is not None:
                others = [HeaderRef(other) for other in self.program.unions[union] if other != header.header]
        else:
            members = self.program.stacks[header.stack].members
            others = [replace(header, stack=other) for other in members if other != header.stack]
        for other in others:
            w(f"{self.header(other)}.valid = 0;")

    def boolean(self, expr: Expr) -> str:
        """A condition as a C int."""
        if isinstance(expr, BoolConst):
            return "1" if expr.value else "0"
        if isinstance(expr, HeaderEqual):
            return self._header_equal(expr)
        if isinstance(expr, VarbitEqual):
            return f"{'!' if expr.negated else ''}{self._varbits_equal(expr.left, expr.right)}"
        if isinstance(expr, Choice):
            return f"({self.boolean(expr.condition)} ? {self.boolean(expr.yes)} : {self.boolean(expr.no)})"
        if isinstance(expr, Unary):
            if expr.op == "not":
                return f"!({self.boolean(expr.operand)})"
            assert expr.op == "d2b"
            return self._compare(Binary("!=", expr.operand, Const(0)))
        assert isinstance(expr, Binary)
        if expr.op in ("and", "or"):
            sign = "&&" if expr.op == "and" else "||"
            return f"(({self.boolean(expr.left)}) {sign} ({self.boolean(expr.right)}))"
        if is_boolean(expr.left):
            return f"(!({self.boolean(expr.left)}) {expr.op} !({self.boolean(expr.right)}))"
        return self._compare(expr)

    def _compare(self, expr: Binary) -> str:
        a, b = self.intervals.of(expr.left), self.intervals.of(expr.right)
        known = _decided(expr.op, a, b)
        if known is not None:
            return "1" if known else "0"
        kind = kind_of(a.union(b), self.layout)
        left, right = self.exact_as(expr.left, kind), self.exact_as(expr.right, kind)
        if left == right:
            return "1" if expr.op in ("==", "<=", ">=") else "0"
        return _compare(left, right, expr.op, kind)

    def _header_equal(self, expr: HeaderEqual) -> str:
        if self.program.type_of(expr.left) != self.program.type_of(expr.right):
            return "1" if expr.negated else "0"
        parts = [f"{self.valid(expr.left)}", f"{self.valid(expr.right)}"]
        for position in range(len(self.program.type_of(expr.left).fields)):
            left, right = FieldRef(expr.left, position), FieldRef(expr.right, position)
            if self.program.field(left).max_bytes:
                parts.append(self._varbits_equal(left, right))
                continue
            kind = modular_kind(self.program.field(left).width, self.layout)
            parts.append(_compare(self.place(left), self.place(right), "==", kind))
        code = " && ".join(parts)
        return f"!({code})" if expr.negated else f"({code})"

    def _varbits_equal(self, left: FieldRef, right: FieldRef) -> str:
        a, b = self.place(left), self.place(right)
        return f"({a}.n == {b}.n && !memcmp({a}.b, {b}.b, {a}.n))"


def _compare(left: str, right: str, op: str, kind: CType) -> str:
    if not kind.wide:
        return f"({left} {op} {right})"
    prefix = kind.prefix
    if op in ("==", "!="):
        return f"{'!' if op == '!=' else ''}{prefix}_eq({left}, {right})"
    if op in (">", "<="):
        left, right = right, left
    return f"{'!' if op in ('<=', '>=') else ''}{prefix}_lt({left}, {right})"


def _decided(op: str, a: Interval, b: Interval) -> bool | None:
    """The result of a comparison, if the intervals determine it."""
    if op in ("==", "!="):
        if a.high < b.low or b.high < a.low:
            return op == "!="
        return (op == "==") if a.constant and b.constant and a.low == b.low else None
    if op in (">", "<="):
        less = True if b.high < a.low else False if b.low >= a.high else None
        return less if op == ">" or less is None else not less
    less = True if a.high < b.low else False if a.low >= b.high else None
    return less if op == "<" or less is None else not less


def _may_explode(expr: Expr) -> bool:
    """True for a left shift by a variable amount: its interval may be too large, but its low bits are easy."""
    if isinstance(expr, Binary):
        if expr.op == "<<" and not isinstance(expr.right, Const):
            return True
        if expr.op in ("&", "two_comp_mod", "sat_cast", "usat_cast") and isinstance(expr.right, Const):
            return expr.op not in ("&", "two_comp_mod") and _may_explode(expr.left)
        return _may_explode(expr.left) or _may_explode(expr.right)
    if isinstance(expr, Unary) and expr.op in ("~", "-"):
        return _may_explode(expr.operand)
    if isinstance(expr, Choice):
        return _may_explode(expr.yes) or _may_explode(expr.no)
    return False
