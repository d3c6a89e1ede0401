"""Generates a C function for each action: one or two statements per primitive, gotos for jumps."""

from __future__ import annotations

from p4runtime_shim.codegen.c_integers import U64, convert, modular_kind, storage
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.expressions import ExpressionCompiler
from p4runtime_shim.codegen.headers import wire_bytes
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.actions import (
    Action,
    Arg,
    HeaderArg,
    ListArg,
    ObjectArg,
    Primitive,
    StackArg,
    TextArg,
    UnionArg,
)
from p4runtime_shim.program.model.expressions import Binary, Const, Expr, FieldRef, HeaderExpr, RegisterCell

_ARITHMETIC = {
    "add": "+",
    "subtract": "-",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
_NOTHING = frozenset({"no_op"})


def function(layout: ProgramLayout, position: int, w: Writer) -> None:
    """`static void <action>(s, p, h, a)`, and `locals` if it has variables of a pipeline."""
    action = layout.program.actions[position]
    name = layout.actions[position]
    head = f"SW_INLINE void {name}(struct sw *s, struct sw_packet *p, struct phv *h, const uint64_t *a"
    with w.block(f"{head}{layout.variables_parameter(action)})"):
        w("(void)s;\n(void)p;\n(void)h;\n(void)a;" + layout.variables_unused(action))
        targets = jump_targets(action)
        loops = layout.costs.loops(action)
        for index, primitive in enumerate(action.primitives):
            if index in targets:
                w(f"at_{index}:;")
            if index in loops:
                w(f"if (!sw_spend(s, {loops[index]})) {{\n    p->failed = SW_LOOP_LIMIT;\n    return;\n}}")
            Statement(layout, ExpressionCompiler(layout, position, primitive.source), primitive, w).write()
        if len(action.primitives) in targets:
            w(f"at_{len(action.primitives)}:;")


def jump_targets(action: Action) -> set[int]:
    """Positions that are the target of a jump."""
    return {
        arg.value
        for primitive in action.primitives
        if primitive.op in ("_jump", "_jump_if_zero")
        for arg in primitive.args[-1:]
        if isinstance(arg, Const)
    }


def may_exit(layout: ProgramLayout, action: Action) -> bool:
    """True if the action may end the pipeline."""
    ends = any(primitive.op in ("exit", "assert", "assume") for primitive in action.primitives)
    return ends or bool(layout.costs.loops(action))


class Statement:
    """Writes one primitive."""

    def __init__(self, layout: ProgramLayout, compiler: ExpressionCompiler, primitive: Primitive, w: Writer) -> None:
        self.layout = layout
        self.c = compiler
        self.primitive = primitive
        self.args = primitive.args
        self.w = w

    def write(self) -> None:
        """The statements of the primitive."""
        op = self.primitive.op
        if op in _NOTHING:
            return
        if op in ("assign", "modify_field"):
            self.assign(self.args[0], self.data(1))
        elif op in _ARITHMETIC:
            self.assign(self.args[0], Binary(_ARITHMETIC[op], self.data(1), self.data(2)))
        elif op in ("add_to_field", "subtract_from_field"):
            sign = "+" if op == "add_to_field" else "-"
            self.assign(self.args[0], Binary(sign, self.data(0), self.data(1)))
        else:
            getattr(self, "do_" + op.lstrip("_"))()

    # --- arguments ---

    def data(self, position: int) -> Expr:
        """A data argument."""
        arg = self.args[position]
        assert not isinstance(arg, HeaderArg | StackArg | UnionArg | ObjectArg | TextArg | ListArg)
        return arg

    def number(self, position: int) -> str:
        """A data argument as uint64_t, modulo 2**64."""
        return convert(self.c.masked(self.data(position), 64), modular_kind(64, self.layout), U64)

    def object(self, position: int) -> int:
        """A counter, meter, register or calculation."""
        arg = self.args[position]
        assert isinstance(arg, ObjectArg)
        return arg.index

    def header(self, position: int) -> HeaderExpr:
        """A header argument."""
        arg = self.args[position]
        assert isinstance(arg, HeaderArg)
        return arg.header

    def varbit(self, position: int) -> FieldRef:
        """A varbit field."""
        arg = self.args[position]
        assert isinstance(arg, FieldRef)
        return arg

    def stack(self, position: int) -> int:
        """A stack argument."""
        arg = self.args[position]
        assert isinstance(arg, StackArg)
        return arg.stack

    # --- assignment ---

    def assign(self, target: Arg, value: Expr) -> None:
        """Store a number, truncated to the target's width."""
        if isinstance(target, RegisterCell):
            self.store_register(target, value)
            return
        assert isinstance(target, FieldRef)
        width = self.layout.program.field(target).width
        self.store(self.c.place(target), width, self.c.masked(value, width))

    def store(self, place: str, width: int, code: str) -> None:
        """Store a value without bits above the width, in modular_kind(width)."""
        self.w(f"{place} = {code};" if width > 64 else f"{place} = ({storage(width)}){code};")

    def assign_u64(self, target: Arg, code: str) -> None:
        """Store a C uint64_t, truncated to the target's width."""
        assert isinstance(target, FieldRef)
        width = self.layout.program.field(target).width
        kind = modular_kind(width, self.layout)
        value = convert(f"({code})", U64, kind)
        if width < 64:
            value = f"({value} & {(1 << width) - 1:#x}u)"
        self.store(self.c.place(target), width, value)

    def store_register(self, cell: RegisterCell, value: Expr) -> None:
        """register[index] = value; does nothing if the index is out of range."""
        condition, place = self.c.register_place(cell)
        width = self.layout.program.registers[cell.register].width
        code = self.c.masked(value, width)
        cast = f"({storage(width)})" if width <= 64 else ""
        self.w(f"if ({condition})\n    {place} = {cast}{code};")

    def do_assign_VL(self) -> None:  # noqa: N802 - BMv2's name
        """Copy a varbit field, with its length."""
        to, source = self.varbit(0), self.varbit(1)
        program = self.layout.program
        if program.field(to).max_bytes != program.field(source).max_bytes:
            raise self.c.intervals.unsupported("assignment between varbit fields of different size")
        self.w(f"{self.c.place(to)} = {self.c.place(source)};")

    # --- headers ---

    def do_add_header(self) -> None:
        """setValid; the fields become 0 if the header was invalid."""
        header = self.header(0)
        if self.c.is_metadata(header):
            return
        place = self.c.header(header)
        kind = self.layout.program.type_of(header)
        name = self.layout.types[self.layout.type_index(header)]
        with self.w.block(f"if (!{place}.valid)"):
            self.w(f"struct {name} *t = &{place};")
            self.w("memset(t, 0, sizeof *t);\nt->valid = 1;")
            self.w(f"p->length += {kind.width // 8};")
            self.c.invalidate_others(header, self.w)

    def do_add_header_fast(self) -> None:
        """setValid; the fields keep their values."""
        if not self.c.is_metadata(self.header(0)):
            self.w(f"{self.c.header(self.header(0))}.valid = 1;")
            self.c.invalidate_others(self.header(0), self.w)

    def do_remove_header(self) -> None:
        """SetInvalid."""
        header = self.header(0)
        if self.c.is_metadata(header):
            return
        place = self.c.header(header)
        with self.w.block(f"if ({place}.valid)"):
            self.w(f"{place}.valid = 0;")
            self.w(f"p->length -= {wire_bytes(self.layout, self.layout.type_index(header), place)};")

    def do_assign_header(self) -> None:
        """Copy the validity, and the fields if the source is valid."""
        self._copy_header(self.header(0), self.header(1))

    do_copy_header = do_assign_header

    def do_assign_union(self) -> None:
        """Copy all members of a union."""
        to, source = self.args
        assert isinstance(to, UnionArg)
        assert isinstance(source, UnionArg)
        if len(to.headers) != len(source.headers):
            raise self.c.intervals.unsupported("assignment between header unions of different type")
        for left, right in zip(to.headers, source.headers, strict=True):
            self._copy_header(left, right)

    def _copy_header(self, left: HeaderExpr, right: HeaderExpr) -> None:
        to, source = self.c.header(left), self.c.header(right)
        if to == source:
            return
        if self.layout.type_index(left) != self.layout.type_index(right):
            self._assign_fields(left, right)
            return
        name = self.layout.types[self.layout.type_index(left)]
        with self.w.block(""):
            self.w(f"struct {name} *to = &{to};\nconst struct {name} *from = &{source};")
            if self.c.is_metadata(right):
                self.w("*to = *from;\nto->valid = 1;")
                self.c.invalidate_others(left, self.w)
                return
            with self.w.block("if (from->valid)"):
                self.w("*to = *from;")
                self.c.invalidate_others(left, self.w)
            self.w("else\n    to->valid = 0;")

    def _assign_fields(self, left: HeaderExpr, right: HeaderExpr) -> None:
        """Copy between header types with fields of equal width."""
        mine, theirs = self.layout.program.type_of(left), self.layout.program.type_of(right)
        if [(f.width, f.max_bytes) for f in mine.fields] != [(f.width, f.max_bytes) for f in theirs.fields]:
            raise self.c.intervals.unsupported("assignment between headers of different layout")
        with self.w.block(f"if ({self.c.valid(right)})"):
            for position in range(len(mine.fields)):
                self.w(f"{self.c.place(FieldRef(left, position))} = {self.c.place(FieldRef(right, position))};")
            self.w(f"{self.c.header(left)}.valid = 1;")
            self.c.invalidate_others(left, self.w)
        self.w(f"else {{\n    {self.c.header(left)}.valid = 0;\n}}")

    def do_assign_header_stack(self) -> None:
        """Copy all elements and the count."""
        stacks, names = self.layout.program.stacks, self.layout.stacks
        left, right = self._stacks(self.stack(0)), self._stacks(self.stack(1))
        if left == right:
            return
        shapes = [[(stacks[item].type, len(stacks[item].headers)) for item in side] for side in (left, right)]
        if shapes[0] != shapes[1]:
            raise self.c.intervals.unsupported("assignment between header stacks of different type")
        for to, source in zip(left, right, strict=True):
            self.w(f"memcpy(h->{names[to]}, h->{names[source]}, sizeof h->{names[to]});")
        self.w(f"h->{self.layout.count(left[0])} = h->{self.layout.count(right[0])};")

    do_assign_union_stack = do_assign_header_stack

    def _stacks(self, stack: int) -> tuple[int, ...]:
        """The stacks that a stack consists of: several for unions."""
        return self.layout.program.stacks[stack].members or (stack,)

    def do_push(self) -> None:
        """push_front (P4-16): the stack moves up, the new elements are invalid."""
        self._move_stack("push")

    def do_pop(self) -> None:
        """pop_front (P4-16): the stack moves down, the freed elements are invalid."""
        self._move_stack("pop")

    def _move_stack(self, op: str) -> None:
        stack = self.stack(0)
        count, depth = f"h->{self.layout.count(stack)}", len(self.layout.program.stacks[stack].headers)
        with self.w.block(""):
            self.w(f"uint64_t n = {self.c.index(self.data(1))}, depth = {depth};")
            self.w("n = n < depth ? n : depth;")
            for name in (self.layout.stacks[item] for item in self._stacks(stack)):
                size = f"sizeof h->{name}[0]"
                if op == "push":
                    self.w(f"memmove(&h->{name}[n], &h->{name}[0], (depth - n) * {size});")
                    self.w(f"memset(&h->{name}[0], 0, n * {size});")
                else:
                    self.w(f"memmove(&h->{name}[0], &h->{name}[n], (depth - n) * {size});")
                    self.w(f"memset(&h->{name}[depth - n], 0, n * {size});")
            if op == "push":
                self.w(f"{count} = (uint16_t)({count} + n < depth ? {count} + n : depth);")
            else:
                self.w(f"{count} = (uint16_t)({count} > n ? {count} - n : 0);")

    # --- drop, clone, resubmit, recirculate ---

    def do_mark_to_drop(self) -> None:
        """egress_spec = 511, no multicast."""
        header = self.header(0)
        fields = self.layout.program.type_of(header).fields
        for position, field in enumerate(fields):
            if field.name == "egress_spec":
                self.w(f"{self.c.place(FieldRef(header, position))} = {511 & ((1 << field.width) - 1)};")
            elif field.name == "mcast_grp":
                self.w(f"{self.c.place(FieldRef(header, position))} = 0;")

    def do_drop(self) -> None:
        """mark_to_drop, in its old form."""
        for name, value in (("standard_metadata.egress_spec", 511), ("intrinsic_metadata.mcast_grp", 0)):
            ref = self.layout.program.intrinsic.get(name)
            if ref is not None:
                self.w(f"{self.c.place(ref)} = {value};")

    def do_exit(self) -> None:
        """End the pipeline after this action."""
        self.w("p->exited = 1;")

    def do_truncate(self) -> None:
        """Limit the packet's length; the smallest limit wins."""
        with self.w.block(""):
            self.w(f"uint64_t n = {self.c.index(self.data(0))};")
            self.w("if (n < p->truncate_to)\n    p->truncate_to = (uint32_t)n;")

    def do_clone_ingress_pkt_to_egress(self) -> None:
        """Record session and field list; the copy is made after the pipeline."""
        self.w(f"p->clone = 1;\np->clone_session = (uint32_t)({self.number(0)} & 0x7fff);")
        self.w(f"p->clone_list = (uint32_t){self.number(1)};")

    do_clone_egress_pkt_to_egress = do_clone_ingress_pkt_to_egress

    def do_resubmit(self) -> None:
        """Record the field list."""
        self.w(f"p->resubmit_list = (uint32_t){self.number(0)};\np->resubmit = p->resubmit_list != 0;")

    def do_recirculate(self) -> None:
        """Record the field list."""
        self.w(f"p->recirc_list = (uint32_t){self.number(0)};\np->recirc = p->recirc_list != 0;")

    def do_generate_digest(self) -> None:
        """Record the list; the digest is sent after ingress."""
        self.w(f"p->digest_list = (uint32_t){self.number(1)};")

    # --- state ---

    def do_count(self) -> None:
        """Count the packet in a cell."""
        counter = self.object(0)
        size = self.layout.program.counters[counter].size
        self.w(f"sw_count(s->counters[{counter}], {size}, {self.c.index(self.data(1))}, p);")

    def do_execute_meter(self) -> None:
        """Meter the packet and store its color; does nothing if the index is out of range."""
        meter = self.object(0)
        info = self.layout.program.meters[meter]
        amount = "1" if info.packets else "p->ingress_len"
        with self.w.block(""):
            self.w(f"uint64_t i = {self.c.index(self.data(1))};")
            with self.w.block(f"if (i < {info.size})"):
                self.assign_u64(
                    self.args[2], f"sw_meter_run(&s->meters[{meter}][i], s->now_us, {amount}, p->ingress_len)"
                )

    def do_register_read(self) -> None:
        """Read a cell; the field is unchanged if the index is out of range."""
        cell = RegisterCell(self.object(1), self.data(2))
        condition, _ = self.c.register_place(cell)
        with self.w.block(f"if ({condition})"):
            self.assign(self.args[0], cell)

    def do_register_write(self) -> None:
        """register[index] = value."""
        self.store_register(RegisterCell(self.object(0), self.data(1)), self.data(2))

    def do_modify_field_rng_uniform(self) -> None:
        """A random number between two inclusive bounds."""
        with self.w.block(""):
            self.w(f"uint64_t low = {self.number(1)}, high = {self.number(2)};")
            with self.w.block("if (low <= high)"):
                self.assign_u64(self.args[0], "sw_random_between(s, low, high)")

    def do_modify_field_with_hash_based_offset(self) -> None:
        """A hash in a range: base + hash % size."""
        with self.w.block(""):
            self.w(f"uint64_t base = {self.number(1)}, size = {self.number(3)};")
            inputs = self.layout.program.calculations[self.object(2)].inputs
            call = f"calc_{self.object(2)}(s, p, h{self.layout.variables_argument(inputs)})"
            code = f"{call} % (size ? size : 1) + base"
            self.assign_u64(self.args[0], code)

    # --- jumps and messages ---

    def do_jump(self) -> None:
        """Jump to another primitive."""
        arg = self.args[0]
        assert isinstance(arg, Const)
        self.w(f"goto at_{arg.value};")

    def do_jump_if_zero(self) -> None:
        """Jump to another primitive if a number is 0."""
        arg = self.args[1]
        assert isinstance(arg, Const)
        condition = self.c.boolean(Binary("==", self.data(0), Const(0)))
        self.w(f"if ({condition})\n    goto at_{arg.value};")

    def do_assert(self) -> None:
        """Drop and count the packet if the number is 0 (BMv2 aborts)."""
        condition = self.c.boolean(Binary("==", self.data(0), Const(0)))
        source = self.primitive.source
        text = f"{self.primitive.op} failed: {source.fragment} ({source.file}:{source.line})"
        with self.w.block(f"if ({condition})"):
            self.w(f"sw_assertion_failed(s, p, s->texts[{self.layout.text(text)}]);\nreturn;")

    do_assume = do_assert

    def do_log_msg(self) -> None:
        """A message with numbers."""
        text, values = self.args[0], self.args[1]
        assert isinstance(text, TextArg)
        assert isinstance(values, ListArg)
        items = []
        for value in values.items:
            code, kind = self.c.exact(value)
            items.append(f"(i128){kind.prefix}_to128({code})" if kind.wide else f"(i128){code}")
        with self.w.block("if (s->logging)"):
            self.w(f"const i128 v[] = {{{', '.join([*items, '0'])}}};")
            self.w(f"sw_log_msg(s, s->texts[{self.layout.text(text.text)}], {len(items)}, v);")
