"""Action calls: p4.v1.Action messages and the switch's values, both ways (P4Runtime spec, "Action Specification")."""

from __future__ import annotations

from collections.abc import Collection

from finsy.proto import p4r

from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.errors import invalid
from p4runtime_shim.server.p4info import Schema
from p4runtime_shim.values import ActionCall


def decode(schema: Schema, message: p4r.Action, allowed: Collection[int], owner: str) -> ActionCall:
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


def encode(schema: Schema, call: ActionCall) -> p4r.Action:
    """The message of a call that the switch holds."""
    action = schema.actions_by_name[call.name]
    message = p4r.Action(action_id=action.id)
    for param, value in zip(action.params, call.args, strict=True):
        message.params.add(param_id=param.id, value=bytestrings.encode(value))
    return message
