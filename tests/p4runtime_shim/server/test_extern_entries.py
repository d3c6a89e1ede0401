"""Direct counters and meters, and counter, register and meter arrays, on a fake switch and on the engine."""

from __future__ import annotations

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.entities import CounterValue, MeterColors, MeterConfig
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import (
    ROLLBACK,
    Switch,
    exact,
    kinds,
)
from tests.p4runtime_shim.server.world import delete, insert, modify

# --- direct counters and meters


def test_direct_counters_are_read_with_the_entry_and_alone(switch: Switch) -> None:
    switch.write(
        insert(table_entry=exact(counter_data={"packet_count": 2, "byte_count": 200})), insert(table_entry=exact(2))
    )
    assert not switch.read(table_entry={"table_id": sample.EXACT})[0].HasField("counter_data")
    (one,) = switch.read(table_entry={"table_id": sample.EXACT, "match": exact().match, "counter_data": {}})
    assert (one.counter_data.packet_count, one.counter_data.byte_count) == (2, 200)
    switch.write(modify(direct_counter_entry={"table_entry": exact(2), "data": {"packet_count": 7}}))
    found = switch.read(direct_counter_entry={"table_entry": {"table_id": sample.EXACT}})
    assert sorted(item.data.packet_count for item in found) == [2, 7]
    assert len(switch.read(direct_counter_entry={})) == 4  # with those of the two constant entries
    switch.write(modify(table_entry=exact(2)))  # unset: not changed
    (one,) = switch.read(direct_counter_entry={"table_entry": exact(2)})
    assert one.data.packet_count == 7
    assert switch.refused(insert(direct_counter_entry={"table_entry": exact(2)})) == [rpc_code.INVALID_ARGUMENT]
    missing = modify(direct_counter_entry={"table_entry": exact(3), "data": {}})
    assert switch.refused(missing) == [rpc_code.NOT_FOUND]
    without = modify(direct_counter_entry={"table_entry": {"table_id": sample.LPM}})
    assert switch.refused(without) == [rpc_code.INVALID_ARGUMENT]


def test_direct_meters_are_read_and_written_with_the_entry_and_alone(switch: Switch) -> None:
    config = {"cir": 10, "cburst": 1, "pir": 20, "pburst": 2}
    switch.write(insert(table_entry=kinds(meter_config=config)))
    (entry,) = switch.read(table_entry={"table_id": sample.KINDS, "meter_config": {}})
    assert entry.meter_config == p4r.MeterConfig(**config)
    switch.write(modify(direct_meter_entry={"table_entry": kinds(), "config": {**config, "pir": 30}}))
    assert switch.read(direct_meter_entry={"table_entry": kinds()})[0].config.pir == 30
    switch.write(modify(table_entry=kinds()))  # unset: back to all green
    assert not switch.read(direct_meter_entry={})[0].HasField("config")
    for wrong in ({"cir": 5, "pir": 4}, {"cir": -1}, {"eburst": 1}):
        update = modify(direct_meter_entry={"table_entry": kinds(), "config": wrong})
        assert switch.refused(update) == [rpc_code.INVALID_ARGUMENT]


def test_meter_color_counters_are_read_on_request_and_can_only_be_reset(switch: Switch) -> None:
    colored = MeterColors(CounterValue(1, 2), CounterValue(3, 4), CounterValue(5, 6))
    shown = {
        "green": {"packet_count": 1, "byte_count": 2},
        "yellow": {"packet_count": 3, "byte_count": 4},
        "red": {"packet_count": 5, "byte_count": 6},
    }
    switch.write(insert(table_entry=kinds()))
    key = switch.under.control_plane.table("I.kinds").entries()[0]
    switch.under.control_plane.table("I.kinds").colors_write(key.match, key.priority, colored)
    switch.under.control_plane.externs.colors_write("I.a_meter", 1, colored)
    (entry,) = switch.read(table_entry={"table_id": sample.KINDS})
    assert not entry.HasField("meter_counter_data")
    (entry,) = switch.read(table_entry={"table_id": sample.KINDS, "meter_counter_data": {}})
    (direct,) = switch.read(direct_meter_entry={"table_entry": kinds(), "counter_data": {}})
    cells = switch.read(meter_entry={"meter_id": sample.METER, "counter_data": {}})
    data = p4r.MeterCounterData(**shown)
    assert (entry.meter_counter_data, direct.counter_data, cells[1].counter_data) == (data, data, data)
    assert not switch.read(meter_entry={"meter_id": sample.METER})[1].HasField("counter_data")

    nonzero = {"red": {"byte_count": 1}}
    for wrong in (
        modify(table_entry=kinds(meter_counter_data=nonzero)),
        modify(direct_meter_entry={"table_entry": kinds(), "counter_data": nonzero}),
        modify(meter_entry={"meter_id": sample.METER, "counter_data": nonzero}),
        modify(table_entry=exact(meter_counter_data={})),
    ):
        assert switch.refused(wrong) == [rpc_code.INVALID_ARGUMENT]
    resets = (
        modify(table_entry=kinds(meter_counter_data={})),
        modify(direct_meter_entry={"table_entry": kinds(), "counter_data": {}}),
        modify(meter_entry={"meter_id": sample.METER, "counter_data": {"green": {}}}),
    )
    failing = delete(table_entry=kinds(99))
    for reset in (*resets, delete(table_entry=kinds())):
        assert switch.refused(reset, failing, atomicity=ROLLBACK)[1] == rpc_code.NOT_FOUND
        assert switch.under.control_plane.table("I.kinds").colors_read(key.match, key.priority) == colored
        assert switch.under.control_plane.externs.colors_read("I.a_meter", 1) == colored
    switch.write(modify(table_entry=kinds()), modify(meter_entry={"meter_id": sample.METER}))  # unset: not changed
    assert switch.under.control_plane.externs.colors_read("I.a_meter", 1) == colored
    switch.write(*resets)
    assert switch.under.control_plane.table("I.kinds").colors_read(key.match, key.priority) == MeterColors()
    assert switch.under.control_plane.externs.colors_read("I.a_meter", 1) == MeterColors()


def test_the_counters_of_a_constant_table_can_be_written(switch: Switch) -> None:
    match = [{"field_id": 1, "exact": {"value": b"\x01"}}]
    switch.write(modify(table_entry={"table_id": sample.CONST, "match": match, "counter_data": {"packet_count": 4}}))
    (entry,) = switch.read(table_entry={"table_id": sample.CONST, "match": match, "counter_data": {}})
    assert entry.is_const
    assert entry.counter_data.packet_count == 4
    with_action = {"table_id": sample.CONST, "match": match, "action": {"action": {"action_id": sample.DROP}}}
    assert switch.refused(modify(table_entry=with_action)) == [rpc_code.PERMISSION_DENIED]


# --- arrays


def test_counters_registers_and_meters_are_read_and_written(switch: Switch) -> None:
    switch.write(
        modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 2}, "data": {"packet_count": 5}}),
        modify(register_entry={"register_id": sample.REGISTER, "index": {}, "data": {"bitstring": b"\x0a\xbc"}}),
        modify(register_entry={"register_id": sample.SIGNED, "index": {}, "data": {"bitstring": b"\xff"}}),
        modify(meter_entry={"meter_id": sample.METER, "index": {"index": 1}, "config": {"cir": 1, "pir": 2}}),
    )
    assert switch.under.control_plane.externs.counter_read("I.a_counter", 2) == CounterValue(5, 0)
    assert switch.under.control_plane.externs.register_read("I.a_signed", 0) == 0xFFF
    assert switch.under.control_plane.externs.meter_read("I.a_meter", 1) == MeterConfig(1, 0, 2, 0)
    assert [item.data.packet_count for item in switch.read(counter_entry={"counter_id": sample.COUNTER})] == [
        0,
        0,
        5,
        0,
    ]
    (one,) = switch.read(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 2}})
    assert (one.index.index, one.data.packet_count) == (2, 5)
    values = [item.data.bitstring for item in switch.read(register_entry={"register_id": sample.REGISTER})]
    assert values == [b"\x0a\xbc", b"\x00", b"\x00", b"\x00", b"\x00"]
    assert switch.read(register_entry={"register_id": sample.SIGNED})[0].data.bitstring == b"\xff"
    assert [item.HasField("config") for item in switch.read(meter_entry={})] == [False, True, False]
    switch.write(modify(counter_entry={"counter_id": sample.COUNTER, "data": {"byte_count": 1}}))
    assert [item.data.byte_count for item in switch.read(counter_entry={})] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(counter_entry={"counter_id": sample.COUNTER}), rpc_code.INVALID_ARGUMENT),
        (delete(register_entry={"register_id": sample.REGISTER}), rpc_code.INVALID_ARGUMENT),
        (modify(counter_entry={"counter_id": 99}), rpc_code.NOT_FOUND),
        (modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": -1}}), rpc_code.INVALID_ARGUMENT),
        (modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 4}}), rpc_code.OUT_OF_RANGE),
        (modify(meter_entry={"meter_id": sample.METER, "index": {"index": 3}}), rpc_code.OUT_OF_RANGE),
        (
            modify(register_entry={"register_id": sample.REGISTER, "data": {"bitstring": b"\x10\x00\x00"}}),
            rpc_code.OUT_OF_RANGE,
        ),
        (modify(register_entry={"register_id": sample.REGISTER, "data": {"bool": True}}), rpc_code.INVALID_ARGUMENT),
        (modify(register_entry={"register_id": sample.REGISTER}), rpc_code.INVALID_ARGUMENT),
    ],
)
def test_invalid_array_updates_are_refused(switch: Switch, update: p4r.Update, code: int) -> None:
    assert switch.refused(update) == [code]
