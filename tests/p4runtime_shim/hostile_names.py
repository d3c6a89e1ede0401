"""A program with every name and text in it replaced, in the BMv2 JSON and in the P4Info alike.

The same string becomes the same string everywhere, so the program stays what it was. Words of the two formats (kinds of
primitives, numbers, the metadata that the switch itself reads) stay; `every_string` gives their places too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from tests.p4runtime_shim.builder import ERRORS

_WORDS_AT = frozenset({"op", "type", "match_type", "algo"})
_NUMBER = re.compile(r"-?(0x)?[0-9a-fA-F]+")
_TARGET = re.compile(r"(standard|intrinsic|queueing)_metadata(\..*)?")
_WORDS = frozenset({"ingress", "egress", "$valid$", "__HIT__", "__MISS__", "*", "v1model", *ERRORS})


def renamed(document: Any, name: Callable[[str], str]) -> Any:
    """A copy of BMv2 JSON with every name and text as `name` gives it."""
    words = _WORDS | _target_fields(document)

    def text(value: str) -> str:
        return value if value in words or _NUMBER.fullmatch(value) or _TARGET.fullmatch(value) else name(value)

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return text(item)
        if isinstance(item, list):
            return [walk(part) for part in item]
        if not isinstance(item, dict):
            return item
        return {
            (text(key) if _is_next(item) else key): value if key in _WORDS_AT else walk(value)
            for key, value in item.items()
        }

    def _is_next(item: Any) -> bool:
        return id(item) in nexts

    nexts = {
        id(table.get("next_tables"))
        for pipeline in document.get("pipelines", ())
        for table in pipeline.get("tables", ())
    }
    return walk(document)


def _target_fields(document: Any) -> frozenset[str]:
    """Fields of the metadata that the switch itself reads and writes."""
    types = {item["name"]: item for item in document["header_types"]}
    return frozenset(field[0] for name, item in types.items() if _TARGET.fullmatch(name) for field in item["fields"])


def rename_message(message: Message, name: Callable[[str], str]) -> None:
    """Replace every string in a P4Info, in place."""
    for field, value in message.ListFields():
        several = not isinstance(value, (str, bytes, int, float, bool, Message))
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            for item in value if several else [value]:
                rename_message(item, name)
        elif isinstance(value, str):
            if value not in _WORDS:
                setattr(message, field.name, name(value))
        elif several and field.cpp_type == field.CPPTYPE_STRING:
            value[:] = [name(item) if isinstance(item, str) else item for item in value]


def every_string(document: Any) -> Iterator[tuple[str | int, ...]]:
    """The place of every string in the JSON, keys of objects left out."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, str):
            yield place
        elif isinstance(item, dict):
            waiting.extend(((*place, key), value) for key, value in item.items())
        elif isinstance(item, list):
            waiting.extend(((*place, index), value) for index, value in enumerate(item))


def replaced(document: Any, place: tuple[str | int, ...], text: str) -> Any:
    """A copy with one string replaced."""
    made = copy.deepcopy(document)
    item = made
    for step in place[:-1]:
        item = item[step]
    item[place[-1]] = text
    return made
