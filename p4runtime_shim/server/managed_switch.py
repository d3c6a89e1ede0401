"""A switch as the management service sees it: how each setting is made, and where each counter is.

The service (management_service.py) finds the switch and turns errors into gRPC statuses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from p4runtime_shim.capture import Capture, CaptureError, CaptureStats
from p4runtime_shim.port_driver import PortDriver
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.log_dispatch import LogDispatcher, LogRecordQueue
from p4runtime_shim.server.rpc_errors import not_found, precondition
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PortStats

LINK_SLACK_NS = 2_000_000  # link time that a late driver can make up for: half a scheduler time slice
MAX_TRACES = 16  # concurrent traces of a switch


class ManagedSwitch:
    """A switch with its driver, captures and traces; without a `capture_directory`, captures are rejected."""

    def __init__(
        self,
        switch: EmbeddedSwitch,
        device: P4RuntimeDevice,
        log: LogDispatcher,
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
        self._log = log
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
        if request.port == self.device.cpu_port and (request.rate_bps or request.departure_delay_ns):
            # Nobody would come back for what waits there: packets are taken when they become ready.
            raise precondition(f"port {request.port} is the CPU port, whose packets are limited by SetPacketIn")
        if request.HasField("rate_bps"):
            self._switch.set_port_rate(request.port, request.rate_bps, LINK_SLACK_NS)
        delay = self._switch.port_delay(request.port)
        if request.HasField("arrival_delay_ns"):
            delay = replace(delay, arriving=request.arrival_delay_ns)
        if request.HasField("departure_delay_ns"):
            delay = replace(delay, leaving=request.departure_delay_ns)
        if delay != self._switch.port_delay(request.port):
            self._switch.set_port_delay(request.port, delay, time.monotonic_ns())
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
        """SetCapture RPC; also used when the process starts and ends."""
        async with self._capture_lock:
            if on and self._directory is None:
                raise precondition("this process has no directory for captures; start it with --pcap DIR")
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
        """Complete the files of an active capture. Call it before closing the switch."""
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
            raise precondition(f"this switch already has {MAX_TRACES} traces")
        queue = LogRecordQueue()
        self._traces += 1
        self._log.add(queue)
        try:
            while True:
                record, lost = await queue.next()
                yield pb.TraceLine(time_ns=record.time, text=record.text, lost=lost)
        finally:
            self._traces -= 1
            self._log.remove(queue)

    def _check_port(self, port: int) -> None:
        if port not in self._switch.ports:
            raise not_found(f"{self.label} has no port {port}")

    # --- counters

    def state(self, *, reset_peaks: bool = False) -> pb.Switch:
        """Settings and counters."""
        stats = self._switch.stats()
        return pb.Switch(
            device_id=self.device.device_id,
            name=self.label,
            ports=[self._port(port, stats.ports[port], reset_peaks) for port in self._switch.ports],
            drops=stats.drops,
            capture=self._capture_state(),
            tracing=self._log.tracing,
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
            arrival_delay_ns=self._switch.port_delay(port).arriving,
            departure_delay_ns=self._switch.port_delay(port).leaving,
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

    def sample(self, *, keep_peaks: bool = False) -> pb.SwitchSample:
        """What waits at each port now, and what flow control does there."""
        now = time.monotonic_ns()
        ports = self._switch.sample_ports(now, keep_peaks=keep_peaks).items()
        return pb.SwitchSample(
            device_id=self.device.device_id,
            time_ns=now,
            ports=[pb.PortSample(port=port, **found._asdict()) for port, found in ports],
        )

    def measure_delays(self, on: bool) -> None:
        """GetDelays RPC. All switches of a process share one driver, so this affects all of them."""
        if self._driver is not None:
            self._driver.measure_delays(on)

    def delays(self) -> pb.SwitchDelays:
        """Delays measured at the ports with interfaces."""
        found = pb.SwitchDelays(device_id=self.device.device_id, name=self.label)
        if self._driver is None:
            return found
        for port in self._interfaces:
            measured = self._driver.delays(self._switch, port)
            arrivals, departures = (
                pb.Delays(**asdict(direction)) for direction in (measured.arrivals, measured.departures)
            )
            found.ports.add(port=port, arrivals=arrivals, departures=departures, link_idle_ns=measured.link_idle_ns)
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
