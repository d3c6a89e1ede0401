"""Where the service listens, and who may use it.

On a UNIX socket the file's permissions decide; on a loopback address every user of the machine may come in, unless a
token is wanted. Anything else is the network: that takes a token and TLS, or it is refused. Beside the controller's
services there are gRPC's own for health and reflection, for which the token is wanted as well. Socket and address are
served by a gRPC server each, since only one of them asks for the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
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
from mrc_common.grpc_guards import Readable, TokenCheck

SERVICE: str = pb.DESCRIPTOR.services_by_name["Controller"].full_name
MAP_SERVICE: str = map_pb.DESCRIPTOR.services_by_name["PathMap"].full_name
LARGEST_REQUEST = 1 << 20
LEAST_TOKEN = 16
MOST_REQUESTS = 512  # at once, streams included
_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.keepalive_time_ms", 10_000),  # a client whose machine has gone away ends its lease
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
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
        """ControllerError, one sentence, when this cannot or must not be."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ControllerError("TLS needs both a certificate and its key: give --tls-cert and --tls-key.")
        if not self.address:
            if self.token_file is not None or self.tls_cert is not None:
                raise ControllerError(
                    "A token and TLS are for --listen: who may use a UNIX socket is up to its file's permissions."
                )
            return
        host, port = _split(self.address)
        if not _is_loopback(host) and (self.token_file is None or self.tls_cert is None):
            raise ControllerError(
                f"Listening on {host} lets the network in, which needs a token and TLS:"
                " give --token-file, --tls-cert and --tls-key, or listen on localhost."
            )
        _try(host, port, self.address)


def read_token(file: Path) -> str:
    """The token in a file: its first line, 16 characters or more. ControllerError otherwise."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ControllerError(f"The token cannot be read from {file}: {_why(error)}.") from None
    token = lines[0].strip() if lines else ""
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise ControllerError(f"The token in {file} must have at least {LEAST_TOKEN} printable ASCII characters.")
    return token


class Server:
    """The controller's services, health and reflection, wherever they are served."""

    def __init__(self, servers: Sequence[grpc.aio.Server], checker: Any) -> None:
        self._servers = servers
        self._health = checker

    async def start(self) -> None:
        """Take requests. Health checks get NOT_SERVING until :meth:`ready`."""
        await self._tell(health_pb2.HealthCheckResponse.NOT_SERVING)
        for server in self._servers:
            await server.start()

    async def ready(self) -> None:
        """Health checks get SERVING, for the server as a whole and for the controller's service."""
        await self._tell(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no more requests and end those that are under way after a while."""
        await self._health.enter_graceful_shutdown()
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))

    async def _tell(self, state: Any) -> None:
        for name in (health.OVERALL_HEALTH, SERVICE, MAP_SERVICE):
            await self._health.set(name, state)


def make_server(listening: Listening, service: Any, path_map: Any) -> Server:
    """A server with both services, health and reflection, bound but not started; ControllerError if it cannot be."""
    listening.check()
    token = "" if listening.token_file is None else read_token(listening.token_file)
    checker = health.aio.HealthServicer()
    servers = []
    if listening.socket is not None:
        servers.append(_server(service, path_map, checker))
        _claim(listening.socket)
        servers[-1].add_insecure_port(f"unix:{listening.socket}")
        with contextlib.suppress(FileNotFoundError):
            listening.socket.chmod(0o600)
    if listening.address:
        servers.append(_server(service, path_map, checker, token))
        _bind(servers[-1], listening)
    return Server(servers, checker)


def _server(service: Any, path_map: Any, checker: Any, token: str = "") -> grpc.aio.Server:
    interceptors = [*([TokenCheck(token, "controller")] if token else []), Readable((SERVICE, MAP_SERVICE))]
    server = grpc.aio.server(interceptors=interceptors, options=_OPTIONS, maximum_concurrent_rpcs=MOST_REQUESTS)
    add: Any = add_ControllerServicer_to_server  # generated without types
    add(service, server)
    add_map: Any = add_PathMapServicer_to_server
    add_map(path_map, server)
    health_pb2_grpc.add_HealthServicer_to_server(checker, server)
    reflection.enable_server_reflection((SERVICE, MAP_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return server


def _bind(server: grpc.aio.Server, listening: Listening) -> None:
    credentials = _credentials(listening)
    try:
        if credentials is None:
            server.add_insecure_port(listening.address)
        else:
            server.add_secure_port(listening.address, credentials)
    except RuntimeError:
        raise ControllerError(
            f"The controller cannot listen on {listening.address}: are certificate and key PEM files that match?"
        ) from None


def _credentials(listening: Listening) -> Any:
    if listening.tls_cert is None or listening.tls_key is None:
        return None
    try:
        pair = listening.tls_key.read_bytes(), listening.tls_cert.read_bytes()
    except OSError as error:
        raise ControllerError(f"{error.filename} cannot be read: {_why(error)}.") from None
    return grpc.ssl_server_credentials([pair])


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535 or not host:
        raise ControllerError(f"{address!r} is no address to listen on: write it as localhost:9559 or [::1]:9559.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _try(host: str, port: int, address: str) -> None:
    """Ask the kernel first: gRPC's own complaint is a page long."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        why = "it is in use" if error.errno == errno.EADDRINUSE else _why(error)
        raise ControllerError(f"The controller cannot listen on {address}: {why}.") from None


def _claim(path: Path) -> None:
    """Make room for a UNIX socket: a stale one is removed."""
    if len(str(path).encode()) > 107:
        raise ControllerError(f"The controller cannot listen on {path}: a socket's path has 107 bytes at most.")
    if not path.parent.is_dir():
        raise ControllerError(f"The controller cannot listen on {path}: there is no directory {path.parent}.")
    with contextlib.suppress(FileNotFoundError):
        if not path.is_socket():
            if path.exists():
                raise ControllerError(f"The controller cannot listen on {path}: that is a file of another kind.")
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
                return
        raise ControllerError(f"A controller listens on {path} already: stop it, or choose another socket.")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
