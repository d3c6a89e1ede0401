"""The server over gRPC, with finsy and with a bare client, on fake switches: devices, writes and reads.

A client's stream and the pipeline config have files of their own.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import AsyncIterator
from typing import Any

import finsy
import grpc
import grpc.aio
import pytest
from finsy.proto import p4r, p4r_grpc, rpc_code

from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.p4runtime_service import P4RuntimeService
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    details,
    dropping,
    failing,
    finsy_switch,
    insert,
    run,
    stream_end,
    with_client,
)
from tests.waiting import until_async

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
                action=finsy.P4IndirectAction([(2, finsy.Action("ipv6_route.set_egress", port=1, dmac=2, smac=3))]),
            )
            await switch.write([+one_shot])
            found = [item async for item in switch.read(finsy.P4TableEntry("ipv6_route"))]
            assert found == [
                finsy.P4TableEntry(
                    "ipv6_route",
                    match=finsy.Match(dst=(0xFD00 << 112, 16)),
                    action=finsy.P4IndirectAction([(2, finsy.Action("ipv6_route.set_egress", port=1, dmac=2, smac=3))]),
                )
            ]
            await switch.delete_all()
            assert [item async for item in switch.read(finsy.P4TableEntry())] == []

    run(work)


def local_entry() -> finsy.P4TableEntry:
    return finsy.P4TableEntry("usid_local", match=finsy.Match(locator=1), action=finsy.Action("usid_shift"))


def test_two_finsy_controllers_take_turns_as_primary() -> None:
    async def work(made: World) -> None:
        low = finsy_switch(made.address, initial_election_id=10)
        high = finsy_switch(made.address, initial_election_id=20)
        async with low as first, high as second:
            assert second.is_primary
            await until_async(lambda: not first.is_primary, "the first client to learn that it is no longer primary")
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


def test_every_call_reports_an_unknown_device_as_not_found() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            for call in (
                stub.Write(p4r.WriteRequest(device_id=9)),
                stub.SetForwardingPipelineConfig(p4r.SetForwardingPipelineConfigRequest(device_id=9)),
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


# --- writes and reads


def test_a_failed_batch_has_an_error_for_each_update() -> None:
    async def work(client: Client, made: World) -> None:
        error = await failing(client.write(insert(table_entry=dropping(1)), insert(table_entry={"table_id": 99})))
        assert error.code() == grpc.StatusCode.UNKNOWN
        assert [item.canonical_code for item in details(error)] == [rpc_code.OK, rpc_code.NOT_FOUND]
        assert "1 of 2 updates failed" in (error.details() or "")
        error = await failing(
            client.write(insert(table_entry=dropping(2)), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
        )
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED
        assert details(error) == []

    with_client(work)


def test_large_reads_are_split_into_several_responses() -> None:
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


def test_a_failed_read_returns_what_it_found_first() -> None:
    async def work(client: Client, made: World) -> None:
        await client.write(insert(table_entry=dropping(1)))
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


def test_an_unexpected_exception_is_internal_and_the_server_continues() -> None:
    async def work(client: Client, made: World) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("oops " * 1000)

        made.fakes[1].control_plane.table("I.exact_").insert = broken  # type: ignore[method-assign]
        error = await failing(client.write(insert(table_entry=dropping(1))))
        assert error.code() == grpc.StatusCode.INTERNAL
        assert 0 < len(error.details() or "") <= 1000, "a client may have chosen parts of it"
        assert await client.read(p4r.Entity(table_entry={})) == []

    with_client(work)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_running_out_of_descriptors_is_reported(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    async def work(client: Client, made: World) -> None:
        monkeypatch.setattr(P4RuntimeDevice, "write", fail)
        error = await failing(client.write(insert(table_entry=dropping(1))))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "is out of file descriptors" in (error.details() or "")

    with_client(work)


def test_a_client_disconnecting_while_refused_logs_nothing() -> None:
    contexts: list[dict[str, Any]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: contexts.append(context))

        async def messages() -> AsyncIterator[p4r.StreamMessageRequest]:
            calls[0].cancel()  # and then comes what is refused
            yield p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=77))

        calls = [asyncio.ensure_future(P4RuntimeService([]).StreamChannel(messages(), None))]
        await asyncio.wait(calls)
        assert calls.pop().cancelled()
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(work())
    assert contexts == []
