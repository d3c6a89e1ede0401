"""A process of switches: creates them, drives their ports, serves P4Runtime, and shuts everything down.

The main thread runs the event loop (gRPC, packet-in, digests, signals); one thread runs the port driver in C. Errors
that a user can cause (missing interface, no root, address in use, unsupported program) raise `StartError` with a
one-sentence message.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mrc_common import named_files
from mrc_common.c_build.compiler import stop_compilers
from mrc_common.grpc_endpoint import EndpointError, GrpcEndpoint
from mrc_common.open_files import raise_limit
from mrc_common.privileges import Capability, PrivilegeError, drop
from p4runtime_shim import shutdown
from p4runtime_shim.config import ProcessSettings, SwitchSettings
from p4runtime_shim.ctypes_bindings import load_engine
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.port_driver import PortDriver, PortDriverError
from p4runtime_shim.server.device import DEFAULT_PACKET_RATE, P4RuntimeDevice
from p4runtime_shim.server.log_dispatch import LogDispatcher, ProgramLog, SwitchTraceFile
from p4runtime_shim.server.managed_switch import LINK_SLACK_NS, ManagedSwitch
from p4runtime_shim.server.management_service import ManagementService, add_management
from p4runtime_shim.server.p4runtime_service import P4RuntimeService, make_server
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import RpcError
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline

_STOP_GRACE_S = 0.2
_M_TRIM_THRESHOLD = -1  # mallopt(3)
_FAST_BPS = 500_000_000  # frames of slower links can wait longer for the process than memory shared for them lasts


class StartError(Exception):
    """The process cannot start; the message says why and what to do."""


def return_large_blocks() -> None:
    """Have the C library return memory to the kernel whenever a large block is freed, such as a pushed program.

    By default glibc keeps blocks of a size that was freed once: 0.4 MB per switch after 24 switches got a program at
    the same time. Setting a threshold, here to its default, turns that off. Other C libraries do not need this.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, 128 << 10)


class SwitchProcess:
    """The switches of one process, from their settings."""

    def __init__(self, settings: ProcessSettings, *, cache: Path | None = None, log: bool = False) -> None:
        self._settings = settings
        self._cache = cache
        self._log = log
        self._began = time.monotonic_ns()
        self._resources = ExitStack()
        self._switches: dict[int, EmbeddedSwitch] = {}
        self._driver: PortDriver | None = None
        self._driver_error: Exception | None = None

    def load(self, json_text: str) -> Any:
        """A pipeline for BMv2 JSON."""
        return Pipeline.load(json_text, cache=self._cache)

    async def serve(self, ready: Callable[[str], None]) -> None:
        """Start, call `ready` with the address clients can connect to, and run until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        native = load_engine(cache=self._cache)
        for number in shutdown.SIGNALS:
            loop.add_signal_handler(number, _end, stop)
        shutdown.exit_within_grace(native)
        with self._resources:
            programs = PipelineConfigLoader(self.load)
            try:
                await self._make_switches(programs)
            except StartError:
                if stop.is_set():
                    return  # interrupted by a signal
                raise
            self._start_driver(loop, stop)
            devices = [self._device(switch, programs) for switch in self._settings.switches]
            for device in devices:
                device.start(loop)
                self._resources.callback(device.stop)
            managed = await self._manage(devices)
            service, management = P4RuntimeService(devices), ManagementService(managed)
            try:
                listening = GrpcEndpoint.prepare(self._settings.grpc_address, self._settings.listen, "switch")
                server = make_server(service, listening.interceptors)
                add_management(server, management)
                address = listening.bind(server)
            except EndpointError as error:
                raise StartError(str(error)) from None
            await server.start()
            ready(address)
            await stop.wait()
            service.close_streams()
            management.close_streams()
            await server.stop(_STOP_GRACE_S)
        if self._driver_error is not None:
            raise StartError(str(self._driver_error))

    # --- parts

    def prepare(self, *, keep_privileges: bool = False, writes: Sequence[Path] = ()) -> None:
        """Run first: compile the engine if necessary, and drop the privileges of root that a switch does not need.

        CAP_NET_RAW and CAP_NET_ADMIN stay, to reopen ports when their interface returns. Files can be read anywhere,
        but written only as their owner, unless a file to write (the cache, captures, logs: `writes`) is in another
        user's folder. Executing programs stays allowed, since the compiler must run.
        """
        raise_limit()
        return_large_blocks()
        try:
            engine = load_engine(cache=self._cache)
        except SwitchError as error:
            raise StartError(str(error)) from None
        if keep_privileges:
            return
        keep = {Capability.NET_RAW, Capability.NET_ADMIN, Capability.DAC_READ_SEARCH}
        pcap = () if self._settings.pcap is None else (self._settings.pcap,)
        if any(_is_others(path) for path in (engine.path, *pcap, *writes)):
            keep.add(Capability.DAC_OVERRIDE)
        try:
            drop(keep=keep, landlock=False)
        except PrivilegeError as error:
            raise StartError(str(error)) from None

    async def _make_switches(self, programs: PipelineConfigLoader) -> None:
        for settings in self._settings.switches:
            pipeline = None if settings.program is None else await self._initial_program(programs, settings.program)
            switch = self._make_switch(settings, pipeline)
            self._resources.callback(switch.close)
            switch.set_epoch(time.monotonic_ns())  # timestamps start here, like BMv2's
            for port, rate in settings.rates.items():
                switch.set_port_rate(port, rate, LINK_SLACK_NS)
            for port, pause in settings.pauses.items():
                switch.set_pause(port, pause)
            self._switches[settings.device_id] = switch

    def _make_switch(self, settings: SwitchSettings, pipeline: Any) -> EmbeddedSwitch:
        ports = sorted(settings.ports)
        if settings.cpu_port is not None:
            ports.append(settings.cpu_port)
        try:
            return EmbeddedSwitch(
                pipeline,
                device_id=settings.device_id & 0xFFFFFFFF,
                ports=ports,
                seed=settings.seed,
                queues=settings.queues,
                native=load_engine(cache=self._cache),
            )
        except SwitchError as error:
            raise StartError(f"{settings.label}: {error}") from None

    async def _initial_program(self, programs: PipelineConfigLoader, path: Path) -> Any:
        try:
            data = named_files.read_bytes(path)
        except OSError as error:
            raise StartError(f"cannot read the program {path}: {error.strerror}") from None
        try:
            return (await programs.program(data)).pipeline
        except RpcError as error:
            raise StartError(f"{path}: {error.message.replace('p4_device_config', 'the file')}") from None
        except SwitchError as error:
            raise StartError(f"{path}: {error}") from None

    def _device(self, settings: SwitchSettings, programs: PipelineConfigLoader) -> P4RuntimeDevice:
        switch = self._switches[settings.device_id]
        rate = DEFAULT_PACKET_RATE if settings.packet_in_rate is None else settings.packet_in_rate
        return P4RuntimeDevice(settings.device_id, switch, programs, cpu_port=settings.cpu_port, packet_rate=rate)

    async def _manage(self, devices: list[P4RuntimeDevice]) -> list[ManagedSwitch]:
        """Wrap the switches for the management service, and start captures and traces."""
        trace = self._open_trace()
        made = []
        for settings, device in zip(self._settings.switches, devices, strict=True):
            switch = self._switches[settings.device_id]
            log = LogDispatcher(switch)
            self._resources.callback(log.close)
            if trace is not None:
                log.add(trace.for_switch(settings.label))
            elif self._log:
                log.add(ProgramLog(settings.label))
            managed = ManagedSwitch(
                switch,
                device,
                log,
                label=settings.label,
                interfaces=settings.ports,
                driver=self._driver,
                capture_directory=self._settings.pcap,
                held_down=settings.ports_down,
            )
            self._resources.callback(managed.close)
            if self._settings.pcap is not None and self._settings.capturing:
                try:
                    await managed.set_capture(True)
                except RpcError as error:
                    raise StartError(error.message) from None
            made.append(managed)
        return made

    def _open_trace(self) -> SwitchTraceFile | None:
        where = self._settings.trace
        if where is None:
            return None
        try:
            trace = SwitchTraceFile(where, self._began)
        except OSError as error:
            raise StartError(f"cannot write the trace to {where}: {error.strerror}") from None
        self._resources.callback(trace.close)
        return trace

    def _start_driver(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        ports = {self._switches[item.device_id]: item.ports for item in self._settings.switches if item.ports}
        if not ports:
            return
        frame = max(item.queues.max_frame for item in self._settings.switches)
        try:
            driver = PortDriver(
                ports,
                max_frame=frame,
                qdisc=self._settings.qdisc,
                bmv2_send_buffer=self._settings.bmv2_send_buffer,
                wires=self._settings.wires,
                fast=fast_interfaces(self._settings),
                cache=self._cache,
            )
        except PortDriverError as error:
            raise StartError(str(error)) from None
        for item in self._settings.switches:
            for port in item.ports_down:
                driver.hold_down(self._switches[item.device_id], port)
        thread = threading.Thread(target=self._drive, args=(driver, loop, stop), name="ports", daemon=True)
        thread.start()
        self._driver = driver
        self._resources.callback(driver.close)
        self._resources.callback(thread.join)
        self._resources.callback(driver.stop)

    def _drive(self, driver: PortDriver, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        try:
            driver.run()
        except Exception as error:
            self._driver_error = error
            loop.call_soon_threadsafe(stop.set)


def fast_interfaces(settings: ProcessSettings) -> list[str]:
    """Of links without a rate, or with a high one, whose frames pass through their interfaces."""
    wires = settings.wires
    wired = set() if wires is None else {*wires.rings, *(name for pair in wires.joined for name in pair)}
    return [
        interface
        for switch in settings.switches
        for port, interface in switch.ports.items()
        if interface not in wired and (not switch.rates.get(port) or switch.rates[port] >= _FAST_BPS)
    ]


def _end(stop: asyncio.Event) -> None:
    """Start the shutdown; waiting compilations fail at once."""
    stop.set()
    stop_compilers()


def _is_others(path: Path) -> bool:
    """Whether a file, or the folder it would be created in, belongs to another user."""
    for existing in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            return existing.stat().st_uid != os.geteuid()
    return True


__all__ = ["StartError", "SwitchProcess"]
