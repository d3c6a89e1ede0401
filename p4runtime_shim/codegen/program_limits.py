"""Limits of a program, so that a packet fits on the stack and in the engine's integers, and is processed in time.

The loader has checked the limits that show in the JSON; here are those that depend on the generated code.
"""

from __future__ import annotations

from collections.abc import Iterable

from p4runtime_shim import limits
from p4runtime_shim.codegen.c_integers import limbs
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.program.model.expressions import FieldRef, HeaderRef, ValidBit
from p4runtime_shim.program.model.externs import Bits, CalcInput, FieldList
from p4runtime_shim.program.model.program import Program

_U32 = 1 << 32


def check(program: Program) -> None:
    """Raise Unsupported if the program exceeds a limit of the engine."""
    for stack in program.stacks:
        _at_most(limits.MAX_STACK_ELEMENTS, len(stack.headers), "elements of a header stack")
    for calculation in program.calculations:
        _at_most(limits.MAX_HASH_BYTES, input_bytes(program, calculation.inputs), "bytes of input of a hash")
    for profile in program.profiles:
        _at_most(limits.MAX_HASH_BYTES, input_bytes(program, profile.inputs), "bytes of input of a selector")
    for table in program.tables:
        _at_most(limits.MAX_KEY_WORDS, sum(limbs(key.width) for key in table.keys), "words of 64 bits in a key")
        _in_range(table.size, "size of a table")
    for value_set in program.parser.value_sets:
        words = sum(map(limbs, value_set.widths or ()))
        _at_most(limits.MAX_KEY_WORDS, words, "words of 64 bits in a parser value set")
    for item in (*program.field_lists, *program.digests):
        _in_range(item.id, "id of a field list")
    for code in program.errors.values():
        _in_range(code, "number of an error")


def check_steps(steps: int) -> None:
    """Raise Unsupported if a single pass without loops costs too much."""
    _at_most(limits.MAX_STEPS, steps, "steps for one packet")


def input_bytes(program: Program, inputs: Iterable[CalcInput]) -> int:
    """Bytes of a calculation's inputs, excluding the payload."""
    bits = 0
    for item in inputs:
        if isinstance(item, FieldRef):
            bits += program.field(item).width + 8 * program.field(item).max_bytes
        elif isinstance(item, ValidBit):
            bits += 1
        elif isinstance(item, Bits):
            bits += item.width
        elif isinstance(item, HeaderRef):
            bits += program.type_of(item).max_width
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
