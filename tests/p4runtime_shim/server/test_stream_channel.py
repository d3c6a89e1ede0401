"""The stream of a client: arbitration on it, packets and digests both ways, errors, how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import finsy
import grpc
import grpc.aio
import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.entities import Digest
from p4runtime_shim.limits import MAX_WAITING_MESSAGES as MAX_WAITING
from p4runtime_shim.server.stream_channel import ClientStream
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import CPU_PORT, Client, World, failing, insert, run, stream_end, with_client
from tests.waiting import until_async


def test_closing_a_stream_demotes_its_client() -> None:
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
def test_an_inconsistent_arbitration_update_ends_the_stream(changes: dict[str, Any], status: grpc.StatusCode) -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.send_arbitration(**changes)
            assert await stream_end(client) == status

    run(work)


def test_a_stream_ends_when_the_message_that_is_being_sent_has_been() -> None:
    """gRPC refuses the status of a call while a message is on its way, and the client waits for ever."""

    class Context:
        def __init__(self) -> None:
            self.writing, self.written = asyncio.Event(), asyncio.Event()

        async def write(self, message: p4r.StreamMessageResponse) -> None:
            self.writing.set()
            await self.written.wait()

    async def work() -> None:
        stream, context = ClientStream(), Context()
        stream.send(p4r.StreamMessageResponse())
        writer = asyncio.create_task(stream.write_to(context))
        await context.writing.wait()
        writer.cancel()
        ended = asyncio.create_task(stream.sent())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert writer.cancelled()
        assert not ended.done()
        context.written.set()
        await ended

    asyncio.run(work())


def test_an_election_id_in_use_is_refused_with_the_expected_message() -> None:
    async def work(made: World) -> None:
        async with made.channel() as channel:
            first = Client(channel, election=5)  # kept: a call that nobody holds is cancelled
            await first.arbitrate()
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


def test_packets_pass_in_both_directions() -> None:
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


def test_invalid_packet_outs_are_reported_on_the_stream_and_dropped() -> None:
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


def test_a_slow_client_loses_packets_but_no_arbitration_updates() -> None:
    async def work(client: Client, made: World) -> None:
        device, fake = made.devices[1], made.fakes[1]
        (session,) = device.arbitration.primaries()
        fake.outbox.extend([b"\x00\x00" + bytes(8000)] * (MAX_WAITING * 3))
        fake.punt(b"\x00\x00last")
        await until_async(lambda: not fake.outbox, "all packets to be taken")
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
        await until_async(lambda: not list(made.devices[1].arbitration.primaries()), "the primary to be gone")
        made.fakes[1].punt(b"\x00\x00x")
        await until_async(lambda: made.devices[1].packets_undeliverable, "the packet to be counted")

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
