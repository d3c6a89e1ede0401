"""Definitions of a JSON Schema: a part that stands in it more than once gets a name, and references elsewhere.

The types of fields describe themselves wherever they are used (:mod:`.field_types`), so a schema that is put together
of them repeats itself. Descriptions differ from place to place, and stay beside the reference. A definition is called
by the part's title or kind or, without these, by the key of its first place, with a number where two differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mrc_common import strict_json

JsonSchema = dict[str, Any]
_LEAST_LINES = 5  # of a part that is worth a name: a reference has three


def with_definitions(schema: JsonSchema) -> JsonSchema:
    """The same schema, with what it repeats under ``$defs``."""
    definitions = _Definitions(_repeated(schema))
    whole = definitions.rebuilt(schema, "")
    return {**whole, "$defs": dict(sorted(definitions.parts.items()))}


def _repeated(schema: JsonSchema) -> frozenset[str]:
    """The parts that are in two places or more. A part inside a repeated one is in that place once."""
    places: Counter[str] = Counter()

    def count(part: JsonSchema, key: str) -> JsonSchema:
        text = _text(part)
        places[text] += 1
        return _mapped(part, key, count) if places[text] == 1 else part

    count(schema, "")
    return frozenset(text for text, many in places.items() if many > 1 and _lines(text) >= _LEAST_LINES)


class _Definitions:
    """The definitions found so far, by name."""

    def __init__(self, repeated: frozenset[str]) -> None:
        self.parts: dict[str, JsonSchema] = {}
        self._repeated = repeated
        self._names: dict[str, str] = {}  # by text

    def rebuilt(self, part: JsonSchema, key: str) -> JsonSchema:
        """The part that is at `key`, with references inside."""
        return _mapped(part, key, self._refer)

    def _refer(self, part: JsonSchema, key: str) -> JsonSchema:
        text = _text(part)
        if text not in self._repeated:
            return self.rebuilt(part, key)
        if text not in self._names:
            kind = part.get("properties", {}).get("kind", {}).get("const")
            name = self._names[text] = self._free_name(str(part.get("title") or kind or key))
            self.parts[name] = {}  # keeps the name from parts inside
            self.parts[name] = self.rebuilt(_bare(part), key)
        described = {"description": part["description"]} if "description" in part else {}
        return {**described, "$ref": f"#/$defs/{self._names[text]}"}

    def _free_name(self, name: str) -> str:
        number, free = 1, name
        while free in self.parts:
            number += 1
            free = f"{name}_{number}"
        return free


def _mapped(part: JsonSchema, key: str, change: Callable[[JsonSchema, str], JsonSchema]) -> JsonSchema:
    """A copy of the part that is at `key`, with each part directly inside, and its own key, given to `change`."""
    changed = dict(part)
    if "properties" in part:
        changed["properties"] = {name: change(inner, name) for name, inner in part["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(part.get(word), dict):
            changed[word] = change(part[word], key)
    for word in ("anyOf", "oneOf"):
        if word in part:
            changed[word] = [change(inner, key) for inner in part[word]]
    return changed


def _bare(part: JsonSchema) -> JsonSchema:
    return {name: value for name, value in part.items() if name != "description"}


def _text(part: JsonSchema) -> str:
    """What a part says, whatever describes it."""
    return strict_json.dumps(_bare(part))


def _lines(text: str) -> int:
    return strict_json.dumps(strict_json.loads(text), indent=1).count("\n") + 1
