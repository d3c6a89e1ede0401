"""A fake switch for tests of the layers above: the control plane of `Switch`, without forwarding.

It stores what is written and raises the engine's errors for missing and duplicate objects. Tests put frames for the
controller into `outbox`, and find packets from it in `inbox`.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from p4runtime_shim.errors import AlreadyExists, NotFound

_Key = tuple[tuple[Match, ...], int]


@dataclass(slots=True)
class _Table:
    entries: dict[_Key, Entry] = field(default_factory=dict)
    counters: dict[_Key, CounterValue] = field(default_factory=dict)
    meters: dict[_Key, MeterConfig] = field(default_factory=dict)
    colors: dict[_Key, MeterColors] = field(default_factory=dict)
    default: ActionCall | None = None

    def find(self, name: str, match: tuple[Match, ...], priority: int) -> _Key:
        if (match, priority) not in self.entries:
            raise NotFound(f"table {name} has no such entry")
        return match, priority


class _Snapshot(Sequence[Any]):
    """The cells of an array at one time; its size is not limited."""

    def __init__(self, plane: FakeControlPlane, kind: str, name: str, empty: Any) -> None:
        self._cells, self._fill = dict(plane._cells), plane._fills.get((kind, name), empty)
        self._kind, self._name = kind, name

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: Any) -> Any:
        return self._cells.get((self._kind, self._name, index), self._fill)


class FakeControlPlane:
    """Stores what is written. `digests` are those not taken yet."""

    def __init__(self) -> None:
        self.tables: defaultdict[str, _Table] = defaultdict(_Table)
        self.watched: dict[tuple[str, int], dict[int, int]] = {}
        self.digests: list[Digest] = []
        self._members: defaultdict[str, dict[int, ActionCall]] = defaultdict(dict)
        self._groups: defaultdict[str, dict[int, tuple[tuple[int, int], ...]]] = defaultdict(dict)
        self._cells: dict[tuple[str, str, int], Any] = {}
        self._fills: dict[tuple[str, str], Any] = {}
        self._multicast: dict[int, tuple[Replica, ...]] = {}
        self._sessions: dict[int, CloneSession] = {}

    def take_digests(self) -> list[Digest]:
        taken, self.digests = self.digests, []
        return taken

    # --- tables

    def table_insert(self, table: str, entry: Entry) -> None:
        entries = self.tables[table].entries
        if (entry.match, entry.priority) in entries:
            raise AlreadyExists(f"table {table} already has this entry")
        entries[entry.match, entry.priority] = entry

    def table_modify(self, table: str, entry: Entry) -> None:
        self.tables[table].entries[self.tables[table].find(table, entry.match, entry.priority)] = entry

    def table_delete(self, table: str, match: tuple[Match, ...], priority: int = 0) -> None:
        key = self.tables[table].find(table, match, priority)
        del self.tables[table].entries[key]
        self.tables[table].counters.pop(key, None)
        self.tables[table].meters.pop(key, None)
        self.tables[table].colors.pop(key, None)

    def table_entries(self, table: str) -> list[Entry]:
        return list(self.tables[table].entries.values())

    def table_entry(self, table: str, match: tuple[Match, ...], priority: int = 0) -> Entry:
        return self.tables[table].entries[self.tables[table].find(table, match, priority)]

    def table_set_default(self, table: str, action: ActionCall | None) -> None:
        self.tables[table].default = action

    def table_default(self, table: str) -> ActionCall | None:
        return self.tables[table].default

    def table_counters(self, table: str) -> list[CounterValue]:
        return [self.tables[table].counters.get(key, CounterValue()) for key in self.tables[table].entries]

    def table_meters(self, table: str) -> list[MeterConfig | None]:
        return [self.tables[table].meters.get(key) for key in self.tables[table].entries]

    def table_colors(self, table: str) -> list[MeterColors]:
        return [self.tables[table].colors.get(key, MeterColors()) for key in self.tables[table].entries]

    def direct_counter_read(self, table: str, match: tuple[Match, ...], priority: int = 0) -> CounterValue:
        return self.tables[table].counters.get(self.tables[table].find(table, match, priority), CounterValue())

    def direct_counter_write(self, table: str, match: tuple[Match, ...], priority: int, value: CounterValue) -> None:
        self.tables[table].counters[self.tables[table].find(table, match, priority)] = value

    def direct_meter_read(self, table: str, match: tuple[Match, ...], priority: int = 0) -> MeterConfig | None:
        return self.tables[table].meters.get(self.tables[table].find(table, match, priority))

    def direct_meter_write(
        self, table: str, match: tuple[Match, ...], priority: int, config: MeterConfig | None
    ) -> None:
        key = self.tables[table].find(table, match, priority)
        self.tables[table].meters.pop(key, None)
        if config is not None:
            self.tables[table].meters[key] = config

    def direct_meter_colors(self, table: str, match: tuple[Match, ...], priority: int = 0) -> MeterColors:
        return self.tables[table].colors.get(self.tables[table].find(table, match, priority), MeterColors())

    def direct_meter_set_colors(self, table: str, match: tuple[Match, ...], priority: int, value: MeterColors) -> None:
        self.tables[table].colors[self.tables[table].find(table, match, priority)] = value

    # --- action profiles

    def member_add(self, profile: str, member_id: int, action: ActionCall) -> None:
        _must_not_have(self._members[profile], member_id, f"{profile}: member {member_id}")
        self._members[profile][member_id] = action

    def member_modify(self, profile: str, member_id: int, action: ActionCall) -> None:
        _must_have(self._members[profile], member_id, f"{profile}: member {member_id}")
        self._members[profile][member_id] = action

    def member_delete(self, profile: str, member_id: int) -> None:
        _must_have(self._members[profile], member_id, f"{profile}: member {member_id}")
        del self._members[profile][member_id]

    def members(self, profile: str) -> dict[int, ActionCall]:
        return dict(self._members[profile])

    def member(self, profile: str, member_id: int) -> ActionCall:
        _must_have(self._members[profile], member_id, f"{profile}: member {member_id}")
        return self._members[profile][member_id]

    def group_add(
        self, profile: str, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] | None = None
    ) -> None:
        _must_not_have(self._groups[profile], group_id, f"{profile}: group {group_id}")
        self._groups[profile][group_id] = tuple(members)
        self.watched[profile, group_id] = dict(watch or {})

    def group_modify(
        self, profile: str, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] | None = None
    ) -> None:
        _must_have(self._groups[profile], group_id, f"{profile}: group {group_id}")
        self._groups[profile][group_id] = tuple(members)
        self.watched[profile, group_id] = dict(watch or {})

    def group_delete(self, profile: str, group_id: int) -> None:
        _must_have(self._groups[profile], group_id, f"{profile}: group {group_id}")
        del self._groups[profile][group_id]

    def groups(self, profile: str) -> dict[int, tuple[tuple[int, int], ...]]:
        return dict(self._groups[profile])

    # --- arrays

    def _cell(self, kind: str, name: str, index: int, empty: Any) -> Any:
        return self._cells.get((kind, name, index), self._fills.get((kind, name), empty))

    def _fill(self, kind: str, name: str, value: Any) -> None:
        self._fills[kind, name] = value
        self._cells = {key: cell for key, cell in self._cells.items() if key[:2] != (kind, name)}

    def counter_read(self, name: str, index: int) -> CounterValue:
        found: CounterValue = self._cell("counter", name, index, CounterValue())
        return found

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        self._cells["counter", name, index] = value

    def counter_read_all(self, name: str) -> _Snapshot:
        return _Snapshot(self, "counter", name, CounterValue())

    def counter_fill(self, name: str, value: CounterValue) -> None:
        self._fill("counter", name, value)

    def register_read(self, name: str, index: int) -> int:
        found: int = self._cell("register", name, index, 0)
        return found

    def register_write(self, name: str, index: int, value: int) -> None:
        self._cells["register", name, index] = value

    def register_read_all(self, name: str) -> _Snapshot:
        return _Snapshot(self, "register", name, 0)

    def register_fill(self, name: str, value: int) -> None:
        self._fill("register", name, value)

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        found: MeterConfig | None = self._cell("meter", name, index, None)
        return found

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        self._cells["meter", name, index] = config

    def meter_read_all(self, name: str) -> _Snapshot:
        return _Snapshot(self, "meter", name, None)

    def meter_fill(self, name: str, config: MeterConfig | None) -> None:
        self._fill("meter", name, config)

    def meter_colors(self, name: str, index: int) -> MeterColors:
        found: MeterColors = self._cell("colors", name, index, MeterColors())
        return found

    def meter_set_colors(self, name: str, index: int, value: MeterColors) -> None:
        self._cells["colors", name, index] = value

    def meter_colors_all(self, name: str) -> _Snapshot:
        return _Snapshot(self, "colors", name, MeterColors())

    def meter_reset_colors(self, name: str) -> None:
        self._fill("colors", name, MeterColors())

    # --- packet replication

    def multicast_set(self, group: int, replicas: Sequence[Replica]) -> None:
        self._multicast[group] = tuple(replicas)

    def multicast_delete(self, group: int) -> None:
        _must_have(self._multicast, group, f"multicast group {group}")
        del self._multicast[group]

    def multicast_groups(self) -> dict[int, tuple[Replica, ...]]:
        return dict(self._multicast)

    def clone_session_set(self, session: int, config: CloneSession) -> None:
        self._sessions[session] = config

    def clone_session_delete(self, session: int) -> None:
        _must_have(self._sessions, session, f"clone session {session}")
        del self._sessions[session]

    def clone_sessions(self) -> dict[int, CloneSession]:
        return dict(self._sessions)


class FakeSwitch:
    """Methods as in `Switch`. `on_pipeline` may fill in a program's initial entries."""

    def __init__(self, on_pipeline: Callable[[FakeSwitch, Any], None] = lambda switch, pipeline: None) -> None:
        self.pipeline: Any = None
        self.control_plane = FakeControlPlane()
        self.closed = False
        self.staged: list[FakeSwitch] = []
        self.inbox: list[tuple[int, bytes]] = []
        self.outbox: deque[bytes] = deque()
        self._on_pipeline = on_pipeline
        self._events: dict[str, int] = {}

    def set_pipeline(self, pipeline: Any) -> None:
        """Start with another program, empty."""
        staged = self.stage(pipeline)
        self.adopt(staged)
        staged.close()

    def stage(self, pipeline: Any) -> FakeSwitch:
        """Another fake with the program's initial entries."""
        staged = FakeSwitch(self._on_pipeline)
        staged.pipeline = pipeline
        self._on_pipeline(staged, pipeline)
        self.staged.append(staged)
        return staged

    def adopt(self, staged: FakeSwitch) -> None:
        """Swap everything with it except packets and events."""
        self.pipeline, staged.pipeline = staged.pipeline, self.pipeline
        self.control_plane, staged.control_plane = staged.control_plane, self.control_plane

    def close(self) -> None:
        """Record that it was closed."""
        self.closed = True

    # --- packets and digests

    def receive(self, port: int, frame: bytes, now: int) -> None:
        self.inbox.append((port, frame))

    def transmit(self, port: int, now: int) -> bytes | None:
        return self.outbox.popleft() if self.outbox else None

    def set_port_event(self, port: int, fd: int) -> None:
        self._events["packet"] = fd

    def set_digest_event(self, fd: int) -> None:
        self._events["digest"] = fd

    def punt(self, frame: bytes) -> None:
        """Send a frame to the controller."""
        self.outbox.append(frame)
        os.eventfd_write(self._events["packet"], 1)

    def report(self, digest: Digest) -> None:
        """Emit a digest."""
        self.control_plane.digests.append(digest)
        os.eventfd_write(self._events["digest"], 1)


def _must_have(items: dict[int, Any], key: int, what: str) -> None:
    if key not in items:
        raise NotFound(f"there is no {what}")


def _must_not_have(items: dict[int, Any], key: int, what: str) -> None:
    if key in items:
        raise AlreadyExists(f"{what} already exists")
