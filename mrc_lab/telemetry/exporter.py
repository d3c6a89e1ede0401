"""Serves the metrics of one fabric over HTTP, for Prometheus to scrape.

Every scrape reads the fabric afresh. Scrapes that come while a reading is under way wait for it and get the same, so
any number of scrapes causes one reading at a time. A fabric that is not up gives ``mrc_up 0``, and when it is up again,
in whatever size, it is read again.

There are two resources, ``/metrics`` and ``/``, which may be read and nothing else. A request must name the address
that we listen on in its Host header: a page of another site that makes a browser ask us (DNS rebinding) names that
site. Nothing a client sends is used otherwise.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web
from prometheus_client import generate_latest

from mrc_common.connection_limits import IDLE_S
from mrc_common.grpc_endpoint import EndpointError, is_loopback, split_address
from mrc_common.limited_server import LimitedServer
from mrc_lab.telemetry import DEFAULT_ADDRESS
from mrc_lab.telemetry.families import families
from mrc_lab.telemetry.readings import FabricReading

MAX_CONNECTIONS = 32
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STOP_S = 2.0  # how long requests that are under way may take when we stop
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_INDEX = "Metrics of an MRC fabric: /metrics\n"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

Read = Callable[[], Awaitable[FabricReading | None]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def check_address(address: str, *, public: bool) -> tuple[str, int]:
    """Host and port of an address to listen on; EndpointError for one that others reach, unless it may be `public`."""
    host, port = split_address(address)
    if not public and not is_loopback(host):
        raise EndpointError(
            f"{address} is reachable from the network, and metrics are served to whoever asks: add --public if that is"
            f" meant, or take an address on loopback like {DEFAULT_ADDRESS}."
        )
    return host, port


def text(reading: FabricReading | None, *, queue_pairs: bool = False) -> bytes:
    """A reading as Prometheus reads it."""
    return generate_latest(families(reading, queue_pairs=queue_pairs))


class Exporter:
    """The server of the metrics that `read` reads."""

    def __init__(self, read: Read, host: str, port: int, *, queue_pairs: bool = False) -> None:
        self._read = read
        self._host = host.lower()
        self._port = port
        self._queue_pairs = queue_pairs
        self._reading: asyncio.Task[bytes] | None = None
        self._listener: LimitedServer | None = None
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            shutdown_timeout=_STOP_S,
            keepalive_timeout=IDLE_S,
            auto_decompress=False,
        )

    @property
    def address(self) -> str:
        """Where it listens, as in a URL."""
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen, at a free port if 0 was wanted; EndpointError if that cannot be."""
        await self._runner.setup()
        try:
            assert self._runner.server is not None
            self._listener = LimitedServer(self._runner.server, MAX_CONNECTIONS)
            self._port = await self._listener.listen(self._host, self._port)
        except OSError as error:
            await self._runner.cleanup()
            why = "there is no such host" if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            raise EndpointError(f"Cannot listen on {self.address}: {why}.") from None

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        if self._reading is not None:
            self._reading.cancel()
        if self._listener is not None:
            self._listener.stop_listening()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard], client_max_size=0)
        application.router.add_get("/metrics", self._metrics)  # HEAD too
        application.router.add_get("/", self._index)
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuse what names another address."""
        assert self._listener is not None
        with self._listener.serving(request.protocol):
            return await self._guarded(request, handler)

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not self._is_ours(request.headers.getall("Host", [])):
            return self._refused(403, f"The Host header must name the address listened on, {self.address}.")
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            return self._refused(405, "Only GET and HEAD are possible.")
        except web.HTTPNotFound:
            return self._refused(404, "There is /metrics.")

    def _is_ours(self, named: list[str]) -> bool:
        if len(named) != 1:
            return False
        try:
            host, port = split_address(named[0].lower())
        except EndpointError:
            return False
        return port == self._port and (host == self._host or host in self._further_names() or self._is_own(host))

    def _further_names(self) -> tuple[str, ...]:
        """Names of this machine, by which no other site can be called."""
        return _LOOPBACK if is_loopback(self._host) else (socket.gethostname().lower(), socket.getfqdn().lower())

    def _is_own(self, host: str) -> bool:
        """Whether we listen on every address, and a request names one of them by its number."""
        try:
            ipaddress.ip_address(host)
            return ipaddress.ip_address(self._host).is_unspecified
        except ValueError:
            return False

    def _refused(self, status: int, why: str) -> web.Response:
        response = web.Response(status=status, text=f"{why}\n", headers=_HEADERS)
        response.force_close()
        return response

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(text=_INDEX, headers=_HEADERS)

    async def _metrics(self, _request: web.Request) -> web.Response:
        # A scraper that hangs up must not end the reading for others.
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._printed())
        body = await asyncio.shield(self._reading)
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})

    async def _printed(self) -> bytes:
        return await asyncio.to_thread(partial(text, await self._read(), queue_pairs=self._queue_pairs))
