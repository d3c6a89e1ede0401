"""Values to protobuf messages and back, for both sides of the service.

A message (``proto/controller_v1.proto``) has the fields of its value (``controller.values``) under the same names, enum
members too, so one pair of functions does for all of them. None is the message's default, 0 or "". Only what is wrong
and where (:class:`topologies.fault_kinds.Fault`) is a choice of messages, one for each kind.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar

from controller.errors import ControllerError
from controller.proto import controller_v1_pb2 as pb
from topologies.errors import FabricError
from topologies.fabric import Endpoint
from topologies.fault_kinds import KINDS, Fault, PortDown, kind_of

Message = TypeVar("Message")
Value = TypeVar("Value")


def pack(value: Any, message_type: type[Message]) -> Message:
    """The message of a value."""
    message: Any = message_type()
    for field in dataclasses.fields(value):
        _put(message, field.name, getattr(value, field.name))
    return typing.cast(Message, message)


def unpack(message: Any, value_type: type[Value]) -> Value:
    """The value of a message; ControllerError if it has something that this version does not know."""
    hints: dict[str, Any] = _hints(typing.cast(Any, value_type))
    return value_type(**{name: _get(message, name, hint) for name, hint in hints.items()})


def pack_kind(fault: Fault) -> pb.FaultKind:
    """What is wrong and where."""
    message = pb.FaultKind()
    name = kind_of(fault)
    part: Any = getattr(message, name, None)
    if part is None:
        raise FabricError(f"the emulated world cannot make the fault {name}: use the simulated world")
    part.SetInParent()
    if isinstance(fault, PortDown):
        part.node, part.port = fault.end.node, fault.end.port
        return message
    for field in dataclasses.fields(fault):  # type: ignore[arg-type]
        value = getattr(fault, field.name)
        if value is not None:
            _set(part, field.name, value, name)
    return message


def _set(part: Any, field: str, value: Any, kind: str) -> None:
    try:
        setattr(part, field, value)
    except (ValueError, TypeError):
        raise FabricError(f"{field} of {kind} is out of range: {value}") from None


def unpack_kind(message: pb.FaultKind) -> Fault:
    """What is wrong and where; FabricError if the message does not say."""
    name = message.WhichOneof("kind")
    if name is None:
        known = ", ".join(field.name for field in message.DESCRIPTOR.oneofs_by_name["kind"].fields)
        raise FabricError(f"the request names no fault; this controller knows {known}")
    part: Any = getattr(message, name)
    if name == "port_down":
        return PortDown(Endpoint(part.node, part.port))
    kind = KINDS[name]
    given = {field.name: getattr(part, field.name) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{field: value for field, value in given.items() if value != "" or field in ("link", "switch")})


def _put(message: Any, name: str, value: Any) -> None:
    if value is None:
        return
    field = getattr(message, name)
    if isinstance(value, Fault):
        field.CopyFrom(pack_kind(value))
    elif isinstance(value, enum.Enum):
        enum_type = message.DESCRIPTOR.fields_by_name[name].enum_type
        number = value.value if enum_type is None else enum_type.values_by_name[value.name].number
        setattr(message, name, number)
    elif isinstance(value, tuple):
        nested = message.DESCRIPTOR.fields_by_name[name].message_type
        field.extend([pack(item, nested._concrete_class) for item in value] if nested else value)
    elif dataclasses.is_dataclass(value):
        field.CopyFrom(pack(value, type(field)))
    else:
        setattr(message, name, value)


def _get(message: Any, name: str, hint: Any) -> Any:
    value = getattr(message, name)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
        if isinstance(value, int | str):
            return value or None
        if not message.HasField(name):
            return None
    if hint is Fault:
        return unpack_kind(value)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return tuple(unpack(part, typing.cast(Any, item)) if dataclasses.is_dataclass(item) else part for part in value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member(message, name, value, hint)
    return unpack(value, typing.cast(Any, hint)) if dataclasses.is_dataclass(hint) else value


def _member(message: Any, name: str, number: int, hint: type[enum.Enum]) -> enum.Enum:
    enum_type = message.DESCRIPTOR.fields_by_name[name].enum_type
    try:
        return hint(number) if enum_type is None else hint[enum_type.values_by_number[number].name]
    except (KeyError, ValueError):
        raise ControllerError(f"The controller is of another version: it says {name} {number}.") from None


@functools.cache
def _hints(value_type: Any) -> dict[str, Any]:
    return typing.get_type_hints(value_type)
