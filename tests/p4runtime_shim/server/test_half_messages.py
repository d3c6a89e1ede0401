"""Messages that end too early: protobuf cut anywhere, gRPC and HTTP/2 frames that announce more than comes."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
from finsy.proto import p4r
from google.protobuf.message import DecodeError, Message

from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import exact
from tests.p4runtime_shim.server.world import Client, World, insert, with_client

SERVICE = "/p4.v1.P4Runtime/"
WRITE = p4r.WriteRequest(device_id=1, election_id={"low": 1}, updates=[insert(table_entry=exact())])
CONFIG = p4r.SetForwardingPipelineConfigRequest(
    device_id=1,
    election_id={"low": 1},
    action=p4r.SetForwardingPipelineConfigRequest.VERIFY,
    config={"p4info": sample.p4info(), "p4_device_config": sample.device_config()},
)
READ = p4r.ReadRequest(device_id=1, entities=[p4r.Entity(table_entry=exact())])
STREAM = p4r.StreamMessageRequest(arbitration={"device_id": 1, "election_id": {"low": 9}, "role": {"name": "other"}})


async def still_works(client: Client) -> None:
    """The server answers, and the client is primary as before."""
    await client.write(insert(table_entry=exact()))
    assert len(await client.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=sample.EXACT)))) == 1


@pytest.mark.parametrize(
    ("method", "request_"),
    [("Write", WRITE), ("SetForwardingPipelineConfig", CONFIG), ("Read", READ), ("StreamChannel", STREAM)],
    ids=["write", "config", "read", "stream"],
)
def test_truncated_requests_are_errors(method: str, request_: p4r.WriteRequest) -> None:
    whole = request_.SerializeToString()
    cuts = random.Random(1).sample(range(1, len(whole)), min(len(whole) - 1, 30))

    async def work(client: Client, made: World) -> None:
        async with made.channel() as channel:
            for cut in cuts:
                data = whole[:cut] if cut % 3 else whole[:cut] + b"\xff" * 9
                if _is_whole(type(request_), data):
                    continue  # a cut between two fields
                if method == "StreamChannel":
                    call = channel.stream_stream(SERVICE + method)(_once(data))
                    answer = asyncio.wait_for(call.read(), 5)
                elif method == "Read":
                    answer = channel.unary_stream(SERVICE + method)(data).read()
                else:
                    answer = channel.unary_unary(SERVICE + method)(data)
                with pytest.raises(grpc.aio.AioRpcError):
                    await answer
        await still_works(client)

    with_client(work)


def _is_whole(kind: type[Message], data: bytes) -> bool:
    try:
        kind.FromString(data)
    except DecodeError:
        return False
    return True


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack("!I", len(data))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + data


def _literal(name: str, value: str) -> bytes:
    """A header field without indexing (RFC 7541, section 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def test_the_server_survives_connections_closed_in_mid_message() -> None:
    fields = {":method": "POST", ":scheme": "http", ":path": SERVICE + "Write", ":authority": "x"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    data = WRITE.SerializeToString()
    message = b"\0" + struct.pack("!I", len(data)) + data
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"")
    sent += _frame(1, 4, 1, b"".join(_literal(name, value) for name, value in fields.items()))
    sent += _frame(0, 1, 1, message)

    async def work(client: Client, made: World) -> None:
        host, _, port = made.address.rpartition(":")
        for cut in [*range(1, len(sent) - 1, 7), len(sent) - 1]:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent[:cut])
            await writer.drain()
            writer.close()
        await still_works(client)

    with_client(work)
