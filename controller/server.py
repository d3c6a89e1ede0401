"""Listening addresses of the controller's service, and who may use it.

Who may use an address is the rule of ``mrc_common.grpc_endpoint``. Beside the controller's services there are gRPC's
own for health and reflection, for which the token is wanted as well. Socket and address are served by a gRPC server
each, since only one of them asks for the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from controller.errors import ControllerError
from controller.proto import controller_v1_pb2 as pb
from controller.proto import path_map_v1_pb2 as map_pb
from controller.proto.controller_v1_pb2_grpc import add_ControllerServicer_to_server
from controller.proto.path_map_v1_pb2_grpc import add_PathMapServicer_to_server
from mrc_common.connection_limits import grpc_options
from mrc_common.grpc_endpoint import EndpointError, EndpointSettings, GrpcEndpoint
from mrc_common.grpc_guards import Readable

SERVICE: str = pb.DESCRIPTOR.services_by_name["Controller"].full_name
MAP_SERVICE: str = map_pb.DESCRIPTOR.services_by_name["PathMap"].full_name
LARGEST_REQUEST = 1 << 20
MAX_REQUESTS = 512  # at once, streams included
MAX_CONNECTIONS = 1024
_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.keepalive_time_ms", 10_000),  # the lease of a client whose machine is gone ends
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    *grpc_options(MAX_CONNECTIONS),
)


@dataclass(frozen=True, slots=True)
class Listening:
    """Addresses to listen on, a UNIX socket and ``host:port``; files with the token, TLS certificate and key."""

    socket: Path | None = None
    address: str = ""
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def check(self) -> None:
        """Raises ControllerError if this is impossible or not allowed."""
        if not self.address and (self.token_file is not None or self.tls_cert is not None or self.tls_key is not None):
            raise ControllerError(
                "A token and TLS are for --listen: who may use a UNIX socket is up to its file's permissions."
            )
        try:
            for endpoint in self.endpoints():
                endpoint.check_free()
        except EndpointError as error:
            raise ControllerError(str(error)) from None

    def endpoints(self) -> list[GrpcEndpoint]:
        """What to bind a server to each; raises EndpointError."""
        found = []
        if self.socket is not None:
            found.append(GrpcEndpoint.prepare(f"unix:{self.socket}", EndpointSettings(), "controller"))
        if self.address:
            access = EndpointSettings(self.token_file, self.tls_cert, self.tls_key)
            found.append(GrpcEndpoint.prepare(self.address, access, "controller"))
        return found


class Server:
    """The controller's services, health and reflection, wherever they are served."""

    def __init__(self, servers: Sequence[grpc.aio.Server], checker: Any) -> None:
        self._servers = servers
        self._health = checker

    async def start(self) -> None:
        """Take requests. Health checks get NOT_SERVING until :meth:`ready`."""
        await self._notify(health_pb2.HealthCheckResponse.NOT_SERVING)
        for server in self._servers:
            await server.start()

    async def ready(self) -> None:
        """Health checks get SERVING, for the server as a whole and for the controller's service."""
        await self._notify(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no more requests and end those that are under way after a while."""
        await self._health.enter_graceful_shutdown()
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))

    async def _notify(self, state: Any) -> None:
        for name in (health.OVERALL_HEALTH, SERVICE, MAP_SERVICE):
            await self._health.set(name, state)


def make_server(listening: Listening, service: Any, path_map: Any) -> Server:
    """A server with both services, health and reflection, bound but not started; ControllerError if it cannot be."""
    listening.check()
    checker = health.aio.HealthServicer()
    servers = []
    try:
        for endpoint in listening.endpoints():
            servers.append(_server(service, path_map, checker, endpoint.interceptors))
            endpoint.bind(servers[-1])
    except EndpointError as error:
        raise ControllerError(str(error)) from None
    return Server(servers, checker)


def _server(service: Any, path_map: Any, checker: Any, guards: Sequence[Any]) -> grpc.aio.Server:
    interceptors = (*guards, Readable((SERVICE, MAP_SERVICE)))
    server = grpc.aio.server(interceptors=interceptors, options=_OPTIONS, maximum_concurrent_rpcs=MAX_REQUESTS)
    add: Any = add_ControllerServicer_to_server  # generated without types
    add(service, server)
    add_map: Any = add_PathMapServicer_to_server
    add_map(path_map, server)
    health_pb2_grpc.add_HealthServicer_to_server(checker, server)
    reflection.enable_server_reflection((SERVICE, MAP_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return server
