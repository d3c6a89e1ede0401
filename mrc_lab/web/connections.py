"""How many connections the live view takes.

Anyone on this machine can connect, with a token or without, and each connection costs a descriptor. When there are too
many, the oldest that asks for nothing at the moment is closed for a new one. One that is being answered is never closed
here; streams of records are few (:data:`mrc_lab.web.feed.MAX_VIEWERS`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MAX_CONNECTIONS = 256
IDLE_S = 15.0  # until one that sends no whole request is closed
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connections:
    """The connections of one server, which :meth:`serve` names."""

    def __init__(self) -> None:
        self._server: web.Server | None = None
        self._answered: set[RequestHandler] = set()
        self._silent: set[RequestHandler] = set()  # these have not asked for anything yet

    def serve(self, server: web.Server) -> None:
        """Take connections for this server."""
        self._server = server

    def accept(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection, for which an older one may have to be closed."""
        assert self._server is not None
        is_open = [one for one in self._server.connections if one.transport and not one.transport.is_closing()]
        if len(is_open) >= MAX_CONNECTIONS:
            idle = next((one for one in is_open if one not in self._answered), None)
            if idle is not None and idle.transport is not None:
                idle.transport.abort()
        protocol = self._server()
        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(IDLE_S, self._close_silent, protocol)
        return protocol

    @web.middleware
    async def answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Its connection is not idle while a request is answered."""
        protocol = request.protocol
        self._silent.discard(protocol)
        self._answered.add(protocol)
        try:
            return await handler(request)
        finally:
            self._answered.discard(protocol)

    def _close_silent(self, protocol: RequestHandler) -> None:
        """Not every release of aiohttp does this before the first request; between requests all do."""
        if protocol in self._silent:
            self._silent.discard(protocol)
            if protocol.transport is not None:
                protocol.transport.abort()
