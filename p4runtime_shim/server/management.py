"""The switch's own gRPC service (proto/switch_v1.proto): ports, queues, packet-in, captures, traces.

One `Managed` a switch knows how each setting is made and where each figure is; the service finds it and turns errors
into gRPC statuses as the P4Runtime service does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from p4runtime_shim.capture import Capture, CaptureError, CaptureStats
from p4runtime_shim.driver import PortDriver
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from p4runtime_shim.server.device import Device
from p4runtime_shim.server.errors import not_found, precondition
from p4runtime_shim.server.service import abort, reporting
from p4runtime_shim.server.tracing import LineQueue, Lines
from p4runtime_shim.switch import Switch
from p4runtime_shim.values import PortStats

LINE_SLACK_NS = 2_000_000  # a late driver makes up for so much line time: half of what the scheduler lets others run
MAX_TRACES = 16  # callers that trace a switch at once


class Managed:
    """A switch with all that is set and counted around it. `capture_directory`: None refuses captures."""

    def __init__(
        self,
        switch: Switch,
        device: Device,
        lines: Lines,
        *,
        label: str,
        interfaces: Mapping[int, str],
        driver: PortDriver | None = None,
        capture_directory: Path | None = None,
        held_down: Iterable[int] = (),
    ) -> None:
        self.device = device
        self.label = label
        self._switch = switch
        self._lines = lines
        self._interfaces = interfaces
        self._driver = driver
        self._directory = capture_directory
        self._held = set(held_down)
        self._capture: Capture | None = None
        self._captured = CaptureStats(0, 0, "")
        self._capture_lock = asyncio.Lock()
        self._traces = 0

    # --- settings

    def set_port(self, request: pb.SetPortRequest) -> pb.Port:
        """SetPort RPC."""
        self._check_port(request.port)
        if request.HasField("held_down") and (self._driver is None or request.port not in self._interfaces):
            raise precondition(f"port {request.port} has no interface, so it cannot be held down")
        if request.HasField("rate_bps"):
            self._switch.set_port_rate(request.port, request.rate_bps, LINE_SLACK_NS)
        if request.HasField("held_down"):
            assert self._driver is not None
            self._driver.hold_down(self._switch, request.port, request.held_down)
            (self._held.add if request.held_down else self._held.discard)(request.port)
        return self._port(request.port, self._switch.stats().ports[request.port])

    def set_queue(self, request: pb.SetQueueRequest) -> pb.Port:
        """SetQueue RPC."""
        self._check_port(request.port)
        queues = self._switch.queue_stats(request.port)
        if request.HasField("priority") and request.priority >= len(queues):
            raise not_found(f"port {request.port} has queues 0..{len(queues) - 1}, not {request.priority}")
        for priority in (request.priority,) if request.HasField("priority") else range(len(queues)):
            packets = request.max_packets if request.HasField("max_packets") else queues[priority].max_packets
            size = request.max_bytes if request.HasField("max_bytes") else queues[priority].max_bytes
            self._switch.set_queue_limits(request.port, priority, max_packets=packets, max_bytes=size)
        return self._port(request.port, self._switch.stats().ports[request.port])

    def set_packet_in(self, request: pb.SetPacketInRequest) -> pb.PacketIn:
        """SetPacketIn RPC."""
        if self.device.cpu_port is None:
            raise precondition("this switch has no CPU port; start it with --cpu-port")
        self.device.limit_packets(request.packets_per_second)
        return self._packet_in()

    async def set_capture(self, on: bool) -> pb.Capture:
        """SetCapture RPC; also at the start and the end of the process."""
        async with self._capture_lock:
            if on and self._directory is None:
                raise precondition("this process was not started for captures; start it with --pcap DIR")
            if on and self._capture is None:
                assert self._directory is not None
                try:
                    self._capture = Capture(self._switch, self._directory, self._capture_names())
                except CaptureError as error:
                    raise precondition(str(error)) from None
            elif not on and self._capture is not None:
                capture, self._capture = self._capture, None
                self._captured = await asyncio.to_thread(capture.close)
            return self._capture_state()

    def close(self) -> None:
        """Complete the files of a capture that is on; before the switch is closed."""
        if self._capture is not None:
            self._capture.close()
            self._capture = None

    def _capture_names(self) -> dict[int, str]:
        names = dict(self._interfaces)
        if self.device.cpu_port is not None:
            label = "".join(sign if sign.isalnum() or sign in "-_.@" else "_" for sign in self.label)
            names[self.device.cpu_port] = f"{label}-cpu"
        return names

    async def trace(self) -> AsyncIterator[pb.TraceLine]:
        """Trace RPC."""
        if self._traces >= MAX_TRACES:
            raise precondition(f"{MAX_TRACES} callers trace this switch already")
        queue = LineQueue()
        self._traces += 1
        self._lines.add(queue)
        try:
            while True:
                line, lost = await queue.next()
                yield pb.TraceLine(time_ns=line.time, text=line.text, lost=lost)
        finally:
            self._traces -= 1
            self._lines.remove(queue)

    def _check_port(self, port: int) -> None:
        if port not in self._switch.ports:
            raise not_found(f"{self.label} has no port {port}")

    # --- figures

    def state(self, *, reset_peaks: bool = False) -> pb.Switch:
        """Settings and figures."""
        stats = self._switch.stats()
        return pb.Switch(
            device_id=self.device.device_id,
            name=self.label,
            ports=[self._port(port, stats.ports[port], reset_peaks) for port in self._switch.ports],
            drops=stats.drops,
            capture=self._capture_state(),
            tracing=self._lines.tracing,
            packet_in=None if self.device.cpu_port is None else self._packet_in(),
        )

    def _port(self, port: int, stats: PortStats, reset_peaks: bool = False) -> pb.Port:
        driver = {}
        if self._driver is not None and port in self._interfaces:
            driver = asdict(self._driver.stats(self._switch, port))
        queues = self._switch.queue_stats(port, reset_peaks=reset_peaks)
        return pb.Port(
            port=port,
            interface=self._interfaces.get(port, ""),
            up=stats.up,
            held_down=port in self._held,
            rate_bps=self._switch.port_rate(port),
            rx_packets=stats.rx_packets,
            rx_bytes=stats.rx_bytes,
            tx_packets=stats.tx_packets,
            tx_bytes=stats.tx_bytes,
            queues=[pb.Queue(priority=priority, **asdict(queue)) for priority, queue in enumerate(queues)],
            drops={
                "queue_full": stats.queue_drops,
                "port_down": stats.down_drops,
                "no_headroom": stats.headroom_drops,
            },
            driver=driver,
            pauses_sent=stats.pauses_sent,
            pauses_received=stats.pauses_received,
        )

    def measure_delays(self, on: bool) -> None:
        """GetDelays RPC. Switches of one process have one driver, which measures for all."""
        if self._driver is not None:
            self._driver.measure_delays(on)

    def delays(self) -> pb.SwitchDelays:
        """What was measured at the ports with interfaces."""
        found = pb.SwitchDelays(device_id=self.device.device_id, name=self.label)
        if self._driver is None:
            return found
        for port in self._interfaces:
            measured = self._driver.delays(self._switch, port)
            arrivals, departures = (pb.Delays(**asdict(way)) for way in (measured.arrivals, measured.departures))
            found.ports.add(port=port, arrivals=arrivals, departures=departures, line_idle_ns=measured.line_idle_ns)
        return found

    def _packet_in(self) -> pb.PacketIn:
        device = self.device
        return pb.PacketIn(
            packets_per_second=device.packet_rate,
            delivered=device.packets_delivered,
            undeliverable=device.packets_undeliverable,
        )

    def _capture_state(self) -> pb.Capture:
        stats = self._captured if self._capture is None else self._capture.stats()
        return pb.Capture(
            directory="" if self._directory is None else str(self._directory),
            on=self._capture is not None,
            frames=stats.frames,
            lost=stats.lost,
            problem=stats.problem,
        )


class ManagementService(pb_grpc.SwitchManagementServicer):
    """The service for a set of switches."""

    def __init__(self, switches: Iterable[Managed]) -> None:
        self._switches = {managed.device.device_id: managed for managed in switches}
        self._traces: set[asyncio.Task[Any]] = set()

    async def GetSwitches(  # noqa: N802, D102 - the names of the RPCs
        self, request: pb.GetSwitchesRequest, context: Any
    ) -> pb.GetSwitchesResponse:
        return await reporting(context, self._get, request)  # type: ignore[no-any-return]

    def _get(self, request: pb.GetSwitchesRequest) -> pb.GetSwitchesResponse:
        chosen = self._chosen(request.device_ids)
        return pb.GetSwitchesResponse(switches=[item.state(reset_peaks=request.reset_peaks) for item in chosen])

    async def GetDelays(self, request: pb.GetDelaysRequest, context: Any) -> pb.GetDelaysResponse:  # noqa: N802, D102
        return await reporting(context, self._delays, request)  # type: ignore[no-any-return]

    def _delays(self, request: pb.GetDelaysRequest) -> pb.GetDelaysResponse:
        chosen = self._chosen(request.device_ids)
        if request.HasField("measure"):
            for item in self._switches.values():
                item.measure_delays(request.measure)
        return pb.GetDelaysResponse(switches=[item.delays() for item in chosen])

    async def SetPort(self, request: pb.SetPortRequest, context: Any) -> pb.Port:  # noqa: N802, D102
        return await reporting(context, lambda: self._switch(request.device_id).set_port(request))  # type: ignore[no-any-return]

    async def SetQueue(self, request: pb.SetQueueRequest, context: Any) -> pb.Port:  # noqa: N802, D102
        return await reporting(context, lambda: self._switch(request.device_id).set_queue(request))  # type: ignore[no-any-return]

    async def SetPacketIn(self, request: pb.SetPacketInRequest, context: Any) -> pb.PacketIn:  # noqa: N802, D102
        return await reporting(context, lambda: self._switch(request.device_id).set_packet_in(request))  # type: ignore[no-any-return]

    async def SetCapture(self, request: pb.SetCaptureRequest, context: Any) -> pb.Capture:  # noqa: N802, D102
        try:
            return await self._switch(request.device_id).set_capture(request.on)
        except Exception as error:
            await abort(context, error)

    async def Trace(self, request: pb.TraceRequest, context: Any) -> AsyncIterator[pb.TraceLine]:  # noqa: N802, D102
        task = asyncio.current_task()
        assert task is not None
        self._traces.add(task)
        try:
            async for line in self._switch(request.device_id).trace():
                yield line
        except Exception as error:
            await abort(context, error)
        finally:
            self._traces.discard(task)

    def close_streams(self) -> None:
        """End every trace, before the server stops."""
        for task in list(self._traces):
            task.cancel()

    def _chosen(self, device_ids: Iterable[int]) -> list[Managed]:
        """The switches that are named, each once; all if none is."""
        return [self._switch(device_id) for device_id in dict.fromkeys(device_ids) or self._switches]

    def _switch(self, device_id: int) -> Managed:
        if device_id not in self._switches:
            known = ", ".join(str(item) for item in sorted(self._switches))
            raise not_found(f"there is no device {device_id}; this server has {known}")
        return self._switches[device_id]


def add_management(server: Any, service: ManagementService) -> None:
    """Serve it too."""
    pb_grpc.add_SwitchManagementServicer_to_server(service, server)  # type: ignore[no-untyped-call]


__all__ = ["LINE_SLACK_NS", "Managed", "ManagementService", "add_management"]
