"""A fake switch for tests of the layers above: the control plane of `Switch`, without forwarding.

It stores what is written and raises the engine's errors for missing and duplicate objects. Tests put frames for the
controller into `outbox`, and find packets from it in `inbox`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrc_common.p4_match import Match
from p4runtime_shim.entities import (
    ActionCall,
    CloneSession,
    CounterValue,
    Digest,
    Entry,
    MeterColors,
    MeterConfig,
    Replica,
)
from p4runtime_shim.errors import AlreadyExists, NotFound

_Key = tuple[tuple[Match, ...], int]


@dataclass
class FakeTable:
    name: str
    default: ActionCall | None = None
    stored: dict[_Key, Entry] = field(default_factory=dict)
    counters: dict[_Key, CounterValue] = field(default_factory=dict)
    hits: dict[_Key, int] = field(default_factory=dict)
    meters: dict[_Key, MeterConfig] = field(default_factory=dict)
    colors: dict[_Key, MeterColors] = field(default_factory=dict)
    fixed: bool = False

    def _find(self, match: tuple[Match, ...], priority: int) -> _Key:
        if (match, priority) not in self.stored:
            raise NotFound(f"table {self.name} has no such entry")
        return match, priority

    def insert(self, entry: Entry) -> None:
        if (entry.match, entry.priority) in self.stored:
            raise AlreadyExists(f"table {self.name} already has this entry")
        self.stored[entry.match, entry.priority] = entry

    def modify(self, entry: Entry) -> None:
        self.stored[self._find(entry.match, entry.priority)] = entry

    def delete(self, match: tuple[Match, ...], priority: int = 0) -> None:
        key = self._find(match, priority)
        del self.stored[key]
        self.counters.pop(key, None)
        self.meters.pop(key, None)
        self.colors.pop(key, None)

    def entries(self) -> list[Entry]:
        return list(self.stored.values())

    def entry(self, match: tuple[Match, ...], priority: int = 0) -> Entry:
        return self.stored[self._find(match, priority)]

    def set_default(self, call: ActionCall | None) -> None:
        self.default = call

    def last_hits(self, keys: Sequence[_Key] | None = None) -> list[int | None]:
        return [self.hits.get(key) for key in (self.stored if keys is None else keys)]

    def counter_read(self, match: tuple[Match, ...], priority: int = 0) -> CounterValue:
        return self.counters.get(self._find(match, priority), CounterValue())

    def counter_read_all(self) -> list[CounterValue]:
        return [self.counters.get(key, CounterValue()) for key in self.stored]

    def counter_write(self, match: tuple[Match, ...], priority: int, value: CounterValue) -> None:
        self.counters[self._find(match, priority)] = value

    def meter_read(self, match: tuple[Match, ...], priority: int = 0) -> MeterConfig | None:
        return self.meters.get(self._find(match, priority))

    def meter_read_all(self) -> list[MeterConfig | None]:
        return [self.meters.get(key) for key in self.stored]

    def meter_write(self, match: tuple[Match, ...], priority: int, config: MeterConfig | None) -> None:
        key = self._find(match, priority)
        self.meters.pop(key, None)
        if config is not None:
            self.meters[key] = config

    def colors_read(self, match: tuple[Match, ...], priority: int = 0) -> MeterColors:
        return self.colors.get(self._find(match, priority), MeterColors())

    def colors_read_all(self) -> list[MeterColors]:
        return [self.colors.get(key, MeterColors()) for key in self.stored]

    def colors_write(self, match: tuple[Match, ...], priority: int, value: MeterColors) -> None:
        self.colors[self._find(match, priority)] = value


class FakeProfile:
    """`watched`: by group, the port that each member needs."""

    def __init__(self, name: str) -> None:
        self.watched: dict[int, dict[int, int]] = {}
        self._name = name
        self._members: dict[int, ActionCall] = {}
        self._groups: dict[int, tuple[tuple[int, int], ...]] = {}

    def member_add(self, member_id: int, call: ActionCall) -> None:
        _must_not_have(self._members, member_id, f"{self._name}: member {member_id}")
        self._members[member_id] = call

    def member_modify(self, member_id: int, call: ActionCall) -> None:
        _must_have(self._members, member_id, f"{self._name}: member {member_id}")
        self._members[member_id] = call

    def member_delete(self, member_id: int) -> None:
        _must_have(self._members, member_id, f"{self._name}: member {member_id}")
        del self._members[member_id]

    def member(self, member_id: int) -> ActionCall:
        _must_have(self._members, member_id, f"{self._name}: member {member_id}")
        return self._members[member_id]

    def members(self) -> dict[int, ActionCall]:
        return dict(self._members)

    def group_add(self, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] = {}) -> None:
        _must_not_have(self._groups, group_id, f"{self._name}: group {group_id}")
        self._groups[group_id] = tuple(members)
        self.watched[group_id] = dict(watch)

    def group_modify(self, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] = {}) -> None:
        _must_have(self._groups, group_id, f"{self._name}: group {group_id}")
        self._groups[group_id] = tuple(members)
        self.watched[group_id] = dict(watch)

    def group_delete(self, group_id: int) -> None:
        _must_have(self._groups, group_id, f"{self._name}: group {group_id}")
        del self._groups[group_id]

    def groups(self) -> dict[int, tuple[tuple[int, int], ...]]:
        return dict(self._groups)


class _Snapshot(Sequence[Any]):
    """The cells of an array at one time, of the stand-in above; its size is not limited."""

    def __init__(self, externs: FakeExterns, kind: str, name: str, empty: Any) -> None:
        self._cells, self._fill = dict(externs._cells), externs._fills.get((kind, name), empty)
        self._kind, self._name = kind, name

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: Any) -> Any:
        return self._cells.get((self._kind, self._name, index), self._fill)


class FakeValueSet:
    def __init__(self) -> None:
        self._members: tuple[tuple[Match, ...], ...] = ()

    def members(self) -> tuple[tuple[Match, ...], ...]:
        return self._members

    def set_members(self, members: Sequence[tuple[Match, ...]]) -> None:
        if len(set(members)) < len(members):
            raise AlreadyExists("two members are equal")
        self._members = tuple(members)


class FakeExterns:
    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, int], Any] = {}
        self._fills: dict[tuple[str, str], Any] = {}

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

    def colors_read(self, name: str, index: int) -> MeterColors:
        found: MeterColors = self._cell("colors", name, index, MeterColors())
        return found

    def colors_write(self, name: str, index: int, value: MeterColors) -> None:
        self._cells["colors", name, index] = value

    def colors_read_all(self, name: str) -> _Snapshot:
        return _Snapshot(self, "colors", name, MeterColors())

    def colors_reset(self, name: str) -> None:
        self._fill("colors", name, MeterColors())


class FakeReplication:
    def __init__(self) -> None:
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}

    def group_set(self, group: int, replicas: Sequence[Replica]) -> None:
        self.groups[group] = tuple(replicas)

    def group_delete(self, group: int) -> None:
        _must_have(self.groups, group, f"multicast group {group}")
        del self.groups[group]

    def session_set(self, session: int, config: CloneSession) -> None:
        self.sessions[session] = config

    def session_delete(self, session: int) -> None:
        _must_have(self.sessions, session, f"clone session {session}")
        del self.sessions[session]


class FakeControlPlane:
    """Stores what is written. `digests` are those not taken yet."""

    def __init__(self) -> None:
        self.tables: dict[str, FakeTable] = {}
        self.profiles: dict[str, FakeProfile] = {}
        self.value_sets: dict[str, FakeValueSet] = {}
        self.externs = FakeExterns()
        self.replication = FakeReplication()
        self.digests: list[Digest] = []

    def table(self, name: str) -> FakeTable:
        return self.tables.setdefault(name, FakeTable(name))

    def profile(self, name: str) -> FakeProfile:
        return self.profiles.setdefault(name, FakeProfile(name))

    def value_set(self, name: str) -> FakeValueSet:
        return self.value_sets.setdefault(name, FakeValueSet())

    def take_digests(self) -> list[Digest]:
        taken, self.digests = self.digests, []
        return taken


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
