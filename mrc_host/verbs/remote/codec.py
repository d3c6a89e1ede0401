"""Frozen dataclasses to JSON and back, with errors that say where in the document something is wrong.

The mapping follows the type hints, so new fields need nothing here: dataclasses and mappings are objects, tuples are
arrays, enums are their values, integers are numbers (or, on reading, strings such as "0x6001"). Bytes are written by
their length: 6 as a MAC address, 16 as an IPv6 address, others in hexadecimal. A field with a default may be absent;
an unknown key is an error.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Any, TypeVar, cast

from mrc_common.suggestions import did_you_mean
from mrc_host.errors import MrcError

T = TypeVar("T")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


class CodecError(MrcError):
    """A JSON document does not describe the expected value; the message says where and why."""


def to_json(value: Any) -> Any:
    """Plain JSON data for a value made of dataclasses, enums, tuples, mappings, bytes, numbers and text."""
    if isinstance(value, enum.Flag):
        return value.value
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (bytes, bytearray)):
        return format_bytes(bytes(value))
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[T], data: Any, where: str = "") -> T:
    """The value of type `kind` that `data` describes. `where` is the path to `data` in the document, for errors."""
    return cast("T", _decode(kind, data, where))


def format_bytes(value: bytes) -> str:
    """MAC address for 6 bytes, IPv6 address for 16, else hexadecimal."""
    if len(value) == 6:
        return value.hex(":")
    if len(value) == 16:
        return str(IPv6Address(value))
    return value.hex()


def parse_bytes(text: str) -> bytes:
    """Inverse of :func:`format_bytes`; raises ValueError."""
    if _MAC.fullmatch(text):  # an IPv6 address may have 17 characters and 5 colons too
        return bytes.fromhex(text.replace(":", ""))
    if ":" in text:
        try:
            return IPv6Address(text).packed
        except AddressValueError as error:
            raise ValueError(str(error)) from None
    return bytes.fromhex(text)


def shown(data: object) -> str:
    """A part of a document, shortened for an error message."""
    text = repr(data)
    return text if len(text) < 60 else text[:57] + "..."


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_optional(typing.get_args(kind), data, where)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        if not isinstance(data, list):
            raise _wrong(where, "a list", data)
        return tuple(_decode(item, element, f"{where}[{i}]") for i, element in enumerate(data))
    if origin is Mapping:
        return _decode_mapping(typing.get_args(kind), data, where)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _decode_enum(kind, data, where)
    if kind is bytes:
        return _decode_bytes(data, where)
    if kind is int:
        return _decode_int(data, where)
    if kind is bool and not isinstance(data, bool):
        raise _wrong(where, "true or false", data)
    if kind is Path and isinstance(data, str):
        return Path(data)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is Any:
        return data
    if isinstance(kind, type) and not isinstance(data, kind):
        raise _wrong(where, {"str": "a text", "float": "a number"}.get(kind.__name__, kind.__name__), data)
    return data


def _decode_optional(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and types.NoneType in kinds:
        return None
    (kind,) = (kind for kind in kinds if kind is not types.NoneType)
    return _decode(kind, data, where)


def _decode_mapping(kinds: tuple[Any, ...], data: Any, where: str) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    key, kind = kinds
    return {_decode(key, name, where): _decode(kind, value, f"{where}.{name}") for name, value in data.items()}


def _decode_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    hints = _hints(kind)
    for key in data:
        if key not in hints:
            hint = did_you_mean(key, hints, most=1, cutoff=0.6) or f"known are {', '.join(hints)}."
            raise CodecError(f"{_at(where)}: unknown key {shown(key)}; {hint}")
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            path = f"{where}.{field.name}" if where else field.name
            values[field.name] = _decode(hints[field.name], data[field.name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise CodecError(f"{_at(where)}: the key {field.name!r} is missing.")
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise CodecError(f"{_at(where)}: {error}") from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_enum(kind: type[enum.Enum], data: Any, where: str) -> enum.Enum:
    if issubclass(kind, enum.Flag):
        known = sum(member.value for member in kind)
        if isinstance(data, int) and data >= 0 and not data & ~known:
            return kind(data)
        raise CodecError(f"{_at(where)}: {shown(data)} is not a sum of flags out of {known}.")
    try:
        return kind(data)
    except ValueError:
        names = ", ".join(repr(member.value) for member in kind)
        raise CodecError(f"{_at(where)}: {shown(data)} is not one of {names}.") from None


def _decode_bytes(data: Any, where: str) -> bytes:
    if isinstance(data, str):
        try:
            return parse_bytes(data)
        except ValueError:
            pass
    raise _wrong(where, "a MAC address, an IPv6 address or hexadecimal", data)


def _decode_int(data: Any, where: str) -> int:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    if isinstance(data, str):
        try:
            return int(data, 0)
        except ValueError:
            pass
    raise _wrong(where, "an integer", data)


def _wrong(where: str, expected: str, data: Any) -> CodecError:
    return CodecError(f"{_at(where)}: expected {expected}, not {shown(data)}.")


def _at(where: str) -> str:
    return f"At {where}" if where else "At the top"
