"""Generates the parser as one C function: labels for states, gotos for transitions, a jump to the end for errors.

`at` is the number of bytes extracted so far. States on a cycle count their visits, so that an endless parser does not
hang the switch: above the limit, or above the engine's budget per call, the packet gets error ParserTimeout.
"""

from __future__ import annotations

from p4runtime_shim.codegen.actions import Statement
from p4runtime_shim.codegen.c_integers import CType, convert, limbs, literal, modular_kind
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.control_flow import store_key
from p4runtime_shim.codegen.expressions import ExpressionCompiler
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.actions import Primitive, SourceInfo
from p4runtime_shim.program.model.expressions import Const, Expr, HeaderRef, StackLast, ValidBit
from p4runtime_shim.program.model.parser import (
    Advance,
    Extract,
    ExtractNext,
    Lookahead,
    ParserCall,
    ParserSet,
    ParserState,
    SelectCase,
    ValueSetCase,
    Verify,
)

VISIT_LIMIT = 10000
_NO_PRIMITIVE = Primitive("assign", (), SourceInfo())


def function(layout: ProgramLayout, w: Writer) -> None:
    """`static void parse(s, p)`: extract the headers; set parser_error and checksum_error."""
    program = layout.program
    with w.block("static const char *error_name(const struct sw *s, uint32_t error)"):
        w("(void)s;")
        with w.block("switch (error)"):
            for name, code in program.errors.items():
                w(f"case {code}u:\n    return s->texts[{layout.text(name)}];")
        w('return "unknown";')
    with w.block("static void parse(struct sw *s, struct sw_packet *p)"):
        w("struct phv *h = p->phv;\nconst uint8_t *d = p->data;\nconst uint32_t len = p->len;")
        no_error = program.errors["NoError"]
        w(f"uint32_t at = 0, error = {no_error}u, visits = 0;")
        w("(void)s;\n(void)h;\n(void)d;\n(void)len;\n(void)visits;")
        for count in dict.fromkeys(map(layout.count, range(len(layout.stacks)))):
            w(f"h->{count} = 0;")
        if program.parser.start is not None:
            reachable = _reachable(program.parser.states, program.parser.start)
            w(f"goto {_label(program.parser.start)};")
            for position in reachable:
                StateWriter(layout, position, w).write()
            w("done:")
        w(f'if (error != {no_error}u)\n    SW_TRACE(s, p, "parser error %s", error_name(s, error));')
        w("p->data += at;\np->len -= at;\np->parsed = at;\np->parser_error = error;")
        checked = "verify_checksums(s, p, h)" if program.parser.start is not None else "0"
        w(f"p->checksum_error = {checked};")


def _label(state: int | None) -> str:
    return "done" if state is None else f"state_{state}"


def _reachable(states: tuple[ParserState, ...], start: int) -> list[int]:
    order, seen = [], {start}
    waiting = [start]
    while waiting:
        position = waiting.pop(0)
        order.append(position)
        for target in [case.next_state for case in states[position].cases] + [states[position].default]:
            if target is not None and target not in seen:
                seen.add(target)
                waiting.append(target)
    return order


class StateWriter:
    """Writes one parser state."""

    def __init__(self, layout: ProgramLayout, position: int, w: Writer) -> None:
        self.layout = layout
        self.program = layout.program
        self.position = position
        self.state = self.program.parser.states[position]
        self.c = ExpressionCompiler(layout)
        self.w = w

    def write(self) -> None:
        """Label, operations, transition."""
        self.w(f"{_label(self.position)}:;")
        self.w(f'SW_TRACE(s, p, "parser state %s at byte %u", s->texts[{self.layout.text(self.state.name)}], at);')
        costs = self.layout.costs
        if self.position in costs.state_cycles:
            spend = f"!sw_spend(s, {costs.states[self.position]})"
            self.fail_if(f"++visits > {VISIT_LIMIT} || {spend}", "ParserTimeout")
        for op in self.state.ops:
            if isinstance(op, Extract):
                self.extract(f"h->{self.layout.headers[op.header]}", self.program.headers[op.header].type, op.varbit)
                self.c.invalidate_others(HeaderRef(op.header), self.w)
            elif isinstance(op, ExtractNext):
                self.extract_next(op.stack, op.varbit)
            elif isinstance(op, ParserSet):
                self.set(op)
            elif isinstance(op, Verify):
                code = self.c.masked(op.error, 32)
                self.w(f"if (!({self.c.boolean(op.condition)})) {{\n    error = (uint32_t){code};\n    goto done;\n}}")
            elif isinstance(op, Advance):
                self.advance(op)
            else:
                assert isinstance(op, ParserCall)
                Statement(self.layout, self.c, op.primitive, self.w).write()
        self.select()

    def fail_if(self, condition: str, error: str) -> None:
        """A core parser error."""
        code = self.program.errors[error]
        self.w(f"if ({condition}) {{\n    error = {code}u; /* {error} */\n    goto done;\n}}")

    def need(self, size: str) -> None:
        """Bytes of the packet, which is long enough, have to be in its buffer."""
        with self.w.block(f"if (__builtin_expect(p->present - at < {size}, 0))"):
            self.w("sw_fill(&s->pool, p);\nd = p->data;")

    def extract(self, place: str, kind: int, varbit: Expr | None) -> None:
        """Extract one header at the current position."""
        if varbit is not None:
            self.extract_varbit(place, kind, varbit)
            return
        size = self.program.types[kind].width // 8
        if size:
            self.fail_if(f"len - at < {size}", "PacketTooShort")
            self.need(f"{size}")
        self.w(f"extract_{self.layout.types[kind]}(&{place}, d + at);")
        if size:
            self.w(f"at += {size};")

    def extract_varbit(self, place: str, kind: int, varbit: Expr) -> None:
        """Extract one header with a varbit field; its errors are in the order of BMv2's."""
        info = self.program.types[kind]
        with self.w.block(""):
            self.w(f"uint64_t bits = {self.c.index(varbit)};")
            self.fail_if("bits % 8", "ParserInvalidArgument")
            self.fail_if(f"len - at < {info.width // 8} + bits / 8", "PacketTooShort")
            self.fail_if(f"bits > {info.max_width - info.width}", "HeaderTooShort")
            self.w("uint32_t n = (uint32_t)(bits / 8);")
            self.need(f"{info.width // 8} + n")
            self.w(f"extract_{self.layout.types[kind]}(&{place}, d + at, n);\nat += {info.width // 8} + n;")

    def extract_next(self, stack: int, varbit: Expr | None) -> None:
        """Extract the next element of a stack."""
        info, count = self.program.stacks[stack], f"h->{self.layout.count(stack)}"
        self.fail_if(f"{count} >= {len(info.headers)}", "StackOutOfBounds")
        self.extract(f"h->{self.layout.stacks[stack]}[{count}]", info.type, varbit)
        self.w(f"{count}++;")
        self.c.invalidate_others(StackLast(stack), self.w)

    def advance(self, op: Advance) -> None:
        """Skip whole bytes."""
        if isinstance(op.bits, Const) and op.bits.value % 8 == 0 and op.bits.value >= 0:
            size = min(op.bits.value // 8, (1 << 32) - 1)
            if size:
                self.fail_if(f"len - at < {size}u", "PacketTooShort")
                self.need(f"{size}u")
                self.w(f"at += {size};")
            return
        with self.w.block(""):
            self.w(f"uint64_t bits = {self.c.index(op.bits)};")
            self.fail_if("bits % 8", "ParserInvalidArgument")
            self.fail_if("len - at < bits / 8", "PacketTooShort")
            self.need("(uint32_t)(bits / 8)")
            self.w("at += (uint32_t)(bits / 8);")

    def lookahead(self, item: Lookahead) -> tuple[str, CType]:
        """Bits not extracted yet; the length must have been checked."""
        start, bit, width = item.offset // 8, item.offset % 8, item.width
        size = (bit + width + 7) // 8
        kind = modular_kind(width, self.layout)
        if size <= 8:
            code, own = f"ldn(d + at + {start}, {size})", modular_kind(64, self.layout)
        elif size <= 16:
            code, own = f"ldn128(d + at + {start}, {size})", modular_kind(128, self.layout)
        elif width > 128:
            return f"{kind.prefix}_load(d + at, {item.offset}, {width})", kind
        else:  # 17 bytes for an unaligned number of at most 128 bits
            code = f"w3_to128(w3_load(d + at, {item.offset}, {width}))"
            self.layout.wide.add(3)
            return code, modular_kind(128, self.layout)
        shift = size * 8 - bit - width
        if shift:
            code = f"({code} >> {shift})"
        if bit:
            code = f"({code} & {literal((1 << width) - 1, own)})"
        return convert(code, own, kind), kind

    def check_lookahead(self, item: Lookahead) -> None:
        """Fail with PacketTooShort if the packet is too short."""
        size = (item.offset + item.width + 7) // 8
        self.fail_if(f"len - at < {size}", "PacketTooShort")
        self.need(f"{size}")

    def set(self, op: ParserSet) -> None:
        """Assign to a field."""
        target = op.target
        assert not isinstance(target, ValidBit)
        statement = Statement(self.layout, self.c, _NO_PRIMITIVE, self.w)
        if not isinstance(op.value, Lookahead):
            statement.assign(target, op.value)
            return
        self.check_lookahead(op.value)
        width = self.program.field(target).width
        code, kind = self.lookahead(op.value)
        own = modular_kind(width, self.layout)
        code = convert(code, kind, own)
        if op.value.width > width:
            code = f"{own.prefix}_mask({code}, {width})" if own.wide else f"({code} & {literal((1 << width) - 1, own)})"
        statement.store(self.c.place(target), width, code)

    def select(self) -> None:
        """The transition."""
        state = self.state
        lookaheads = [item for item in state.key if isinstance(item, Lookahead)]
        for lookahead in lookaheads:
            self.check_lookahead(lookahead)
        if state.cases:
            with self.w.block(""):
                kinds = []
                for number, item in enumerate(state.key):
                    code, kind = self.key(item)
                    kinds.append(kind)
                    self.w(f"const {kind.name} k{number} = {code};")
                if any(isinstance(case, ValueSetCase) for case in state.cases):
                    self.key_words(kinds)
                for case in state.cases:
                    self.w(f"if ({self.applies(case, kinds)})\n    goto {_label(case.next_state)};")
                for number in range(len(kinds)):
                    self.w(f"(void)k{number};")
        self.w(f"goto {_label(state.default)};")

    def applies(self, case: SelectCase | ValueSetCase, kinds: list[CType]) -> str:
        """The condition of a select case."""
        if isinstance(case, ValueSetCase):
            members = f"&s->tables[{len(self.program.tables) + case.value_set}]"
            return f"sw_find_ternary({members}, k, {sum(limbs(self.width(item)) for item in self.state.key)})"
        tests = [
            _test(f"k{number}", value, mask, kinds[number], self.width(item))
            for number, (item, value, mask) in enumerate(zip(self.state.key, case.values, case.masks, strict=True))
        ]
        return " && ".join(test for test in tests if test) or "1"

    def key_words(self, kinds: list[CType]) -> None:
        """`k` = the key as the engine's tables take it, for value sets."""
        widths = [self.width(item) for item in self.state.key]
        self.w(f"uint64_t k[{sum(map(limbs, widths))}];")
        word = 0
        for number, width in enumerate(widths):
            store_key(self.layout, f"k{number}", width, word, self.w)
            word += limbs(width)

    def width(self, item: object) -> int:
        """Bits of a key component."""
        if isinstance(item, Lookahead):
            return item.width
        return 1 if isinstance(item, ValidBit) else self.program.field(item).width  # type: ignore[arg-type]

    def key(self, item: object) -> tuple[str, CType]:
        """A key component as its bits."""
        if isinstance(item, Lookahead):
            return self.lookahead(item)
        kind = modular_kind(self.width(item), self.layout)
        if isinstance(item, ValidBit):
            return self.c.valid(item.header), kind
        return self.c.place(item), kind  # type: ignore[arg-type]


def _test(name: str, value: int, mask: int, kind: CType, width: int) -> str:
    if mask == 0:
        return ""
    full = mask == (1 << width) - 1
    if kind.wide:
        left = name if full else f"{kind.prefix}_and({name}, {literal(mask, kind)})"
        return f"{kind.prefix}_eq({left}, {literal(value, kind)})"
    left = name if full else f"({name} & {literal(mask, kind)})"
    return f"{left} == {literal(value, kind)}"
