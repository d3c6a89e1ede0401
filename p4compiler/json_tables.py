"""Tables, their entries and their action profiles in BMv2's JSON."""

from __future__ import annotations

from typing import Any

from p4compiler.arithmetic import mask
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.entries import LoweredEntry, MaskedValue, ValueRange, ValueSet
from p4compiler.elaborate.tables import LoweredAction, LoweredKey, LoweredTable
from p4compiler.json_actions import ActionWriter, source_info
from p4compiler.json_expressions import Json, hexstr
from p4compiler.types import width_of

_MATCH_TYPES = ("range", "ternary", "lpm", "exact")  # a table has that of its first key in this order


class TableWriter:
    """Writes tables, each action of theirs once, and the action profiles of one pipeline."""

    def __init__(self, actions: ActionWriter) -> None:
        self._actions = actions
        self._numbers: dict[tuple[int, ...], int] = {}
        self.profiles: dict[str, Json] = {}

    def write(self, table: LoweredTable, nexts: dict[str, Any], base: str | None) -> Json:
        """A table, with what follows it."""
        keys = [self._key(key) for key in table.keys if key.match_kind != "selector"]
        kinds = {key["match_type"] for key in keys}
        numbers = [self._action(action) for action in table.actions]
        out: Json = {
            "name": table.name,
            **source_info(table.declaration.span, table.declaration.name),
            "key": keys,
            "match_type": next((kind for kind in _MATCH_TYPES if kind in kinds), "exact"),
            **self._implementation(table),
            "max_size": max(table.size, len(table.entries or ())),
            "with_counters": table.counters is not None,
            "support_timeout": table.has_timeout,
            "direct_meters": table.meters.name if table.meters else None,
            "action_ids": numbers,
            "actions": [action.name for action in table.actions],
            "base_default_next": base,
            "next_tables": nexts,
        }
        if table.implementation is None and table.default is not None:
            action, data = table.default
            out["default_entry"] = {
                "action_id": self._action(action),
                "action_const": table.default_is_const,
                "action_data": [hexstr(value) for value in data],
                "action_entry_const": table.default_is_const,
            }
        if table.entries is not None:
            out["entries"] = [self._entry(table, entry) for entry in table.entries]
        return out

    def _action(self, action: LoweredAction) -> int:
        """The id of an action, which several tables may have: equal code of one action is written once."""
        key = (id(action.body),)
        if key not in self._numbers:
            parameters = [
                {"name": parameter.name, "bitwidth": width_of(kind)}
                for parameter, kind in zip(action.parameters, action.types, strict=True)
            ]
            self._numbers[key] = self._actions.action(action.name, parameters, action.body)
        return self._numbers[key]

    def _key(self, key: LoweredKey) -> Json:
        place = self._actions.expressions.place(key.value)
        kind = "ternary" if key.match_kind == "optional" else key.match_kind
        if kind not in _MATCH_TYPES:
            raise Refusal(f"match kind {kind!r} is not supported on this target", key.span)
        return {"match_type": kind, "name": key.name, "target": place["value"], "mask": None}

    def _implementation(self, table: LoweredTable) -> Json:
        selector = [self._actions.expressions.place(key.value) for key in table.keys if key.match_kind == "selector"]
        instance = table.implementation
        if instance is None:
            return {"type": "simple"}
        has_selector = instance.kind == "action_selector"
        profile: Json = {"name": instance.name, **source_info(instance.span), "max_size": instance.number("size")}
        if has_selector:
            profile["selector"] = {"algo": instance.choice("algorithm"), "input": selector}
        old = self.profiles.setdefault(instance.name, profile)
        if old.get("selector") != profile.get("selector"):
            text = f"tables with action_selector {instance.name!r} and different selector keys"
            raise Refusal(text, table.declaration.span)
        return {"type": "indirect_ws" if has_selector else "indirect", "action_profile": instance.name}

    # --- entries ---

    def _entry(self, table: LoweredTable, entry: LoweredEntry) -> Json:
        match = [_match(set_, key) for set_, key in zip(entry.sets, table.keys, strict=True)]
        action = {"action_id": self._action(entry.action), "action_data": [hexstr(value) for value in entry.data]}
        return {"match_key": match, "action_entry": action, "priority": entry.priority}


def _match(set_: ValueSet, key: LoweredKey) -> Json:
    width = width_of(key.value.type)
    full = mask(width)
    if key.match_kind == "range":
        if isinstance(set_, MaskedValue):
            set_ = ValueRange(0, full) if set_.mask == 0 else ValueRange(set_.value, set_.value)
        if set_.low > set_.high:
            raise Refusal("a range from negative to positive numbers is not supported for keys", key.span)
        return {"match_type": "range", "start": hexstr(set_.low, width), "end": hexstr(set_.high, width)}
    if isinstance(set_, ValueRange):
        raise Refusal(f"a range for a key that is {key.match_kind}", key.span)
    if key.match_kind == "exact":
        return {"match_type": "exact", "key": hexstr(set_.value, width)}
    if key.match_kind == "lpm":
        prefix = set_.mask.bit_count() if hasattr(set_.mask, "bit_count") else bin(set_.mask).count("1")
        return {"match_type": "lpm", "key": hexstr(set_.value, width), "prefix_length": prefix}
    if key.match_kind in ("ternary", "optional"):
        return {"match_type": "ternary", "key": hexstr(set_.value, width), "mask": hexstr(set_.mask, width)}
    raise Refusal(f"entries with match kind {key.match_kind!r} are not supported", key.span)
