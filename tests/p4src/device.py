"""The fabric program on an embedded switch with a hand-driven clock."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from p4runtime_shim.entities import ActionCall, CounterValue, Entry
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from p4runtime_shim.traffic_manager import QueueConfig
from topologies import entries as neutral
from topologies.p4_program import fabric_program

CPU_PORT = 510
MALFORMED, HOP_LIMIT, NO_USID, NO_ROUTE, QUEUE_FULL, ARRIVAL_LOSS, DEPARTURE_LOSS, PATH_LOSS, BLACKHOLE = range(1, 10)


@functools.cache
def pipeline() -> Pipeline:
    """The program as its sources are, loaded once."""
    return Pipeline.load(fabric_program().json)


class Device:
    """A switch that runs the program; tables and actions go by the last part of their names."""

    def __init__(
        self, ports: Iterable[int] = (1, 2, 3, 4, CPU_PORT), *, seed: int = 1, queue_packets: int = 1024
    ) -> None:
        self.pipeline = pipeline()
        self.ports = tuple(ports)
        queues = QueueConfig(max_packets=queue_packets, buffer_packets=8192)
        self.switch = EmbeddedSwitch(self.pipeline, ports=self.ports, seed=seed, queues=queues)
        self.now = 0
        self._tables = {_last(table.name): table for table in self.pipeline.program.tables}

    def write(self, *entries: neutral.TableEntry) -> None:
        """Insert entries."""
        for entry in entries:
            table = self._tables[entry.table]
            self.switch.control_plane.table(table.name).insert(self._entry(entry))

    def delete(self, *entries: neutral.TableEntry) -> None:
        """Delete entries."""
        for entry in entries:
            own = self._entry(entry)
            self.switch.control_plane.table(self._tables[entry.table].name).delete(own.match, own.priority)

    def group(
        self, members: dict[int, tuple[int, int, int]], groups: dict[int, dict[int, int]], profile: str = neutral.ECMP
    ) -> None:
        """Members (id -> port, dmac, smac) and groups (id -> member -> weight) of a selector."""
        selector = next(name for name in self.pipeline.profiles if _last(name) == profile)
        action = f"{selector.rpartition('.')[0]}.set_egress"
        for number, args in members.items():
            self.switch.control_plane.profile(selector).member_add(number, ActionCall(action, args))
        for number, weights in groups.items():
            self.switch.control_plane.profile(selector).group_add(number, tuple(weights.items()))

    def program(self, entries: neutral.SwitchEntries) -> None:
        """All static entries of a switch of a fabric."""
        for profile in (neutral.ECMP, neutral.UPLINKS):
            members = {
                m.member_id: tuple(value for _, value in m.action.args) for m in entries.members if m.profile == profile
            }
            groups = {group.group_id: dict(group.members) for group in entries.groups if group.profile == profile}
            self.group(members, groups, profile)
        self.write(*entries.entries)

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives."""
        self.switch.receive(port, frame, self.now)

    def take(self, port: int) -> list[bytes]:
        """All that a port has to send now."""
        frames = []
        while (frame := self.switch.transmit(port, self.now)) is not None:
            frames.append(frame)
        return frames

    def pass_through(self, port: int, frame: bytes) -> dict[int, list[bytes]]:
        """What comes out, by port, when a frame goes in."""
        self.send(port, frame)
        return {number: frames for number in self.ports if (frames := self.take(number))}

    def drops(self) -> dict[int, int]:
        """Packets dropped, by reason, without those that are zero."""
        cells = self.switch.control_plane.externs.counter_read_all("drop_reasons")
        return {reason: cell.packets for reason, cell in enumerate(cells) if cell.packets}

    def port_drops(self) -> dict[tuple[int, int], int]:
        """Packets dropped, by port and reason, without those that are zero."""
        cells = self.switch.control_plane.externs.counter_read_all("port_drops")
        return {(index >> 4, index & 15): cell.packets for index, cell in enumerate(cells) if cell.packets}

    def counter(self, name: str, index: int) -> CounterValue:
        """A cell of an indirect counter, by the last part of its name."""
        full = next(found for found in self.pipeline.counters if _last(found) == name)
        return self.switch.control_plane.externs.counter_read(full, index)

    def hits(self, entry: neutral.TableEntry) -> CounterValue:
        """The direct counter of an entry."""
        own = self._entry(entry)
        return self.switch.control_plane.table(self._tables[entry.table].name).counter_read(own.match, own.priority)

    def queued(self, port: int, priority: int = 0) -> int:
        """Bytes of data that the program believes to wait in a queue."""
        return self.switch.control_plane.externs.register_read("queue_bytes", port << 3 | priority)

    def _entry(self, entry: neutral.TableEntry) -> Entry:
        target = entry.target
        if not isinstance(target, neutral.TableAction):
            return Entry(entry.match, target, entry.priority)
        program = self.pipeline.program
        actions = (program.actions[position] for position in self._tables[entry.table].actions)
        action = next(action for action in actions if _last(action.name) == target.name)
        given = dict(target.args)
        args = tuple(given[_last(param.name)] for param in action.params)
        return Entry(entry.match, ActionCall(action.name, args), entry.priority)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
