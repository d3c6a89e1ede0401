"""Arguments and results of verbs as JSON, by the verb's declaration.

What a client sends is checked before the verb is carried out, in the order of the declaration: the type, then the rule
declared for it. Anything that was not declared is refused. Each error is one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mrc_host.errors import InvalidArgumentError, NotFoundError
from mrc_host.verbs.declaration import Descriptor, FieldsOf, Handle, IntegerRange, Length, Verb, VerbParameter
from mrc_host.verbs.remote.codec import CodecError, from_json, shown, to_json


class Holder(Protocol):
    """Knows which objects each client has."""

    def holds(self, handle: Handle, number: int) -> bool:
        """Whether the client (or, if the handle allows that, any client) has the object with this number."""


def encode(verb: Verb, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The JSON object that carries the arguments, without those at their default, and the descriptor to send along."""
    data: dict[str, Any] = {}
    fd = None
    for name, value in arguments.items():
        parameter = verb.parameters[name]
        if isinstance(parameter.rule, Descriptor):
            fd = value
        elif parameter.required or value != parameter.default:
            data[name] = to_json(value)
    return data, fd


def decode(verb: Verb, data: Mapping[str, Any], fds: Sequence[int], holder: Holder) -> dict[str, Any]:
    """The arguments of a request, which came with the descriptors `fds`; InvalidArgumentError, NotFoundError."""
    arguments: dict[str, Any] = {}
    for parameter in verb.parameters.values():
        name = parameter.name
        if isinstance(parameter.rule, Descriptor):
            if len(fds) == 1:
                arguments[name] = fds[0]
            elif parameter.required:
                raise InvalidArgumentError(f"{verb.name} needs exactly one descriptor.")
        elif name in data:
            arguments[name] = _decode(parameter, data[name], holder)
        elif parameter.required:
            raise InvalidArgumentError(f"{verb.name} needs {name!r}.")
        arguments.setdefault(name, parameter.default)
    for name in data:
        if name not in arguments or isinstance(verb.parameters[name].rule, Descriptor):
            raise InvalidArgumentError(f"{verb.name} takes no {shown(name)}.")
    return arguments


def decode_result(verb: Verb, data: Any) -> Any:
    """The result that an agent sent; CodecError."""
    return from_json(verb.result, data, verb.name)


def _decode(parameter: VerbParameter, data: Any, holder: Holder) -> Any:
    rule = parameter.rule
    if data is None and parameter.optional:
        return None
    if isinstance(rule, (IntegerRange, Handle)):
        return _number(parameter.name, rule, data, holder)
    try:
        if isinstance(rule, FieldsOf):
            fields: Any = from_json(rule.kind, data, parameter.name)
            return {name: getattr(fields, name) for name in data}
        value = from_json(parameter.kind, data, parameter.name)
    except CodecError as error:
        raise InvalidArgumentError(str(error)) from None
    if isinstance(rule, Length) and not rule.low <= len(value) <= rule.high:
        limits = f"{rule.low}" if rule.low == rule.high else f"{rule.low} to {rule.high}"
        raise InvalidArgumentError(f"{parameter.name} must have {limits} {rule.units}, not {len(value)}.")
    return value


def _number(name: str, rule: IntegerRange | Handle, data: Any, holder: Holder) -> int:
    whole = isinstance(data, int) and not isinstance(data, bool)
    if isinstance(rule, IntegerRange):
        if not whole or not rule.low <= data <= rule.high:
            raise InvalidArgumentError(f"{name} must be an integer from {rule.low} to {rule.high}, not {shown(data)}.")
    elif not whole or not holder.holds(rule, data):
        who = "There is" if rule.any_client else "This client has"
        raise NotFoundError(f"{who} no {rule.kind.value} {shown(data)}.")
    return int(data)
