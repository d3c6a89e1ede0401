"""The control plane of a switch: what P4Runtime reads and writes of a loaded program, by name.

Each call finds its object in the state of the program (`ProgramState`), which checks the values in Python, writes them
to the engine and keeps a copy for reads. The engine has its own mutex; the lock here keeps the copy consistent with it,
so calls may come from any thread while packets move. Without a program, and once the program was replaced, every call
raises NotFound. Names are those of the BMv2 JSON.
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Mapping, Sequence

from p4runtime_shim.ctypes_bindings import Engine
from p4runtime_shim.entities import (
    ActionCall,
    CloneSession,
    CounterValue,
    Digest,
    Entry,
    Match,
    MeterColors,
    MeterConfig,
    Replica,
)
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.expressions import FieldRef
from p4runtime_shim.program.model.externs import FieldList
from p4runtime_shim.program.model.program import Program
from p4runtime_shim.state.program_state import ProgramState

_DIGEST_WORDS = 4096


class ControlPlane:
    """The program of a switch with its entries and cells. Errors are subclasses of SwitchError.

    It moves with its program when two switches swap programs (`Switch.adopt`).
    """

    def __init__(self, native: Engine, handle: int, ports: Sequence[int], pipeline: Pipeline | None) -> None:
        """Load the program, if there is one; raises SwitchError."""
        self._native = native
        self._handle = handle
        self._ports = tuple(ports)
        self._lock = threading.RLock()
        self._state = ProgramState(pipeline, native, handle) if pipeline else None

    @property
    def pipeline(self) -> Pipeline | None:
        """The loaded program."""
        state = self._state
        return state.pipeline if state else None

    def unload(self) -> None:
        """Remove the program with its entries and cells; further calls do nothing."""
        with self._lock:
            old, self._state = self._state, None
            if old:
                self._native.library.sw_load(self._handle, None, None, 0)
                old.close()

    def swap(self, other: ControlPlane) -> None:
        """Swap switches with another control plane. It cannot fail."""
        with self._lock, other._lock:
            self._native.library.sw_adopt(self._handle, other._handle)
            self._handle, other._handle = other._handle, self._handle
            for plane in (self, other):
                if plane._state is not None:
                    plane._state.attach(plane._handle)

    @property
    def _program(self) -> ProgramState:
        if self._state is None:
            raise NotFound("no program is loaded")
        return self._state

    # --- tables ---

    def table_insert(self, table: str, entry: Entry) -> None:
        """Add an entry; raises AlreadyExists, ResourceExhausted, InvalidArgument."""
        with self._lock:
            self._program.table(table).insert(entry)

    def table_modify(self, table: str, entry: Entry) -> None:
        """Change the action of an entry; its counter stays."""
        with self._lock:
            self._program.table(table).modify(entry)

    def table_delete(self, table: str, match: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry."""
        with self._lock:
            self._program.table(table).delete(match, priority)

    def table_entries(self, table: str) -> list[Entry]:
        """All entries, in the order of their insertion."""
        with self._lock:
            return [item.entry for item in self._program.table(table).entries.values()]

    def table_entry(self, table: str, match: tuple[Match, ...], priority: int = 0) -> Entry:
        """One entry; NotFound."""
        with self._lock:
            return self._program.table(table).find(match, priority).entry

    def table_counters(self, table: str) -> list[CounterValue]:
        """The direct counters of all entries, in the order of `table_entries`."""
        with self._lock:
            return self._program.table(table).counters_read_all()

    def table_meters(self, table: str) -> list[MeterConfig | None]:
        """The configurations of the direct meters of all entries."""
        with self._lock:
            return [item.meter for item in self._program.table(table).entries.values()]

    def table_colors(self, table: str) -> list[MeterColors]:
        """Packets and bytes that the direct meters of all entries have colored."""
        with self._lock:
            return self._program.table(table).colors_read_all()

    def table_set_default(self, table: str, action: ActionCall | None) -> None:
        """Change the default action; None restores the program's."""
        with self._lock:
            self._program.table(table).set_default(action)

    def table_default(self, table: str) -> ActionCall | None:
        """The default action."""
        with self._lock:
            return self._program.table(table).default

    def direct_counter_read(self, table: str, match: tuple[Match, ...], priority: int = 0) -> CounterValue:
        """The direct counter of an entry."""
        with self._lock:
            return self._program.table(table).counter_read(match, priority)

    def direct_counter_write(self, table: str, match: tuple[Match, ...], priority: int, value: CounterValue) -> None:
        """Set the direct counter of an entry."""
        with self._lock:
            self._program.table(table).counter_write(match, priority, value)

    def direct_meter_read(self, table: str, match: tuple[Match, ...], priority: int = 0) -> MeterConfig | None:
        """The configuration of an entry's direct meter."""
        with self._lock:
            return self._program.table(table).meter_read(match, priority)

    def direct_meter_write(
        self, table: str, match: tuple[Match, ...], priority: int, config: MeterConfig | None
    ) -> None:
        """Configure an entry's direct meter."""
        with self._lock:
            self._program.table(table).meter_write(match, priority, config)

    def direct_meter_colors(self, table: str, match: tuple[Match, ...], priority: int = 0) -> MeterColors:
        """Packets and bytes that an entry's direct meter has colored."""
        with self._lock:
            return self._program.table(table).colors_read(match, priority)

    def direct_meter_set_colors(self, table: str, match: tuple[Match, ...], priority: int, value: MeterColors) -> None:
        """Set the color counters."""
        with self._lock:
            self._program.table(table).colors_write(match, priority, value)

    # --- action profiles ---

    def member_add(self, profile: str, member_id: int, action: ActionCall) -> None:
        """Add a member to an action profile or selector."""
        with self._lock:
            self._program.profile(profile).member_add(member_id, action)

    def member_modify(self, profile: str, member_id: int, action: ActionCall) -> None:
        """Change a member's action."""
        with self._lock:
            self._program.profile(profile).member_modify(member_id, action)

    def member_delete(self, profile: str, member_id: int) -> None:
        """Delete an unused member."""
        with self._lock:
            self._program.profile(profile).member_delete(member_id)

    def members(self, profile: str) -> dict[int, ActionCall]:
        """All members."""
        with self._lock:
            members = self._program.profile(profile).members
            return {number: item.action for number, item in members.items()}

    def member(self, profile: str, member_id: int) -> ActionCall:
        """One member; NotFound."""
        with self._lock:
            return self._program.profile(profile).member(member_id).action

    def group_add(
        self, profile: str, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] | None = None
    ) -> None:
        """Add a group of (member id, weight) to a selector; `watch`: member id -> the port it needs."""
        with self._lock:
            self._program.profile(profile).group_add(group_id, members, self._watched(watch))

    def group_modify(
        self, profile: str, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] | None = None
    ) -> None:
        """Replace the members of a group."""
        with self._lock:
            self._program.profile(profile).group_modify(group_id, members, self._watched(watch))

    def _watched(self, watch: Mapping[int, int] | None) -> Mapping[int, int]:
        for port in (watch or {}).values():
            if port not in self._ports:
                raise InvalidArgument(f"the switch has no port {port} to watch")
        return watch or {}

    def group_delete(self, profile: str, group_id: int) -> None:
        """Delete an unused group."""
        with self._lock:
            self._program.profile(profile).group_delete(group_id)

    def groups(self, profile: str) -> dict[int, tuple[tuple[int, int], ...]]:
        """All groups as (member id, weight)."""
        with self._lock:
            groups = self._program.profile(profile).groups
            return {number: item.members for number, item in groups.items()}

    # --- counters, registers, meters ---

    def counter_read(self, name: str, index: int) -> CounterValue:
        """A cell of an indirect counter."""
        with self._lock:
            return self._program.externs.counter_read(name, index)

    def counter_read_all(self, name: str) -> Sequence[CounterValue]:
        """All cells of an indirect counter, copied now and converted when read, as in all such calls."""
        with self._lock:
            return self._program.externs.counter_read_all(name)

    def counter_fill(self, name: str, value: CounterValue) -> None:
        """Set all cells of an indirect counter."""
        with self._lock:
            self._program.externs.counter_fill(name, value)

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set a cell of an indirect counter."""
        with self._lock:
            self._program.externs.counter_write(name, index, value)

    def register_read(self, name: str, index: int) -> int:
        """A cell of a register array."""
        with self._lock:
            return self._program.externs.register_read(name, index)

    def register_read_all(self, name: str) -> Sequence[int]:
        """All cells of a register array."""
        with self._lock:
            return self._program.externs.register_read_all(name)

    def register_fill(self, name: str, value: int) -> None:
        """Set all cells of a register array."""
        with self._lock:
            self._program.externs.register_fill(name, value)

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set a cell of a register array."""
        with self._lock:
            self._program.externs.register_write(name, index, value)

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Configuration of an indirect meter's cell."""
        with self._lock:
            return self._program.externs.meter_read(name, index)

    def meter_read_all(self, name: str) -> Sequence[MeterConfig | None]:
        """Configurations of all cells of an indirect meter."""
        with self._lock:
            return self._program.externs.meter_read_all(name)

    def meter_fill(self, name: str, config: MeterConfig | None) -> None:
        """Configure all cells of an indirect meter."""
        with self._lock:
            self._program.externs.meter_fill(name, config)

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure an indirect meter's cell; with None, every packet is green."""
        with self._lock:
            self._program.externs.meter_write(name, index, config)

    def meter_colors(self, name: str, index: int) -> MeterColors:
        """Packets and bytes that an indirect meter's cell has colored."""
        with self._lock:
            return self._program.externs.colors_read(name, index)

    def meter_colors_all(self, name: str) -> Sequence[MeterColors]:
        """Packets and bytes that each cell of an indirect meter has colored."""
        with self._lock:
            return self._program.externs.colors_read_all(name)

    def meter_reset_colors(self, name: str) -> None:
        """Reset the color counters of all cells of an indirect meter."""
        with self._lock:
            self._program.externs.colors_reset(name)

    def meter_set_colors(self, name: str, index: int, value: MeterColors) -> None:
        """Set the color counters."""
        with self._lock:
            self._program.externs.colors_write(name, index, value)

    # --- replication ---

    def multicast_set(self, group: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group (1..65535)."""
        with self._lock:
            self._program.replication.group_set(group, replicas)

    def multicast_delete(self, group: int) -> None:
        """Delete a multicast group."""
        with self._lock:
            self._program.replication.group_delete(group)

    def multicast_groups(self) -> dict[int, tuple[Replica, ...]]:
        """All multicast groups."""
        with self._lock:
            return dict(self._program.replication.groups)

    def clone_session_set(self, session: int, config: CloneSession) -> None:
        """Create or replace a clone session (0..32767)."""
        with self._lock:
            self._program.replication.session_set(session, config)

    def clone_session_delete(self, session: int) -> None:
        """Delete a clone session."""
        with self._lock:
            self._program.replication.session_delete(session)

    def clone_sessions(self) -> dict[int, CloneSession]:
        """All clone sessions."""
        with self._lock:
            return dict(self._program.replication.sessions)

    # --- digests ---

    def take_digests(self) -> list[Digest]:
        """The digests since the last call, oldest first; the switch keeps 4096 and counts those lost."""
        with self._lock:
            if self._state is None:
                return []
            program = self._state.pipeline.program
            which, when, words = c.c_uint32(), c.c_int64(), (c.c_uint64 * _DIGEST_WORDS)()
            taken: list[Digest] = []
            while True:
                count = self._native.library.sw_ctl_digest(
                    self._handle, c.byref(which), c.byref(when), words, _DIGEST_WORDS
                )
                if count < 0:
                    return taken
                layout = program.digests[which.value]
                taken.append(Digest(layout.name, _digest_values(program, layout, words[:count]), when.value))


def _digest_values(program: Program, layout: FieldList, words: Sequence[int]) -> tuple[int, ...]:
    values: list[int] = []
    position = 0
    for ref in layout.fields:
        width = program.field(ref).width if isinstance(ref, FieldRef) else 1
        count = (width + 63) // 64
        values.append(sum(word << (64 * i) for i, word in enumerate(words[position : position + count])))
        position += count
    return tuple(values)
