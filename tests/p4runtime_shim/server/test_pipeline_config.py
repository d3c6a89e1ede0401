"""SetForwardingPipelineConfig: verify, save, commit, reconcile, and what becomes of a device's forwarding state."""

from __future__ import annotations

from typing import Any

import finsy
import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r

from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, CounterValue, Entry
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.fake_switch import FakeSwitch
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    delete,
    dropping,
    fabric_json,
    fabric_p4info,
    failing,
    insert,
    modify,
    run,
    with_client,
)

Request = p4r.SetForwardingPipelineConfigRequest


def test_without_a_pipeline_reads_and_writes_fail_with_the_expected_message() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            assert not (await client.get_config()).HasField("config")
            for call in (client.write(), client.read()):
                error = await failing(call)
                assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
                assert finsy.P4ClientError(error, "x").is_pipeline_missing

    run(work)


def test_the_requested_parts_of_a_config_are_read_back() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.set_config(fabric_p4info(), fabric_json(), cookie=77)
            kinds = p4r.GetForwardingPipelineConfigRequest
            for kind, has_p4info, has_json in (
                (kinds.ALL, True, True),
                (kinds.COOKIE_ONLY, False, False),
                (kinds.P4INFO_AND_COOKIE, True, False),
                (kinds.DEVICE_CONFIG_AND_COOKIE, False, True),
            ):
                config = (await client.get_config(kind)).config
                assert config.cookie.cookie == 77
                assert config.HasField("p4info") is has_p4info
                assert (config.p4_device_config == fabric_json()) is has_json
            assert (await client.get_config()).config.p4info == fabric_p4info()

    run(work)


def test_verify_changes_nothing_and_commit_clears_all_entries() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=dropping(1)))
        await client.set_config(fabric_p4info(), fabric_json(), Request.VERIFY)
        assert len(await client.read(p4r.Entity(table_entry={}))) == 1
        await client.set_config(sample.p4info(), sample.device_config())
        assert await client.read(p4r.Entity(table_entry={})) == []

    with_client(work)


@pytest.mark.parametrize(
    ("p4info", "config", "word"),
    [
        (None, None, "no pipeline config"),
        (None, b"{}", "no P4Info"),
        (p4i.P4Info(), None, "no p4_device_config"),
        (p4i.P4Info(), b"\x7f\x00", "not BMv2 JSON"),
        (p4i.P4Info(), b"[1]", "not BMv2 JSON"),
        (p4i.P4Info(), b'{"unsupported": 1}', "header union"),
        (sample.p4info(), b'{"tables": 5, "pipelines": [{"tables": [3]}]}', "one compilation"),
    ],
)
def test_unusable_configs_are_refused(p4info: p4i.P4Info | None, config: bytes | None, word: str) -> None:
    async def work(client: Client, made: World) -> None:
        before = await client.get_config()
        for action in (Request.VERIFY, Request.VERIFY_AND_COMMIT, Request.RECONCILE_AND_COMMIT):
            error = await failing(client.set_config(p4info, config, action))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert word in (error.details() or "")
        assert await client.get_config() == before

    with_client(work)


def test_bmv2s_binary_wrapper_around_the_json_is_accepted() -> None:
    async def work(client: Client, made: World) -> None:
        data = sample.device_config()
        size = bytes([len(data) & 0x7F | 0x80, len(data) >> 7 & 0x7F | 0x80, len(data) >> 14])
        await client.set_config(sample.p4info(), b"\x08\x01\x12\x00\x1a" + size + data)
        assert made.fakes[1].pipeline == data.decode()

    with_client(work)


def test_a_saved_config_accepts_writes_and_is_committed_with_them() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=dropping(1)))
        await client.set_config(sample.p4info(), sample.device_config() + b" ", Request.VERIFY_AND_SAVE, cookie=2)
        assert await client.read(p4r.Entity(table_entry={})) == []
        await client.write(
            insert(table_entry=dropping(2)),
            modify(register_entry={"register_id": sample.REGISTER, "data": {"bitstring": b"\x05"}}),
        )
        fake = made.fakes[1]
        assert fake.control_plane.table("I.exact_").entries() == [Entry((Exact(1),), ActionCall("I.drop"))]
        assert (await client.get_config()).config.cookie.cookie == 0
        await client.set_config(action=Request.COMMIT)
        assert fake.control_plane.table("I.exact_").entries() == [Entry((Exact(2),), ActionCall("I.drop"))]
        assert fake.control_plane.externs.register_read("I.a_register", 4) == 5
        assert (await client.get_config()).config.cookie.cookie == 2
        assert fake.staged
        assert all(item.closed for item in fake.staged)
        error = await failing(client.set_config(action=Request.COMMIT))
        assert error.code() == grpc.StatusCode.NOT_FOUND
        error = await failing(client.set_config(sample.p4info(), b"{}", Request.COMMIT))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT

    with_client(work)


def test_reconcile_keeps_the_entries_or_refuses() -> None:
    async def work(client: Client, made: World) -> None:
        fake = made.fakes[1]
        entry = dropping(1)
        entry.metadata = b"mine"
        await client.write(
            insert(table_entry=entry),
            modify(counter_entry={"counter_id": sample.COUNTER, "data": {"packet_count": 9}}),
            insert(
                action_profile_member={
                    "action_profile_id": sample.SELECTOR,
                    "member_id": 1,
                    "action": {"action_id": sample.DROP},
                }
            ),
        )
        fake.control_plane.table("I.exact_").counter_write((Exact(1),), 0, CounterValue(3, 0))
        state = [p4r.Entity(table_entry={"counter_data": {}}), p4r.Entity(action_profile_member={})]
        before = await client.read(*state, p4r.Entity(counter_entry={}))
        await client.set_config(sample.p4info(), sample.device_config() + b" ", Request.RECONCILE_AND_COMMIT)
        assert fake.pipeline.endswith(" ")
        assert await client.read(*state, p4r.Entity(counter_entry={})) == before

        smaller = sample.p4info()
        smaller.tables[1].match_fields[0].bitwidth = 32
        smaller.action_profiles[0].preamble.id += 7
        smaller.tables[3].implementation_id += 7
        error = await failing(client.set_config(smaller, sample.device_config(), Request.RECONCILE_AND_COMMIT))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert await client.read(*state, p4r.Entity(counter_entry={})) == before
        assert fake.pipeline.endswith(" ")

    with_client(work)


def test_initial_entries_are_replaced_by_kept_ones() -> None:
    def bring_along(switch: FakeSwitch, pipeline: Any) -> None:
        switch.control_plane.table("I.exact_").insert(Entry((Exact(1),), ActionCall("I.drop")))
        switch.control_plane.table("I.exact_").insert(Entry((Exact(2),), ActionCall("I.drop")))

    async def work(client: Client, made: World) -> None:
        info = sample.p4info()
        info.tables[1].has_initial_entries = True
        await client.set_config(info, sample.device_config())
        await client.write(delete(table_entry=dropping(1)), insert(table_entry=dropping(3)))
        await client.set_config(info, sample.device_config() + b" ", Request.RECONCILE_AND_COMMIT)
        found = {item.match[0] for item in made.fakes[1].control_plane.table("I.exact_").entries()}
        assert found == {Exact(2), Exact(3)}

    with_client(work, on_pipeline=bring_along)


def test_only_the_primary_sets_the_pipeline() -> None:
    async def work(client: Client, made: World) -> None:
        client.election = 99
        error = await failing(client.set_config(sample.p4info(), sample.device_config()))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        client.election = 1
        error = await failing(client.set_config(sample.p4info(), sample.device_config(), Request.UNSPECIFIED))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT

    with_client(work)
