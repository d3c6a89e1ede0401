"""The management gRPC service (proto/switch_v1.proto): ports, queues, packet-in, captures, traces.

Each switch has a `ManagedSwitch`, which knows how each setting is made and where each counter is. The service finds it
and turns errors into gRPC statuses as the P4Runtime service does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from p4runtime_shim.server.managed_switch import ManagedSwitch
from p4runtime_shim.server.p4runtime_service import abort, reporting
from p4runtime_shim.server.rpc_errors import not_found


class ManagementService(pb_grpc.SwitchManagementServicer):
    """The service for a set of switches."""

    def __init__(self, switches: Iterable[ManagedSwitch]) -> None:
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

    async def SamplePorts(  # noqa: N802, D102
        self, request: pb.SamplePortsRequest, context: Any
    ) -> pb.SamplePortsResponse:
        return await reporting(context, self._samples, request)  # type: ignore[no-any-return]

    def _samples(self, request: pb.SamplePortsRequest) -> pb.SamplePortsResponse:
        chosen = self._chosen(request.device_ids)
        return pb.SamplePortsResponse(switches=[item.sample(keep_peaks=request.keep_peaks) for item in chosen])

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
        """End all traces, before the server stops."""
        for task in list(self._traces):
            task.cancel()

    def _chosen(self, device_ids: Iterable[int]) -> list[ManagedSwitch]:
        """The named switches, each once; all if none is named."""
        return [self._switch(device_id) for device_id in dict.fromkeys(device_ids) or self._switches]

    def _switch(self, device_id: int) -> ManagedSwitch:
        if device_id not in self._switches:
            known = ", ".join(str(item) for item in sorted(self._switches))
            raise not_found(f"there is no device {device_id}; this server has {known}")
        return self._switches[device_id]


def add_management(server: Any, service: ManagementService) -> None:
    """Add the service to a server."""
    pb_grpc.add_SwitchManagementServicer_to_server(service, server)  # type: ignore[no-untyped-call]
