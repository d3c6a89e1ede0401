"""Typed access to untrusted JSON, with errors that name the location.

A `JsonNode` is a JSON object with a description of its location ("table MyIngress.t"). Every getter checks the type of
its result, so the loader stays simple and a broken file raises InvalidProgram instead of KeyError. The nearest
enclosing `source_info` is kept for Unsupported; p4c writes none for headers, parsers and extern instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from p4runtime_shim import limits
from p4runtime_shim.errors import InvalidProgram, Unsupported
from p4runtime_shim.program.model.actions import SourceInfo

T = TypeVar("T")


class JsonNode:
    """A JSON object and its location."""

    def __init__(self, data: Any, where: str, parent: JsonNode | None = None) -> None:
        if not isinstance(data, dict):
            raise InvalidProgram(f"BMv2 JSON: {where} should be an object")
        self.data: dict[str, Any] = data
        self.where = where
        self.source: SourceInfo = _source(data) or (parent.source if parent else _file(data))

    def fail(self, text: str) -> NoReturn:
        """Raise InvalidProgram about this node."""
        raise InvalidProgram(f"BMv2 JSON: {self.where}: {text}")

    def unsupported(self, construct: str) -> NoReturn:
        """Raise Unsupported about this node."""
        raise Unsupported(f"{construct} in {self.where}", self.source.file, self.source.line)

    def has(self, name: str) -> bool:
        """True if the member is present and not null."""
        return self.data.get(name) is not None

    def raw(self, name: str) -> Any:
        """The member, unchecked."""
        if name not in self.data:
            self.fail(f"member {name!r} is missing")
        return self.data[name]

    def text(self, name: str) -> str:
        """A string member."""
        value = self.raw(name)
        if not isinstance(value, str):
            self.fail(f"{name!r} should be a string")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer member."""
        if default is not None and name not in self.data:
            return default
        value = self.raw(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{name!r} should be an integer")
        return value

    def flag(self, name: str) -> bool:
        """A boolean member, false when missing."""
        value = self.data.get(name, False)
        if not isinstance(value, bool):
            self.fail(f"{name!r} should be true or false")
        return value

    def items(self, name: str) -> list[Any]:
        """An array member; missing, null and {} are empty as in BMv2, since p4c writes {} in log_msg("text")."""
        value = self.data.get(name)
        if value is None or value == {}:
            return []
        if not isinstance(value, list):
            self.fail(f"{name!r} should be an array")
        return value

    def nodes(self, name: str, what: str) -> Iterator[JsonNode]:
        """The objects of an array member; messages call each `what` plus its name."""
        for item in self.items(name):
            label = item.get("name", "") if isinstance(item, dict) else ""
            yield JsonNode(item, f"{what} {label}".rstrip(), self)

    def node(self, name: str) -> JsonNode:
        """An object member."""
        return JsonNode(self.raw(name), f"{name} of {self.where}", self)

    def child(self, data: Any, what: str = "") -> JsonNode:
        """An object below this one."""
        return JsonNode(data, what or self.where, self)

    def hex(self, value: Any) -> int:
        """A hexadecimal string, possibly negative."""
        if isinstance(value, str) and len(value) > limits.MAX_HEX_DIGITS:
            self.fail(f"a constant of {len(value)} digits; the most is {limits.MAX_HEX_DIGITS}")
        try:
            return int(value, 16)
        except (TypeError, ValueError):
            return self.fail(f"{value!r} should be a hexadecimal string")

    def lookup(self, table: Mapping[Any, T], key: Any, what: str) -> T:
        """The object with a name or id."""
        if not isinstance(key, str | int) or key not in table:
            self.fail(f"unknown {what} {key!r}")
        return table[key]

    def pair(self, value: Any) -> tuple[str, str]:
        """A [header, field] pair."""
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
            return value[0], value[1]
        return self.fail(f"{value!r} should be a [header, field] pair")


def _file(program: dict[str, Any]) -> SourceInfo:
    """The compiled file, for constructs without a line (headers, parsers, extern instances)."""
    name = program.get("program")
    return SourceInfo(file=name.rpartition("/")[2] or None) if isinstance(name, str) else SourceInfo()


def _source(data: dict[str, Any]) -> SourceInfo | None:
    info = data.get("source_info")
    if not isinstance(info, dict):
        return None
    line = info.get("line")
    return SourceInfo(
        file=str(info.get("filename") or "") or None,
        line=line if isinstance(line, int) else 0,
        fragment=str(info.get("source_fragment") or ""),
    )
