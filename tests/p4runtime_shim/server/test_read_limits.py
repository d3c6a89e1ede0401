"""Reads are bounded, alone and together, and other calls are answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r

from p4runtime_shim import limits
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.p4runtime_service import P4RuntimeService, make_server
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from tests.p4runtime_shim.server.large_program import large
from tests.p4runtime_shim.server.world import (
    Client,
    failing,
    modify,
)
from tests.waiting import until_async

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def serving(switch: EmbeddedSwitch, info: p4i.P4Info, text: str, work: Any) -> None:
    """`work(channel, service)` with a server for the switch."""

    async def inside() -> None:
        device = P4RuntimeDevice(1, switch, PipelineConfigLoader(Pipeline.load))
        device.start(asyncio.get_running_loop())
        service = P4RuntimeService([device])
        server = make_server(service)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                client = Client(channel)
                await client.arbitrate()
                await client.set_config(info, text.encode())
                await work(client, service)
        finally:
            await server.stop(None)
            device.stop()

    with switch:
        asyncio.run(inside())


async def watch(longest: list[float]) -> None:
    """Seconds of this thread's processor time between two turns of the event loop, the longest ones in order."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        if now - before > longest[-1]:
            longest.append(now - before)
        before = now


def test_other_calls_are_served_while_half_a_million_cells_are_read() -> None:
    async def work(client: Client, service: P4RuntimeService) -> None:
        longest = [0.0]
        watching = asyncio.ensure_future(watch(longest))
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(counter_entry={"counter_id": 1})]))
        first = await reading.read()
        cell = {"counter_id": 1, "index": {"index": 499_999}}
        for number in range(20):
            await client.write(modify(counter_entry={**cell, "data": {"packet_count": number + 1}}))
            await client.read(p4r.Entity(counter_entry=cell))
        seen = len(first.entities)
        while (response := await reading.read()) is not grpc.aio.EOF:
            seen += len(response.entities)
            last = response.entities[-1].counter_entry
        watching.cancel()
        assert seen == 500_000
        assert (last.index.index, last.data.packet_count) == (499_999, 0)  # as it was when the read began
        assert longest[-1] < 0.5, longest  # 6 s when a read of the array held up the others

    serving(*large(500_000), work)


def test_reads_are_bounded_individually_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    every = p4r.Entity(counter_entry={"counter_id": 1})

    async def work(client: Client, service: P4RuntimeService) -> None:
        error = await failing(client.read(*[p4r.Entity(table_entry={})] * (limits.MAX_READS + 1)))
        assert error.code() == EXHAUSTED
        monkeypatch.setattr(limits, "MAX_READING_CELLS", 150_000)
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[every]))
        await reading.read()
        error = await failing(client.read(every))
        assert "other clients are reading" in (error.details() or "")
        assert await client.read(p4r.Entity(counter_entry={"counter_id": 1, "index": {}}))
        reading.cancel()
        await until_async(lambda: not service.reading.cells, "the client's share to be given back")
        assert len(await client.read(every)) == 100_000

    serving(*large(100_000), work)


def test_reads_with_too_many_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_READ_CELLS", 99_999)

    async def work(client: Client, service: P4RuntimeService) -> None:
        error = await failing(client.read(p4r.Entity(counter_entry={"counter_id": 1})))
        assert "read less at a time" in (error.details() or "")

    serving(*large(100_000), work)


def test_a_client_that_does_not_consume_its_read_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_READ_WAIT_S", 0.2)

    async def work(client: Client, service: P4RuntimeService) -> None:
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(counter_entry={"counter_id": 1})]))
        await until_async(lambda: service.reading.cells, "the reading to begin")
        await until_async(lambda: not service.reading.cells, "the end of it: the client has not read a thing")
        seen = 0
        with contextlib.suppress(grpc.aio.AioRpcError):
            while (response := await reading.read()) is not grpc.aio.EOF:
                seen += len(response.entities)
        assert 0 < seen < 1_000_000
        assert await reading.code() == EXHAUSTED
        assert await client.read(p4r.Entity(counter_entry={"counter_id": 1, "index": {}}))

    serving(*large(1_000_000), work)
