"""What clients may be many of, say and leave unread is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time

import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r, rpc_code

from p4runtime_shim import limits
from p4runtime_shim.entities import Digest
from p4runtime_shim.server import p4info
from p4runtime_shim.server.arbitration import Arbitration
from p4runtime_shim.server.digests import Digests
from p4runtime_shim.server.rpc_errors import RpcError
from p4runtime_shim.server.stream_channel import ClientStream
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    failing,
    run,
    stream_end,
    with_client,
)

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED


def test_roles_are_bounded_and_freed_with_their_last_client() -> None:
    class Ears:
        def send(self, message: p4r.StreamMessageResponse) -> None:
            """Take it."""

    def join(name: str) -> Ears:
        ears = Ears()
        message = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=1), role=p4r.Role(name=name))
        arbitration.update(ears, message)
        return ears

    arbitration = Arbitration(1)
    with pytest.raises(RpcError, match="name has 100000 characters") as caught:
        join("x" * 100_000)
    assert caught.value.code == rpc_code.INVALID_ARGUMENT
    for number in range(3 * limits.MAX_ROLES):
        arbitration.leave(join(f"short-lived {number}"))
    held = [join(f"r{number}") for number in range(limits.MAX_ROLES)]
    with pytest.raises(RpcError, match="roles with clients") as caught:
        join("one more")
    assert caught.value.code == rpc_code.RESOURCE_EXHAUSTED
    arbitration.leave(held[5])
    join("one more")


def queued(stream: ClientStream) -> list[p4r.StreamMessageResponse]:
    """What a stream still sends once its client reads."""
    read: list[p4r.StreamMessageResponse] = []

    class Context:
        async def write(self, message: p4r.StreamMessageResponse) -> None:
            read.append(message)

    async def work() -> None:
        writing = asyncio.ensure_future(stream.write_to(Context()))
        before = -1
        while len(read) > before:
            before = len(read)
            for _ in range(5):  # turns of the loop, in which a message is written if there is one
                await asyncio.sleep(0)
        writing.cancel()

    asyncio.run(work())
    return read


def test_a_client_that_never_reads_takes_bounded_memory() -> None:
    stream = ClientStream()
    ended: list[bool] = []
    stream.end = lambda: ended.append(True)
    packet = p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=bytes(60_000)))
    for _ in range(2000):
        stream.send(packet)
    dropped = stream.dropped
    assert not ended
    for _ in range(5 * limits.MAX_WAITING_MESSAGES):
        stream.send(p4r.StreamMessageResponse(arbitration=p4r.MasterArbitrationUpdate(role=p4r.Role(name="r" * 200))))
    assert ended == [True]
    messages = queued(stream)
    assert sum(message.ByteSize() for message in messages) <= limits.MAX_WAITING_BYTES
    assert dropped == 2000 - sum(message.HasField("packet") for message in messages)


def test_unread_small_messages_are_bounded_in_number() -> None:
    stream = ClientStream()
    for _ in range(5 * limits.MAX_WAITING_MESSAGES):
        stream.send(p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=b"x")))
    assert stream.dropped == 4 * limits.MAX_WAITING_MESSAGES
    assert len(queued(stream)) == limits.MAX_WAITING_MESSAGES


def test_queued_pipeline_configs_are_bounded() -> None:
    async def work(client: Client, made: World) -> None:
        device = made.devices[1]
        async with device._configuring:  # private: as while a config compiles, for as long as this test needs
            waiting = [asyncio.ensure_future(client.set_config(p4i.P4Info(), b"{}")) for _ in range(limits.MAX_CONFIGS)]
            while device._waiting_configs < limits.MAX_CONFIGS:
                await asyncio.sleep(0)
            error = await failing(client.set_config(p4i.P4Info(), b"{}"))
        assert error.code() == EXHAUSTED
        await asyncio.gather(*waiting, return_exceptions=True)
        assert device._waiting_configs == 0

    with_client(work)


@pytest.mark.second_ring
def test_unacknowledged_digests_are_bounded_in_number_and_time() -> None:
    schema = p4info.build(sample.p4info())
    digests = Digests(schema)
    name = schema.digests[sample.DIGEST].name
    config = {"max_timeout_ns": 0, "ack_timeout_ns": 2**62, "max_list_size": 2**31 - 1}
    digests.write(p4r.Update.INSERT, p4r.DigestEntry(digest_id=sample.DIGEST, config=config), None)
    began = time.thread_time()
    for number in range(2 * limits.MAX_DIGESTS_SENT):
        digests.offer([Digest(name, (number, 1), number)], number)
    assert time.thread_time() - began < 20
    (stream,) = digests._streams.values()  # what it keeps in memory shows nowhere else
    assert len(stream.unacknowledged) == len(stream.sent) <= limits.MAX_DIGESTS_SENT + 1
    digests.write(
        p4r.Update.MODIFY, p4r.DigestEntry(digest_id=sample.DIGEST, config={**config, "max_timeout_ns": 2**62}), None
    )
    many = [Digest(name, (number, 2), 0) for number in range(limits.MAX_DIGESTS + 1)]
    (full,) = digests.offer(many, 0)
    assert len(full.data) == limits.MAX_DIGESTS


def test_packet_outs_of_16_megabytes_are_refused_without_echoing_them() -> None:
    async def work(client: Client, made: World) -> None:
        for _ in range(3):
            await client.stream.write(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(16_000_000))))
            answer = await client.next()
            assert answer.error.canonical_code == rpc_code.RESOURCE_EXHAUSTED
            assert answer.ByteSize() < 1000
        assert made.fakes[1].inbox == []

    with_client(work)


def test_silent_streams_are_bounded_and_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_IDLE_STREAMS", 2)

    async def work(made: World) -> None:
        async with made.channel() as channel:
            ends = [asyncio.ensure_future(stream_end(Client(channel))) for _ in range(3)]
            (first,), waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert first.result() == EXHAUSTED
            assert len(waiting) == 2
            for end in waiting:
                end.cancel()
        monkeypatch.setattr(limits, "MAX_IDLE_STREAMS", 9)
        monkeypatch.setattr(limits, "MAX_IDLE_S", 0.1)
        async with made.channel() as channel:
            assert await stream_end(Client(channel)) == grpc.StatusCode.FAILED_PRECONDITION
            client = Client(channel)
            while not await in_time(client):
                client = Client(channel)
            await asyncio.sleep(0.15)  # longer than a silent one may last
            await client.arbitrate()  # one that has spoken may be silent

    async def in_time(client: Client) -> bool:
        """On a busy machine its arbitration may come when it has been silent for too long."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError):
            await client.arbitrate()
            return True
        return False

    run(work)


def test_the_number_of_clients_per_device_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 3)

    async def work(made: World) -> None:
        async with made.channel() as channel:
            clients = [Client(channel, election=number + 1, role=f"r{number}") for number in range(4)]
            for client in clients[:3]:
                await client.arbitrate()
            await clients[3].send_arbitration()
            assert await stream_end(clients[3]) == EXHAUSTED

    run(work)


def test_malformed_messages_are_refused() -> None:
    async def work(client: Client, made: World) -> None:
        async with made.channel() as channel:
            for method in ("Write", "SetForwardingPipelineConfig", "Capabilities"):
                error = await failing(channel.unary_unary(f"/p4.v1.P4Runtime/{method}")(b"\xff\xff\xff"))
                assert error.code() == INVALID
            reading = channel.unary_stream("/p4.v1.P4Runtime/Read")(b"\xff\xff\xff")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await reading.read()
            assert caught.value.code() == INVALID
            stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")()
            await stream.write(b"\xff\xff\xff")
            assert await stream.code() == INVALID

    with_client(work)
