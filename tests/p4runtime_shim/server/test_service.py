"""The server over gRPC, with finsy and with a bare client, on fake switches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import finsy
import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r, p4r_grpc, rpc_code

from p4runtime_shim.fake import FakeSwitch
from p4runtime_shim.server.stream import MAX_WAITING
from p4runtime_shim.values import ActionCall, Digest, Entry, Exact
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import (
    CPU_PORT,
    Client,
    World,
    delete,
    details,
    fabric_json,
    fabric_p4info,
    finsy_switch,
    insert,
    modify,
    world,
)

Request = p4r.SetForwardingPipelineConfigRequest


def run(work: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def inside() -> None:
        async with world(**options) as made:
            await asyncio.wait_for(work(made), 30)

    asyncio.run(inside())


def with_client(work: Callable[[Client, World], Awaitable[None]], **options: Any) -> None:
    """A primary client with the sample pipeline."""

    async def inside(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.set_config(sample.p4info(), sample.device_config())
            await work(client, made)

    run(inside, **options)


async def failing(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def stream_end(client: Client) -> grpc.StatusCode:
    """Status with which the stream ends."""
    while True:
        try:
            message = await asyncio.wait_for(client.stream.read(), 5)
        except grpc.aio.AioRpcError as error:
            return error.code()
        if message is grpc.aio.EOF:
            return await client.stream.code()


def exact(mac: int) -> p4r.TableEntry:
    return p4r.TableEntry(
        table_id=sample.EXACT,
        match=[{"field_id": 1, "exact": {"value": bytes([mac])}}],
        action={"action": {"action_id": sample.DROP}},
    )


# --- finsy


def test_finsy_works_unchanged() -> None:
    async def work(made: World) -> None:
        async with finsy_switch(made.address) as switch:
            assert switch.is_primary
            assert str(switch.p4runtime_version) >= "1.4.0"
            await switch.write([+local_entry()])
            assert [item async for item in switch.read(finsy.P4TableEntry())] == [local_entry()]
            with pytest.raises(finsy.P4ClientError) as caught:
                await switch.write([+local_entry()])
            assert caught.value.details[0].canonical_code == finsy.GRPCStatusCode.ALREADY_EXISTS
            one_shot = finsy.P4TableEntry(
                "ipv6_route",
                match=finsy.Match(dst="fd00::/16"),
                action=finsy.P4IndirectAction([(2, finsy.Action("ipv6_route.set_egress", port=1, dmac=2))]),
            )
            await switch.write([+one_shot])
            found = [item async for item in switch.read(finsy.P4TableEntry("ipv6_route"))]
            assert found == [
                finsy.P4TableEntry(
                    "ipv6_route",
                    match=finsy.Match(dst=(0xFD00 << 112, 16)),
                    action=finsy.P4IndirectAction([(2, finsy.Action("ipv6_route.set_egress", port=1, dmac=2))]),
                )
            ]
            await switch.delete_all()
            assert [item async for item in switch.read(finsy.P4TableEntry())] == []

    run(work)


def local_entry() -> finsy.P4TableEntry:
    return finsy.P4TableEntry("usid_local", match=finsy.Match(locator=1), action=finsy.Action("usid_shift"))


def test_two_finsy_controllers_one_primary_then_the_other() -> None:
    async def work(made: World) -> None:
        low = finsy_switch(made.address, initial_election_id=10)
        high = finsy_switch(made.address, initial_election_id=20)
        async with low as first, high as second:
            assert second.is_primary
            for _ in range(100):
                if not first.is_primary:
                    break
                await asyncio.sleep(0.01)
            assert not first.is_primary
            with pytest.raises(finsy.P4ClientError) as caught:
                await first.write([+local_entry()])
            assert caught.value.code == finsy.GRPCStatusCode.PERMISSION_DENIED
            await second.write([+local_entry()])

    run(work)


# --- devices


def test_many_devices_share_one_compilation() -> None:
    async def work(made: World) -> None:
        async def one(id_: int) -> None:
            async with finsy_switch(made.address, id_) as switch:
                assert switch.device_id == id_

        await asyncio.gather(*(one(id_) for id_ in made.fakes))
        assert len(made.loaded) == 1
        assert all(fake.pipeline == made.loaded[0] for fake in made.fakes.values())

    run(work, device_ids=range(1, 13))


def test_an_unknown_device_is_not_found_everywhere() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            for call in (
                stub.Write(p4r.WriteRequest(device_id=9)),
                stub.SetForwardingPipelineConfig(Request(device_id=9)),
                stub.GetForwardingPipelineConfig(p4r.GetForwardingPipelineConfigRequest(device_id=9)),
                stub.Capabilities(p4r.CapabilitiesRequest(device_id=9)),
            ):
                assert (await failing(call)).code() == grpc.StatusCode.NOT_FOUND
            error = await failing(stub.Read(p4r.ReadRequest(device_id=9)).read())
            assert error.code() == grpc.StatusCode.NOT_FOUND
            client = Client(channel, device_id=9)
            await client.send_arbitration()
            assert await stream_end(client) == grpc.StatusCode.NOT_FOUND
            assert (await stub.Capabilities(p4r.CapabilitiesRequest())).p4runtime_api_version >= "1.4.0"

    run(work)


# --- streams


def test_a_stream_that_ends_demotes_its_client() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            first, second = Client(channel, election=5), Client(channel, election=3)
            assert (await first.arbitrate()).status.code == rpc_code.OK
            assert (await second.arbitrate()).status.code == rpc_code.ALREADY_EXISTS
            first.stream.cancel()
            assert (await second.next_arbitration()).status.code == rpc_code.NOT_FOUND
            error = await failing(second.write())
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED
            await second.send_arbitration(election=6)
            assert (await second.next_arbitration()).status.code == rpc_code.OK
            await second.stream.done_writing()  # a polite end counts as well
            third = Client(channel, election=1)
            news = await third.arbitrate()
            while news.status.code == rpc_code.ALREADY_EXISTS:  # until the server has seen the end
                news = await third.next_arbitration()
            assert news.status.code == rpc_code.NOT_FOUND

    run(work)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"device_id": 9}, grpc.StatusCode.FAILED_PRECONDITION),
        ({"role": "other"}, grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_an_update_that_contradicts_the_stream_ends_it(changes: dict[str, Any], status: grpc.StatusCode) -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.send_arbitration(**changes)
            assert await stream_end(client) == status

    run(work)


def test_an_election_id_in_use_is_refused_in_words_that_clients_know() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            await Client(channel, election=5).arbitrate()
            again = Client(channel, election=5)
            await again.send_arbitration()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await again.stream.read()
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert finsy.P4ClientError(caught.value, "x").is_election_id_used

    run(work)


def test_packets_before_arbitration_end_the_stream() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.stream.write(p4r.StreamMessageRequest(packet={"payload": b"x"}))
            assert await stream_end(client) == grpc.StatusCode.FAILED_PRECONDITION

    run(work)


# --- packets and digests


def test_packets_go_both_ways() -> None:
    async def work(client: Client, made: World) -> None:
        out = {
            "payload": b"frame",
            "metadata": [{"metadata_id": 1, "value": b"\x07"}, {"metadata_id": 2, "value": b"\x00"}],
        }
        await client.stream.write(p4r.StreamMessageRequest(packet=out))
        made.fakes[1].punt(b"\x03\x80in")
        packet = (await client.next()).packet
        assert packet.payload == b"in"
        assert [item.value for item in packet.metadata] == [b"\x07", b"\x00"]
        await client.write()  # the packet-out before it has been handled by now
        assert made.fakes[1].inbox == [(CPU_PORT, b"\x03\x80frame")]

    with_client(work)


def test_bad_packets_are_told_on_the_stream_and_dropped() -> None:
    async def work(client: Client, made: World) -> None:
        bad = p4r.PacketOut(payload=b"frame", metadata=[{"metadata_id": 7, "value": b"\x07"}])
        await client.stream.write(p4r.StreamMessageRequest(packet=bad))
        error = (await client.next()).error
        assert error.canonical_code == rpc_code.INVALID_ARGUMENT
        assert error.packet_out.packet_out == bad
        await client.stream.write(p4r.StreamMessageRequest(digest_ack={"digest_id": 99}))
        assert (await client.next()).error.WhichOneof("details") == "digest_list_ack"
        await client.stream.write(p4r.StreamMessageRequest())
        assert (await client.next()).error.canonical_code == rpc_code.UNIMPLEMENTED
        async with made.channel() as channel:
            backup = Client(channel, election=0)
            await backup.arbitrate()
            await backup.stream.write(p4r.StreamMessageRequest(packet={"payload": b"x"}))
            assert (await backup.next()).error.canonical_code == rpc_code.PERMISSION_DENIED
        assert made.fakes[1].inbox == []

    with_client(work)


def test_a_slow_client_loses_packets_but_not_arbitration() -> None:
    async def work(client: Client, made: World) -> None:
        device, fake = made.devices[1], made.fakes[1]
        (session,) = device.arbitration.primaries()
        fake.outbox.extend([b"\x00\x00" + bytes(8000)] * (MAX_WAITING * 3))
        fake.punt(b"\x00\x00last")
        while fake.outbox:
            await asyncio.sleep(0.01)
        dropped = session.dropped  # type: ignore[attr-defined]
        assert dropped > 0
        await client.send_arbitration()
        seen = 0
        while (await client.next()).WhichOneof("update") == "packet":
            seen += 1
        assert seen + dropped == MAX_WAITING * 3 + 1

    with_client(work)


def test_packets_without_a_primary_are_counted() -> None:
    async def work(client: Client, made: World) -> None:
        client.stream.cancel()
        while list(made.devices[1].arbitration.primaries()):
            await asyncio.sleep(0.01)
        made.fakes[1].punt(b"\x00\x00x")
        while not made.devices[1].packets_undeliverable:
            await asyncio.sleep(0.01)

    with_client(work)


def test_digests_are_sent_after_their_timeout() -> None:
    async def work(client: Client, made: World) -> None:
        config = {"max_timeout_ns": 20_000_000, "max_list_size": 10, "ack_timeout_ns": 10**9}
        await client.write(insert(digest_entry={"digest_id": sample.DIGEST, "config": config}))
        made.fakes[1].report(Digest("learn_t", (5, 1), 0))
        made.fakes[1].report(Digest("learn_t", (6, 1), 0))
        digest = (await client.next()).digest
        assert [item.struct.members[0].bitstring for item in digest.data] == [b"\x05", b"\x06"]
        ack = {"digest_id": sample.DIGEST, "list_id": digest.list_id}
        await client.stream.write(p4r.StreamMessageRequest(digest_ack=ack))
        await client.write()
        made.fakes[1].report(Digest("learn_t", (5, 1), 0))
        assert len((await client.next()).digest.data) == 1

    with_client(work)


# --- writes and reads


def test_a_failed_batch_has_an_error_for_each_update() -> None:
    async def work(client: Client, made: World) -> None:
        error = await failing(client.write(insert(table_entry=exact(1)), insert(table_entry={"table_id": 99})))
        assert error.code() == grpc.StatusCode.UNKNOWN
        assert [item.canonical_code for item in details(error)] == [rpc_code.OK, rpc_code.NOT_FOUND]
        assert "1 of 2 updates failed" in (error.details() or "")
        error = await failing(client.write(insert(table_entry=exact(2)), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC))
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED
        assert details(error) == []

    with_client(work)


def test_large_reads_come_in_pieces() -> None:
    async def work(client: Client, made: World) -> None:
        entries = [
            p4r.TableEntry(
                table_id=sample.EXACT,
                match=[{"field_id": 1, "exact": {"value": (n + 1).to_bytes(2, "big").lstrip(b"\0")}}],
                action={"action": {"action_id": sample.DROP}},
            )
            for n in range(1200)
        ]
        await client.write(*(insert(table_entry=item) for item in entries))
        wanted = p4r.ReadRequest(device_id=1, entities=[p4r.Entity(table_entry={})])
        sizes = [len(response.entities) async for response in client.stub.Read(wanted)]
        assert sum(sizes) == 1200
        assert len(sizes) > 1

    with_client(work)


def test_a_failed_read_still_returns_what_it_found() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=exact(1)))
        wanted = [p4r.Entity(table_entry={"table_id": sample.EXACT}), p4r.Entity(table_entry={"table_id": 99})]
        responses = client.stub.Read(p4r.ReadRequest(device_id=1, entities=wanted))
        assert len((await responses.read()).entities) == 1
        error = await failing(responses.read())
        assert [item.canonical_code for item in details(error)] == [rpc_code.OK, rpc_code.NOT_FOUND]

    with_client(work)


def test_only_the_primary_writes_and_everyone_reads() -> None:
    async def work(client: Client, made: World) -> None:
        client.election = 7
        assert (await failing(client.write())).code() == grpc.StatusCode.PERMISSION_DENIED
        client.role = "nobody"
        assert (await failing(client.write())).code() == grpc.StatusCode.NOT_FOUND
        async with made.channel() as channel:
            assert await Client(channel).read(p4r.Entity(table_entry={})) == []

    with_client(work)


def test_an_unexpected_failure_is_internal_and_the_server_lives_on() -> None:
    async def work(client: Client, made: World) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("oops")

        made.fakes[1].table_insert = broken  # type: ignore[method-assign]
        error = await failing(client.write(insert(table_entry=exact(1))))
        assert error.code() == grpc.StatusCode.INTERNAL
        assert await client.read(p4r.Entity(table_entry={})) == []

    with_client(work)


# --- pipeline configuration


def test_without_a_pipeline_reads_and_writes_fail_in_words_that_clients_know() -> None:
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


def test_a_config_is_read_back_in_the_parts_asked_for() -> None:
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


def test_verify_changes_nothing_and_commit_starts_empty() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=exact(1)))
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
def test_a_config_that_cannot_be_realized(p4info: p4i.P4Info | None, config: bytes | None, word: str) -> None:
    async def work(client: Client, made: World) -> None:
        before = await client.get_config()
        for action in (Request.VERIFY, Request.VERIFY_AND_COMMIT, Request.RECONCILE_AND_COMMIT):
            error = await failing(client.set_config(p4info, config, action))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert word in (error.details() or "")
        assert await client.get_config() == before

    with_client(work)


def test_bmv2s_wrapper_around_the_json_is_taken() -> None:
    async def work(client: Client, made: World) -> None:
        data = sample.device_config()
        size = bytes([len(data) & 0x7F | 0x80, len(data) >> 7 & 0x7F | 0x80, len(data) >> 14])
        await client.set_config(sample.p4info(), b"\x08\x01\x12\x00\x1a" + size + data)
        assert made.fakes[1].pipeline == data.decode()

    with_client(work)


def test_a_saved_config_takes_writes_and_is_committed_with_them() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=exact(1)))
        await client.set_config(sample.p4info(), sample.device_config() + b" ", Request.VERIFY_AND_SAVE, cookie=2)
        assert await client.read(p4r.Entity(table_entry={})) == []
        await client.write(
            insert(table_entry=exact(2)),
            modify(register_entry={"register_id": sample.REGISTER, "data": {"bitstring": b"\x05"}}),
        )
        fake = made.fakes[1]
        assert fake.table_entries("I.exact_") == [Entry((Exact(1),), ActionCall("I.drop"))]
        assert (await client.get_config()).config.cookie.cookie == 0
        await client.set_config(action=Request.COMMIT)
        assert fake.table_entries("I.exact_") == [Entry((Exact(2),), ActionCall("I.drop"))]
        assert fake.register_read("I.a_register", 4) == 5
        assert (await client.get_config()).config.cookie.cookie == 2
        assert [item.closed for item in made.scratches] == [True]
        error = await failing(client.set_config(action=Request.COMMIT))
        assert error.code() == grpc.StatusCode.NOT_FOUND
        error = await failing(client.set_config(sample.p4info(), b"{}", Request.COMMIT))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT

    with_client(work)


def test_reconcile_keeps_the_forwarding_state_or_refuses() -> None:
    async def work(client: Client, made: World) -> None:
        fake = made.fakes[1]
        entry = exact(1)
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
        fake.direct_counter_write("I.exact_", (Exact(1),), 0, p4r_counter(3))
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


def p4r_counter(packets: int) -> Any:
    from p4runtime_shim.values import CounterValue

    return CounterValue(packets, 0)


def test_initial_entries_are_replaced_by_those_that_were_kept() -> None:
    def bring_along(switch: FakeSwitch, pipeline: Any) -> None:
        switch.table_insert("I.exact_", Entry((Exact(1),), ActionCall("I.drop")))
        switch.table_insert("I.exact_", Entry((Exact(2),), ActionCall("I.drop")))

    async def work(client: Client, made: World) -> None:
        info = sample.p4info()
        info.tables[1].has_initial_entries = True
        await client.set_config(info, sample.device_config())
        await client.write(delete(table_entry=exact(1)), insert(table_entry=exact(3)))
        await client.set_config(info, sample.device_config() + b" ", Request.RECONCILE_AND_COMMIT)
        found = {item.match[0] for item in made.fakes[1].table_entries("I.exact_")}
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
