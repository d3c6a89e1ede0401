"""What gRPC bounds before the service sees it: messages, calls under way, and connections.

Where the true limit is too many to open here, the test sets a smaller one; that it is asked for is what is tested.
"""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import grpc.aio
import pytest
from finsy.proto import p4r

from p4runtime_shim import limits
from p4runtime_shim.server.p4runtime_service import P4RuntimeService
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import Client, World, failing, run, with_client

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
UNBOUNDED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def config_request(size: int) -> p4r.SetForwardingPipelineConfigRequest:
    """A request of exactly `size` bytes, whose program is too large."""
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=1, election_id=p4r.Uint128(low=1), action=p4r.SetForwardingPipelineConfigRequest.VERIFY
    )
    request.config.p4_device_config = b" " * size
    request.config.p4_device_config = b" " * (2 * size - request.ByteSize())
    assert request.ByteSize() == size
    return request


def test_requests_up_to_the_size_limit_are_accepted() -> None:
    async def work(client: Client, made: World) -> None:
        fits = await failing(client.stub.SetForwardingPipelineConfig(config_request(limits.MAX_MESSAGE_BYTES)))
        assert fits.code() is INVALID, "the service got it, and found the program too large"
        error = await failing(client.stub.SetForwardingPipelineConfig(config_request(limits.MAX_MESSAGE_BYTES + 1)))
        assert error.code() is EXHAUSTED
        assert str(limits.MAX_MESSAGE_BYTES) in (error.details() or "")
        await client.set_config(sample.p4info(), sample.device_config())

    with_client(work)


@pytest.mark.parametrize(("more", "code"), [(0, grpc.StatusCode.OK), (1, EXHAUSTED)])
def test_responses_beyond_the_size_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch, more: int, code: grpc.StatusCode
) -> None:
    answer = p4r.CapabilitiesResponse(p4runtime_api_version="x" * limits.MAX_MESSAGE_BYTES)
    excess = answer.ByteSize() - limits.MAX_MESSAGE_BYTES
    answer.p4runtime_api_version = answer.p4runtime_api_version[excess:] + "x" * more

    async def capabilities(service: P4RuntimeService, request: p4r.CapabilitiesRequest, context: object) -> object:
        return answer

    async def work(made: World) -> None:
        async with grpc.aio.insecure_channel(made.address, options=UNBOUNDED) as channel:
            call = Client(channel).stub.Capabilities(p4r.CapabilitiesRequest())
            assert await call.code() is code

    monkeypatch.setattr(P4RuntimeService, "Capabilities", capabilities)
    run(work)


def test_calls_beyond_the_limit_are_refused_and_running_ones_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CALLS", 3)

    async def work(made: World) -> None:
        async with made.channel() as channel:
            clients = [Client(channel, role=f"r{number}") for number in range(3)]
            for client in clients:
                await client.arbitrate()
            for _ in range(10):
                error = await failing(clients[0].stub.Capabilities(p4r.CapabilitiesRequest()))
                assert error.code() is EXHAUSTED
            for client in clients:
                await client.arbitrate()
            await clients[0].stream.done_writing()
            assert await clients[0].stream.code() is grpc.StatusCode.OK
            code = EXHAUSTED
            while code is EXHAUSTED:  # the server may count a call for a moment longer than its client
                code = await clients[1].stub.Capabilities(p4r.CapabilitiesRequest()).code()
            assert code is grpc.StatusCode.OK

    run(work)


def test_connections_beyond_the_limit_are_refused_and_others_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)

    async def work(made: World) -> None:
        async with contextlib.AsyncExitStack() as stack:

            async def connect() -> Client:
                channel = grpc.aio.insecure_channel(made.address, options=OWN_CONNECTION)
                return Client(await stack.enter_async_context(channel), role=f"r{len(clients)}")

            clients: list[Client] = []
            for _ in range(3):
                clients.append(await connect())
                await clients[-1].arbitrate()
            refused = await connect()
            error = await failing(refused.stub.Capabilities(p4r.CapabilitiesRequest()))
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            for client in clients:
                await client.arbitrate()
                await client.stub.Capabilities(p4r.CapabilitiesRequest())

    run(work)


def test_a_closed_connection_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 1)

    async def work(made: World) -> None:
        async with grpc.aio.insecure_channel(made.address, options=OWN_CONNECTION) as channel:
            await Client(channel).arbitrate()
            async with grpc.aio.insecure_channel(made.address, options=OWN_CONNECTION) as late:
                waiting = asyncio.ensure_future(
                    Client(late).stub.Capabilities(p4r.CapabilitiesRequest(), wait_for_ready=True)
                )
                await channel.close()
                assert (await waiting).p4runtime_api_version

    run(work)
