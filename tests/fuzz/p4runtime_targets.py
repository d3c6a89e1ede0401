"""The programs that the fuzzer of the P4Runtime server loads, each with requests of a well-behaved client.

Between them they have every entity: `FAMILIES` all but parser value sets and idle timeouts, `TIMED` those.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf import text_format

import p4compiler
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.test_hostile import VALID
from tests.p4runtime_shim.server.world import delete, insert, modify

_TIMED = """
#include <core.p4>
#include <v1model.p4>
header bytes_t { bit<8> a; bit<8> b; bit<128> c; bit<9> d; bit<7> e; }
struct headers { bytes_t h; }
struct metadata { bit<9> port; }
struct member_t {
    bit<8> e;
    @match(ternary) bit<8> t;
    @match(lpm) bit<128> l;
    @match(range) bit<9> r;
    @match(optional) bit<7> o;
}
parser P(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    value_set<member_t>(16) kinds;
    value_set<bit<8>>(4) numbers;
    state start {
        packet.extract(h.h);
        transition select(h.h.a, h.h.b, h.h.c, h.h.d, h.h.e) { kinds: member; default: other; }
    }
    state member { m.port = 2; transition accept; }
    state other { transition select(h.h.a) { numbers: member; default: accept; } }
}
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action send(bit<9> port) { s.egress_spec = port; }
    table exact_ {
        key = { h.h.a : exact; }
        actions = { send; NoAction; }
        support_timeout = true;
        counters = hits;
        size = 64;
    }
    table ternary_ { key = { h.h.b : ternary; } actions = { send; } support_timeout = true; }
    table const_ { key = { h.h.b : exact; } actions = { send; } const entries = { 1 : send(1); 2 : send(2); } }
    apply { exact_.apply(); ternary_.apply(); const_.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out packet, in headers h) { apply { packet.emit(h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""
_TIMES_NS = (0, 1, 500_000_000, 600_000_000, (1 << 63) - 1, -1)


@dataclass(frozen=True)
class Target:
    """A program: its P4Info and JSON, updates to start from, and `entry`, which fits without anything else.

    With that one entry there are `entries`; it expires after `timeout_ns`, if that is not 0.
    """

    p4info: p4i.P4Info
    config: bytes = field(repr=False)
    valid: tuple[p4r.Update, ...]
    entry: p4r.Update
    entries: int
    timeout_ns: int = 0

    def program(self) -> Any:
        """The JSON, which the caller may change."""
        return json.loads(self.config)


@cache
def targets() -> tuple[Target, ...]:
    """All programs."""
    families = Target(sample.p4info(), sample.device_config(), tuple(VALID), VALID[0], 3)
    compiled = p4compiler.compile_text(_TIMED)
    info = text_format.Parse(compiled.p4info, p4i.P4Info())
    entry = insert(table_entry=_entry(info, "I.exact_", 1, idle_timeout_ns=500_000_000))
    timed = Target(info, compiled.json.encode(), tuple(_timed(info)), entry, 3, 500_000_000)
    return families, timed


def _timed(info: p4i.P4Info) -> list[p4r.Update]:
    sets = {item.preamble.name: item.preamble.id for item in info.value_sets}
    found = [
        change(table_entry=_entry(info, "I.exact_", number, idle_timeout_ns=timeout))
        for (number, timeout), change in itertools.product(enumerate(_TIMES_NS, 1), (insert, modify))
    ]
    found += [insert(table_entry=_entry(info, "I.ternary_", 1, 9, idle_timeout_ns=time)) for time in _TIMES_NS]
    found += [delete(table_entry=_entry(info, "I.exact_", 1)), delete(table_entry=_entry(info, "I.ternary_", 1, 9))]
    found.append(modify(table_entry=_entry(info, "I.exact_", 1, time_since_last_hit={}, counter_data={})))
    found.append(modify(table_entry={"table_id": _ids(info)["I.exact_"], "is_default_action": True}))
    numbers, kinds = sets["P.numbers"], sets["P.kinds"]
    found += [modify(value_set_entry=_members(numbers, *map(_number, range(count)))) for count in (0, 1, 4, 5)]
    found += [modify(value_set_entry=_members(kinds, *map(_kind, range(count)))) for count in (0, 1, 16)]
    found += [modify(value_set_entry=_members(kinds, [_number(1)[0]])), insert(value_set_entry=_members(numbers))]
    found.append(modify(value_set_entry=_members(0)))
    return found


def _ids(info: p4i.P4Info) -> dict[str, int]:
    return {item.preamble.name: item.preamble.id for item in (*info.tables, *info.actions)}


def _entry(info: p4i.P4Info, table: str, number: int, priority: int = 0, **more: Any) -> p4r.TableEntry:
    ids, value = _ids(info), bytes([number])
    match = {"ternary": {"value": value, "mask": b"\xff"}} if priority else {"exact": {"value": value}}
    action = {"action": {"action_id": ids["I.send"], "params": [{"param_id": 1, "value": b"\x01"}]}}
    return p4r.TableEntry(
        table_id=ids[table], match=[{"field_id": 1, **match}], priority=priority, action=action, **more
    )


def _members(id_: int, *members: list[dict[str, Any]]) -> p4r.ValueSetEntry:
    return p4r.ValueSetEntry(value_set_id=id_, members=[{"match": match} for match in members])


def _number(number: int) -> list[dict[str, Any]]:
    return [{"field_id": 1, "exact": {"value": bytes([number])}}]


def _kind(number: int) -> list[dict[str, Any]]:
    value = bytes([number])
    return [
        {"field_id": 1, "exact": {"value": value}},
        {"field_id": 2, "ternary": {"value": value, "mask": b"\x0f"}},
        {"field_id": 3, "lpm": {"value": b"\x20" + bytes(15), "prefix_len": 16}},
        {"field_id": 4, "range": {"low": value, "high": b"\x01\x00"}},
        {"field_id": 5, "optional": {"value": value}},
    ]
