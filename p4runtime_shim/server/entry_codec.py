"""Match keys and action calls: P4Runtime messages to the switch's values and back.

P4Runtime spec, "Match Format" and "Action Specification". Don't-care fields are left out of the message. The other
rules (no bits outside the mask or prefix, low <= high, no explicit don't-care) allow one spelling per key, so that what
is read equals what was written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from finsy.proto import p4r

from mrc_common.p4_match import Exact, Lpm, Match, Optional, Range, Ternary
from p4runtime_shim.entities import ActionCall
from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.p4info import FieldInfo, Schema, TableInfo, ValueSetInfo
from p4runtime_shim.server.rpc_errors import invalid

# --- match keys


def decode_match(owner: TableInfo | ValueSetInfo, messages: Iterable[p4r.FieldMatch]) -> tuple[Match, ...]:
    """The key of an entry or member, in its owner's order; INVALID_ARGUMENT or OUT_OF_RANGE when it breaks a rule."""
    key: list[Match | None] = [None] * len(owner.fields)
    what = f"{'table' if isinstance(owner, TableInfo) else 'value set'} {owner.name}"
    for message in messages:
        item = owner.fields_by_id.get(message.field_id)
        if item is None:
            raise invalid(f"{what} has no match field {message.field_id}")
        if key[item.position] is not None:
            raise invalid(f"{what}: match field {item.name} is given twice")
        kind = message.WhichOneof("field_match_type")
        if kind != item.kind:
            raise invalid(f"{what}: match field {item.name} is {item.kind}, not {kind or 'unset'}")
        key[item.position] = _decode_field(item, message, f"{what}: {item.name}")
    return tuple(
        given if given is not None else _dont_care(item, what) for given, item in zip(key, owner.fields, strict=True)
    )


def encode_match(owner: TableInfo | ValueSetInfo, match: tuple[Match, ...]) -> list[p4r.FieldMatch]:
    """The messages for a key, don't-care fields left out."""
    return [
        message
        for item, value in zip(owner.fields, match, strict=True)
        if (message := _encode_field(item, value)) is not None
    ]


def _decode_field(item: FieldInfo, message: p4r.FieldMatch, what: str) -> Match:
    if item.kind == "exact":
        return Exact(bytestrings.decode(message.exact.value, item.width, what))
    if item.kind == "lpm":
        return _decode_lpm(item, message.lpm, what)
    if item.kind == "ternary":
        return _decode_ternary(item, message.ternary, what)
    if item.kind == "range":
        return _decode_range(item, message.range, what)
    return Optional(bytestrings.decode(message.optional.value, item.width, what))


def _decode_lpm(item: FieldInfo, message: p4r.FieldMatch.LPM, what: str) -> Lpm:
    value = bytestrings.decode(message.value, item.width, what)
    if not 0 < message.prefix_len <= item.width:
        raise invalid(f"{what}: prefix length {message.prefix_len} is not in 1..{item.width} (leave 0 out)")
    if value & ((1 << (item.width - message.prefix_len)) - 1):
        raise invalid(f"{what}: the value has bits set behind its prefix of {message.prefix_len} bits")
    return Lpm(value, message.prefix_len)


def _decode_ternary(item: FieldInfo, message: p4r.FieldMatch.Ternary, what: str) -> Ternary:
    value = bytestrings.decode(message.value, item.width, what)
    mask = bytestrings.decode(message.mask, item.width, f"{what} mask")
    if mask == 0:
        raise invalid(f"{what}: the mask is 0; leave a don't-care field out")
    if value & ~mask:
        raise invalid(f"{what}: the value has bits set outside its mask")
    return Ternary(value, mask)


def _decode_range(item: FieldInfo, message: p4r.FieldMatch.Range, what: str) -> Range:
    low = bytestrings.decode(message.low, item.width, f"{what} low")
    high = bytestrings.decode(message.high, item.width, f"{what} high")
    if low > high:
        raise invalid(f"{what}: low bound {low} is above high bound {high}")
    if low == 0 and high == (1 << item.width) - 1:
        raise invalid(f"{what}: the range covers every value; leave a don't-care field out")
    return Range(low, high)


def _dont_care(item: FieldInfo, what: str) -> Match:
    if item.kind == "lpm":
        return Lpm(0, 0)
    if item.kind == "ternary":
        return Ternary(0, 0)
    if item.kind == "range":
        return Range(0, (1 << item.width) - 1)
    if item.kind == "optional":
        return Optional(None)
    raise invalid(f"{what}: exact match field {item.name} is missing")


def _encode_field(item: FieldInfo, value: Match) -> p4r.FieldMatch | None:
    message = p4r.FieldMatch(field_id=item.id)
    if isinstance(value, Exact):
        message.exact.value = bytestrings.encode(value.value)
    elif isinstance(value, Lpm):
        if value.prefix_len == 0:
            return None
        message.lpm.value = bytestrings.encode(value.value)
        message.lpm.prefix_len = value.prefix_len
    elif isinstance(value, Ternary):
        if value.mask == 0:
            return None
        message.ternary.value = bytestrings.encode(value.value)
        message.ternary.mask = bytestrings.encode(value.mask)
    elif isinstance(value, Range):
        if value.low == 0 and value.high == (1 << item.width) - 1:
            return None
        message.range.low = bytestrings.encode(value.low)
        message.range.high = bytestrings.encode(value.high)
    else:
        if value.value is None:
            return None
        message.optional.value = bytestrings.encode(value.value)
    return message


# --- action calls


def decode_action(schema: Schema, message: p4r.Action, allowed: Collection[int], owner: str) -> ActionCall:
    """The call; INVALID_ARGUMENT when its id is not in `allowed` or its parameters are not those of P4Info."""
    action = schema.actions.get(message.action_id)
    if action is None:
        raise invalid(f"{owner}: no action has id {message.action_id} in the P4Info")
    if message.action_id not in allowed:
        raise invalid(f"{owner} does not have action {action.name}")
    args: list[int | None] = [None] * len(action.params)
    for given in message.params:
        param = action.params_by_id.get(given.param_id)
        if param is None:
            raise invalid(f"action {action.name} has no parameter {given.param_id}")
        if args[param.position] is not None:
            raise invalid(f"action {action.name}: parameter {param.name} is given twice")
        what = f"action {action.name}: {param.name}"
        args[param.position] = bytestrings.decode(given.value, param.width, what)
    values = tuple(value for value in args if value is not None)
    if len(values) != len(args):
        missing = action.params[args.index(None)].name
        raise invalid(f"action {action.name}: parameter {missing} is missing")
    return ActionCall(action.name, values)


def encode_action(schema: Schema, call: ActionCall) -> p4r.Action:
    """The message of a call that the switch holds."""
    action = schema.actions_by_name[call.name]
    message = p4r.Action(action_id=action.id)
    for param, value in zip(action.params, call.args, strict=True):
        message.params.add(param_id=param.id, value=bytestrings.encode(value))
    return message
