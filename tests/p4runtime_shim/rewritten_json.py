"""The BMv2 JSON of a program written differently, with the same meaning: as another version of p4c might write it.

Objects that are found by name or id are in another order and have other ids, and lists without elements are null, {} or
missing. Whatever has an order that means something (primitives, keys, fields, checksums...) keeps it.
"""

from __future__ import annotations

import json
import random
from typing import Any

_BY_NAME = (
    "header_types",
    "headers",
    "header_stacks",
    "errors",
    "enums",
    "actions",
    "counter_arrays",
    "meter_arrays",
    "register_arrays",
    "calculations",
    "field_lists",
    "learn_lists",
    "field_aliases",
    "pipelines",
    "parse_states",
    "tables",
    "conditionals",
    "action_profiles",
)
_WITH_IDS = ("header_types", "header_stacks", "counter_arrays", "meter_arrays", "register_arrays", "calculations")
_MISSING = object()


def rewritten(text: str, chance: random.Random) -> str:
    """Another JSON that means the same."""
    program = json.loads(text)
    _renumber(program, chance)
    return json.dumps(_reordered(program, chance))


def _renumber(program: dict[str, Any], chance: random.Random) -> None:
    for section in _WITH_IDS:
        _new_ids(program[section], chance)
    headers = _new_ids(program["headers"], chance)
    for stack in program["header_stacks"]:
        stack["header_ids"] = [headers[item] for item in stack["header_ids"]]
    actions = _new_ids(program["actions"], chance)
    for pipeline in program["pipelines"]:
        for call in pipeline.get("action_calls", []):
            call["action_id"] = actions[call["action_id"]]
        for table in pipeline["tables"]:
            pairs = list(zip(table["action_ids"], table["actions"], strict=True))
            chance.shuffle(pairs)
            table["action_ids"] = [actions[item] for item, _ in pairs]
            table["actions"] = [name for _, name in pairs]
            entries = [entry["action_entry"] for entry in table.get("entries", [])]
            for entry in (*entries, *filter(None, [table.get("default_entry")])):
                entry["action_id"] = actions[entry["action_id"]]


def _new_ids(items: list[dict[str, Any]], chance: random.Random) -> dict[int, int]:
    fresh = chance.sample(range(10 * len(items) + 1), len(items))
    changed = {item["id"]: new for item, new in zip(items, fresh, strict=True)}
    for item in items:
        item["id"] = changed[item["id"]]
    return changed


def _reordered(data: Any, chance: random.Random, name: str = "") -> Any:
    if isinstance(data, dict):
        members = [(key, _reordered(value, chance, key)) for key, value in data.items()]
        chance.shuffle(members)
        return {key: value for key, value in members if value is not _MISSING}
    if data == [] and name:
        return chance.choice([[], {}, None, _MISSING]) if name != "entries" else data  # an empty `entries` is constant
    if isinstance(data, list):
        items = [_reordered(item, chance) for item in data]
        if name in _BY_NAME:
            chance.shuffle(items)
        return items
    return data
