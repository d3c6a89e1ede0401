"""What a program may be large in, so that a packet of it fits in memory, on the stack and in the engine's numbers.

Far above what P4 programs have; whoever pushes a program should not be able to make each packet cost a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterable

from p4runtime_shim.codegen.sizes import limbs, storage_bytes
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.program.model.expressions import FieldRef, HeaderRef, ValidBit
from p4runtime_shim.program.model.externs import Bits, CalcInput, FieldList
from p4runtime_shim.program.model.program import Program

MAX_HEADER_BYTES = 1 << 18  # of all headers and metadata of a packet in memory
MAX_EMITTED = 1 << 16  # bytes that the deparser may put in front of a payload
MAX_STACK = 1024  # elements
MAX_HASH_BYTES = 1 << 16  # of a calculation's inputs without the payload
MAX_DIGEST_WORDS = 4096  # of 64 bits
MAX_KEY_WORDS = 1024
MAX_WEIGHT = 1 << 20  # steps of a packet's way through the program (cost.py), if nothing is repeated
_U32 = 1 << 32


def check(program: Program) -> None:
    """Raise Unsupported when the program is larger than the engine takes."""
    types = [sum(storage_bytes(field.width) for field in kind.fields) + 1 for kind in program.types]
    _at_most(MAX_HEADER_BYTES, sum(types[header.type] for header in program.headers), "bytes of headers and metadata")
    emitted = sum(program.types[program.headers[header].type].width // 8 for header in program.deparser)
    _at_most(MAX_EMITTED, emitted, "bytes of headers to emit")
    _at_most(MAX_STACK, max((len(stack.headers) for stack in program.stacks), default=0), "elements of a header stack")
    for calculation in program.calculations:
        _at_most(MAX_HASH_BYTES, input_bytes(program, calculation.inputs), "bytes of input of a hash")
    for profile in program.profiles:
        _at_most(MAX_HASH_BYTES, input_bytes(program, profile.inputs), "bytes of input of a selector")
    for digest in program.digests:
        _at_most(MAX_DIGEST_WORDS, digest_words(program, digest), "words of 64 bits in a digest")
    for table in program.tables:
        _at_most(MAX_KEY_WORDS, sum(limbs(key.width) for key in table.keys), "words of 64 bits in a key")
        _in_range(table.size, "size of a table")
    for item in (*program.field_lists, *program.digests):
        _in_range(item.id, "id of a field list")
    for _, code in program.errors:
        _in_range(code, "number of an error")


def check_weight(weight: int) -> None:
    """Raise Unsupported when a packet costs too much even if nothing is repeated."""
    _at_most(MAX_WEIGHT, weight, "steps for one packet")


def input_bytes(program: Program, inputs: Iterable[CalcInput]) -> int:
    """Bytes of a calculation's inputs without the payload."""
    bits = 0
    for item in inputs:
        if isinstance(item, FieldRef):
            bits += program.field(item).width
        elif isinstance(item, ValidBit):
            bits += 1
        elif isinstance(item, Bits):
            bits += item.width
        elif isinstance(item, HeaderRef):
            bits += program.type_of(item).width
    return (bits + 7) // 8


def digest_words(program: Program, item: FieldList) -> int:
    """Words of a digest's values."""
    return sum(1 if isinstance(ref, ValidBit) else limbs(program.field(ref).width) for ref in item.fields)


def _at_most(limit: int, value: int, what: str) -> None:
    if value > limit:
        raise Unsupported(f"{value} {what} (at most {limit})")


def _in_range(value: int, what: str) -> None:
    if not 0 <= value < _U32:
        raise Unsupported(f"{what} of {value} (0 to {_U32 - 1})")
