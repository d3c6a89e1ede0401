"""Calculations: collect the bytes that a hash or checksum covers, and call the algorithm.

Inputs are concatenated bit by bit; fields of invalid headers are left out (BMv2, calculations). If all headers are
valid, and there is no varbit field, the offsets are constants and bytes are stored directly; otherwise a second version
computes offsets at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from p4runtime_shim.codegen.c_integers import literal, modular_kind
from p4runtime_shim.codegen.c_writer import Writer
from p4runtime_shim.codegen.expressions import ExpressionCompiler
from p4runtime_shim.codegen.headers import store_bits, store_bytes
from p4runtime_shim.codegen.layout import ProgramLayout
from p4runtime_shim.codegen.program_limits import input_bytes
from p4runtime_shim.program.model.expressions import FieldRef, HeaderRef, ValidBit
from p4runtime_shim.program.model.externs import Bits, CalcInput, Payload
from p4runtime_shim.program.model.program import Program

_ON_STACK = 1024  # bytes of input; larger inputs use the switch's scratch memory
_SLACK = 8  # zero bytes that may be written after the last bit


@dataclass(frozen=True, slots=True)
class InputPiece:
    """Part of the input: width, C lvalue, and the validity bit it depends on ("1": always valid)."""

    width: int
    place: str
    valid: str
    varbit: bool = False


def pieces(layout: ProgramLayout, inputs: Sequence[CalcInput]) -> list[InputPiece]:
    """The inputs, excluding the payload."""
    compiler = ExpressionCompiler(layout)
    result: list[InputPiece] = []
    for item in inputs:
        if isinstance(item, FieldRef):
            result.append(_field_piece(layout, compiler, item))
        elif isinstance(item, ValidBit):
            result.append(InputPiece(1, compiler.valid(item.header), compiler.valid(item.header)))
        elif isinstance(item, Bits):
            kind = modular_kind(item.width, layout)
            result.append(InputPiece(item.width, literal(item.value, kind), "1"))
        elif isinstance(item, HeaderRef):
            fields = range(len(layout.program.type_of(item).fields))
            result.extend(_field_piece(layout, compiler, FieldRef(item, position)) for position in fields)
    return result


def _field_piece(layout: ProgramLayout, compiler: ExpressionCompiler, ref: FieldRef) -> InputPiece:
    field = layout.program.field(ref)
    return InputPiece(field.width, compiler.place(ref), compiler.valid(ref.header), field.max_bytes > 0)


def function(layout: ProgramLayout, name: str, algorithm: str, inputs: Sequence[CalcInput], w: Writer) -> None:
    """`static uint64_t <name>(s, p, h)`."""
    parts = pieces(layout, inputs)
    payload = any(isinstance(item, Payload) for item in inputs)
    size = input_bytes(layout.program, inputs)
    head = f"static uint64_t {name}(struct sw *s, const struct sw_packet *p, const struct phv *h"
    with w.block(f"{head}{layout.variables_parameter(inputs)})"):
        w("(void)s;\n(void)p;\n(void)h;" + layout.variables_unused(inputs))
        if payload or size > _ON_STACK:
            w("uint8_t *b = s->scratch;")
            w(f"memset(b, 0, {size + _SLACK});")
        else:
            w(f"uint8_t b[{size + _SLACK}] = {{0}};")
        w("size_t n = 0; /* bits, then bytes */")
        guards = sorted({part.valid for part in parts} - {"1"})
        if any(part.varbit for part in parts):
            _floating(parts, w)
        elif guards:
            with w.block(f"if ({' && '.join(guards)})"):
                _fixed(parts, w)
            with w.block("else"):
                _floating(parts, w)
        else:
            _fixed(parts, w)
        w("n = (n + 7) / 8;")
        if payload:
            w("uint32_t rest = p->len < p->truncate_to ? p->len : p->truncate_to;")
            w("memcpy(b + n, p->data, rest);\nn += rest;")
        w(f"return {ALGORITHMS[algorithm]}(b, n);")


def read_payload(program: Program) -> bool:
    """Whether any calculation covers the payload."""
    return any(isinstance(part, Payload) for item in program.calculations for part in item.inputs)


def scratch(program: Program) -> int:
    """Size of the scratch memory in bytes, excluding the payload."""
    hashes = [input_bytes(program, item.inputs) for item in program.calculations]
    selectors = [input_bytes(program, item.inputs) for item in program.profiles]
    return max([*hashes, *selectors], default=0) + _SLACK


ALGORITHMS = {
    "crc16": "sw_crc16",
    "crc16_custom": "sw_crc16",  # BMv2's default parameters
    "crc32": "sw_crc32",
    "crc32_custom": "sw_crc32",
    "crcCCITT": "sw_crcCCITT",
    "csum16": "sw_csum16",
    "cksum16": "sw_csum16",
    "identity": "sw_identity",
    "xor16": "sw_xor16",
}


def _fixed(parts: list[InputPiece], w: Writer) -> None:
    offset = 0
    for part in parts:
        if offset % 8 == 0 and part.width % 8 == 0 and part.width <= 128:
            store = "stn" if part.width <= 64 else "stn128"
            w(f"{store}(b + {offset // 8}, {part.width // 8}, {part.place});")
        else:
            w(store_bits("b", str(offset), part.width, part.place))
        offset += part.width
    w(f"n = {offset};")


def _floating(parts: list[InputPiece], w: Writer) -> None:
    for part in parts:
        if part.varbit:
            store = f"{store_bytes('b', 'n', part.place)} n += 8 * (size_t){part.place}.n;"
            w(store if part.valid == "1" else f"if ({part.valid}) {{ {store} }}")
            continue
        store = f"{store_bits('b', 'n', part.width, part.place)} n += {part.width};"
        w(store if part.valid == "1" else f"if ({part.valid}) {{ {store} }}")
