"""Match tables: entries by their match and priority, default actions, idle times, direct counters and meters.

The engine has what packets need; this has what a control plane reads back: the entries as written, in the order of
their insertion, each with its C object.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from mrc_common.p4_match import Exact, GroupRef, Lpm, Match, MemberRef, Optional, Range, Ternary
from p4runtime_shim import limits
from p4runtime_shim.ctypes_bindings import NEVER_HIT, SwTarget
from p4runtime_shim.entities import ActionCall, CounterValue, Entry, EntryTarget, MeterColors, MeterConfig
from p4runtime_shim.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidProgram,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    SwitchError,
)
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.control_flow import FixedEntry, Key, Table
from p4runtime_shim.state.action_profile_state import ActionProfileState, GroupState, MemberState
from p4runtime_shim.state.extern_state import colors_read, colors_write, meter_doubles
from p4runtime_shim.state.key_encoding import EncodedKey, check_match, encode_key, resolve_action
from p4runtime_shim.state.loaded_switch import LoadedSwitch, locked

_MAX_PRIORITY = (1 << 31) - 1
_NO_ACTION = (1 << 32) - 1  # instead of a number of words


class StoredEntry:
    """An entry and its C object."""

    def __init__(self, entry: Entry, pointer: int, used: MemberState | GroupState | None) -> None:
        self.entry = entry
        self.pointer = pointer
        self.used = used
        self.meter: MeterConfig | None = None


@dataclass(frozen=True, slots=True)
class _Default:
    """A default action as it is read back, and as the engine takes it: its position, and its arguments in words."""

    call: ActionCall
    action: int
    args: bytes


_defaults: WeakKeyDictionary[Pipeline, tuple[_Default | None, ...]] = WeakKeyDictionary()  # of each table


class EntryCount:
    """The total number of entries in the tables of a switch."""

    def __init__(self) -> None:
        self.entries = 0


class TableState:
    """The entries of one table; all tables of a switch share `entry_count`."""

    def __init__(
        self,
        pipeline: Pipeline,
        switch: LoadedSwitch,
        position: int,
        profiles: list[ActionProfileState],
        entry_count: EntryCount,
    ) -> None:
        self.entry_count = entry_count
        self.info = pipeline.program.tables[position]
        self.shape = pipeline.shapes[position]
        self.position = position
        self.switch = switch
        self.pipeline = pipeline
        self.profile = profiles[self.info.profile] if self.info.profile is not None else None
        self._entries: dict[tuple[EncodedKey, int], StoredEntry] = {}
        self.default: ActionCall | None = None
        self._load_fixed()

    def _load_fixed(self) -> None:
        """Default action and const entries of the program."""
        self._set_default(self._program_default())
        if not self.info.entries:
            return
        base = max(entry.priority for entry in self.info.entries) + 1
        for number, fixed in enumerate(self.info.entries, 1):
            action = self.pipeline.program.actions[fixed.call.action].name
            priority = base - fixed.priority if self.shape.prioritized else 0
            match = self._fixed_match(fixed)
            try:
                self._insert(Entry(match, ActionCall(action, fixed.call.args), priority))
            except SwitchError as error:
                kind = ResourceExhausted if isinstance(error, ResourceExhausted) else InvalidProgram
                where = f"entry {number} of the program's {len(self.info.entries)} const entries of {self.info.name}"
                raise kind(f"{where} does not fit: {error}") from None

    def _fixed_match(self, fixed: FixedEntry) -> tuple[Match, ...]:
        return tuple(_match(key, part) for key, part in zip(self.info.keys, fixed.match, strict=True))

    def _program_default(self) -> _Default | None:
        known = _defaults.get(self.pipeline)
        if known is None:
            known = _defaults[self.pipeline] = _program_defaults(self.pipeline)
        return known[self.position]

    # --- entries ---

    def _key(self, match: Sequence[Match], priority: int) -> tuple[EncodedKey, int]:
        """The checked key that identifies an entry."""
        check_match(self.info, match)
        if self.shape.prioritized:
            if not 0 < priority <= _MAX_PRIORITY:
                raise InvalidArgument(f"table {self.info.name} needs a priority above 0, not {priority}")
        elif priority:
            raise InvalidArgument(f"table {self.info.name} takes no priority ({priority} given)")
        return encode_key(self.info, self.shape, match), priority

    @locked
    def entries(self) -> list[Entry]:
        """All entries, in the order of their insertion, as in all calls that read them all."""
        return [stored.entry for stored in self._entries.values()]

    @locked
    def entry(self, match: Sequence[Match], priority: int = 0) -> Entry:
        """One entry; NotFound."""
        return self._find(match, priority).entry

    def _find(self, match: Sequence[Match], priority: int) -> StoredEntry:
        """An entry; raises NotFound."""
        stored = self._entries.get(self._key(match, priority))
        if stored is None:
            raise NotFound(f"table {self.info.name} has no such entry")
        return stored

    def _target(self, target: EntryTarget) -> tuple[SwTarget, MemberState | GroupState | None]:
        if isinstance(target, ActionCall):
            if self.profile is not None:
                raise InvalidArgument(f"entries of table {self.info.name} name a member or group, not an action")
            where = f"table {self.info.name}"
            action, args = resolve_action(self.pipeline, target, self.info.actions, where)
            return SwTarget(action, len(args) // 8, args, None, None), None
        if self.profile is None:
            raise InvalidArgument(f"table {self.info.name} has no action profile")
        if isinstance(target, MemberRef):
            member = self.profile.find_member(target.member_id)
            return SwTarget(0, 0, None, member.pointer, None), member
        assert isinstance(target, GroupRef)
        group = self.profile.find_group(target.group_id)
        return SwTarget(0, 0, None, None, group.pointer), group

    @property
    def fixed(self) -> bool:
        """Whether its entries are the program's, which nobody can change."""
        return self.info.entries_const

    def _check_writable(self) -> None:
        if self.fixed:
            raise PermissionDenied(f"the entries of table {self.info.name} are constant")
        if not self.info.keys:
            raise InvalidArgument(f"table {self.info.name} has no key, so no entries")

    @locked
    def insert(self, entry: Entry) -> None:
        """Add an entry."""
        self._check_writable()
        self._insert(entry)

    def _insert(self, entry: Entry) -> None:
        key = self._key(entry.match, entry.priority)
        if key in self._entries:
            raise AlreadyExists(f"table {self.info.name} already has this entry")
        if len(self._entries) >= self.info.size:
            raise ResourceExhausted(f"table {self.info.name} is full ({self.info.size} entries)")
        if self.entry_count.entries >= limits.MAX_ENTRIES:
            raise ResourceExhausted(f"the tables of a switch can have {limits.MAX_ENTRIES} entries in total")
        target, used = self._target(entry.target)
        words = key[0]
        pointer = self.switch.library.sw_ctl_insert(
            self.switch.handle,
            self.position,
            words.value,
            words.mask,
            words.high,
            entry.priority if self.shape.prioritized else words.prefix,
            c.byref(target),
        )
        if not pointer:
            raise ResourceExhausted("out of memory")
        self._entries[key] = StoredEntry(entry, pointer, used)
        self.entry_count.entries += 1
        if used:
            used.references += 1

    @locked
    def modify(self, entry: Entry) -> None:
        """Change the action of an entry; its counter stays."""
        self._check_writable()
        stored = self._find(entry.match, entry.priority)
        target, used = self._target(entry.target)
        if self.switch.library.sw_ctl_modify(self.switch.handle, stored.pointer, c.byref(target)):
            raise ResourceExhausted("out of memory")
        if used:
            used.references += 1
        if stored.used:
            stored.used.references -= 1
        stored.used = used
        stored.entry = entry

    @locked
    def delete(self, match: Sequence[Match], priority: int = 0) -> None:
        """Remove an entry."""
        self._check_writable()
        key = self._key(match, priority)
        stored = self._find(match, priority)
        self.switch.library.sw_ctl_delete(self.switch.handle, self.position, stored.pointer)
        del self._entries[key]
        self.entry_count.entries -= 1
        if stored.used:
            stored.used.references -= 1

    # --- default action ---

    @locked
    def set_default(self, call: ActionCall | None) -> None:
        """Change the default action; None restores the program's."""
        if self.info.default_const:
            raise PermissionDenied(f"the default action of table {self.info.name} is constant")
        self._set_default(self._program_default() if call is None else _resolved(self.pipeline, self.info, call))

    def _set_default(self, default: _Default | None) -> None:
        given = (0, _NO_ACTION, None) if default is None else (default.action, len(default.args) // 8, default.args)
        if self.switch.library.sw_ctl_default(self.switch.handle, self.position, *given):
            raise ResourceExhausted("out of memory")
        self.default = None if default is None else default.call

    # --- idle times ---

    @locked
    def last_hits(self, keys: Sequence[tuple[Sequence[Match], int]] | None = None) -> list[int | None]:
        """When packets last hit entries, by match and priority (None: all entries); ns of the clock of the verbs.

        None for an entry that no packet has hit, and for all of a table without idle timeouts.
        """
        stored = list(self._entries.values()) if keys is None else [self._find(*key) for key in keys]
        pointers, hits = (c.c_void_p * len(stored))(*(item.pointer for item in stored)), (c.c_int64 * len(stored))()
        self.switch.library.sw_ctl_entry_hits(self.switch.handle, pointers, len(stored), hits)
        return [None if hit == NEVER_HIT else hit for hit in hits]

    # --- direct counters and meters ---

    @locked
    def counter_read(self, match: Sequence[Match], priority: int = 0) -> CounterValue:
        """The direct counter of an entry."""
        self._check_counters()
        values = (c.c_uint64 * 2)()
        self.switch.library.sw_ctl_entry_counter(self.switch.handle, self._find(match, priority).pointer, 0, values)
        return CounterValue(values[0], values[1])

    @locked
    def counter_read_all(self) -> list[CounterValue]:
        """The direct counters of all entries."""
        self._check_counters()
        values, read = (c.c_uint64 * 2)(), self.switch.library.sw_ctl_entry_counter
        found = []
        for stored in self._entries.values():
            read(self.switch.handle, stored.pointer, 0, values)
            found.append(CounterValue(values[0], values[1]))
        return found

    @locked
    def counter_write(self, match: Sequence[Match], priority: int, value: CounterValue) -> None:
        """Set the direct counter of an entry."""
        self._check_counters()
        values = (c.c_uint64 * 2)(value.packets, value.bytes)
        self.switch.library.sw_ctl_entry_counter(self.switch.handle, self._find(match, priority).pointer, 1, values)

    def _check_counters(self) -> None:
        if not self.info.counters:
            raise InvalidArgument(f"table {self.info.name} has no direct counter")

    @locked
    def meter_read(self, match: Sequence[Match], priority: int = 0) -> MeterConfig | None:
        """The configuration of an entry's direct meter."""
        self._check_meter()
        return self._find(match, priority).meter

    @locked
    def meter_read_all(self) -> list[MeterConfig | None]:
        """The configurations of the direct meters of all entries."""
        return [stored.meter for stored in self._entries.values()]

    @locked
    def meter_write(self, match: Sequence[Match], priority: int, config: MeterConfig | None) -> None:
        """Configure an entry's direct meter; with None, every packet is green."""
        self._check_meter()
        stored = self._find(match, priority)
        self.switch.library.sw_ctl_entry_meter(self.switch.handle, stored.pointer, meter_doubles(config))
        stored.meter = config

    @locked
    def colors_read(self, match: Sequence[Match], priority: int = 0) -> MeterColors:
        """Packets and bytes that an entry's direct meter has colored."""
        return colors_read(self._colors(match, priority))

    @locked
    def colors_read_all(self) -> list[MeterColors]:
        """Packets and bytes that the direct meters of all entries have colored."""
        self._check_meter()
        read = self.switch.library.sw_ctl_entry_colors
        return [colors_read(partial(read, self.switch.handle, stored.pointer)) for stored in self._entries.values()]

    @locked
    def colors_write(self, match: Sequence[Match], priority: int, value: MeterColors) -> None:
        """Set the color counters of an entry."""
        colors_write(self._colors(match, priority), value)

    def _colors(self, match: Sequence[Match], priority: int) -> Callable[[int, Any], None]:
        self._check_meter()
        return partial(self.switch.library.sw_ctl_entry_colors, self.switch.handle, self._find(match, priority).pointer)

    def _check_meter(self) -> None:
        if self.info.meter is None:
            raise InvalidArgument(f"table {self.info.name} has no direct meter")


def _program_defaults(pipeline: Pipeline) -> tuple[_Default | None, ...]:
    """The default action that the program gives each of its tables."""
    actions = pipeline.program.actions
    return tuple(
        None
        if table.default is None
        else _resolved(pipeline, table, ActionCall(actions[table.default.action].name, table.default.args))
        for table in pipeline.program.tables
    )


def _resolved(pipeline: Pipeline, table: Table, call: ActionCall) -> _Default:
    allowed = set(table.actions)
    if table.default is not None:
        allowed.add(table.default.action)
    return _Default(call, *resolve_action(pipeline, call, allowed, f"table {table.name}"))


def _match(key: Key, part: tuple[int, int]) -> Match:
    """A match field of a const entry."""
    value, second = part
    full = (1 << key.width) - 1
    if key.kind in ("exact", "valid"):
        return Exact(value)
    if key.kind == "lpm":
        return Lpm(value & (full ^ (full >> second)), second)
    if key.kind == "ternary":
        return Ternary(value & second, second)
    if key.kind == "optional":
        return Optional(value if second else None)
    return Range(value, second)
