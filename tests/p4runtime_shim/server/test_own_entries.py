"""Entries that a program brings along, on the engine: what of them another pipeline config keeps."""

from __future__ import annotations

import pytest
from finsy.proto import p4i, p4r

from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.rpc_errors import RpcError
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.server.own_entries_program import compiled
from tests.p4runtime_shim.server.test_value_set_entries import Request, configure, with_device
from tests.p4runtime_shim.server.world import insert, modify

CONFIG, INFO = compiled()
IDS = {item.preamble.name: item.preamble.id for item in (*INFO.tables, *INFO.actions)}


def exact(value: int) -> list[dict[str, object]]:
    return [{"field_id": 1, "exact": {"value": bytes([value])}}]


def plain(value: int) -> p4r.TableEntry:
    action = {"action_id": IDS["I.send"], "params": [{"param_id": 1, "value": b"\x02"}]}
    return p4r.TableEntry(table_id=IDS["I.plain"], match=exact(value), action={"action": action})


async def prepare(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
    """One packet hits an entry of each table; the client gives one of its own and one const entry more."""
    await configure(device, Request.VERIFY_AND_COMMIT, CONFIG, INFO)
    const = {"table_id": IDS["I.const_"], "match": exact(2), "metadata": b"mine", "idle_timeout_ns": 10**15}
    updates = [insert(table_entry=plain(1)), modify(table_entry=const)]
    await device.write(p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1), updates=updates))
    switch.receive(0, b"\x01\x00" + bytes(60), 0)


def read(device: P4RuntimeDevice, table: str) -> list[tuple[int, bytes, int]]:
    """Packets, metadata and timeout of each entry."""
    wanted = p4r.Entity(table_entry={"table_id": IDS[table], "counter_data": {}})
    found = [item.table_entry for item in device.read(p4r.ReadRequest(device_id=1, entities=[wanted]))]
    return [(entry.counter_data.packet_count, entry.metadata, entry.idle_timeout_ns) for entry in found]


async def reconcile(device: P4RuntimeDevice, config: bytes, info: p4i.P4Info) -> None:
    await configure(device, Request.RECONCILE_AND_COMMIT, config, info)


def test_their_counters_and_what_clients_gave_them_stay_with_another_program() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        await prepare(device, switch)
        before = {table: read(device, table) for table in ("I.const_", "I.initial", "I.plain")}
        assert before["I.const_"] == [(1, b"", 0), (0, b"mine", 10**15)]
        assert before["I.initial"] == [(1, b"", 0), (0, b"", 0)]
        await reconcile(device, *compiled("s.egress_spec = port;", "s.egress_spec = port; h.h.b = 1;"))
        assert {table: read(device, table) for table in before} == before

    with_device(work)


def test_a_program_with_other_entries_brings_its_own() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        await prepare(device, switch)
        await reconcile(device, *compiled("1 : send(1); 2 : send(2);", "2 : send(1); 3 : send(2);"))
        assert read(device, "I.const_") == [(0, b"mine", 10**15), (0, b"", 0)]
        assert read(device, "I.initial") == [(0, b"", 0), (0, b"", 0)]
        assert read(device, "I.plain") == [(1, b"", 0)]

    with_device(work)


def test_a_clients_entry_does_not_vanish_under_a_program_that_fixes_its_table() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        await prepare(device, switch)
        fixed = compiled("counters = plain_hits;", "counters = plain_hits; const entries = { 1 : send(3); }")
        with pytest.raises(RpcError, match="cannot be kept"):
            await reconcile(device, *fixed)
        assert read(device, "I.plain") == [(1, b"", 0)]

    with_device(work)


def test_a_table_that_is_gone_is_named() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        await prepare(device, switch)
        without = compiled("plain", "other")
        with pytest.raises(RpcError, match=rf"no table has id {IDS['I.plain']} \(I\.plain\) in the P4Info"):
            await reconcile(device, *without)

    with_device(work)
