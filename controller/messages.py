"""Values to protobuf messages and back, for both sides of the service.

A message (``proto/controller_v1.proto``) has the fields of its value (``controller.values``) under the same names, enum
members too, so one pair of functions does for all of them. None is the message's default, 0 or "". Only what is wrong
and where (:class:`topologies.faults.Fault`) is a kind's name and its parameters by name.
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
from mrc_common.declared.field_types import Boolean, FieldType, Integer, Quantity
from topologies.errors import FabricError
from topologies.faults import KINDS, BackendKind, Fault, kind_named

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
    """What is wrong and where; FabricError if a value is out of range or emulation has no such kind."""
    if BackendKind.EMULATION not in fault.kind.backends:
        raise FabricError(f"emulation cannot make the fault {fault.kind.name}: use simulation")
    fault.check()
    message = pb.FaultKind(kind=fault.kind.name)
    for parameter in fault.kind.parameters:
        value = getattr(fault, parameter.name)
        if value is not None:
            setattr(message.parameters[parameter.name], message_slot(parameter.type), value)
    return message


def message_slot(parameter_type: FieldType) -> str:
    """The field of a FaultParameter message that has values of a type."""
    if isinstance(parameter_type, Quantity):
        return "real" if parameter_type.unit.real else "whole"
    return "whole" if isinstance(parameter_type, Integer) else "flag" if isinstance(parameter_type, Boolean) else "text"


def unpack_kind(message: pb.FaultKind) -> Fault:
    """What is wrong and where; FabricError if the message does not say, or a value is out of range."""
    if not message.kind:
        raise FabricError(f"the request names no fault; this controller knows {', '.join(KINDS)}")
    given = {name: getattr(value, value.WhichOneof("value") or "text") for name, value in message.parameters.items()}
    return kind_named(message.kind).make({name: value for name, value in given.items() if value != ""})


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
            if not value:
                return None
        elif not message.HasField(name):
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
