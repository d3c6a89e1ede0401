"""A server with fake switches behind it, for tests with finsy or with a bare gRPC channel as the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import finsy
import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r, p4r_grpc, rpc_status
from google.protobuf import text_format

from p4runtime_shim.entities import ActionCall
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.p4runtime_service import P4RuntimeService, make_server
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.fake_switch import FakeSwitch
from tests.waiting import TIMEOUT_S

P4SRC = Path(__file__).parents[3] / "p4src" / "build"
CPU_PORT = 255


@dataclass
class World:
    """The running server: address, fakes by device id, what was loaded."""

    address: str
    fakes: dict[int, FakeSwitch]
    devices: dict[int, P4RuntimeDevice]
    loaded: list[str]

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.address)


@asynccontextmanager
async def world(device_ids: Iterable[int] = (1,), on_pipeline: Any = None) -> AsyncIterator[World]:
    loaded: list[str] = []

    def load(text: str) -> str:
        if "unsupported" in text:
            raise Unsupported("header union", "x.p4", 7)
        loaded.append(text)
        return text

    def make() -> FakeSwitch:
        return FakeSwitch(on_pipeline) if on_pipeline else FakeSwitch()

    programs = PipelineConfigLoader(load)
    fakes = {id_: make() for id_ in device_ids}
    devices = {id_: P4RuntimeDevice(id_, fake, programs, cpu_port=CPU_PORT) for id_, fake in fakes.items()}
    for device in devices.values():
        device.start(asyncio.get_running_loop())
    server = make_server(P4RuntimeService(devices.values()))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield World(f"127.0.0.1:{port}", fakes, devices, loaded)
    finally:
        await server.stop(None)
        for device in devices.values():
            device.stop()


def fabric_p4info() -> p4i.P4Info:
    return text_format.Parse((P4SRC / "fabric.p4info.txtpb").read_text(), p4i.P4Info())


def fabric_json() -> bytes:
    return (P4SRC / "fabric.json").read_bytes()


class Client:
    """A client on a bare channel: one stream, and the RPCs with its election id."""

    def __init__(self, channel: grpc.aio.Channel, *, device_id: int = 1, election: int = 1, role: str = "") -> None:
        self.stub = p4r_grpc.P4RuntimeStub(channel)
        self.device_id, self.election, self.role = device_id, election, role
        self.stream = self.stub.StreamChannel()

    async def arbitrate(self, **changes: Any) -> p4r.MasterArbitrationUpdate:
        await self.send_arbitration(**changes)
        return await self.next_arbitration()

    async def send_arbitration(self, *, election: int | None = -1, **changes: Any) -> None:
        message = p4r.MasterArbitrationUpdate(device_id=changes.get("device_id", self.device_id))
        if election == -1:
            election = self.election
        if election is not None:
            message.election_id.low = election
        role = changes.get("role", self.role)
        if role:
            message.role.name = role
        if "config" in changes:
            message.role.config.CopyFrom(changes["config"])
        await self.stream.write(p4r.StreamMessageRequest(arbitration=message))

    async def next(self) -> p4r.StreamMessageResponse:
        message = await asyncio.wait_for(self.stream.read(), TIMEOUT_S)
        assert message is not grpc.aio.EOF, "the stream has ended"
        return message

    async def next_arbitration(self) -> p4r.MasterArbitrationUpdate:
        message = await self.next()
        assert message.WhichOneof("update") == "arbitration", message
        return message.arbitration

    async def set_config(
        self,
        p4info: p4i.P4Info | None = None,
        config: bytes | None = None,
        action: int = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        cookie: int | None = None,
        **more: Any,
    ) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, role=self.role, election_id=p4r.Uint128(low=self.election), action=action
        )
        if p4info is not None:
            request.config.p4info.CopyFrom(p4info)
        if config is not None:
            request.config.p4_device_config = config
        if cookie is not None:
            request.config.cookie.cookie = cookie
        await self.stub.SetForwardingPipelineConfig(request, **more)

    async def get_config(self, kind: int = 0) -> p4r.GetForwardingPipelineConfigResponse:
        return await self.stub.GetForwardingPipelineConfig(
            p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=kind)
        )

    async def write(self, *updates: p4r.Update, atomicity: int = 0) -> None:
        await self.stub.Write(
            p4r.WriteRequest(
                device_id=self.device_id,
                role=self.role,
                election_id=p4r.Uint128(low=self.election),
                updates=updates,
                atomicity=atomicity,
            )
        )

    async def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        found: list[p4r.Entity] = []
        async for response in self.stub.Read(p4r.ReadRequest(device_id=self.device_id, entities=entities)):
            found.extend(response.entities)
        return found


def insert(**entity: Any) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(**entity))


def modify(**entity: Any) -> p4r.Update:
    return p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(**entity))


def delete(**entity: Any) -> p4r.Update:
    return p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(**entity))


def details(error: grpc.aio.AioRpcError) -> list[p4r.Error]:
    """The per-update errors of a failed batch."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = rpc_status.Status.FromString(value)
            found = []
            for item in status.details:
                found.append(p4r.Error())
                assert item.Unpack(found[-1])
            return found
    return []


def finsy_switch(address: str, device_id: int = 1, **options: Any) -> finsy.Switch:
    return finsy.Switch(
        "sw1",
        address,
        finsy.SwitchOptions(
            p4info=P4SRC / "fabric.p4info.txtpb", p4blob=P4SRC / "fabric.json", device_id=device_id, **options
        ),
    )


NO_ACTION = ActionCall("NoAction")


def run(work: Callable[[World], Awaitable[None]], **options: Any) -> None:
    """Do `work` with a server, in an event loop of its own; `options` are those of `world`."""

    async def inside() -> None:
        async with world(**options) as made:
            await asyncio.wait_for(work(made), 2 * TIMEOUT_S)

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
    """The error with which a call must end."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def stream_end(client: Client) -> grpc.StatusCode:
    """Status with which the stream ends."""
    while True:
        try:
            message = await asyncio.wait_for(client.stream.read(), TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
        if message is grpc.aio.EOF:
            return await client.stream.code()


def dropping(mac: int) -> p4r.TableEntry:
    """An entry of the sample's exact table."""
    return p4r.TableEntry(
        table_id=sample.EXACT,
        match=[{"field_id": 1, "exact": {"value": bytes([mac])}}],
        action={"action": {"action_id": sample.DROP}},
    )
