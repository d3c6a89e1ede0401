"""Generates header structs, and the code that extracts them from and emits them to the wire.

Fields are read and written in groups that start and end on byte boundaries, with the largest loads and stores that stay
within the header. A group of at most 128 bits is one number that is shifted and masked; a larger one (wide fields, long
runs of odd widths) uses the bit-string functions.
"""

from __future__ import annotations

from p4runtime_shim.codegen.c_integers import U64, U128, limbs, literal, storage
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.program.model.headers import Field, HeaderType


def structs(layout: ProgramLayout, w: Writer) -> None:
    """The structs of all header types, of a packet's headers and metadata (`struct phv`), of a pipeline's variables."""
    program = layout.program
    for most in sorted({field.max_bytes for kind in program.types for field in kind.fields} - {0}):
        w(f"struct varbit_{most} {{\n    uint32_t n;\n    uint8_t b[{most}];\n}};")
    for position, kind in enumerate(program.types):
        with w.block(f"struct {layout.types[position]}", "};"):
            for number, (field, name) in enumerate(zip(kind.fields, layout.fields[position], strict=True)):
                if field.max_bytes:
                    w(f"struct varbit_{field.max_bytes} {name};")
                elif layout.in_packets(position, number):
                    w(f"{storage(field.width)} {name}; /* {field.width} bits */")
            w("uint8_t valid;")
    with w.block("struct phv", "};"):
        for header, name in zip(program.headers, layout.headers, strict=True):
            if header.stack is None:
                w(f"struct {layout.types[header.type]} {name};")
        for stack, name in zip(program.stacks, layout.stacks, strict=True):
            w(f"struct {layout.types[stack.type]} {name}[{len(stack.headers)}], x_{name};")
        for count in dict.fromkeys(map(layout.count, range(len(program.stacks)))):
            w(f"uint16_t {count};")
        w("uint8_t end;")
    for part in (program.ingress, program.egress):
        with w.block(f"struct {part.name}_variables", "};"):
            for (at, number), pipeline in layout.variables.items():
                if pipeline == part.name:
                    width = program.types[program.headers[at].type].fields[number].width
                    w(f"{storage(width)} {layout.variable(at, number)}; /* {width} bits */")
            w("uint8_t end;")
    for stack, name in zip(program.stacks, layout.stacks, strict=True):
        kind_name = layout.types[stack.type]
        w("/* An element by run-time index; out of range gives an invalid header outside the stack. */")
        with w.block(f"SW_INLINE struct {kind_name} *at_{name}(struct phv *h, uint64_t i)"):
            w(f"if (i < {len(stack.headers)})\n    return &h->{name}[i];")
            w(f"memset(&h->x_{name}, 0, sizeof h->x_{name});\nreturn &h->x_{name};")


def groups(kind: HeaderType) -> list[list[int]]:
    """Positions of fields in the shortest runs that start and end on byte boundaries."""
    result: list[list[int]] = []
    run: list[int] = []
    for position, field in enumerate(kind.fields):
        run.append(position)
        if (field.offset + field.width) % 8 == 0:
            result.append(run)
            run = []
    return result


def _merge(kind: HeaderType, runs: list[list[int]]) -> list[list[int]]:
    """Merge neighbouring runs of at most 8 bytes in total into one load."""
    merged: list[list[int]] = []
    for run in runs:
        if merged:
            both = merged[-1] + run
            fixed = all(kind.fields[position].width for position in both)
            if fixed and len(both) > len(run) and len(merged[-1]) + len(run) > 2 and _span(kind, both) <= 64:
                merged[-1] = both
                continue
        merged.append(run)
    return merged


def _span(kind: HeaderType, run: list[int]) -> int:
    return sum(kind.fields[position].width for position in run)


def extract(layout: ProgramLayout, position: int, w: Writer) -> None:
    """`extract_<type>(t, d)`: read the fields from the bytes at d, and set valid.

    With a varbit field it is `extract_<type>(t, d, n)`; behind the field, d is n bytes further.
    """
    kind, name = layout.program.types[position], layout.types[position]
    length = "" if kind.varbit is None else ", uint32_t n"
    with w.block(f"SW_INLINE void extract_{name}(struct {name} *t, const uint8_t *d{length})"):
        w("(void)d;")
        for run in _merge(kind, groups(kind)):
            start, bits = kind.fields[run[0]].offset // 8, _span(kind, run)
            if kind.varbit in run and len(run) == 1:
                place = f"t->{layout.fields[position][run[0]]}"
                w(f"memcpy({place}.b, d + {start}, n);\n{place}.n = n;\nd += n;")
            elif bits <= 128 and kind.varbit not in run:
                _extract_group(layout, position, run, start, bits, w)
            else:
                for item in run:
                    _extract_bits(layout, position, kind.fields[item], layout.fields[position][item], w)
        w("t->valid = 1;")


def _extract_group(layout: ProgramLayout, position: int, run: list[int], start: int, bits: int, w: Writer) -> None:
    kind = layout.program.types[position]
    load = f"ldn(d + {start}, {bits // 8})" if bits <= 64 else f"ldn128(d + {start}, {bits // 8})"
    if len(run) == 1:
        field, name = kind.fields[run[0]], layout.fields[position][run[0]]
        w(f"t->{name} = ({storage(field.width)}){load};")
        return
    own = U64 if bits <= 64 else U128
    with w.block(""):
        w(f"{own.name} v = {load};")
        rest = bits
        for item in run:
            field, name = kind.fields[item], layout.fields[position][item]
            rest -= field.width
            value = f"(v >> {rest})" if rest else "v"
            w(f"t->{name} = ({storage(field.width)})({value} & {literal((1 << field.width) - 1, own)});")


def _extract_bits(layout: ProgramLayout, position: int, field: Field, name: str, w: Writer) -> None:
    if field.max_bytes:
        w(f"t->{name}.n = n;")
        with w.block("for (uint32_t i = 0; i < n; i++)"):
            w(f"uint64_t v[1];\nbits_load(v, 1, d, {field.offset} + 8 * (size_t)i, 8);")
            w(f"t->{name}.b[i] = (uint8_t)v[0];")
        w("d += n;")
    elif field.width > 128:
        w(f"bits_load(t->{name}.w, {limbs(field.width)}, d, {field.offset}, {field.width});")
    else:
        with w.block(""):
            w("uint64_t v[2];")
            w(f"bits_load(v, 2, d, {field.offset}, {field.width});")
            w(f"t->{name} = ({storage(field.width)})U128(v[1], v[0]);")


def emit(layout: ProgramLayout, position: int, w: Writer) -> None:
    """`emit_<type>(t, d)`: write the fields to the bytes at d."""
    kind, name = layout.program.types[position], layout.types[position]
    with w.block(f"SW_INLINE void emit_{name}(const struct {name} *t, uint8_t *d)"):
        w("(void)t;\n(void)d;")
        for run in _merge(kind, groups(kind)):
            start, bits = kind.fields[run[0]].offset // 8, _span(kind, run)
            if kind.varbit in run and len(run) == 1:
                place = f"t->{layout.fields[position][run[0]]}"
                w(f"memcpy(d + {start}, {place}.b, {place}.n);\nd += {place}.n;")
            elif bits <= 128 and kind.varbit not in run:
                own = U64 if bits <= 64 else U128
                parts = []
                rest = bits
                for item in run:
                    rest -= kind.fields[item].width
                    part = f"({own.name})t->{layout.fields[position][item]}"
                    parts.append(f"{part} << {rest}" if rest else part)
                store = "stn" if bits <= 64 else "stn128"
                w(f"{store}(d + {start}, {bits // 8}, {' | '.join(parts)});")
            else:
                for item in run:
                    field = kind.fields[item]
                    if field.max_bytes:
                        place = f"t->{layout.fields[position][item]}"
                        w(f"{store_bytes('d', str(field.offset), place)}\nd += {place}.n;")
                        continue
                    w(store_bits("d", str(field.offset), field.width, f"t->{layout.fields[position][item]}"))


def store_bits(buffer: str, offset: str, width: int, place: str) -> str:
    """A statement that writes a stored value to a bit offset."""
    if width <= 64:
        return f"bits_store64({buffer}, {offset}, {width}, {place});"
    if width <= 128:
        return f"bits_store128({buffer}, {offset}, {width}, {place});"
    return f"bits_store({buffer}, {offset}, {width}, {place}.w);"


def store_bytes(buffer: str, offset: str, varbit: str) -> str:
    """A statement that writes a varbit field to a bit offset."""
    store = store_bits(buffer, f"{offset} + 8 * (size_t)i", 8, f"{varbit}.b[i]")
    return f"for (uint32_t i = 0; i < {varbit}.n; i++) {{\n    {store}\n}}"


def wire_bytes(layout: ProgramLayout, kind: int, place: str) -> str:
    """The bytes that a header of a type has on the wire; `place` is its C lvalue."""
    info = layout.program.types[kind]
    varbit = "" if info.varbit is None else f" + {place}.{layout.fields[kind][info.varbit]}.n"
    return f"{info.width // 8}{varbit}"
