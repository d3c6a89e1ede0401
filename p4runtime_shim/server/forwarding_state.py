"""The forwarding state of one switch with one pipeline config: all P4Runtime entities, behind `write` and `read`.

`entities` lists everything that has been written, in an order in which it can be written again. That is how the state
moves to another pipeline config (RECONCILE_AND_COMMIT).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from finsy.proto import p4r, rpc_code

from p4runtime_shim.errors import SwitchError
from p4runtime_shim.server.action_profile_entries import ActionProfileEntries
from p4runtime_shim.server.budget import ReadBudget, unlimited
from p4runtime_shim.server.digests import Digests
from p4runtime_shim.server.extern_entries import ExternEntries
from p4runtime_shim.server.p4info import Schema
from p4runtime_shim.server.replication_entries import ReplicationEntries
from p4runtime_shim.server.rpc_errors import BatchError, RpcError, from_switch, invalid, unimplemented
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.table_entries import TableEntries
from p4runtime_shim.server.table_entry_reads import TableEntryReads
from p4runtime_shim.server.undo_log import UndoLog, roll_back
from p4runtime_shim.server.value_set_entries import ValueSetEntries

_Writer = Callable[[int, Any, "UndoLog | None"], None]
_Reader = Callable[[Any, ReadBudget], Iterator[Any]]
_Attempt = tuple[str, Iterator[Any]] | RpcError


class ForwardingState:
    """The entities of one switch, as described by `schema`; `clock` is that of the switch's verbs."""

    def __init__(
        self, schema: Schema, control_plane: ControlPlaneInterface, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.schema = schema
        self._control_plane = control_plane
        self.digests = Digests(schema)
        profiles = ActionProfileEntries(schema, control_plane)
        arrays = self._arrays = ExternEntries(schema, control_plane)
        replication = ReplicationEntries(control_plane)
        value_sets = ValueSetEntries(schema, control_plane)
        self._tables = TableEntries(schema, control_plane, profiles, clock)
        self.idle_timeouts = self._tables.idle
        reads = self._table_reads = TableEntryReads(schema, control_plane, self._tables)
        self._writers: dict[str, _Writer] = {
            "table_entry": self._tables.write,
            "direct_counter_entry": self._tables.write_counter,
            "direct_meter_entry": self._tables.write_meter,
            "action_profile_member": profiles.write_member,
            "action_profile_group": profiles.write_group,
            "counter_entry": arrays.write_counter,
            "register_entry": arrays.write_register,
            "meter_entry": arrays.write_meter,
            "packet_replication_engine_entry": replication.write,
            "digest_entry": self.digests.write,
            "value_set_entry": value_sets.write,
        }
        self._readers: dict[str, _Reader] = {
            "table_entry": reads.read,
            "direct_counter_entry": reads.read_counters,
            "direct_meter_entry": reads.read_meters,
            "action_profile_member": profiles.read_members,
            "action_profile_group": profiles.read_groups,
            "counter_entry": arrays.read_counters,
            "register_entry": arrays.read_registers,
            "meter_entry": arrays.read_meters,
            "packet_replication_engine_entry": replication.read,
            "digest_entry": self.digests.read,
            "value_set_entry": value_sets.read,
        }

    # --- writing

    def write(self, updates: Iterable[p4r.Update], atomicity: int = p4r.WriteRequest.CONTINUE_ON_ERROR) -> None:
        """Apply a batch in order; raises BatchError if an update fails."""
        self._arrays.begin()
        if atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
            results = [self._attempt(update, None) for update in updates]
        elif atomicity == p4r.WriteRequest.ROLLBACK_ON_ERROR:
            results = self._all_or_none(updates)
        else:
            raise unimplemented("a batch cannot be atomic for packets (DATAPLANE_ATOMIC) on the embedded switch")
        if any(result is not None for result in results):
            raise BatchError(results, "updates")

    def _all_or_none(self, updates: Iterable[p4r.Update]) -> list[RpcError | None]:
        undo_log: UndoLog = []
        results: list[RpcError | None] = []
        failed = False
        for update in updates:
            result = RpcError(rpc_code.ABORTED, "not attempted: an earlier update failed") if failed else None
            results.append(result or self._attempt(update, undo_log))
            failed = failed or results[-1] is not None
        if failed:
            roll_back(undo_log)
            results = [result or RpcError(rpc_code.ABORTED, "rolled back: a later update failed") for result in results]
        return results

    def _attempt(self, update: p4r.Update, undo_log: UndoLog | None) -> RpcError | None:
        try:
            self._write_one(update, undo_log)
        except RpcError as error:
            return error
        except SwitchError as error:
            return from_switch(error)
        return None

    def _write_one(self, update: p4r.Update, undo_log: UndoLog | None) -> None:
        if update.type not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
            raise invalid("the update has no type; use INSERT, MODIFY or DELETE")
        kind = update.entity.WhichOneof("entity")
        if kind is None:
            raise invalid("the update has no entity")
        writer = self._writers.get(kind)
        if writer is None:
            raise unimplemented(f"{kind} is not supported by the embedded switch")
        writer(update.type, getattr(update.entity, kind), undo_log)

    # --- reading

    def read(self, wanted: Iterable[p4r.Entity], budget: ReadBudget | None = None) -> Iterator[p4r.Entity]:
        """The matching entities as of now; raises BatchError at the end if some filters were invalid.

        They are copied before this returns, and converted to messages when read.
        """
        budget = budget or unlimited()
        attempts = [self._attempt_read(entity, budget) for entity in wanted]
        return _entities(attempts)

    def _attempt_read(self, entity: p4r.Entity, budget: ReadBudget) -> _Attempt:
        try:
            return self._read_one(entity, budget)
        except RpcError as error:
            return error
        except SwitchError as error:
            return from_switch(error)

    def _read_one(self, entity: p4r.Entity, budget: ReadBudget) -> tuple[str, Iterator[Any]]:
        kind = entity.WhichOneof("entity")
        if kind is None:
            raise invalid("the read has no entity type; request each type separately")
        if kind == "extern_entry":
            return kind, iter(())  # programs that use them are rejected
        reader = self._readers.get(kind)
        if reader is None:
            raise unimplemented(f"{kind} is not supported by the embedded switch")
        return kind, reader(getattr(entity, kind), budget)

    def idle_entries(self, now: int, most: int) -> list[p4r.TableEntry]:
        """Entries that have been idle for their timeout, for a notification; at most `most` are looked at."""
        return self._table_reads.expired(now, most)

    # --- moving

    def entities(self, *, counts: bool) -> list[p4r.Update]:
        """Updates that write this state to an empty switch; with `counts`, including what packets have changed."""
        return list(self._inserts(counts)) + list(self._modifies(counts))

    def _inserts(self, counts: bool) -> Iterator[p4r.Update]:
        entry = p4r.TableEntry(meter_config=p4r.MeterConfig())
        if counts:
            entry.counter_data.SetInParent()
        for wanted in (
            p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
            p4r.Entity(digest_entry=p4r.DigestEntry()),
            p4r.Entity(table_entry=entry),
        ):
            for entity in self.read([wanted]):
                if not (entity.HasField("table_entry") and self._fixed(entity.table_entry.table_id)):
                    yield p4r.Update(type=p4r.Update.INSERT, entity=entity)

    def _modifies(self, counts: bool) -> Iterator[p4r.Update]:
        wanted = [p4r.Entity(meter_entry=p4r.MeterEntry())]
        if counts:
            wanted.append(p4r.Entity(counter_entry=p4r.CounterEntry()))
            wanted.append(p4r.Entity(register_entry=p4r.RegisterEntry()))
        wanted += [
            p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id, is_default_action=True))
            for table in self.schema.tables.values()
            if not table.const_default and self._tables.default_changed(table)
        ]
        wanted.append(p4r.Entity(value_set_entry=p4r.ValueSetEntry()))
        for entity in self.read(wanted):
            if not entity.HasField("value_set_entry") or entity.value_set_entry.members:
                yield p4r.Update(type=p4r.Update.MODIFY, entity=entity)
        yield from self._of_fixed(counts)

    def _of_fixed(self, counts: bool) -> Iterator[p4r.Update]:
        """What clients and packets have changed of entries that are the program's."""
        tables = [table for table in self.schema.tables.values() if self._fixed(table.id)]
        filters = [p4r.TableEntry(table_id=table.id, meter_config=p4r.MeterConfig()) for table in tables]
        for entry in filters if counts else ():
            entry.counter_data.SetInParent()
        for entity in self.read([p4r.Entity(table_entry=entry) for entry in filters]):
            entry = entity.table_entry
            entry.ClearField("action")
            entry.ClearField("is_const")
            if entry.counter_data == p4r.CounterData():
                entry.ClearField("counter_data")
            key = p4r.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)
            if entry != key:
                yield p4r.Update(type=p4r.Update.MODIFY, entity=entity)

    def _fixed(self, table_id: int) -> bool:
        """Whether a table's entries are the program's, and nobody can change what they do."""
        table = self.schema.tables[table_id]
        return table.is_const or self._control_plane.table(table.name).fixed

    def clear_initial_entries(self) -> None:
        """Remove the program's initial entries that can be changed, to make room for others."""
        for table in self.schema.tables.values():
            if not table.has_initial_entries or self._fixed(table.id):
                continue
            for entry in self._control_plane.table(table.name).entries():
                self._control_plane.table(table.name).delete(entry.match, entry.priority)

    def replay(self, updates: Iterable[p4r.Update]) -> None:
        """Write the updates of `entities`, but not those of the program's entries that are gone. Raises BatchError."""
        self._arrays.begin()
        results: list[RpcError | None] = []
        for update in updates:
            result = self._attempt(update, None)
            gone = result is not None and result.code == rpc_code.NOT_FOUND and _of_own(update)
            results.append(None if gone else result)
        if any(result is not None for result in results):
            raise BatchError(results, "entities")


def _of_own(update: p4r.Update) -> bool:
    """Whether an update is one of those for entries that are the program's."""
    entry = update.entity.table_entry
    own = update.entity.HasField("table_entry") and not (entry.is_default_action or entry.HasField("action"))
    return own and update.type == p4r.Update.MODIFY


def _entities(attempts: list[_Attempt]) -> Iterator[p4r.Entity]:
    """The entities found, one by one; then a BatchError if a read failed."""
    results: list[RpcError | None] = []
    for attempt in attempts:
        if isinstance(attempt, RpcError):
            results.append(attempt)
            continue
        kind, messages = attempt
        result: RpcError | None = None
        try:
            for message in messages:
                yield p4r.Entity(**{kind: message})
        except RpcError as error:
            result = error
        except SwitchError as error:
            result = from_switch(error)
        results.append(result)
    if any(result is not None for result in results):
        raise BatchError(results, "reads")
