"""Table entries, default entries, and the counters and meters that belong to them (P4Runtime spec, "TableEntry").

The switch holds the entries. What it cannot store is kept here by key: the client's metadata, the idle timeout and, for
one-shot entries, the action set as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from finsy.proto import p4i, p4r

from mrc_common.p4_match import GroupRef, Match, MemberRef
from p4runtime_shim import limits
from p4runtime_shim.entities import ActionCall, CounterValue, Entry, EntryTarget, MeterColors
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.server import entry_codec
from p4runtime_shim.server.action_profile_entries import ActionProfileEntries
from p4runtime_shim.server.extern_entries import counter_value, meter_config, only_modify, resets_colors
from p4runtime_shim.server.idle_timeouts import IdleTimeouts, Key
from p4runtime_shim.server.p4info import Schema, TableInfo
from p4runtime_shim.server.rpc_errors import denied, exhausted, invalid, unimplemented
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.undo_log import UndoLog


@dataclass(frozen=True, slots=True)
class EntryMetadata:
    """What the server stores of an entry in addition to the switch."""

    metadata: bytes = b""
    controller_metadata: int = 0
    idle_timeout_ns: int = 0
    action_set: p4r.ActionProfileActionSet | None = None


_NOTHING = EntryMetadata()


class TableEntries:
    """Writes to the tables of one switch."""

    def __init__(
        self,
        schema: Schema,
        control_plane: ControlPlaneInterface,
        profiles: ActionProfileEntries,
        clock: Callable[[], int],
    ) -> None:
        self.clock = clock
        self.idle = IdleTimeouts(control_plane, clock())
        self._schema = schema
        self._control_plane = control_plane
        self._profiles = profiles
        self._extras: dict[Key, EntryMetadata] = {}
        self._default_extras: dict[int, EntryMetadata] = {}
        self._initial_defaults = {
            table.id: control_plane.table(table.name).default for table in schema.tables.values() if not table.profile
        }

    def extra(self, key: Key) -> EntryMetadata:
        """The metadata of an entry."""
        return self._extras.get(key, _NOTHING)

    def default_extra(self, table_id: int) -> EntryMetadata:
        """The metadata of a default entry."""
        return self._default_extras.get(table_id, _NOTHING)

    def default_changed(self, table: TableInfo) -> bool:
        """Whether the default entry differs from the program's."""
        if table.profile:
            return False
        changed = self._control_plane.table(table.name).default != self._initial_defaults[table.id]
        return changed or table.id in self._default_extras

    def key(self, table: TableInfo, message: p4r.TableEntry) -> tuple[tuple[Match, ...], int]:
        """The checked match and priority of an entry."""
        match = entry_codec.decode_match(table, message.match)
        if table.needs_priority and message.priority <= 0:
            raise invalid(f"table {table.name}: entries need a priority above 0, not {message.priority}")
        if not table.needs_priority and message.priority != 0:
            raise invalid(f"table {table.name}: entries have no priority; leave it 0")
        return match, message.priority

    # --- entries

    def write(self, update: int, message: p4r.TableEntry, undo_log: UndoLog | None) -> None:
        """INSERT, MODIFY or DELETE of an entry, MODIFY of a default entry."""
        table = self._schema.table(message.table_id)
        if message.is_const:
            raise invalid(f"table {table.name}: is_const cannot be set by a client")
        if message.is_default_action:
            self._write_default(update, table, message, undo_log)
            return
        if not table.fields:
            raise invalid(f"table {table.name} has no key; only its default entry can be written")
        if table.is_const and (update != p4r.Update.MODIFY or message.HasField("action")):
            raise denied(f"table {table.name} is constant; only its direct counters and meters can be written")
        match, priority = self.key(table, message)
        if update == p4r.Update.DELETE:
            self._delete(table, match, priority, undo_log)
            return
        _check_timeout(table, message)
        if len(message.metadata) > limits.MAX_METADATA_BYTES:
            raise exhausted(f"table {table.name}: metadata has at most {limits.MAX_METADATA_BYTES} bytes")
        self._check_direct(table, message)
        if update == p4r.Update.INSERT:
            self._insert(table, match, priority, message, undo_log)
        else:
            self._modify(table, match, priority, message, undo_log)

    def _insert(
        self,
        table: TableInfo,
        match: tuple[Match, ...],
        priority: int,
        message: p4r.TableEntry,
        undo_log: UndoLog | None,
    ) -> None:
        if not message.HasField("action"):
            raise invalid(f"table {table.name}: the entry has no action")
        target = self._entry_target(table, message.action)
        try:
            self._control_plane.table(table.name).insert(Entry(match, target, priority))
        except SwitchError:
            self._drop_one_shot(table, message.action, target)
            raise
        self._hold(table, target)
        self._remember((table.id, match, priority), message)
        if table.has_timeout:
            self.idle.insert(table, (table.id, match, priority), message.idle_timeout_ns, self.clock())
        if message.HasField("counter_data") and message.counter_data != p4r.CounterData():
            self._control_plane.table(table.name).counter_write(match, priority, counter_value(message.counter_data))
        if message.HasField("meter_config"):
            self._write_meter_config(table, match, priority, message)
        if undo_log is not None:
            undo_log.append(lambda: self._delete(table, match, priority, None))

    def _modify(
        self,
        table: TableInfo,
        match: tuple[Match, ...],
        priority: int,
        message: p4r.TableEntry,
        undo_log: UndoLog | None,
    ) -> None:
        old = self._control_plane.table(table.name).entry(match, priority)
        key = (table.id, match, priority)
        old_message = self._restorable(table, old) if undo_log is not None else None
        self._undo_idle(table, key, undo_log)
        if message.HasField("action"):
            target = self._entry_target(table, message.action)
            try:
                self._control_plane.table(table.name).modify(replace(old, target=target))
            except SwitchError:
                self._drop_one_shot(table, message.action, target)
                raise
            self._hold(table, target)
            self._release(table, old.target, self.extra(key))
        self._remember(key, message)
        if table.has_timeout:
            self.idle.modify(table, key, message.idle_timeout_ns, self.clock())
        if message.HasField("counter_data"):
            self._control_plane.table(table.name).counter_write(match, priority, counter_value(message.counter_data))
        if undo_log is not None and old_message is not None:
            undo_log.append(lambda: self._modify(table, match, priority, old_message, None))
        if table.meter:
            self._write_meter_config(table, match, priority, message)
        if message.HasField("meter_counter_data"):
            self._reset_colors(table, match, priority, undo_log)

    def _delete(self, table: TableInfo, match: tuple[Match, ...], priority: int, undo_log: UndoLog | None) -> None:
        key = (table.id, match, priority)
        keep_target = table.profile is not None or undo_log is not None
        old = self._control_plane.table(table.name).entry(match, priority) if keep_target else None
        old_message = self._restorable(table, old) if undo_log is not None and old is not None else None
        colors = (
            self._control_plane.table(table.name).colors_read(match, priority)
            if undo_log is not None and table.meter
            else None
        )
        self._undo_idle(table, key, undo_log)
        self._control_plane.table(table.name).delete(match, priority)
        extra = self._extras.pop(key, _NOTHING)
        self.idle.delete(key)
        if old is not None:
            self._release(table, old.target, extra)
        if undo_log is not None and old_message is not None:
            if colors is not None:
                undo_log.append(lambda: self._control_plane.table(table.name).colors_write(match, priority, colors))
            undo_log.append(lambda: self._insert(table, match, priority, old_message, None))

    def _undo_idle(self, table: TableInfo, key: Key, undo_log: UndoLog | None) -> None:
        """Before an entry changes; what is undone last is logged first."""
        if undo_log is not None and table.has_timeout:
            undo_log.append(self.idle.undo(table, key, self.clock()))

    def _restorable(self, table: TableInfo, entry: Entry) -> p4r.TableEntry:
        """A message that would recreate the entry, including direct resources."""
        extra = self.extra((table.id, entry.match, entry.priority))
        message = p4r.TableEntry()
        add_metadata(message, extra)
        message.action.CopyFrom(self.action_message(table, entry.target, extra))
        if table.has_counter:
            value = self._control_plane.table(table.name).counter_read(entry.match, entry.priority)
            message.counter_data.CopyFrom(p4r.CounterData(packet_count=value.packets, byte_count=value.bytes))
        if table.meter:
            config = self._control_plane.table(table.name).meter_read(entry.match, entry.priority)
            if config is not None:
                message.meter_config.CopyFrom(
                    p4r.MeterConfig(cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst)
                )
        return message

    # --- the action of an entry

    def action_message(self, table: TableInfo, target: EntryTarget, extra: EntryMetadata) -> p4r.TableAction:
        """The action of an entry as written."""
        if extra.action_set is not None:
            return p4r.TableAction(action_profile_action_set=extra.action_set)
        if isinstance(target, MemberRef):
            return p4r.TableAction(action_profile_member_id=target.member_id)
        if isinstance(target, GroupRef):
            return p4r.TableAction(action_profile_group_id=target.group_id)
        return p4r.TableAction(action=entry_codec.encode_action(self._schema, target))

    def _entry_target(self, table: TableInfo, message: p4r.TableAction) -> EntryTarget:
        kind = message.WhichOneof("type")
        if table.profile is None:
            if kind != "action":
                raise invalid(
                    f"table {table.name} is not indirect; its entries need an action, not {kind or 'nothing'}"
                )
            return self._action_call(table, message.action, p4i.ActionRef.DEFAULT_ONLY)
        target: EntryTarget
        if kind == "action_profile_member_id":
            target = MemberRef(message.action_profile_member_id)
        elif kind == "action_profile_group_id":
            target = GroupRef(message.action_profile_group_id)
        elif kind == "action_profile_action_set":
            return self._profiles.create_one_shot(table.profile, table, message.action_profile_action_set)
        else:
            raise invalid(f"table {table.name} is indirect; its entries need a member, group or action set")
        self._profiles.check_reference(table.profile, target)
        return target

    def _action_call(self, table: TableInfo, message: p4r.Action, forbidden_scope: int) -> ActionCall:
        call = entry_codec.decode_action(self._schema, message, table.scopes, f"table {table.name}")
        if table.scopes[message.action_id] == forbidden_scope:
            where = "as its default" if forbidden_scope == p4i.ActionRef.TABLE_ONLY else "in its entries"
            raise denied(f"table {table.name} may not use action {call.name} {where}")
        return call

    def _hold(self, table: TableInfo, target: EntryTarget) -> None:
        if table.profile:
            self._profiles.hold(table.profile, target)

    def _release(self, table: TableInfo, target: EntryTarget, extra: EntryMetadata) -> None:
        if not table.profile:
            return
        self._profiles.release(table.profile, target)
        if extra.action_set is not None and isinstance(target, GroupRef):
            self._profiles.remove_one_shot(table.profile, target)

    def _drop_one_shot(self, table: TableInfo, message: p4r.TableAction, target: EntryTarget) -> None:
        one_shot = message.WhichOneof("type") == "action_profile_action_set"
        if one_shot and table.profile and isinstance(target, GroupRef):
            self._profiles.remove_one_shot(table.profile, target)

    def _remember(self, key: Key, message: p4r.TableEntry) -> None:
        action_set = self.extra(key).action_set
        if message.HasField("action"):
            action_set = None
            if message.action.WhichOneof("type") == "action_profile_action_set":
                action_set = self._profiles.canonical(message.action.action_profile_action_set)
        extra = EntryMetadata(message.metadata, message.controller_metadata, message.idle_timeout_ns, action_set)
        if extra == _NOTHING:
            self._extras.pop(key, None)
        else:
            self._extras[key] = extra

    # --- default entries

    def _write_default(self, update: int, table: TableInfo, message: p4r.TableEntry, undo_log: UndoLog | None) -> None:
        if update != p4r.Update.MODIFY:
            raise invalid(f"table {table.name}: the default entry always exists; it can only be modified")
        if message.match or message.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        if table.const_default:
            raise denied(f"table {table.name}: the default action is constant")
        if table.profile:
            raise denied(f"table {table.name} is indirect; its default action cannot be changed")
        if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
            raise invalid(f"table {table.name}: the default entry has no idle timeout")
        if message.HasField("counter_data") or message.HasField("meter_config"):
            raise unimplemented(f"table {table.name}: the default entry has no counter or meter on this target")
        old, old_extra = self._control_plane.table(table.name).default, self._default_extras.get(table.id)
        call = self._initial_defaults[table.id]
        if message.HasField("action"):
            if message.action.WhichOneof("type") != "action":
                raise invalid(f"table {table.name}: the default entry needs an action")
            call = self._action_call(table, message.action.action, p4i.ActionRef.TABLE_ONLY)
        extra = EntryMetadata(message.metadata, message.controller_metadata) if message.HasField("action") else _NOTHING
        self._put_default(table, call, extra)
        if undo_log is not None:
            undo_log.append(lambda: self._put_default(table, old, old_extra or _NOTHING))

    def _put_default(self, table: TableInfo, call: ActionCall | None, extra: EntryMetadata) -> None:
        self._control_plane.table(table.name).set_default(call)
        if extra == _NOTHING:
            self._default_extras.pop(table.id, None)
        else:
            self._default_extras[table.id] = extra

    # --- direct counters and meters

    def write_counter(self, update: int, message: p4r.DirectCounterEntry, undo_log: UndoLog | None) -> None:
        """MODIFY of the counter of an entry."""
        table = self._schema.table(message.table_entry.table_id)
        only_modify(update, f"table {table.name}: a direct counter")
        if not table.has_counter:
            raise invalid(f"table {table.name} has no direct counter")
        _refuse_default(table, message.table_entry)
        match, priority = self.key(table, message.table_entry)
        old = self._control_plane.table(table.name).counter_read(match, priority)
        if message.HasField("data"):
            self._put_counter(table, match, priority, counter_value(message.data))
            if undo_log is not None:
                undo_log.append(lambda: self._put_counter(table, match, priority, old))

    def _put_counter(self, table: TableInfo, match: tuple[Match, ...], priority: int, value: CounterValue) -> None:
        self._control_plane.table(table.name).counter_write(match, priority, value)

    def write_meter(self, update: int, message: p4r.DirectMeterEntry, undo_log: UndoLog | None) -> None:
        """MODIFY of the meter of an entry; without a config, every packet is green."""
        table = self._schema.table(message.table_entry.table_id)
        only_modify(update, f"table {table.name}: a direct meter")
        if table.meter is None:
            raise invalid(f"table {table.name} has no direct meter")
        resets = resets_colors(message, "counter_data", f"table {table.name}")
        _refuse_default(table, message.table_entry)
        match, priority = self.key(table, message.table_entry)
        config = None
        if message.HasField("config"):
            config = meter_config(message.config, table.meter.type, f"table {table.name}")
        old = self._control_plane.table(table.name).meter_read(match, priority)
        self._control_plane.table(table.name).meter_write(match, priority, config)
        if undo_log is not None:
            undo_log.append(lambda: self._control_plane.table(table.name).meter_write(match, priority, old))
        if resets:
            self._reset_colors(table, match, priority, undo_log)

    def _reset_colors(
        self, table: TableInfo, match: tuple[Match, ...], priority: int, undo_log: UndoLog | None
    ) -> None:
        old = self._control_plane.table(table.name).colors_read(match, priority)
        self._control_plane.table(table.name).colors_write(match, priority, MeterColors())
        if undo_log is not None:
            undo_log.append(lambda: self._control_plane.table(table.name).colors_write(match, priority, old))

    def _write_meter_config(
        self, table: TableInfo, match: tuple[Match, ...], priority: int, message: p4r.TableEntry
    ) -> None:
        config = None
        if table.meter and message.HasField("meter_config"):
            config = meter_config(message.meter_config, table.meter.type, f"table {table.name}")
        self._control_plane.table(table.name).meter_write(match, priority, config)

    def _check_direct(self, table: TableInfo, message: p4r.TableEntry) -> None:
        if message.HasField("counter_data"):
            if not table.has_counter:
                raise invalid(f"table {table.name} has no direct counter")
            counter_value(message.counter_data)
        if message.HasField("meter_config"):
            if table.meter is None:
                raise invalid(f"table {table.name} has no direct meter")
            meter_config(message.meter_config, table.meter.type, f"table {table.name}")
        if resets_colors(message, "meter_counter_data", f"table {table.name}") and table.meter is None:
            raise invalid(f"table {table.name} has no direct meter")


def add_metadata(message: p4r.TableEntry, extra: EntryMetadata) -> None:
    """Add what the server stores of an entry, but for its action set."""
    message.metadata = extra.metadata
    message.controller_metadata = extra.controller_metadata
    message.idle_timeout_ns = extra.idle_timeout_ns


def _check_timeout(table: TableInfo, message: p4r.TableEntry) -> None:
    if not table.has_timeout and (message.idle_timeout_ns or message.HasField("time_since_last_hit")):
        raise invalid(f"table {table.name} has no idle timeouts")
    if message.HasField("time_since_last_hit"):
        raise invalid(f"table {table.name}: time_since_last_hit can only be read")
    if message.idle_timeout_ns < 0:
        raise invalid(f"table {table.name}: the idle timeout {message.idle_timeout_ns} is negative")


def _refuse_default(table: TableInfo, message: p4r.TableEntry) -> None:
    if message.is_default_action:
        raise unimplemented(f"table {table.name}: the default entry has no counter or meter on this target")
