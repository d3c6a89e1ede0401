"""What writes may change at once, and how many entries a switch holds, is bounded."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from finsy.proto import p4r

from mrc_common.p4_match import Exact
from p4runtime_shim import limits
from p4runtime_shim.entities import ActionCall, CounterValue, Entry, MeterConfig, Replica
from p4runtime_shim.errors import ResourceExhausted
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.large_program import large
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    dropping,
    failing,
    insert,
    modify,
    with_client,
)

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def test_all_cells_of_an_array_are_written_and_read_in_one_request() -> None:
    switch, _, _ = large(50_000)
    with switch:
        switch.control_plane.externs.counter_write("c", 7, CounterValue(1, 2))
        before = switch.control_plane.externs.counter_read_all("c")
        switch.control_plane.externs.counter_fill("c", CounterValue(3, 4))
        switch.control_plane.externs.counter_write("c", 49_999, CounterValue(5, 6))
        assert (before[7], before[8], len(before)) == (CounterValue(1, 2), CounterValue(), 50_000)
        after = switch.control_plane.externs.counter_read_all("c")
        assert {after[i] for i in range(49_999)} == {CounterValue(3, 4)}
        assert after[-1] == CounterValue(5, 6)
        with pytest.raises(IndexError):
            after[50_000]
        switch.control_plane.externs.register_fill("r", 2**47)
        switch.control_plane.externs.register_write("r", 20_000, 9)
        registers = switch.control_plane.externs.register_read_all("r")
        assert (registers[0], registers[20_000], registers[49_999]) == (2**47, 9, 2**47)
        config = MeterConfig(1, 2, 3, 4)
        switch.control_plane.externs.meter_write("m", 5, MeterConfig(2, 2, 2, 2))
        switch.control_plane.externs.meter_fill("m", config)
        switch.control_plane.externs.meter_write("m", 6, None)
        meters = switch.control_plane.externs.meter_read_all("m")
        assert (meters[5], meters[6], meters[7]) == (config, None, config)
        assert (switch.control_plane.externs.meter_read("m", 6), switch.control_plane.externs.meter_read("m", 7)) == (
            None,
            config,
        )
        switch.control_plane.externs.meter_fill("m", None)
        assert switch.control_plane.externs.meter_read("m", 7) is None


def test_write_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Client, made: World) -> None:
        many = [insert(table_entry=dropping(1))] * (limits.MAX_UPDATES + 1)
        assert (await failing(client.write(*many))).code() == EXHAUSTED
        entry = dropping(1)
        entry.metadata = b"x" * (limits.MAX_METADATA_BYTES + 1)
        assert "metadata has at most" in ((await failing(client.write(insert(table_entry=entry)))).details() or "")
        monkeypatch.setattr(limits, "MAX_UNDO_CELLS", 3)
        every = modify(counter_entry={"counter_id": sample.COUNTER, "data": {"packet_count": 9}})
        error = await failing(client.write(every, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR))
        assert "can restore" in (error.details() or "")
        await client.write(every)
        monkeypatch.setattr(limits, "MAX_FILLED_CELLS", 7)
        error = await failing(client.write(every, every))
        assert "1 of 2 updates failed" in (error.details() or "")

    with_client(work)


def test_entries_members_groups_and_replicas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(word: str, write: Any) -> None:
        with pytest.raises(ResourceExhausted, match=word):
            write()

    with sample.real() as switch:
        monkeypatch.setattr(limits, "MAX_ENTRIES", 4)  # two are const
        switch.control_plane.table("I.exact_").insert(Entry((Exact(1),), ActionCall("I.drop")))
        switch.control_plane.table("I.exact_").insert(Entry((Exact(2),), ActionCall("I.drop")))
        full(
            "can have 4 entries",
            lambda: switch.control_plane.table("I.exact_").insert(Entry((Exact(3),), ActionCall("I.drop"))),
        )
        switch.control_plane.table("I.exact_").delete((Exact(1),))
        switch.control_plane.table("I.exact_").insert(Entry((Exact(3),), ActionCall("I.drop")))

        monkeypatch.setattr(limits, "MAX_MEMBERS", 2)
        for number in (1, 2):
            switch.control_plane.profile("I.selector").member_add(number, ActionCall("I.drop"))
        full("full", lambda: switch.control_plane.profile("I.selector").member_add(3, ActionCall("I.drop")))
        monkeypatch.setattr(limits, "MAX_SLOTS", 10)
        switch.control_plane.profile("I.selector").group_add(1, [(1, 6)])
        full("more than 10", lambda: switch.control_plane.profile("I.selector").group_add(2, [(1, 5)]))
        switch.control_plane.profile("I.selector").group_modify(1, [(1, 10)])
        switch.control_plane.profile("I.selector").group_modify(1, [(1, 1)])
        switch.control_plane.profile("I.selector").group_add(2, [(1, 9)])
        full("groups", lambda: switch.control_plane.profile("I.selector").group_add(3, []))
        switch.control_plane.profile("I.selector").group_delete(2)
        switch.control_plane.profile("I.selector").group_add(3, [(2, 9)])

        monkeypatch.setattr(limits, "MAX_REPLICAS", 3)
        switch.control_plane.replication.group_set(1, [Replica(1, 1), Replica(2, 1)])
        full("3 replicas", lambda: switch.control_plane.replication.group_set(2, [Replica(1, 1), Replica(2, 1)]))
        switch.control_plane.replication.group_set(1, [Replica(1, 1)])
        switch.control_plane.replication.group_set(2, [Replica(1, 1), Replica(2, 1)])
        switch.control_plane.replication.group_delete(2)
        switch.control_plane.replication.group_set(3, [Replica(1, 1), Replica(2, 1)])
