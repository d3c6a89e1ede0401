"""Generates the translation unit: all parts in the order that C requires, and the exported `sw_program`."""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.codegen import actions, calculations, control_flow, headers, parser, program_limits
from p4runtime_shim.codegen.c_integers import U64, convert, limbs, modular_kind, storage, storage_bytes
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.expressions import ExpressionCompiler
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.expressions import FieldRef, ValidBit
from p4runtime_shim.program.model.externs import Checksum
from p4runtime_shim.program.model.program import Program


@dataclass(frozen=True, slots=True)
class Generated:
    """`code` is C without any text of the program; `texts` are the texts it prints, for sw_load()."""

    code: str
    texts: tuple[str, ...]


def generate(program: Program) -> Generated:
    """The C source of a program; raises Unsupported if an expression is unbounded, or the program too large."""
    program_limits.check(program)
    layout = ProgramLayout(program)
    program_limits.check_steps(layout.costs.pass_steps)
    body = Writer()
    headers.structs(layout, body)
    for position, kind in enumerate(program.types):
        if kind.width % 8 == 0 and all(layout.in_packets(position, field) for field in range(len(kind.fields))):
            headers.extract(layout, position, body)
            headers.emit(layout, position, body)
    for position, calculation in enumerate(program.calculations):
        calculations.function(layout, f"calc_{position}", calculation.algorithm, calculation.inputs, body)
    control_flow.selectors(layout, body)
    _checksums(layout, body)
    for position in range(len(program.actions)):
        actions.function(layout, position, body)
    parser.function(layout, body)
    _metadata(layout, body)
    control_flow.parameters(layout, body)
    control_flow.pipeline(layout, program.ingress, body)
    control_flow.pipeline(layout, program.egress, body)
    _verbs(layout, body)
    _deparser(layout, body)
    _descriptions(layout, body)
    top = Writer()
    top('#include "pipeline/pipeline.h"')
    top('#pragma GCC diagnostic ignored "-Wunused-function"')
    for count in sorted(layout.wide):
        top(f"SW_WIDE({count})")
    for small in sorted(layout.wide):
        for large in sorted(layout.wide):
            if small != large:
                name = f"extend_w{small}_w{large}"
                top(f"SW_INLINE w{large}_t {name}(w{small}_t a) {{ return w{large}_limbs(a.w, {small}, 0); }}")
                name = f"cast_w{small}_w{large}"
                top(
                    f"SW_INLINE w{large}_t {name}(w{small}_t a) "
                    f"{{ return w{large}_limbs(a.w, {small}, w{small}_negative(a)); }}"
                )
    return Generated(top.text() + body.text(), tuple(layout.texts))


def _checksums(layout: ProgramLayout, w: Writer) -> None:
    """verify_checksums and update_checksums."""
    program = layout.program
    signature = "(struct sw *s, struct sw_packet *p, struct phv *h)"
    with w.block(f"static uint8_t verify_checksums{signature}"):
        w("uint8_t bad = 0;\n(void)s;\n(void)p;\n(void)h;")
        for item in program.checksums:
            if item.verify:
                place = ExpressionCompiler(layout).place(item.target)
                valid = ExpressionCompiler(layout).valid(item.target.header)
                checked = f"{valid} && {_condition(layout, item)}"
                w(f"if ({checked} && calc_{item.calculation}(s, p, h) != {place})\n    bad = 1;")
        w("return bad;")
    with w.block(f"static void update_checksums{signature}"):
        w("(void)s;\n(void)p;\n(void)h;")
        for item in program.checksums:
            if item.update:
                width = program.field(item.target).width
                place = ExpressionCompiler(layout).place(item.target)
                mask = f" & {(1 << width) - 1:#x}u" if width < 64 else ""
                w(f"if ({_condition(layout, item)})")
                w(f"    {place} = ({storage(width)})(calc_{item.calculation}(s, p, h){mask});")


def _condition(layout: ProgramLayout, item: Checksum) -> str:
    return "1" if item.condition is None else ExpressionCompiler(layout).boolean(item.condition)


def _metadata(layout: ProgramLayout, w: Writer) -> None:
    """Functions for the engine's access to standard metadata."""
    program = layout.program

    def put(name: str, code: str) -> None:
        ref = program.intrinsic.get(name)
        if ref is not None:
            width = program.field(ref).width
            mask = f" & {(1 << width) - 1:#x}u" if width < 64 else ""
            w(f"{ExpressionCompiler(layout).place(ref)} = ({storage(width)})((uint64_t)({code}){mask});")

    def function(name: str, params: str, *values: tuple[str, str]) -> None:
        with w.block(f"static void {name}(void *phv, {params})"):
            w("struct phv *h = phv;")
            for target, code in values:
                put(target, code)
            for param in params.split(", "):
                w(f"(void){param.split()[-1]};")
            w("(void)h;")

    function(
        "set_arrival",
        "uint32_t port, uint32_t length, uint64_t now_us",
        ("standard_metadata.ingress_port", "port"),
        ("standard_metadata.packet_length", "length"),
        ("intrinsic_metadata.ingress_global_timestamp", "now_us"),
    )
    function("set_instance", "uint32_t instance", ("standard_metadata.instance_type", "instance"))
    function("set_length", "uint32_t length", ("standard_metadata.packet_length", "length"))
    function("set_ingress_port", "uint32_t port", ("standard_metadata.ingress_port", "port"))
    function(
        "set_enqueue",
        "uint64_t now_us, uint32_t depth",
        ("queueing_metadata.enq_timestamp", "now_us"),
        ("queueing_metadata.enq_qdepth", "depth"),
    )
    function("set_rid", "uint32_t rid", ("intrinsic_metadata.egress_rid", "rid"))
    with w.block("static uint32_t get_priority(const void *phv)"):
        w("const struct phv *h = phv;\n(void)h;")
        ref = program.intrinsic.get("intrinsic_metadata.priority")
        w(f"return {f'(uint32_t){ExpressionCompiler(layout).place(ref)}' if ref else '0'};")
    with w.block("static void reset_metadata(void *phv)"):
        w("struct phv *h = phv;\n(void)h;")
        for header, name in zip(program.headers, layout.headers, strict=True):
            if header.metadata:
                w(f"memset(&h->{name}, 0, sizeof h->{name});")
    with w.block("static void copy_list(void *to_phv, const void *from_phv, uint32_t list)"):
        w("struct phv *to = to_phv;\nconst struct phv *from = from_phv;\n(void)to;\n(void)from;")
        with w.block("switch (list)"):
            for item in {entry.id: entry for entry in program.field_lists}.values():
                w(f"case {item.id}:")
                for ref2 in item.fields:
                    if isinstance(ref2, FieldRef):
                        place = layout.field(ref2).removeprefix("h->")
                        w(f"    to->{place} = from->{place};")
                w("    break;")
            w("default:\n    break;")
    with w.block("static void read_digest(const void *phv, uint32_t list, uint64_t *v)"):
        w("const struct phv *h = phv;\n(void)h;\n(void)v;")
        with w.block("switch (list)"):
            for position, item in enumerate(program.digests):
                w(f"case {position}:")
                word = 0
                for ref2 in item.fields:
                    word = _digest_field(layout, ref2, word, w)
                w("    break;")
            w("default:\n    break;")


def _digest_field(layout: ProgramLayout, ref: FieldRef | ValidBit, word: int, w: Writer) -> int:
    if isinstance(ref, ValidBit):
        w(f"    v[{word}] = {ExpressionCompiler(layout).valid(ref.header)};")
        return word + 1
    width = layout.program.field(ref).width
    place = ExpressionCompiler(layout).place(ref)
    if width <= 64:
        w(f"    v[{word}] = {place};")
    elif width <= 128:
        w(f"    v[{word}] = (uint64_t){place};\n    v[{word + 1}] = (uint64_t)({place} >> 64);")
    else:
        w(f"    memcpy(v + {word}, {place}.w, sizeof {place}.w);")
    return word + limbs(width)


def _verbs(layout: ProgramLayout, w: Writer) -> None:
    """Ingress and egress: set the metadata of the stage, run the pipeline, read egress_spec."""
    program = layout.program

    def place(name: str) -> tuple[str, int] | None:
        ref = program.intrinsic.get(name)
        return (ExpressionCompiler(layout).place(ref), program.field(ref).width) if ref else None

    def put(name: str, code: str) -> None:
        found = place(name)
        if found:
            target, width = found
            mask = f" & {(1 << width) - 1:#x}u" if width < 64 else ""
            w(f"{target} = ({storage(width)})((uint64_t)({code}){mask});")

    def verdict() -> None:
        found = place("standard_metadata.egress_spec")
        assert found
        w(f"p->egress_spec = {_u32(found[0], found[1], layout)};")

    with w.block("static void ingress(struct sw *s, struct sw_packet *p)"):
        w("struct phv *h = p->phv;")
        put("standard_metadata.parser_error", "p->parser_error")
        put("standard_metadata.checksum_error", "p->checksum_error")
        w("run_ingress(s, p);")
        verdict()
        group = place("intrinsic_metadata.mcast_grp")
        w(f"p->mcast = {_u32(group[0], group[1], layout) if group else '0'};")
    with w.block("static void egress(struct sw *s, struct sw_packet *p, uint64_t enqueued_us, uint32_t depth)"):
        w("struct phv *h = p->phv;\n(void)enqueued_us;\n(void)depth;")
        put("intrinsic_metadata.egress_global_timestamp", "s->now_us")
        put("queueing_metadata.deq_timedelta", "s->now_us - enqueued_us")
        put("queueing_metadata.deq_qdepth", "depth")
        put("queueing_metadata.qid", "p->queue")
        put("standard_metadata.egress_port", "p->egress_port")
        put("standard_metadata.egress_spec", "SW_DROP_PORT + 1")
        put("standard_metadata.packet_length", "p->length")
        w("run_egress(s, p);")
        verdict()


def _u32(code: str, width: int, layout: ProgramLayout) -> str:
    return f"(uint32_t){convert(code, modular_kind(width, layout), U64)}"


def _deparser(layout: ProgramLayout, w: Writer) -> None:
    """headers_size and emit."""
    program = layout.program
    with w.block("static uint32_t headers_size(struct sw *s, struct sw_packet *p)"):
        w("struct phv *h = p->phv;\nupdate_checksums(s, p, h);\nuint32_t n = 0;")
        for header in program.deparser:
            size = headers.wire_bytes(layout, program.headers[header].type, f"h->{layout.headers[header]}")
            w(f"if ({_valid(layout, header)})\n    n += {size};")
        w("return n;")
    with w.block("static void emit(const void *phv, uint8_t *d)"):
        w("const struct phv *h = phv;\n(void)h;\n(void)d;")
        for header in program.deparser:
            kind = program.headers[header].type
            size = headers.wire_bytes(layout, kind, f"h->{layout.headers[header]}")
            with w.block(f"if ({_valid(layout, header)})"):
                w(f"emit_{layout.types[kind]}(&h->{layout.headers[header]}, d);\nd += {size};")


def _valid(layout: ProgramLayout, header: int) -> str:
    return "1" if layout.program.headers[header].metadata else f"h->{layout.headers[header]}.valid"


def _descriptions(layout: ProgramLayout, w: Writer) -> None:
    """The static tables and the exported struct."""
    program = layout.program
    control_flow.table_descriptions(layout, w)
    with w.block("static const struct sw_array_desc counter_desc[] =", "};"):
        for counter in program.counters:
            w(f"{{{counter.size}, 0}},")
        w("{0}")
    with w.block("static const struct sw_array_desc meter_desc[] =", "};"):
        for meter in program.meters:
            w(f"{{{meter.size}, {int(meter.packets)}}},")
        w("{0}")
    with w.block("static const struct sw_register_desc register_desc[] =", "};"):
        for register in program.registers:
            w(f"{{{register.size}, {storage_bytes(register.width)}}},")
        w("{0}")
    with w.block("static const struct sw_action_desc action_desc[] =", "};"):
        for position in range(len(program.actions)):
            w(f"{{{layout.param_words(position)[-1]}}},")
        w("{0}")
    with w.block("static const struct sw_digest_desc digest_desc[] =", "};"):
        for item in program.digests:
            w(f"{{{item.id}, {program_limits.digest_words(program, item)}}},")
        w("{0}")
    headroom = sum(program.types[program.headers[header].type].max_width // 8 for header in program.deparser)
    key_words = max([control_flow.TableShape.of(table).words for table in program.tables], default=0)
    with w.block("const struct sw_program sw_program =", "};"):
        w(f".abi = SW_ABI, .scratch = {calculations.scratch(program)}, .texts = {len(layout.texts)},")
        w(f".reads_payload = {int(calculations.read_payload(program))},")
        w(f".pass_steps = {layout.costs.pass_steps}, .phv_size = sizeof(struct phv), .headroom = {headroom},")
        w(f".tables = {len(program.tables) + len(program.parser.value_sets)}, .counters = {len(program.counters)},")
        w(f".registers = {len(program.registers)}, .meters = {len(program.meters)},")
        w(f".actions = {len(program.actions)}, .digests = {len(program.digests)}, .key_words = {key_words},")
        w(".table = table_desc, .counter = counter_desc, .meter = meter_desc, .reg = register_desc,")
        w(".action = action_desc, .digest = digest_desc,")
        for name in (
            "set_arrival",
            "set_instance",
            "set_length",
            "set_ingress_port",
            "set_enqueue",
            "set_rid",
            "get_priority",
            "reset_metadata",
            "copy_list",
            "read_digest",
            "parse",
            "ingress",
            "egress",
            "headers_size",
            "emit",
        ):
            w(f".{name} = {name},")
