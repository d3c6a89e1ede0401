"""Entries and counters of one switch, read over P4Runtime on request.

A read needs no arbitration (P4Runtime specification 5.1), so this neither disturbs the controller nor needs it, and it
works on either switch. Blocking; for a prompt. Every failure is a :class:`ControllerError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import finsy
import grpc
from finsy.p4schema import P4MatchType
from finsy.proto import p4r, p4r_grpc

from controller import translate
from controller.errors import ControllerError
from controller.grpc_signals import run_in_thread
from controller.p4info import read_p4info
from mrc_common import named_files
from topologies.p4_program import MAX_BYTES, saved_p4info

_TIMEOUT_S = 10.0
_LARGEST_REPLY = 64 << 20
_KINDS: dict[str | None, Any] = {
    "table_entry": finsy.P4TableEntry,
    "counter_entry": finsy.P4CounterEntry,
    "action_profile_member": finsy.P4ActionProfileMember,
    "action_profile_group": finsy.P4ActionProfileGroup,
}


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry in words: `match` and `action`, and what was counted; `priority` is 0 where the table has none."""

    match: str
    action: str
    priority: int
    packets: int
    bytes: int
    default: bool = False


@dataclass(frozen=True, slots=True)
class TableReading:
    """A table: its name in the program, room for how many entries, whether entries are counted, and the entries."""

    name: str
    size: int
    counted: bool
    rows: tuple[EntryRow, ...]

    @property
    def entries(self) -> int:
        """How many there are, the default not among them."""
        return sum(not row.default for row in self.rows)


def table_names(program: Path) -> list[str]:
    """Tables of the program in a folder, in its order."""
    return [table.alias for table in _schema(program).tables]


class SwitchReader:
    """A connection to the switch `name`, to be closed (a context manager): nothing may be forked while it is open.

    `program` is the folder of the program that it runs.
    """

    def __init__(self, name: str, address: str, device_id: int, program: Path) -> None:
        self._name = name
        self._device_id = device_id
        self._schema = _schema(program)
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", _LARGEST_REPLY)]
        self._held = [run_in_thread(lambda: grpc.insecure_channel(address, options=options))]
        self._held.append(p4r_grpc.P4RuntimeStub(self._held[0]))

    def __enter__(self) -> SwitchReader:
        return self

    def __exit__(self, *_: object) -> None:
        run_in_thread(self._end)

    def _end(self) -> None:
        self._held[0].close()
        self._held.clear()

    @property
    def table_names(self) -> list[str]:
        """Tables of the program, in its order."""
        return [table.alias for table in self._schema.tables]

    def table_name(self, name: str) -> str:
        """The name among :attr:`table_names` of a table, with or without the control's; ValueError if there is none."""
        return translate.find_table(self._schema, name).alias

    def table(self, name: str) -> TableReading:
        """A table with all its entries, the default last."""
        table = self._schema.tables[name]
        counted = table.direct_counter is not None
        counter = finsy.P4CounterData() if counted else None
        entities = [*self._read([finsy.P4TableEntry(name, counter_data=counter)])]
        default = [*self._read([finsy.P4TableEntry(name, is_default_action=True)])]
        groups = self._groups(table.action_profile.alias) if table.action_profile is not None else {}
        members = self._members(table.action_profile.alias) if table.action_profile is not None else {}
        chosen = [entity for entity in entities if not entity.is_default_action]
        chosen += [entity for entity in default if entity.is_default_action][:1]
        rows = [
            _row(table, entity, self._target(entity.action, members, groups))
            for entity in chosen
            if entity.action is not None
        ]
        return TableReading(name, table.size, counted, tuple(rows))

    def _members(self, profile: str) -> dict[int, str]:
        found = self._read([finsy.P4ActionProfileMember(profile)])
        return {member.member_id: self._action(member.action) for member in found}

    def _groups(self, profile: str) -> dict[int, list[int]]:
        found = self._read([finsy.P4ActionProfileGroup(profile)])
        return {group.group_id: [member.member_id for member in group.members or ()] for group in found}

    def _target(self, action: Any, members: dict[int, str], groups: dict[int, list[int]]) -> str:
        if not isinstance(action, finsy.P4IndirectAction):
            return self._action(action)
        if action.group_id is None:
            return members.get(action.member_id or 0, f"member {action.member_id}")
        chosen = [members.get(member, f"member {member}") for member in groups.get(action.group_id, ())]
        return f"one of {', '.join(chosen)}"

    def _action(self, action: finsy.P4TableAction) -> str:
        """An action with its arguments, MAC addresses as such."""
        widths = {param.name: param.bitwidth for param in self._schema.actions[action.name].params}
        arguments = (f"{name}={_argument(int(value), widths[name])}" for name, value in action.args.items())
        return f"{action.name.rpartition('.')[2]}({', '.join(arguments)})"

    def counter(self, name: str) -> dict[int, int]:
        """Packets by cell of a counter, cells of 0 left out; none if the program has no such counter."""
        if name not in {counter.alias for counter in self._schema.counters}:
            return {}
        cells = self._read([finsy.P4CounterEntry(name)])
        return {cell.index or 0: cell.packet_count for cell in cells if cell.packet_count}

    def _read(self, wanted: Iterable[Any]) -> Iterator[Any]:
        entities = [entity.encode(self._schema) for entity in wanted]
        request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
        try:
            for reply in run_in_thread(lambda: [*self._held[1].Read(request, timeout=_TIMEOUT_S)]):
                for entity in reply.entities:
                    yield _KINDS[entity.WhichOneof("entity")].decode(entity, self._schema)
        except grpc.RpcError as error:
            code = error.code()
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ControllerError(f"Switch {self._name} does not answer: see 'links' for what has ended.") from None
            raise ControllerError(f"Switch {self._name} refused to be read: {error.details() or code.name}.") from None
        except (ValueError, KeyError) as error:
            raise ControllerError(f"Switch {self._name} does not run the fabric's P4 program: {error}.") from None


def _schema(program: Path) -> finsy.P4Schema:
    try:
        return finsy.P4Schema(read_p4info(named_files.read_text(saved_p4info(program), MAX_BYTES)))
    except FileNotFoundError:
        raise ControllerError(f"{program} is gone: the fabric was taken down, or is going down.") from None


def _row(table: Any, entity: Any, action: str) -> EntryRow:
    counts = entity.counter_data
    packets, size = (counts.packet_count, counts.byte_count) if counts is not None else (0, 0)
    match = "(default)" if entity.is_default_action else match_text(table, entity.match or {})
    return EntryRow(match, action, entity.priority, packets, size, entity.is_default_action)


def match_text(table: Any, given: Any) -> str:
    """A key in words; `given` has the values of its fields as finsy has them, by name."""
    parts = []
    for field in table.match_fields:
        value = given.get(field.alias)
        if value is None:
            text = "*"
        elif field.match_type is P4MatchType.LPM:
            text = f"{_key(int(value[0]), field.bitwidth)}/{value[1]}"
        elif field.match_type is P4MatchType.RANGE:
            text = f"{_key(int(value[0]), field.bitwidth)}->{_key(int(value[1]), field.bitwidth)}"
        elif isinstance(value, tuple):
            text = f"{_key(int(value[0]), field.bitwidth)}&{int(value[1]):#x}"
        else:
            text = _key(int(value), field.bitwidth)
        parts.append(f"{field.alias}={text}")
    return " ".join(parts)


def _key(value: int, bits: int) -> str:
    if bits == 128:
        return str(IPv6Address(value))
    return f"{value:#x}" if bits > 16 else str(value)


def _argument(value: int, bits: int) -> str:
    return value.to_bytes(6, "big").hex(":") if bits == 48 else str(value)
