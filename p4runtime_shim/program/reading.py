"""Reading JSON that may be anything: typed access that fails with one sentence naming the place.

A `Node` is a JSON object with the words that lead to it ("table MyIngress.t"). Every getter checks the type of what
it returns, so that the loader is plain code and a broken file gives InvalidProgram instead of a KeyError. The nearest
`source_info` on the way down is kept for Unsupported; p4c writes none for headers, parsers and instances of externs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from p4runtime_shim import limits
from p4runtime_shim.errors import InvalidProgram, Unsupported
from p4runtime_shim.program.model.actions import Source

T = TypeVar("T")


class Node:
    """A JSON object and where it stands."""

    def __init__(self, data: Any, where: str, parent: Node | None = None) -> None:
        if not isinstance(data, dict):
            raise InvalidProgram(f"BMv2 JSON: {where} should be an object")
        self.data: dict[str, Any] = data
        self.where = where
        self.source: Source = _source(data) or (parent.source if parent else _file(data))

    def fail(self, text: str) -> NoReturn:
        """Raise InvalidProgram about this node."""
        raise InvalidProgram(f"BMv2 JSON: {self.where}: {text}")

    def unsupported(self, construct: str) -> NoReturn:
        """Raise Unsupported about this node."""
        raise Unsupported(f"{construct} in {self.where}", self.source.file, self.source.line)

    def has(self, name: str) -> bool:
        """True when the member is there and not null."""
        return self.data.get(name) is not None

    def raw(self, name: str) -> Any:
        """The member as it is."""
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
        """An array member, empty when missing."""
        value = self.data.get(name, [])
        if not isinstance(value, list):
            self.fail(f"{name!r} should be an array")
        return value

    def nodes(self, name: str, what: str) -> Iterator[Node]:
        """The objects of an array member; each is called `what` and its name."""
        for item in self.items(name):
            label = item.get("name", "") if isinstance(item, dict) else ""
            yield Node(item, f"{what} {label}".rstrip(), self)

    def node(self, name: str) -> Node:
        """An object member."""
        return Node(self.raw(name), f"{name} of {self.where}", self)

    def child(self, data: Any, what: str = "") -> Node:
        """An object below this one."""
        return Node(data, what or self.where, self)

    def hex(self, value: Any) -> int:
        """A hexstr, possibly negative."""
        if isinstance(value, str) and len(value) > limits.MAX_HEX_DIGITS:
            self.fail(f"a constant of {len(value)} digits; the most is {limits.MAX_HEX_DIGITS}")
        try:
            return int(value, 16)
        except (TypeError, ValueError):
            return self.fail(f"{value!r} should be a hexadecimal string")

    def lookup(self, table: Mapping[Any, T], key: Any, what: str) -> T:
        """What a name or id refers to."""
        if not isinstance(key, str | int) or key not in table:
            self.fail(f"unknown {what} {key!r}")
        return table[key]

    def pair(self, value: Any) -> tuple[str, str]:
        """A [header, field] pair."""
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
            return value[0], value[1]
        return self.fail(f"{value!r} should be a [header, field] pair")


def _file(program: dict[str, Any]) -> Source:
    """Where p4c gives no line (headers, parsers, extern instances), at least which file it compiled."""
    name = program.get("program")
    return Source(file=name.rpartition("/")[2] or None) if isinstance(name, str) else Source()


def _source(data: dict[str, Any]) -> Source | None:
    info = data.get("source_info")
    if not isinstance(info, dict):
        return None
    line = info.get("line")
    return Source(
        file=str(info.get("filename") or "") or None,
        line=line if isinstance(line, int) else 0,
        fragment=str(info.get("source_fragment") or ""),
    )
