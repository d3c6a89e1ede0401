"""Reading tables: filters and wildcards (P4Runtime spec, "Wildcard Reads" of TableEntry, "Direct Resources").

A read message is a filter: fields left at their default do not restrict. Direct counters and meters are shown with an
entry when the filter has the field set.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from p4runtime_shim.errors import NotFound
from p4runtime_shim.server import actions, matches
from p4runtime_shim.server.counters import color_data, counter_data, meter_message
from p4runtime_shim.server.errors import invalid, unimplemented
from p4runtime_shim.server.p4info import Schema, Table, find
from p4runtime_shim.server.tables import Extra, Tables
from p4runtime_shim.server.target import Target
from p4runtime_shim.values import ActionCall, Entry


class TableReads:
    """Reads of the tables of one switch."""

    def __init__(self, schema: Schema, target: Target, tables: Tables) -> None:
        self._schema = schema
        self._target = target
        self._tables = tables

    def attach(self, target: Target) -> None:
        """All of this is in another switch now (`Target.adopt`)."""
        self._target = target

    def read(self, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """Entries that the filter lets pass."""
        for table in self._selected(wanted):
            if wanted.HasField("time_since_last_hit") and wanted.table_id:
                raise invalid(f"table {table.name} has no idle timeouts")
            if wanted.is_default_action:
                message = self._default(table, wanted)
                if message is not None:
                    yield message
                continue
            for entry in self._entries(table, wanted):
                extra = self._tables.extra((table.id, entry.match, entry.priority))
                if _passes(entry, extra, wanted, self._schema):
                    yield self._message(table, entry, extra, wanted)

    def read_counters(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.DirectCounterEntry]:
        """Direct counters: of one entry (NOT_FOUND when it is missing), of a table, or of all tables."""
        for table in self._selected(wanted.table_entry):
            if not table.has_counter:
                if wanted.table_entry.table_id:
                    raise invalid(f"table {table.name} has no direct counter")
                continue
            for entry in self._addressed(table, wanted.table_entry):
                value = self._target.direct_counter_read(table.name, entry.match, entry.priority)
                yield p4r.DirectCounterEntry(table_entry=_key_message(table, entry), data=counter_data(value))

    def read_meters(self, wanted: p4r.DirectMeterEntry) -> Iterator[p4r.DirectMeterEntry]:
        """Direct meters, likewise."""
        for table in self._selected(wanted.table_entry):
            if table.meter is None:
                if wanted.table_entry.table_id:
                    raise invalid(f"table {table.name} has no direct meter")
                continue
            for entry in self._addressed(table, wanted.table_entry):
                message = p4r.DirectMeterEntry(table_entry=_key_message(table, entry))
                config = self._target.direct_meter_read(table.name, entry.match, entry.priority)
                if config is not None:
                    message.config.CopyFrom(meter_message(config))
                if wanted.HasField("counter_data"):
                    colors = self._target.direct_meter_colors(table.name, entry.match, entry.priority)
                    message.counter_data.CopyFrom(color_data(colors))
                yield message

    def _selected(self, wanted: p4r.TableEntry) -> list[Table]:
        if wanted.table_id == 0:
            return list(self._schema.tables.values())
        return [find(self._schema.tables, wanted.table_id, "table")]

    def _entries(self, table: Table, wanted: p4r.TableEntry) -> list[Entry]:
        if wanted.table_id == 0 or not wanted.match:
            return self._target.table_entries(table.name)
        match = matches.decode(table, wanted.match)
        if table.needs_priority and wanted.priority == 0:
            return [entry for entry in self._target.table_entries(table.name) if entry.match == match]
        try:
            return [self._target.table_entry(table.name, match, wanted.priority)]
        except NotFound:
            return []

    def _addressed(self, table: Table, wanted: p4r.TableEntry) -> list[Entry]:
        if wanted.is_default_action:
            raise unimplemented(f"table {table.name}: the default entry has no counter or meter on this target")
        if wanted.table_id and (wanted.match or wanted.priority):
            match, priority = self._tables.key(table, wanted)
            return [self._target.table_entry(table.name, match, priority)]
        return self._target.table_entries(table.name)

    def _message(self, table: Table, entry: Entry, extra: Extra, wanted: p4r.TableEntry) -> p4r.TableEntry:
        message = _key_message(table, entry)
        message.action.CopyFrom(self._tables.action_message(table, entry.target, extra))
        message.is_const = table.is_const
        _add_extra(message, extra)
        if wanted.HasField("counter_data") and table.has_counter:
            value = self._target.direct_counter_read(table.name, entry.match, entry.priority)
            message.counter_data.CopyFrom(counter_data(value))
        if wanted.HasField("meter_config") and table.meter:
            config = self._target.direct_meter_read(table.name, entry.match, entry.priority)
            if config is not None:
                message.meter_config.CopyFrom(meter_message(config))
        if wanted.HasField("meter_counter_data") and table.meter:
            colors = self._target.direct_meter_colors(table.name, entry.match, entry.priority)
            message.meter_counter_data.CopyFrom(color_data(colors))
        return message

    def _default(self, table: Table, wanted: p4r.TableEntry) -> p4r.TableEntry | None:
        if wanted.match or wanted.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        message = p4r.TableEntry(table_id=table.id, is_default_action=True, is_const=table.const_default)
        call = self._target.table_default(table.name)
        if call is not None and call.name in self._schema.actions_by_name:
            message.action.action.CopyFrom(actions.encode(self._schema, call))
        _add_extra(message, self._tables.default_extra(table.id))
        if wanted.HasField("counter_data") and table.has_counter:
            message.counter_data.SetInParent()  # BMv2 counts hits only, so the default entry's counter stays zero
        return message


def _key_message(table: Table, entry: Entry) -> p4r.TableEntry:
    return p4r.TableEntry(table_id=table.id, match=matches.encode(table, entry.match), priority=entry.priority)


def _add_extra(message: p4r.TableEntry, extra: Extra) -> None:
    message.metadata = extra.metadata
    message.controller_metadata = extra.controller_metadata


def _passes(entry: Entry, extra: Extra, wanted: p4r.TableEntry, schema: Schema) -> bool:
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
