"""The path map's gRPC service (``proto/path_map_v1.proto``), and its values as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from controller.errors import ControllerError
from controller.path_map.values import Direction, LinkHealth, MapState, Part, SuspectedFault
from controller.proto import path_map_v1_pb2 as pb
from controller.proto import path_map_v1_pb2_grpc as pb_grpc
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.probe_plan import DEFAULT_RATE

if TYPE_CHECKING:
    from controller.path_map.collector import Collector

_PARTS = {part: getattr(pb.SuspectedFault, part.name) for part in Part}
_PARTS_BACK = {number: part for part, number in _PARTS.items()}
_WAYS: dict[Direction | None, Any] = {way: getattr(pb.SuspectedFault, way.name) for way in Direction} | {
    None: pb.SuspectedFault.DIRECTION_UNSPECIFIED
}
_WAYS_BACK = {number: way for way, number in _WAYS.items()}


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
        return pack(MapState(running=False) if self._collector is None else self._collector.state())

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


def pack(state: MapState) -> pb.State:
    """The message of a state."""
    return pb.State(
        running=state.running,
        rate=state.rate,
        round_seconds=state.round_s,
        seconds=state.seconds,
        suspected=[_pack_fault(fault) for fault in state.suspected],
        links=[pb.LinkHealth(name=link.name, sent=link.sent, lost=link.lost) for link in state.links],
        unreachable=state.unreachable,
        feeding=state.feeding,
        denied=state.denied,
    )


def unpack(message: pb.State) -> MapState:
    """The state that a message describes."""
    return MapState(
        running=message.running,
        rate=message.rate,
        round_s=message.round_seconds,
        seconds=message.seconds,
        suspected=tuple(_unpack_fault(fault) for fault in message.suspected),
        links=tuple(LinkHealth(link.name, link.sent, link.lost) for link in message.links),
        unreachable=tuple(message.unreachable),
        feeding=message.feeding,
        denied=message.denied,
    )


def _pack_fault(fault: SuspectedFault) -> pb.SuspectedFault:
    return pb.SuspectedFault(
        part=_PARTS[fault.part],
        name=fault.name,
        plane=fault.plane,
        direction=_WAYS[fault.direction],
        loss=fault.loss,
        confidence=fault.confidence,
        since_ns=fault.since,
        rivals=fault.rivals,
    )


def _unpack_fault(message: pb.SuspectedFault) -> SuspectedFault:
    return SuspectedFault(
        part=_PARTS_BACK[message.part],
        name=message.name,
        plane=message.plane,
        direction=_WAYS_BACK[message.direction],
        loss=message.loss,
        confidence=message.confidence,
        since=message.since_ns,
        rivals=tuple(message.rivals),
    )
