"""Entries of a switch's tables that somebody has changed by hand, laid over what the controller plans for it.

A change is an entry instead of the planned one, or none where one is planned. It stays until it is taken back, also
when the switch or the controller is restarted: the controller keeps it in a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import finsy
from finsy.p4schema import P4Action, P4ActionRef, P4MatchType, P4Table

from controller import translate
from controller.errors import ControllerError
from controller.values import MAX_PRIORITY, EntryWords, TableChange
from mrc_common import named_files, p4_match, strict_json
from mrc_common.p4_match import Match
from mrc_common.units import counted
from mrc_common.written_files import write_text
from topologies.entries import SwitchEntries, TableAction, TableEntry

MAX_CHANGES = 10_000  # of one switch
Key = tuple[str, tuple[Match, ...], int]
_KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind for kind in (p4_match.Exact, p4_match.Lpm, p4_match.Ternary, p4_match.Range, p4_match.Optional)
}
_ANYTHING = "*"
_KIND_NAMES = {
    P4MatchType.EXACT: "exact",
    P4MatchType.LPM: "a prefix",
    P4MatchType.TERNARY: "ternary",
    P4MatchType.RANGE: "a range",
    P4MatchType.OPTIONAL: "optional",
}
_WITH_PRIORITY = (P4MatchType.TERNARY, P4MatchType.RANGE, P4MatchType.OPTIONAL)


def read_entry(words: EntryWords, schema: finsy.P4Schema) -> TableEntry:
    """The entry that is meant; ControllerError says what is wrong with a word, and what to write."""
    try:
        table = translate.find_table(schema, words.table)
        action = translate.find_action(table.actions, words.action) if words.action else None
    except ValueError as error:
        raise ControllerError(f"{error}.".replace("?.", "?")) from None
    if table.action_profile is not None:
        raise ControllerError(f"Table {table.alias} has members of an action profile, which are not changed by hand.")
    match = _match(table, words.match)
    args, priority = list(words.args), words.priority
    if action is not None and len(args) == len(list(action.params)) + 1 and not priority and args[-1].isdecimal():
        priority = int(args.pop())
    needed = any(key.match_type in _WITH_PRIORITY for key in table.match_fields)
    if needed and priority < 1:
        raise ControllerError(
            f"Table {table.alias} needs a priority: add 'priority 10'. The largest that matches wins."
        )
    if priority > MAX_PRIORITY:
        raise ControllerError(f"A priority is at most {MAX_PRIORITY}, not {priority}.")
    if not needed and priority:
        raise ControllerError(f"Table {table.alias} has no priorities: leave {priority} out.")
    target = TableAction("") if action is None else _target(action, args)
    return TableEntry(table.alias, match, target, priority)


def _match(table: P4Table, words: Sequence[str]) -> tuple[Match, ...]:
    fields: list[Any] = list(table.match_fields)
    if len(words) != len(fields):
        names = ", ".join(f"{key.alias} ({key.match_type.name.lower()})" for key in fields)
        needed = counted(len(fields), "field")
        raise ControllerError(f"The key of table {table.alias} has {needed}, not {len(words)}: {names}.")
    return tuple(_field(key, word) for key, word in zip(fields, words, strict=True))


def _field(key: Any, word: str) -> Match:
    kind = key.match_type
    if word == _ANYTHING and kind is not P4MatchType.EXACT:
        return translate.decode_match(key, None)
    try:
        given = _for_finsy(kind, word)
    except ValueError as error:
        raise ControllerError(f"{key.alias} is {_KIND_NAMES[kind]}, so {word!r} is not its value: {error}.") from None
    try:
        message = key.encode_field(given)
        return translate.decode_match(key, None if message is None else key.decode_field(message))
    except (ValueError, OverflowError) as error:
        raise ControllerError(f"{word!r} cannot be matched with {key.alias}: {error}.") from None


def _for_finsy(kind: P4MatchType, word: str) -> object:
    """A word of ``simple_switch_CLI`` as finsy reads it for a kind of field; ValueError with how to write another."""
    mark = next((mark for mark in ("&&&", "->", "/") if mark in word), "")
    if kind is P4MatchType.RANGE:
        low, _, high = word.partition("->")
        if mark not in ("", "->"):
            raise ValueError("write 1->9, or a single value")
        return low, high or low
    if kind is P4MatchType.TERNARY:
        if mark == "->":
            raise ValueError("write value&&&mask, or a single value")
        return tuple(word.split("&&&", 1)) if mark == "&&&" else word
    if kind is P4MatchType.LPM:
        if mark not in ("", "/"):
            raise ValueError("write value/length")
        return word
    if mark or word == _ANYTHING:
        raise ValueError("write a single value")
    return word


def _target(action: P4Action | P4ActionRef, args: Sequence[str]) -> TableAction:
    params: list[Any] = list(action.params)
    if len(args) != len(params):
        names = ", ".join(f"{param.name} (bit<{param.bitwidth}>)" for param in params) or "none"
        needed = counted(len(params), "parameter")
        raise ControllerError(f"{_last(action.alias)} has {needed}, not {len(args)}: {names}.")
    values = tuple((param.name, _argument(param, word)) for param, word in zip(params, args, strict=True))
    return TableAction(_last(action.alias), values)


def _argument(param: Any, word: str) -> int:
    try:
        return int.from_bytes(param.encode_param(word).value, "big")
    except (ValueError, OverflowError) as error:
        raise ControllerError(f"{word!r} is no value of {param.name}: {error}.") from None


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class HandEntries:
    """The changes of one switch: what is there instead, by the key of the entry; None for nothing."""

    changes: Mapping[Key, TableEntry | None] = field(default_factory=dict)

    def over(self, planned: SwitchEntries) -> SwitchEntries:
        """What is planned, changed."""
        if not self.changes:
            return planned
        entries = {_key_of(entry): entry for entry in planned.entries}
        for key, entry in self.changes.items():
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        return dataclasses.replace(planned, entries=tuple(entries.values()))

    def changed(self, change: TableChange, entry: TableEntry, planned: SwitchEntries) -> HandEntries:
        """With one more change; ControllerError for one that is there already, or is not there."""
        key = _key_of(entry)
        exists = any(_key_of(known) == key for known in self.over(planned).entries)
        if exists and change is TableChange.ADD:
            raise ControllerError(f"Table {entry.table} has such an entry already: use 'table modify'.")
        if not exists and change is not TableChange.ADD:
            raise ControllerError(f"Table {entry.table} has no such entry: 'tables SWITCH {entry.table}' lists them.")
        changes = {known: made for known, made in self.changes.items() if known != key}
        original = next((known for known in planned.entries if _key_of(known) == key), None)
        now = None if change is TableChange.DELETE else entry
        if now != original:
            changes[key] = now
        if len(changes) > MAX_CHANGES:
            raise ControllerError(f"A switch holds at most {MAX_CHANGES} changes by hand: take some back.")
        return HandEntries(changes)

    def among(self, entries: Iterable[TableEntry]) -> TableEntry | None:
        """The first of some entries that a change is in the place of; None if none is."""
        return next((entry for entry in entries if _key_of(entry) in self.changes), None)

    @property
    def entries(self) -> tuple[TableEntry, ...]:
        """Those that are there."""
        return tuple(entry for entry in self.changes.values() if entry is not None)

    def within(self, tables: Iterable[str]) -> HandEntries:
        """Those of some tables."""
        known = frozenset(tables)
        return HandEntries({key: entry for key, entry in self.changes.items() if key[0] in known})


def misfit(entries: Iterable[TableEntry], schema: finsy.P4Schema) -> str:
    """What is wrong with an entry that a program cannot have; "" if it can have all."""
    found = ((entry.table, _misfit(entry, schema)) for entry in entries)
    return next((f"of table {table} does not fit: {why}" for table, why in found if why), "")


def _misfit(entry: TableEntry, schema: finsy.P4Schema) -> str:
    """Why a program cannot have an entry; "" if it can."""
    try:
        again = finsy.P4TableEntry.decode(translate.encode(entry, schema).encode(schema), schema)
        same = translate.decode_entry(again, schema) == entry
    except (ValueError, OverflowError) as error:
        return str(error)
    return "" if same else "its key is of another kind there"


def _key_of(entry: TableEntry) -> Key:
    return entry.table, entry.match, entry.priority


def save(path: Path, changes: Mapping[str, HandEntries]) -> None:
    """Write the changes of switches to a file, or remove it if there are none; OSError if that fails."""
    some = {switch: hand.changes for switch, hand in changes.items() if hand.changes}
    known = {switch: [_pack(key, entry) for key, entry in found.items()] for switch, found in some.items()}
    if known:
        write_text(path, strict_json.dumps(known))
    else:
        path.unlink(missing_ok=True)


def load(path: Path) -> dict[str, HandEntries]:
    """The changes in the file; none if there is no file. ControllerError for one that is not ours."""
    try:
        found = strict_json.loads(named_files.read_text(path))
        return {switch: HandEntries(dict(map(_unpack, changes))) for switch, changes in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ControllerError(f"{path} cannot be read ({error}): remove it, and entries are as planned.") from None


def _pack(key: Key, entry: TableEntry | None) -> dict[str, Any]:
    table, match, priority = key
    words = [{"kind": type(part).__name__, **dataclasses.asdict(part)} for part in match]
    target = None if entry is None else entry.target
    action = None if not isinstance(target, TableAction) else [target.name, [list(arg) for arg in target.args]]
    return {"table": table, "match": words, "priority": priority, "action": action}


def _unpack(given: dict[str, Any]) -> tuple[Key, TableEntry | None]:
    match = tuple(_KINDS[part.pop("kind")](**part) for part in given["match"])
    key = given["table"], match, given["priority"]
    if given["action"] is None:
        return key, None
    name, args = given["action"]
    action = TableAction(name, tuple((param, value) for param, value in args))
    return key, TableEntry(given["table"], match, action, given["priority"])
