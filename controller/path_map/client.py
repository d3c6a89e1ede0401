"""The controller's client with the path map's commands.

with PathMapClient("/run/mrc/demo/controller.sock") as controller:
    controller.start_map()
    ...
    for fault in controller.path_map().suspected:
        print(fault.name, fault.loss)
"""

from __future__ import annotations

from typing import Any

from controller import messages
from controller.client import ControllerClient
from controller.path_map.values import MapState
from controller.proto import path_map_v1_pb2 as pb
from controller.proto import path_map_v1_pb2_grpc as pb_grpc


class PathMapClient(ControllerClient):
    """A connection to the controller, as :class:`ControllerClient`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._map = self._hold(pb_grpc.PathMapStub)

    def __enter__(self) -> PathMapClient:
        return self

    def start_map(self, rate: float = 0.0, *, feed: bool = False) -> MapState:
        """Start mapping with `rate` probes a second, link and direction (0: the default), or change rate and feed."""
        return messages.unpack(self._call(self._map.Start, pb.StartRequest(rate=rate, feed=feed)), MapState)

    def stop_map(self) -> MapState:
        """Stop mapping, and allow what the map has denied."""
        return messages.unpack(self._call(self._map.Stop, pb.StopRequest()), MapState)

    def path_map(self) -> MapState:
        """The map as it is."""
        return messages.unpack(self._call(self._map.Get, pb.GetRequest()), MapState)
