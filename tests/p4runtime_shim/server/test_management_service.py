"""The switch's own service on an engine without interfaces: settings, figures, captures, traces, hostile requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from scapy.utils import rdpcap

from mrc_common.delays import DelayHistogram, PortDelays
from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.log_dispatch import LogDispatcher, LogRecordQueue
from p4runtime_shim.server.managed_switch import ManagedSwitch
from p4runtime_shim.server.management_service import ManagementService, add_management
from p4runtime_shim.server.p4runtime_service import P4RuntimeService, make_server
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.seeds import SEED
from tests.waiting import until_async

P = "MyIngress."
CPU_PORT = 3


@dataclass
class World:
    stub: Any
    switch: EmbeddedSwitch
    channel: grpc.aio.Channel

    def put(self, priority: int = 0, size: int = 100) -> None:
        """A packet for port 2."""
        self.switch.receive(1, bytes([7, priority]) + bytes(size - 2), 0)

    async def get(self, **wanted: Any) -> pb.Switch:
        (switch,) = (await self.stub.GetSwitches(pb.GetSwitchesRequest(**wanted))).switches
        return switch

    async def tracing(self) -> bool:
        return (await self.get()).tracing

    async def silent(self) -> bool:
        return not await self.tracing()


@asynccontextmanager
async def world(directory: Path | None = None, driver: Any = None) -> AsyncIterator[World]:
    with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=0, device_id=5) as switch:
        for priority in range(8):
            switch.control_plane.table(P + "classes").insert(
                Entry((Exact(priority),), ActionCall(P + "send", (2, priority)))
            )
        device = P4RuntimeDevice(5, switch, PipelineConfigLoader(str), cpu_port=CPU_PORT)
        lines = LogDispatcher(switch)
        managed = ManagedSwitch(
            switch,
            device,
            lines,
            label="t0-0@p0",
            interfaces={1: "eth1", 2: "eth2"},
            driver=driver,
            capture_directory=directory,
        )
        server = make_server(P4RuntimeService([device]))
        service = ManagementService([managed])
        add_management(server, service)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield World(pb_grpc.SwitchManagementStub(channel), switch, channel)  # type: ignore[no-untyped-call]
        finally:
            service.close_streams()
            await server.stop(0)
            managed.close()
            lines.close()


def run(work: Callable[[World], Awaitable[None]], directory: Path | None = None, driver: Any = None) -> None:
    async def go() -> None:
        async with world(directory, driver) as made:
            await work(made)

    asyncio.run(go())


def test_counters_of_ports_queues_and_drops_are_reported() -> None:
    async def work(world: World) -> None:
        await world.stub.SetQueue(pb.SetQueueRequest(device_id=5, port=2, priority=4, max_packets=3))
        for _ in range(5):
            world.put(4)
        world.switch.transmit(2, 0)
        switch = await world.get()
        assert (switch.device_id, switch.name, switch.tracing) == (5, "t0-0@p0", False)
        assert switch.drops["queue_full"] == 2
        assert [port.interface for port in switch.ports] == ["", "eth1", "eth2", ""]
        port = switch.ports[2]
        queue = port.queues[4]
        assert (port.up, port.tx_packets, port.drops["queue_full"]) == (True, 1, 2)
        assert (queue.packets, queue.peak_packets, queue.max_packets, queue.drops) == (2, 3, 3, 2)
        assert queue.peak_bytes == 300
        assert (await world.get(reset_peaks=True)).ports[2].queues[4].peak_packets == 3
        assert (await world.get(device_ids=[5])).ports[2].queues[4].peak_packets == 2

    run(work)


class Measured:
    """A port driver that has measured something."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def measure_delays(self, on: bool) -> None:
        self.asked.append(on)

    def delays(self, switch: EmbeddedSwitch, port: int) -> PortDelays:
        return PortDelays(port, DelayHistogram(10 * port, (port, 2)), DelayHistogram(0, ()), 7 * port)


def test_delays_are_measured_and_reported_on_request() -> None:
    driver = Measured()

    async def work(world: World) -> None:
        (found,) = (await world.stub.GetDelays(pb.GetDelaysRequest())).switches
        assert driver.asked == []
        assert (found.device_id, found.name, [port.port for port in found.ports]) == (5, "t0-0@p0", [1, 2])
        assert (found.ports[1].arrivals.total_ns, list(found.ports[1].arrivals.histogram)) == (20, [2, 2])
        assert [port.link_idle_ns for port in found.ports] == [7, 14]
        assert (found.ports[1].departures.total_ns, list(found.ports[1].departures.histogram)) == (0, [])
        for on in (True, False):
            await world.stub.GetDelays(pb.GetDelaysRequest(device_ids=[5], measure=on))
        assert driver.asked == [True, False]
        with pytest.raises(grpc.aio.AioRpcError, match="no device 6"):
            await world.stub.GetDelays(pb.GetDelaysRequest(device_ids=[6], measure=True))
        assert driver.asked == [True, False]

    run(work, driver=driver)


def test_a_switch_without_interfaces_has_no_delays() -> None:
    async def work(world: World) -> None:
        (found,) = (await world.stub.GetDelays(pb.GetDelaysRequest(measure=True))).switches
        assert list(found.ports) == []

    run(work)


def test_omitted_settings_are_unchanged() -> None:
    async def work(world: World) -> None:
        port = await world.stub.SetPort(pb.SetPortRequest(device_id=5, port=2, rate_bps=100_000))
        assert port.rate_bps == 100_000
        assert (await world.stub.SetPort(pb.SetPortRequest(device_id=5, port=2))).rate_bps == 100_000
        world.put()
        world.put()
        assert world.switch.transmit(2, 10**9) is not None
        assert world.switch.transmit(2, 10**9) is None  # the line is busy
        port = await world.stub.SetQueue(pb.SetQueueRequest(device_id=5, port=2, max_bytes=5000))
        assert [(queue.max_packets, queue.max_bytes) for queue in port.queues] == [(256, 5000)] * 8
        port = await world.stub.SetQueue(pb.SetQueueRequest(device_id=5, port=2, priority=1, max_packets=0))
        assert [queue.max_packets for queue in port.queues] == [256, 0, *[256] * 6]
        assert {queue.max_bytes for queue in port.queues} == {5000}
        assert (await world.stub.SetPort(pb.SetPortRequest(device_id=5, port=2, rate_bps=0))).rate_bps == 0
        assert world.switch.transmit(2, 10**9) is not None
        given = await world.stub.SetPacketIn(pb.SetPacketInRequest(device_id=5, packets_per_second=7))
        assert given.packets_per_second == 7
        assert (await world.get()).packet_in.packets_per_second == 7

    run(work)


@pytest.mark.parametrize(
    ("method", "request_", "code", "words"),
    [
        ("GetSwitches", pb.GetSwitchesRequest(device_ids=[6]), "NOT_FOUND", "no device 6; this server has 5"),
        ("SetPort", pb.SetPortRequest(device_id=5, port=9), "NOT_FOUND", "t0-0@p0 has no port 9"),
        ("SetPort", pb.SetPortRequest(device_id=5, port=2, rate_bps=2**63), "INVALID_ARGUMENT", "2\\*\\*63"),
        ("SetPort", pb.SetPortRequest(device_id=5, port=3, held_down=True), "FAILED_PRECONDITION", "no interface"),
        ("SetPort", pb.SetPortRequest(device_id=5, port=CPU_PORT, rate_bps=1), "FAILED_PRECONDITION", "SetPacketIn"),
        (
            "SetPort",
            pb.SetPortRequest(device_id=5, port=CPU_PORT, departure_delay_ns=1),
            "FAILED_PRECONDITION",
            "SetPacketIn",
        ),
        ("SetQueue", pb.SetQueueRequest(device_id=5, port=2**32 - 1), "NOT_FOUND", "no port"),
        ("SetQueue", pb.SetQueueRequest(device_id=5, port=2, priority=8), "NOT_FOUND", "queues 0..7"),
        ("SetCapture", pb.SetCaptureRequest(device_id=5, on=True), "FAILED_PRECONDITION", "--pcap DIR"),
        ("SetCapture", pb.SetCaptureRequest(device_id=1), "NOT_FOUND", "no device 1"),
    ],
)
def test_invalid_requests_are_refused_with_a_message(method: str, request_: Any, code: str, words: str) -> None:
    async def work(world: World) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match=words) as caught:
            await getattr(world.stub, method)(request_)
        assert caught.value.code().name == code

    run(work)


def test_captures_start_and_stop(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        on, off = pb.SetCaptureRequest(device_id=5, on=True), pb.SetCaptureRequest(device_id=5)
        assert not (await world.get()).capture.on
        assert (await world.stub.SetCapture(on)).on
        assert (await world.stub.SetCapture(on)).on  # twice does no harm
        for _ in range(10):
            world.put()
            world.switch.transmit(2, 0)
        done = await world.stub.SetCapture(off)
        assert (done.on, done.frames, done.lost, done.directory) == (False, 20, 0, str(tmp_path))
        world.put()
        assert (await world.stub.SetCapture(off)).frames == 20

    run(work, tmp_path)
    assert len(rdpcap(str(tmp_path / "eth1_in.pcap"))) == 10
    assert len(rdpcap(str(tmp_path / "eth2_out.pcap"))) == 10
    assert {path.name for path in tmp_path.iterdir()} >= {"t0-0@p0-cpu_in.pcap", "t0-0@p0-cpu_out.pcap"}


def test_a_trace_ends_with_its_call() -> None:
    async def work(world: World) -> None:
        world.put()  # not traced
        call = world.stub.Trace(pb.TraceRequest(device_id=5))
        reading = asyncio.create_task(call.read())
        await until_async(world.tracing, "the trace to begin")
        world.put()
        texts = [(await asyncio.wait_for(reading, 10)).text]
        while "queued" not in texts[-1]:
            texts.append((await asyncio.wait_for(call.read(), 10)).text)
        assert texts[0] == "packet 2: arrived on port 1, 100 bytes"
        assert any("table MyIngress.classes: hit, key" in text for text in texts)
        call.cancel()
        await until_async(world.silent, "the trace to end")

    run(work)


def test_a_slow_trace_reader_is_notified_of_lost_records() -> None:
    async def work(world: World) -> None:
        call = world.stub.Trace(pb.TraceRequest(device_id=5))
        await until_async(world.tracing, "the trace to begin")
        for _ in range(6000):  # more lines than wait anywhere
            world.put()
        missed = 0
        while not missed:
            missed = (await asyncio.wait_for(call.read(), 10)).lost
        call.cancel()

    run(work)


def test_a_trace_ending_after_its_switch_does_not_access_it() -> None:
    async def work() -> None:
        queue = LogRecordQueue()
        with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=0, device_id=5) as switch:
            lines = LogDispatcher(switch)
            lines.add(queue)
            lines.close()
        lines.remove(queue)
        lines.add(queue)
        assert not lines.tracing

    asyncio.run(work())


def test_malformed_requests_are_refused() -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    valid = [
        ("SetPort", pb.SetPortRequest(device_id=5, port=2, rate_bps=10**9)),
        ("SetQueue", pb.SetQueueRequest(device_id=5, port=2, priority=3, max_packets=9, max_bytes=100)),
        ("SetPacketIn", pb.SetPacketInRequest(device_id=5, packets_per_second=3)),
        ("SetCapture", pb.SetCaptureRequest(device_id=5, on=True)),
        ("GetSwitches", pb.GetSwitchesRequest(device_ids=[5])),
        ("GetDelays", pb.GetDelaysRequest(device_ids=[5], measure=True)),
        ("SamplePorts", pb.SamplePortsRequest(device_ids=[5])),
    ]

    async def work(world: World) -> None:
        codes = set()
        for _ in range(300):
            name, message = rng.choice(valid)
            data = bytearray(message.SerializeToString())
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.3:
                data += rng.randbytes(rng.randrange(20))
            call = world.channel.unary_unary(f"/p4runtime_shim.v1.SwitchManagement/{name}")
            try:
                await call(bytes(data))
            except grpc.aio.AioRpcError as error:
                codes.add(error.code().name)
        # UNKNOWN is what gRPC itself says of bytes that are no message; an error of ours would be INTERNAL
        assert codes <= {"NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNKNOWN"}
        assert (await world.get()).device_id == 5

    run(work)


def test_samples_cover_all_ports_of_a_switch() -> None:
    async def work(world: World) -> None:
        world.put(size=300)
        (found,) = (await world.stub.SamplePorts(pb.SamplePortsRequest())).switches
        ports = {port.port: port for port in found.ports}
        assert (found.device_id, sorted(ports)) == (5, [0, 1, 2, 3])
        assert (ports[2].bytes, ports[2].peak_bytes, ports[1].bytes) == (300, 300, 0)
        (again,) = (await world.stub.SamplePorts(pb.SamplePortsRequest(device_ids=[5]))).switches
        later = {port.port: port for port in again.ports}
        assert later[2].byte_ns - ports[2].byte_ns == 300 * (again.time_ns - found.time_ns)
        with pytest.raises(grpc.aio.AioRpcError, match="no device 6"):
            await world.stub.SamplePorts(pb.SamplePortsRequest(device_ids=[6]))

    run(work)


def test_onlookers_leave_peaks_of_queues_to_the_next_sample() -> None:
    async def work(world: World) -> None:
        def peak(reply: pb.SamplePortsResponse) -> int:
            return next(port.peak_bytes for port in reply.switches[0].ports if port.port == 2)

        world.put(size=300)
        world.switch.transmit(2, 0)
        assert peak(await world.stub.SamplePorts(pb.SamplePortsRequest(keep_peaks=True))) == 300
        assert peak(await world.stub.SamplePorts(pb.SamplePortsRequest())) == 300
        assert peak(await world.stub.SamplePorts(pb.SamplePortsRequest())) == 0

    run(work)
