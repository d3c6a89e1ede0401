"""An index of the P4Info: the object with each id, and the shape of its values.

It is built once per P4Info and shared by the devices that use it. Names are the preamble's full names, as in the BMv2
JSON. Match fields and action parameters are in the order of the P4 source, as in the JSON, so a position in
`TableInfo.fields` or `ActionInfo.params` is a position in the switch's tuples, whatever ids the program assigns.

p4c writes the P4Info before it has finished optimising. Unreachable tables, and selectors used only by them, are then
in the P4Info but not in the JSON. `Schema.without` removes them, and writes to them are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from finsy.proto import p4i, p4t

from p4runtime_shim import limits
from p4runtime_shim.server import p4data
from p4runtime_shim.server.rpc_errors import invalid, not_found, precondition, unimplemented

_KINDS = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}
_NEED_PRIORITY = {"ternary", "range", "optional"}
_ERROR_BITS = 32  # of P4's type error in BMv2 JSON; its values are indexes into the P4Info's type_info.error

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """A named value of a bit width: match field, action parameter, packet metadata. `kind` is for match fields."""

    id: int
    name: str
    width: int
    position: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """An action and its parameters in order."""

    id: int
    name: str
    params: tuple[FieldInfo, ...]
    params_by_id: Mapping[int, FieldInfo]


@dataclass(frozen=True, slots=True)
class ActionProfileInfo:
    """An action profile, or selector."""

    id: int
    name: str
    with_selector: bool
    size: int
    max_group_size: int
    max_member_weight: int
    sum_of_members: bool
    weights_disallowed: bool
    action_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table: key, actions with their scopes, resources."""

    id: int
    name: str
    fields: tuple[FieldInfo, ...]
    fields_by_id: Mapping[int, FieldInfo]
    scopes: Mapping[int, int]
    const_default: bool
    profile: ActionProfileInfo | None
    is_const: bool
    has_initial_entries: bool
    has_counter: bool
    has_timeout: bool
    meter: DirectMeterInfo | None

    @property
    def needs_priority(self) -> bool:
        """Whether entries have a priority > 0 (P4Runtime spec, "TableEntry")."""
        return any(item.kind in _NEED_PRIORITY for item in self.fields)


@dataclass(frozen=True, slots=True)
class ValueSetInfo:
    """A parser value set: what a member matches, and the most members."""

    id: int
    name: str
    fields: tuple[FieldInfo, ...]
    fields_by_id: Mapping[int, FieldInfo]
    size: int


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An indexed extern: counter, meter, register. `type_spec` is the meter type, or the element type of a register."""

    id: int
    name: str
    size: int
    type_spec: Any = None
    weight: int = 1  # of a cell, in units of 16 bytes


@dataclass(frozen=True, slots=True)
class DirectMeterInfo:
    """The meter of a table; `type` as in p4.config.v1.MeterSpec.Type."""

    id: int
    type: int


@dataclass(frozen=True, slots=True)
class DigestInfo:
    """A digest and the type of its messages."""

    id: int
    name: str
    type_spec: p4t.P4DataTypeSpec
    leaves: int


@dataclass(frozen=True, slots=True)
class PacketHeaderInfo:
    """The header of packet-in or packet-out: its fields from the first bit on, a whole number of bytes in total."""

    name: str
    fields: tuple[FieldInfo, ...]
    fields_by_id: Mapping[int, FieldInfo]
    size: int


@dataclass(slots=True)
class Schema:
    """All objects by id; `actions_by_name` is for reads."""

    p4info: p4i.P4Info
    tables: dict[int, TableInfo] = field(default_factory=dict)
    actions: dict[int, ActionInfo] = field(default_factory=dict)
    actions_by_name: dict[str, ActionInfo] = field(default_factory=dict)
    profiles: dict[int, ActionProfileInfo] = field(default_factory=dict)
    value_sets: dict[int, ValueSetInfo] = field(default_factory=dict)
    counters: dict[int, ArrayInfo] = field(default_factory=dict)
    meters: dict[int, ArrayInfo] = field(default_factory=dict)
    registers: dict[int, ArrayInfo] = field(default_factory=dict)
    digests: dict[int, DigestInfo] = field(default_factory=dict)
    packet_in: PacketHeaderInfo | None = None
    packet_out: PacketHeaderInfo | None = None
    removed: dict[int, str] = field(default_factory=dict)  # tables and selectors that are not in the program

    def table(self, id_: int) -> TableInfo:
        """The table to write to; NOT_FOUND, or FAILED_PRECONDITION if the compiler removed it."""
        return self._writable(self.tables, id_, "table")

    def profile(self, id_: int) -> ActionProfileInfo:
        """The action profile to write to; errors as for `table`."""
        return self._writable(self.profiles, id_, "action profile")

    def tables_to_read(self, id_: int) -> list[TableInfo]:
        """The table, nothing if the compiler removed it, all tables for id 0; NOT_FOUND."""
        return self._readable(self.tables, id_, "table")

    def profiles_to_read(self, id_: int) -> list[ActionProfileInfo]:
        """Action profiles, in the same way."""
        return self._readable(self.profiles, id_, "action profile")

    def without(self, removed: dict[int, str]) -> Schema:
        """A copy without some tables and selectors, given by id and name."""
        tables = {id_: item for id_, item in self.tables.items() if id_ not in removed}
        profiles = {id_: item for id_, item in self.profiles.items() if id_ not in removed}
        return replace(self, tables=tables, profiles=profiles, removed=removed)

    def _writable(self, items: Mapping[int, _T], id_: int, what: str) -> _T:
        if id_ in self.removed:
            raise precondition(
                f"{what} {self.removed[id_]} is in the P4Info but not in the JSON: p4c removes unreachable tables"
            )
        return find(items, id_, what)

    def _readable(self, items: Mapping[int, _T], id_: int, what: str) -> list[_T]:
        if id_ in self.removed:
            return []
        return list(items.values()) if id_ == 0 else [find(items, id_, what)]

    @property
    def type_info(self) -> p4t.P4TypeInfo:
        """The named types that type specifications refer to."""
        return self.p4info.type_info


def find(items: Mapping[int, _T], id_: int, what: str) -> _T:
    """The object with an id; NOT_FOUND (INVALID_ARGUMENT for 0) if the P4Info has none."""
    if id_ in items:
        return items[id_]
    if id_ == 0:
        raise invalid(f"{what} id is missing")
    raise not_found(f"no {what} has id {id_} in the P4Info")


def build(p4info: p4i.P4Info) -> Schema:
    """Index a P4Info; INVALID_ARGUMENT or UNIMPLEMENTED if it is inconsistent or unsupported."""
    if p4info.ByteSize() > limits.MAX_P4INFO_BYTES:
        raise invalid(f"the P4Info has {p4info.ByteSize()} bytes; the maximum is {limits.MAX_P4INFO_BYTES}")
    schema = Schema(p4info)
    _refuse(p4info)
    for message in p4info.actions:
        _add(schema.actions, _action(message))
    schema.actions_by_name = {item.name: item for item in schema.actions.values()}
    counted = {item.direct_table_id for item in p4info.direct_counters}
    metered = {item.direct_table_id: DirectMeterInfo(item.preamble.id, item.spec.type) for item in p4info.direct_meters}
    actions_of_table = {
        item.preamble.id: frozenset(ref.id for ref in item.action_refs if ref.scope != p4i.ActionRef.DEFAULT_ONLY)
        for item in p4info.tables
    }
    for profile in p4info.action_profiles:
        _add(schema.profiles, _profile(profile, actions_of_table))
    for table in p4info.tables:
        _add(schema.tables, _table(table, schema, counted, metered))
    for value_set in p4info.value_sets:
        _add(schema.value_sets, _value_set(value_set))
    _arrays(schema, p4info)
    for header in p4info.controller_packet_metadata:
        if header.preamble.name == "packet_in":
            schema.packet_in = _packet_header(header)
        elif header.preamble.name == "packet_out":
            schema.packet_out = _packet_header(header)
    return schema


def _refuse(p4info: p4i.P4Info) -> None:
    if p4info.externs:
        name = p4info.externs[0].extern_type_name
        raise unimplemented(f"extern {name}: extern types outside v1model are not supported by the embedded switch")


def _add(items: dict[int, _T], item: _T) -> None:
    id_: int = item.id  # type: ignore[attr-defined]
    if id_ == 0 or id_ in items:
        raise invalid(f"P4Info gives id {id_} to {item.name} and to another object")  # type: ignore[attr-defined]
    items[id_] = item


def _fields(
    messages: Iterable[Any], owner: str, kind_of: Callable[[Any], str] = lambda _: "", untyped_bits: int = 0
) -> tuple[FieldInfo, ...]:
    """Fields in order; those with neither width nor named type get `untyped_bits`."""
    items = []
    for position, message in enumerate(messages):
        width = message.bitwidth or (0 if message.HasField("type_name") else untyped_bits)
        if width <= 0:
            raise unimplemented(
                f"{owner}.{message.name}: values without a bit width (sdn_string, bit<0>) are not supported"
            )
        if width > limits.MAX_VALUE_BITS:
            raise unimplemented(f"{owner}.{message.name}: {width} bits; the maximum is {limits.MAX_VALUE_BITS}")
        items.append(FieldInfo(message.id, message.name, width, position, kind_of(message)))
    if len({item.id for item in items}) != len(items):
        raise invalid(f"P4Info of {owner} gives an id to two fields")
    return tuple(items)


def _action(message: p4i.Action) -> ActionInfo:
    params = _fields(message.params, message.preamble.name)
    return ActionInfo(message.preamble.id, message.preamble.name, params, {item.id: item for item in params})


def _match_kind(message: p4i.MatchField) -> str:
    kind = _KINDS.get(message.match_type) if message.WhichOneof("match") == "match_type" else None
    if kind is None:
        raise unimplemented(f"match field {message.name}: its match type is not supported")
    return kind


def _profile(message: p4i.ActionProfile, actions_of_table: Mapping[int, frozenset[int]]) -> ActionProfileInfo:
    actions: frozenset[int] = frozenset()
    for table_id in message.table_ids:
        actions |= actions_of_table.get(table_id, frozenset())
    return ActionProfileInfo(
        id=message.preamble.id,
        name=message.preamble.name,
        with_selector=message.with_selector,
        size=message.size,
        max_group_size=message.max_group_size,
        max_member_weight=message.sum_of_members.max_member_weight,
        sum_of_members=message.WhichOneof("selector_size_semantics") == "sum_of_members",
        weights_disallowed=message.weights_disallowed,
        action_ids=actions,
    )


def _table(message: p4i.Table, schema: Schema, counted: set[int], metered: Mapping[int, DirectMeterInfo]) -> TableInfo:
    id_, name = message.preamble.id, message.preamble.name
    for ref in message.action_refs:
        if ref.id not in schema.actions:
            raise invalid(f"table {name} refers to action {ref.id}, which the P4Info does not have")
    profile = None
    if message.implementation_id:
        profile = schema.profiles.get(message.implementation_id)
        if profile is None:
            raise invalid(f"table {name} refers to action profile {message.implementation_id}, which is missing")
    key = _fields(message.match_fields, name, _match_kind, untyped_bits=_ERROR_BITS)
    return TableInfo(
        id=id_,
        name=name,
        fields=key,
        fields_by_id={item.id: item for item in key},
        scopes={ref.id: ref.scope for ref in message.action_refs},
        const_default=message.const_default_action_id != 0,
        profile=profile,
        is_const=message.is_const_table,
        has_initial_entries=message.has_initial_entries,
        has_counter=id_ in counted,
        has_timeout=message.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
        meter=metered.get(id_),
    )


def _value_set(message: p4i.ValueSet) -> ValueSetInfo:
    name = message.preamble.name
    if message.size < 0:
        raise invalid(f"P4Info gives value set {name} a size of {message.size}")
    fields = _fields(message.match, name, _match_kind)
    return ValueSetInfo(message.preamble.id, name, fields, {item.id: item for item in fields}, message.size)


def _arrays(schema: Schema, p4info: p4i.P4Info) -> None:
    for counter in p4info.counters:
        _add(schema.counters, ArrayInfo(counter.preamble.id, counter.preamble.name, counter.size))
    for meter in p4info.meters:
        _add(schema.meters, ArrayInfo(meter.preamble.id, meter.preamble.name, meter.size, meter.spec.type))
    types = p4info.type_info
    for register in p4info.registers:
        p4data.count_leaves(register.type_spec, types, f"register {register.preamble.name}")
        width = p4data.width_of(register.type_spec, types)
        _add(
            schema.registers,
            ArrayInfo(
                register.preamble.id, register.preamble.name, register.size, register.type_spec, 1 + width // 129
            ),
        )
    for digest in p4info.digests:
        leaves = p4data.count_leaves(digest.type_spec, types, f"digest {digest.preamble.name}")
        _add(schema.digests, DigestInfo(digest.preamble.id, digest.preamble.name, digest.type_spec, leaves))


def _packet_header(message: p4i.ControllerPacketMetadata) -> PacketHeaderInfo:
    items = _fields(message.metadata, message.preamble.name)
    bits = sum(item.width for item in items)
    if bits > 8 * limits.MAX_PACKET_HEADER_BYTES:
        raise invalid(
            f"header {message.preamble.name} has {bits} bits; the maximum is {8 * limits.MAX_PACKET_HEADER_BYTES}"
        )
    if bits % 8:
        raise invalid(f"header {message.preamble.name} has {bits} bits, not a whole number of bytes")
    return PacketHeaderInfo(message.preamble.name, items, {item.id: item for item in items}, bits // 8)
