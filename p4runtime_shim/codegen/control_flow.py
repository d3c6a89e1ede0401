"""Generates the C of ingress and egress: a label per node; tables build a key, look it up, count and run the action.

`TableShape` is the only place that knows the layout of key words (engine/pipeline/table.h), for this generator and for
the control plane, which encodes entries the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.codegen.actions import may_exit
from p4runtime_shim.codegen.c_integers import limbs, literal, modular_kind
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.calculations import function as calculation
from p4runtime_shim.codegen.expressions import ExpressionCompiler
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.control_flow import ControlFlow, NodeRef, Table
from p4runtime_shim.program.model.expressions import ValidBit

EXACT, TERNARY = 0, 1


@dataclass(frozen=True, slots=True)
class TableShape:
    """Layout of a table's key: `offsets` has the first word of each key field, out of `words`.

    `prioritized`: entries have a priority. Entries of an lpm table do not; their prefix length serves as priority.
    """

    kind: int
    prioritized: bool
    offsets: tuple[int, ...]
    words: int

    @staticmethod
    def of(table: Table) -> TableShape:
        """The shape that engine/pipeline/table.h expects."""
        kinds = [key.kind for key in table.keys]
        prioritized = table.kind in ("ternary", "range") or bool({"ternary", "range", "optional"} & set(kinds))
        kind = TERNARY if prioritized or "lpm" in kinds else EXACT
        offsets = []
        word = 0
        for key in table.keys:
            offsets.append(word)
            word += limbs(key.width)
        return TableShape(kind, prioritized, tuple(offsets), word)


def table_descriptions(layout: ProgramLayout, w: Writer) -> None:
    """The `sw_table_desc` array: tables, then value sets.

    All fields of a value set are ranges: state/key_encoding.py encodes every kind of match as one.
    """
    program = layout.program
    for position, item in enumerate(program.parser.value_sets):
        parts, word = [], 0
        for width in item.widths or ():
            parts.append(f"{{{word}, {limbs(width)}, {width}, 1, 0}}")
            word += limbs(width)
        w(f"static const struct sw_field_desc members_{position}[] = {{{', '.join(parts) or '{0}'}}};")
    for position, table in enumerate(program.tables):
        shape = TableShape.of(table)
        fields = ", ".join(
            f"{{{shape.offsets[i]}, {limbs(key.width)}, {key.width}, {int(key.kind == 'range')}, "
            f"{layout.text(key.name)}}}"
            for i, key in enumerate(table.keys)
        )
        w(f"static const struct sw_field_desc fields_{position}[] = {{{fields or '{0}'}}};")
    with w.block("static const struct sw_table_desc table_desc[] =", "};"):
        for position, table in enumerate(program.tables):
            shape = TableShape.of(table)
            ranges = sum(key.kind == "range" for key in table.keys)
            w(
                f"{{{shape.kind}, {shape.words}, {len(table.keys)}, "
                f"{table.size}, {ranges}, {int(table.meter is not None)}, fields_{position}}},"
            )
        for position, item in enumerate(program.parser.value_sets):
            widths = item.widths or ()
            words = sum(map(limbs, widths))
            w(f"{{{TERNARY}, {words}, {len(widths)}, 0, {len(widths)}, 0, members_{position}}},")
        w("{0}")


def store_key(layout: ProgramLayout, code: str, width: int, word: int, w: Writer) -> None:
    """Store one field of a key in `k`: words, the least significant first."""
    if width > 128:
        kind = modular_kind(width, layout)
        words = " ".join(f"k[{word + i}] = v.w[{i}];" for i in range(limbs(width)))
        w(f"{{ {kind.name} v = {code};\n{words} }}")
    elif width > 64:
        w(f"{{ u128 v = (u128){code};\nk[{word}] = (uint64_t)v;\nk[{word + 1}] = (uint64_t)(v >> 64); }}")
    else:
        w(f"k[{word}] = (uint64_t){code};")


def parameters(layout: ProgramLayout, w: Writer) -> None:
    """Names and widths of the action parameters, for the trace."""
    for position, action in enumerate(layout.program.actions):
        items = ", ".join(f"{{{layout.text(param.name)}, {param.width}}}" for param in action.params)
        w(f"static const struct sw_param params_{position}[] = {{{items or '{0}'}}};")


def selectors(layout: ProgramLayout, w: Writer) -> None:
    """A hash function for each action selector."""
    for position, profile in enumerate(layout.program.profiles):
        if profile.algorithm is not None:
            calculation(layout, f"select_{position}", profile.algorithm, profile.inputs, w)


def pipeline(layout: ProgramLayout, part: ControlFlow, w: Writer) -> None:
    """`static void run_<name>(s, p)`: the reachable nodes, in the order of their first reference."""
    with w.block(f"static void run_{part.name}(struct sw *s, struct sw_packet *p)"):
        w("struct phv *h = p->phv;\n(void)s;\n(void)h;")
        w(f"struct {part.name}_variables variables = {{0}}, *locals = &variables;\n(void)locals;")
        w(f"goto {_label(part.start)};")
        order = [part.start] if part.start else []
        for ref in order:  # grows while nodes refer to others
            w(f"{_label(ref)}:;")
            node = NodeWriter(layout, w)
            node.write(ref)
            order.extend(item for item in node.named if item not in order)
        w("done:;")


def _label(ref: NodeRef | None) -> str:
    return "done" if ref is None else f"{ref[0]}_{ref[1]}"


class NodeWriter:
    """Writes one node of a pipeline."""

    def __init__(self, layout: ProgramLayout, w: Writer) -> None:
        self.layout = layout
        self.program = layout.program
        self.w = w
        self.named: dict[NodeRef, None] = {}  # possible successors, in order

    def write(self, ref: NodeRef) -> None:
        """The node's code, which ends in a goto."""
        kind, position = ref
        if kind == "condition":
            node = self.program.conditions[position]
            condition = ExpressionCompiler(self.layout, source=node.source).boolean(node.expr)
            text = self.layout.text(" ".join((node.source.fragment or node.name).split())[:120])
            with self.w.block(f"if ({condition})"):
                self.w(f'SW_TRACE(s, p, "condition (%s) is true", s->texts[{text}]);\ngoto {self.to(node.yes)};')
            self.w(f'SW_TRACE(s, p, "condition (%s) is false", s->texts[{text}]);\ngoto {self.to(node.no)};')
        elif kind == "call":
            call = self.program.calls[position]
            self.run(call.action, "NULL")
            self.w(f"goto {self.to(call.next)};")
        else:
            self.table(position)

    def to(self, ref: NodeRef | None) -> str:
        """Label of the next node."""
        if ref is not None:
            self.named[ref] = None
        return _label(ref)

    def run(self, action: int, args: str) -> None:
        """Call an action, and leave the pipeline if it exits."""
        params = f"params_{action}, {len(self.program.actions[action].params)}, {args}"
        self.w("if (__builtin_expect(s->tracing, 0))")
        self.w(f"    sw_trace_action(s, p, s->texts[{self.layout.action_texts[action]}], {params});")
        variables = self.layout.variables_argument(self.program.actions[action])
        self.w(f"{self.layout.actions[action]}(s, p, h, {args}{variables});")
        if may_exit(self.layout, self.program.actions[action]):
            self.w("if (p->exited | p->failed)\n    goto done;")

    def table(self, position: int) -> None:
        """Apply a table."""
        table = self.program.tables[position]
        if not table.keys and table.default_const and table.default is not None and table.profile is None:
            self.constant_call(table)
            return
        with self.w.block(""):
            self.w(f"const struct sw_table *t = &s->tables[{position}];\nconst struct sw_call *call;")
            self.lookup(table)
            self.w("if (__builtin_expect(s->tracing, 0))")
            name = f"s->texts[{self.layout.table_texts[position]}]"
            no_key = f'sw_trace(s, p, "table %s: no key", {name});'
            trace = f"sw_trace_table(s, p, {name}, t, k, e);" if table.keys else no_key
            self.w(f"    {trace}")
            if table.keys:
                with self.w.block("if (e)"):
                    self.hit(table)
                with self.w.block("else"):
                    self.miss(table)
            else:
                self.miss(table)
            if not table.by_hit:
                self.dispatch(table, True)

    def constant_call(self, table: Table) -> None:
        """A table without keys and with a constant action is just a call."""
        assert table.default is not None
        words = []
        params = self.program.actions[table.default.action].params
        for value, param in zip(table.default.args, params, strict=True):
            words += [(value >> (64 * i)) & ((1 << 64) - 1) for i in range(limbs(param.width))]
        args = "NULL"
        with self.w.block(""):
            if words:
                self.w(f"static const uint64_t args[] = {{{', '.join(f'{word:#x}u' for word in words)}}};")
                args = "args"
            self.run(table.default.action, args)
        self.w(f"goto {self.to(self.after_miss(table, table.default.action))};")

    def lookup(self, table: Table) -> None:
        """`e` = the entry or NULL."""
        shape = TableShape.of(table)
        if not table.keys:
            return
        self.w(f"uint64_t k[{shape.words}];")
        compiler = ExpressionCompiler(self.layout, source=table.source)
        for key, word in zip(table.keys, shape.offsets, strict=True):
            source = key.source
            code = compiler.valid(source.header) if isinstance(source, ValidBit) else compiler.place(source)
            kind = modular_kind(key.width, self.layout)
            if key.mask is not None:
                masked = literal(key.mask, kind)
                code = f"{kind.prefix}_and({code}, {masked})" if kind.wide else f"({code} & {masked})"
            store_key(self.layout, code, key.width, word, self.w)
        name = {EXACT: "exact", TERNARY: "ternary"}[shape.kind]
        self.w(f"struct sw_entry *e = sw_find_{name}(t, k, {shape.words});")

    def hit(self, table: Table) -> None:
        """On a hit: direct counter and meter, time, the entry's action, its next node."""
        if table.counters:
            self.w("e->packets++;\ne->bytes += p->ingress_len;")
        if table.timeout:
            self.w("e->hit = s->now;")
        if table.meter is not None:
            self.meter(table.meter)
        if table.profile is None:
            self.w("call = e->call;")
        else:
            profile = self.program.profiles[table.profile]
            if profile.algorithm is not None:
                with self.w.block("if (e->group)"):
                    empty = self.to(table.next_hit if table.by_hit else table.base_next)
                    self.w(f"if (!e->group->count)\n    goto {empty};")
                    selected = f"select_{table.profile}(s, p, h{self.layout.variables_argument(profile.inputs)})"
                    self.w(f"call = e->group->slots[{selected} % e->group->count]->call;")
                with self.w.block("else"):
                    self.w("call = e->member->call;")
            else:
                self.w("call = e->member->call;")
        if table.by_hit:
            self.dispatch(table, True)

    def meter(self, meter: int) -> None:
        """Run the direct meter, which writes its color before the action runs."""
        info = self.program.meters[meter]
        assert info.result is not None
        place = ExpressionCompiler(self.layout).place(info.result)
        width = self.program.field(info.result).width
        amount = "1" if info.packets else "p->ingress_len"
        mask = f" & {(1 << width) - 1:#x}" if width < 2 else ""
        if width > 128:
            self.w(f"{place} = w{limbs(width)}_u64(sw_meter_run(e->meter, s->now_us, {amount}, p->ingress_len));")
        else:
            self.w(
                f"{place} = (__typeof__({place}))(sw_meter_run(e->meter, s->now_us, {amount}, p->ingress_len){mask});"
            )

    def miss(self, table: Table) -> None:
        """On a miss: the default action, if there is one."""
        end = self.to(table.next_miss if table.by_hit else table.base_next)
        self.w(f"call = t->default_action;\nif (!call)\n    goto {end};")
        if table.by_hit:
            self.dispatch(table, False)

    def after_miss(self, table: Table, action: int) -> NodeRef | None:
        """Next node after the default action."""
        return table.next_miss if table.by_hit else dict(table.next_by_action).get(action, table.base_next)

    def dispatch(self, table: Table, hit: bool) -> None:
        """Run `call` and go to the next node; `hit` matters only if the next node depends on it."""
        after = dict(table.next_by_action)
        with self.w.block("switch (call->action)"):
            actions = list(table.actions)
            if table.default is not None and table.default.action not in actions:
                actions.append(table.default.action)
            for action in dict.fromkeys(actions):
                self.w(f"case {action}:")
                self.w.depth += 1
                self.run(action, "call->args")
                if table.by_hit:
                    ref = table.next_hit if hit else table.next_miss
                else:
                    ref = after.get(action, table.base_next)
                self.w(f"goto {self.to(ref)};")
                self.w.depth -= 1
            self.w(f"default:\n    goto {self.to(table.base_next)};")
