"""Reading tables: filters and wildcards (P4Runtime spec, "Wildcard Reads" of TableEntry, "Direct Resources").

A read message is a filter: fields with default values match everything. Direct counters and meters are included if the
filter has the field set. Entries are copied when the read begins, so that no write comes in between, and converted to
messages when sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeVar

from finsy.proto import p4r

from mrc_common.p4_match import Match
from p4runtime_shim.entities import ActionCall, CounterValue, Entry, MeterColors, MeterConfig
from p4runtime_shim.errors import NotFound
from p4runtime_shim.server import entry_codec
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.extern_entries import color_data, counter_data, meter_message
from p4runtime_shim.server.p4info import Schema, TableInfo, find
from p4runtime_shim.server.rpc_errors import invalid, unimplemented
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.table_entries import EntryMetadata, TableEntries, add_metadata

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry when the read began, with the direct resources that the filter asks for; None for the others."""

    entry: Entry
    extra: EntryMetadata
    idle: int | None
    counter: CounterValue | None
    config: MeterConfig | None
    colors: MeterColors | None


class TableEntryReads:
    """Reads of the tables of one switch."""

    def __init__(self, schema: Schema, control_plane: ControlPlaneInterface, tables: TableEntries) -> None:
        self._schema = schema
        self._control_plane = control_plane
        self._tables = tables

    def read(self, wanted: p4r.TableEntry, budget: ReadBudget) -> Iterator[p4r.TableEntry]:
        """Entries that match the filter."""
        parts: list[Iterable[p4r.TableEntry]] = []
        for table in self._schema.tables_to_read(wanted.table_id):
            timed = wanted.HasField("time_since_last_hit")
            if timed and wanted.is_default_action:
                raise invalid(f"table {table.name}: the default entry has no idle timeout")
            if timed and wanted.table_id and not table.has_timeout:
                raise invalid(f"table {table.name} has no idle timeouts")
            if wanted.is_default_action:
                budget.take(1, table.name)
                parts.append([self._default(table, wanted)])
                continue
            counted = wanted.HasField("counter_data") and table.has_counter
            colored = wanted.HasField("meter_counter_data") and table.meter is not None
            entries = self._entries(table, wanted)
            rows = self._rows(table, entries, budget, counted, colored, timed and table.has_timeout)
            parts.append(self._messages(table, rows, wanted))
        return chain.from_iterable(parts)

    def expired(self, now: int, most: int) -> list[p4r.TableEntry]:
        """Entries that have been idle for their timeout; at most `most` are looked at."""
        found = []
        for key in self._tables.idle.expired(now, most):
            id_, match, priority = key
            found.append(_key_message(self._schema.tables[id_], Entry(match, ActionCall(""), priority)))
            add_metadata(found[-1], self._tables.extra(key))
        return found

    def read_counters(self, wanted: p4r.DirectCounterEntry, budget: ReadBudget) -> Iterator[p4r.DirectCounterEntry]:
        """Direct counters: of one entry (NOT_FOUND if there is none), of a table, or of all tables."""
        found = []
        for table in self._schema.tables_to_read(wanted.table_entry.table_id):
            if table.has_counter:
                entries = self._addressed(table, wanted.table_entry)
                found.append((table, self._rows(table, entries, budget, counted=True, colored=False)))
            elif wanted.table_entry.table_id:
                raise invalid(f"table {table.name} has no direct counter")
        return (
            p4r.DirectCounterEntry(table_entry=_key_message(table, row.entry), data=counter_data(row.counter))
            for table, rows in found
            for row in rows
            if row.counter is not None
        )

    def read_meters(self, wanted: p4r.DirectMeterEntry, budget: ReadBudget) -> Iterator[p4r.DirectMeterEntry]:
        """Direct meters, in the same way."""
        found = []
        colored = wanted.HasField("counter_data")
        for table in self._schema.tables_to_read(wanted.table_entry.table_id):
            if table.meter is not None:
                entries = self._addressed(table, wanted.table_entry)
                found.append((table, self._rows(table, entries, budget, counted=False, colored=colored)))
            elif wanted.table_entry.table_id:
                raise invalid(f"table {table.name} has no direct meter")
        return (_meter_message(table, row) for table, rows in found for row in rows)

    def _rows(
        self,
        table: TableInfo,
        entries: Sequence[Entry] | None,
        budget: ReadBudget,
        counted: bool,
        colored: bool,
        timed: bool = False,
    ) -> Iterator[_Row]:
        """Entries (None: all) with the requested resources, copied now."""
        state = self._control_plane.table(table.name)
        every = entries is None
        rows = state.entries() if entries is None else entries
        budget.take(len(rows) * 4, f"table {table.name}")
        keys = [(table.id, entry.match, entry.priority) for entry in rows]
        extras = [self._tables.extra(key) for key in keys]
        idle: Iterable[int | None] = repeat(None)
        counters: Iterable[CounterValue | None] = repeat(None)
        configs: Iterable[MeterConfig | None] = repeat(None)
        colors: Iterable[MeterColors | None] = repeat(None)
        if timed:
            idle = self._tables.idle.idle(table, keys, self._tables.clock())
        if counted:
            counters = state.counter_read_all() if every else self._each(state.counter_read, rows)
        if table.meter is not None:
            configs = state.meter_read_all() if every else self._each(state.meter_read, rows)
        if colored:
            colors = state.colors_read_all() if every else self._each(state.colors_read, rows)
        return map(_Row, rows, extras, idle, counters, configs, colors)

    @staticmethod
    def _each(read: Callable[[tuple[Match, ...], int], _T], entries: Sequence[Entry]) -> list[_T]:
        return [read(entry.match, entry.priority) for entry in entries]

    def _entries(self, table: TableInfo, wanted: p4r.TableEntry) -> list[Entry] | None:
        if wanted.table_id == 0 or not wanted.match:
            return None
        match = entry_codec.decode_match(table, wanted.match)
        if table.needs_priority and wanted.priority == 0:
            return [entry for entry in self._control_plane.table(table.name).entries() if entry.match == match]
        try:
            return [self._control_plane.table(table.name).entry(match, wanted.priority)]
        except NotFound:
            return []

    def _addressed(self, table: TableInfo, wanted: p4r.TableEntry) -> list[Entry] | None:
        if wanted.is_default_action:
            raise unimplemented(f"table {table.name}: the default entry has no counter or meter on this target")
        if wanted.table_id and (wanted.match or wanted.priority):
            match, priority = self._tables.key(table, wanted)
            return [self._control_plane.table(table.name).entry(match, priority)]
        return None

    def _messages(self, table: TableInfo, rows: Iterator[_Row], wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        for row in rows:
            if _passes(row.entry, row.extra, wanted, self._schema):
                yield self._message(table, row, wanted)

    def _message(self, table: TableInfo, row: _Row, wanted: p4r.TableEntry) -> p4r.TableEntry:
        message = _key_message(table, row.entry)
        message.action.CopyFrom(self._tables.action_message(table, row.entry.target, row.extra))
        message.is_const = table.is_const
        add_metadata(message, row.extra)
        if row.idle is not None:
            message.time_since_last_hit.elapsed_ns = row.idle
        if row.counter is not None:
            message.counter_data.CopyFrom(counter_data(row.counter))
        if wanted.HasField("meter_config") and row.config is not None:
            message.meter_config.CopyFrom(meter_message(row.config))
        if row.colors is not None:
            message.meter_counter_data.CopyFrom(color_data(row.colors))
        return message

    def _default(self, table: TableInfo, wanted: p4r.TableEntry) -> p4r.TableEntry:
        if wanted.match or wanted.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        message = p4r.TableEntry(table_id=table.id, is_default_action=True, is_const=table.const_default)
        call = self._control_plane.table(table.name).default
        if call is not None and call.name in self._schema.actions_by_name:
            message.action.action.CopyFrom(entry_codec.encode_action(self._schema, call))
        add_metadata(message, self._tables.default_extra(table.id))
        if wanted.HasField("counter_data") and table.has_counter:
            message.counter_data.SetInParent()  # BMv2 counts hits only, so the default entry's counter stays zero
        return message


def _meter_message(table: TableInfo, row: _Row) -> p4r.DirectMeterEntry:
    message = p4r.DirectMeterEntry(table_entry=_key_message(table, row.entry))
    if row.config is not None:
        message.config.CopyFrom(meter_message(row.config))
    if row.colors is not None:
        message.counter_data.CopyFrom(color_data(row.colors))
    return message


def _key_message(table: TableInfo, entry: Entry) -> p4r.TableEntry:
    return p4r.TableEntry(
        table_id=table.id, match=entry_codec.encode_match(table, entry.match), priority=entry.priority
    )


def _passes(entry: Entry, extra: EntryMetadata, wanted: p4r.TableEntry, schema: Schema) -> bool:
    if wanted.table_id == 0:
        return True  # "no other filter can be used"
    if wanted.priority and entry.priority != wanted.priority:
        return False
    if wanted.metadata and extra.metadata != wanted.metadata:
        return False
    if wanted.controller_metadata and extra.controller_metadata != wanted.controller_metadata:
        return False
    if wanted.action.WhichOneof("type") == "action":
        action = find(schema.actions, wanted.action.action.action_id, "action")
        return isinstance(entry.target, ActionCall) and entry.target.name == action.name
    return True
