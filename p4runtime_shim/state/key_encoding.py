"""Encodes keys and action arguments as the engine's 64-bit words, after checking them against the program.

The layout of a key is `TableShape` (codegen/control_flow.py), shared with the generated lookups.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mrc_common.p4_match import Exact, Lpm, Match, Optional, Range, Ternary
from p4runtime_shim.codegen.c_integers import limbs
from p4runtime_shim.codegen.control_flow import TERNARY, TableShape
from p4runtime_shim.entities import ActionCall
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.actions import Action
from p4runtime_shim.program.model.control_flow import Table
from p4runtime_shim.program.model.parser import ValueSet

_EXPECTED = {
    "exact": (Exact,),
    "valid": (Exact,),
    "lpm": (Lpm,),
    "ternary": (Ternary, Optional),  # p4c writes optional keys as ternary
    "range": (Range,),
    "optional": (Optional,),
}


@dataclass(frozen=True, slots=True)
class EncodedKey:
    """Words as little-endian bytes; `prefix` is the prefix length of the lpm field, if there is one."""

    value: bytes
    mask: bytes
    high: bytes
    prefix: int


def check_match(table: Table, match: Sequence[Match]) -> None:
    """Raise InvalidArgument unless the match fits the table's keys and has no bits outside mask or prefix."""
    if len(match) != len(table.keys):
        raise InvalidArgument(f"table {table.name} has {len(table.keys)} key fields, the entry has {len(match)}")
    for key, field in zip(table.keys, match, strict=True):
        if not isinstance(field, _EXPECTED[key.kind]):
            raise InvalidArgument(
                f"key {key.name!r} of table {table.name} is {key.kind}, the entry has {type(field).__name__}"
            )
        problem = _problem(key.width, field)
        if problem:
            raise InvalidArgument(f"key {key.name!r} of table {table.name}: {problem}")


def _problem(width: int, field: Match) -> str | None:
    full = (1 << width) - 1
    if isinstance(field, Range):
        if not 0 <= field.low <= field.high <= full:
            return f"range {field.low}..{field.high} is empty or wider than {width} bits"
        return None
    if isinstance(field, Optional):
        if field.value is not None and not 0 <= field.value <= full:
            return f"value does not fit {width} bits"
        return None
    if not 0 <= field.value <= full:
        return f"value does not fit {width} bits"
    if isinstance(field, Lpm):
        if not 0 <= field.prefix_len <= width:
            return f"prefix length {field.prefix_len} is not in 0..{width}"
        if field.value & (full >> field.prefix_len):
            return "value has bits beyond the prefix"
    if isinstance(field, Ternary):
        if not 0 <= field.mask <= full:
            return f"mask does not fit {width} bits"
        if field.value & ~field.mask:
            return "value has bits outside the mask"
    return None


def encode_key(table: Table, shape: TableShape, match: Sequence[Match]) -> EncodedKey:
    """The words of a checked match."""
    values, masks, highs = [], [], []
    prefix = next((field.prefix_len for field in match if isinstance(field, Lpm)), 0)
    for key, field in zip(table.keys, match, strict=True):
        value, mask, high = _triple(key.width, field)
        if key.mask is not None:
            value, mask = value & key.mask, mask & key.mask
        size = 8 * limbs(key.width)
        values.append(value.to_bytes(size, "little"))
        if shape.kind == TERNARY:
            masks.append(mask.to_bytes(size, "little"))
            highs.append(high.to_bytes(size, "little"))
    return EncodedKey(b"".join(values), b"".join(masks), b"".join(highs), prefix)


def _triple(width: int, field: Match) -> tuple[int, int, int]:
    """(value, mask, high); the mask of a range has the leading bits that its bounds share."""
    full = (1 << width) - 1
    if isinstance(field, Exact):
        return field.value, full, field.value
    if isinstance(field, Lpm):
        return field.value, full ^ (full >> field.prefix_len), 0
    if isinstance(field, Ternary):
        return field.value, field.mask, 0
    if isinstance(field, Optional):
        return (0, 0, 0) if field.value is None else (field.value, full, 0)
    return field.low, full ^ ((1 << (field.low ^ field.high).bit_length()) - 1), field.high


def encode_member(value_set: ValueSet, member: Sequence[Match]) -> bytes:
    """The words of a value set's member: values, masks, upper ends. Raises InvalidArgument.

    A member's fields may be of any kind, so the engine compares all of them with mask and range: the range of a field
    that is not one goes from its value to the largest number under its mask.
    """
    widths = value_set.widths or ()
    if len(member) != len(widths):
        raise InvalidArgument(f"value set {value_set.name} has {len(widths)} fields, the member has {len(member)}")
    parts: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for number, (width, field) in enumerate(zip(widths, member, strict=True), 1):
        problem = _problem(width, field)
        if problem:
            raise InvalidArgument(f"field {number} of value set {value_set.name}: {problem}")
        value, mask, high = _triple(width, field)
        if not isinstance(field, Range):
            high = value | ((1 << width) - 1) ^ mask
        for part, number_of_part in zip(parts, (value, mask, high), strict=True):
            part.append(number_of_part.to_bytes(8 * limbs(width), "little"))
    return b"".join(map(b"".join, parts))


def encode_args(action: Action, args: Sequence[int]) -> bytes:
    """The words of an action's arguments; raises InvalidArgument if they do not fit."""
    if len(args) != len(action.params):
        raise InvalidArgument(f"action {action.name} takes {len(action.params)} arguments, not {len(args)}")
    parts = []
    for param, value in zip(action.params, args, strict=True):
        if not 0 <= value < 1 << param.width:
            raise InvalidArgument(f"argument {param.name!r} of action {action.name} does not fit {param.width} bits")
        parts.append(value.to_bytes(8 * limbs(param.width), "little"))
    return b"".join(parts)


def resolve_action(pipeline: Pipeline, call: ActionCall, allowed: Collection[int], where: str) -> tuple[int, bytes]:
    """The position of the named action among those allowed, and its arguments in words."""
    positions = pipeline.actions.get(call.name, ())
    found = next((position for position in positions if position in allowed), None)
    if found is None:
        if not positions:
            raise NotFound(f"the program has no action {call.name!r}")
        raise InvalidArgument(f"{where} does not have action {call.name!r}")
    return found, encode_args(pipeline.program.actions[found], call.args)
