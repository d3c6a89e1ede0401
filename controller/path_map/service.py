"""The path map's gRPC service (``proto/path_map_v1.proto``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from controller import messages
from controller.errors import ControllerError
from controller.path_map.values import MapState
from controller.proto import path_map_v1_pb2 as pb
from controller.proto import path_map_v1_pb2_grpc as pb_grpc
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.probe_plan import DEFAULT_RATE

if TYPE_CHECKING:
    from controller.path_map.collector import Collector


class PathMapService(pb_grpc.PathMapServicer):
    """The service of a fabric's map; `agents` is the path of an agent's socket with ``{name}`` for its host."""

    def __init__(self, fabric: Fabric, agents: str) -> None:
        self._fabric = fabric
        self._agents = agents
        self._collector: Collector | None = None

    def _made(self) -> Collector:
        """The collector, made when it is first wanted: a controller that never maps need not load numpy."""
        if self._collector is None:
            from controller.path_map.collector import Collector

            self._collector = Collector(self._fabric, self._agents)
        return self._collector

    def _state(self) -> pb.State:
        state = MapState(running=False) if self._collector is None else self._collector.state()
        return messages.pack(state, pb.State)

    async def close(self) -> None:
        """Stop mapping."""
        if self._collector is not None:
            await self._collector.stop()

    async def Start(self, request: pb.StartRequest, context: Any) -> pb.State:  # noqa: N802
        """Start mapping, or change how."""
        try:
            await self._made().start(request.rate or DEFAULT_RATE, feed=request.feed)
        except FabricError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except ControllerError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return self._state()

    async def Stop(self, _request: pb.StopRequest, _context: Any) -> pb.State:  # noqa: N802
        """Stop mapping."""
        await self.close()
        return self._state()

    async def Get(self, _request: pb.GetRequest, _context: Any) -> pb.State:  # noqa: N802
        """The map as it is."""
        return self._state()
