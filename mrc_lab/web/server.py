"""The HTTP server of the live view: the page's files, its stream of records, and its actions.

``GET /`` is the page, ``GET /static/...`` one of its files (a fixed list, so that no path comes from a request),
``GET /records`` the records as server-sent events, ``POST /actions`` an action. A stream sends what waits at most ten
times a second; a browser that takes nothing for a while is disconnected, and fetches the whole state when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import ssl
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from controller.errors import ControllerError
from mrc_common import strict_json
from mrc_common.connection_limits import IDLE_S, MAX_CONNECTIONS
from mrc_common.limited_server import LimitedServer
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.web.access import HEADERS, MAX_BODY, PageAccess
from mrc_lab.web.actions import Outcome
from mrc_lab.web.feed import Feed, Outbox
from topologies.errors import FabricError

SEND_PERIOD_S = 0.1
SEND_TIMEOUT_S = 10.0  # for a browser to take what it was sent
BODY_TIMEOUT_S = 10.0  # for it to send an action
KEEPALIVE_S = 5.0
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Performer(Protocol):
    """What carries out actions (:class:`mrc_lab.web.actions.Actions`)."""

    async def perform(self, request: Mapping[str, Any]) -> Outcome:
        """Carry out a request; raises the room's errors for what cannot be done."""


class LiveServer:
    """Serves a feed and takes actions on `host` and `port`; port 0 takes a free one.

    `opened` is called when the first browser shows the page.
    """

    def __init__(
        self,
        feed: Feed,
        performer: Performer,
        token: str,
        host: str,
        port: int,
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed = feed
        self._performer = performer
        self._opened: Callable[[], None] | None = opened
        self._token = token
        self._host = host
        self.port = port
        self._files = static_files()
        self._runner: web.AppRunner | None = None
        self._listener: LimitedServer | None = None
        self._access: PageAccess | None = None
        self._closing = asyncio.Event()

    async def start(self, tls: ssl.SSLContext | None = None) -> str:
        """Listen; returns the address of the page, with the token. OSError if that cannot be."""
        access = self._access = PageAccess(self._token, self._host, self.port, tls=tls is not None)
        application = web.Application(middlewares=[self._answering, access.check], client_max_size=MAX_BODY)
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/static/{name:.+}", self._static),
                web.get("/records", self._records),
                web.post("/actions", self._actions),
            ]
        )
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_http_log(),
            handle_signals=False,
            auto_decompress=False,  # compressed requests are refused, and not looked into
            shutdown_timeout=1.0,
            max_field_size=4096,
            keepalive_timeout=IDLE_S,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = LimitedServer(self._runner.server, MAX_CONNECTIONS, idle_s=IDLE_S)
        self.port = await self._listener.listen(self._host, self.port, tls)
        access.cookie = f"mrc-web-{self.port}"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if tls else 'http'}://{host}:{self.port}/?token={self._token}"

    async def stop(self, farewell: str = "The server was stopped.") -> None:
        """Send all browsers why this is the end, disconnect them, and listen no more."""
        self._feed.event("ended", "", farewell)
        self._closing.set()
        if self._listener is not None:
            self._listener.stop_listening()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The connection of a request is not idle until it is answered."""
        assert self._listener is not None
        with self._listener.serving(request.protocol):
            return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        assert self._access is not None
        response = self._file("index.html")
        self._access.grant(request, response)
        return response

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._file(request.match_info["name"])

    def _file(self, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound(reason="There is no such file.")
        content = self._files[name]
        return web.Response(body=content, content_type=_type(name), charset="utf-8")

    async def _records(self, request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        try:
            outbox = self._feed.join()
        except ExperimentError as error:
            raise web.HTTPServiceUnavailable(reason=str(error)) from None
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            if self._opened is not None:
                self._opened()
                self._opened = None
            with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                await self._stream(response, outbox)
        finally:
            self._feed.leave(outbox)
            if request.transport is not None:
                request.transport.abort()  # what waits for a browser that takes nothing is not waited for
        return response

    async def _stream(self, response: web.StreamResponse, outbox: Outbox) -> None:
        """Send what there is, until the browser is gone or does not take it in time, or this server ends."""
        last = False
        while not last:
            last = self._closing.is_set()  # what was published before that is sent, the reason for the end too
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(outbox.take(), 0 if last else KEEPALIVE_S)
            records = outbox.records(self._feed.now_ms())
            text = "".join(f"data: {record}\n\n" for record in records) or ": nothing new\n\n"
            await asyncio.wait_for(response.write(text.encode()), SEND_TIMEOUT_S)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), SEND_PERIOD_S)

    async def _actions(self, request: web.Request) -> web.StreamResponse:
        try:
            wanted = strict_json.loads((await asyncio.wait_for(request.read(), BODY_TIMEOUT_S)).decode())
        except asyncio.TimeoutError:
            raise web.HTTPRequestTimeout(reason="The request did not come to its end in time.") from None
        except (ValueError, RecursionError):
            return _refused("The request is not JSON.")
        if not isinstance(wanted, dict):
            return _refused("The request must be a JSON object.")
        try:
            outcome = await self._performer.perform(wanted)
        except ExperimentError as error:
            return _refused(" ".join(filter(None, [f"{error}", error.hint])))
        except (ControllerError, FabricError, MrcError) as error:
            return _refused(str(error))
        except Exception:
            _LOG.exception("an action failed")
            return _refused("The action failed; what 'mrc web' has printed says why.", 500)
        return web.json_response({"text": outcome.text, "command": outcome.command, "undo": outcome.undo})


def _http_log() -> logging.Logger:
    """The log of what fails in handlers, without malformed requests: those would be quoted, with the token in them."""
    log = logging.getLogger(f"{__name__}.http")
    log.addFilter(_is_no_request)
    return log


def _is_no_request(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, HttpProcessingError)


def static_files() -> dict[str, bytes]:
    """The page's files by name."""
    folder = resources.files("mrc_lab.web") / "static"
    found = {}
    for entry in folder.iterdir():
        if entry.is_file():
            found[entry.name] = entry.read_bytes()
        elif entry.is_dir():
            found |= {f"{entry.name}/{file.name}": file.read_bytes() for file in entry.iterdir() if file.is_file()}
    return found


def _type(name: str) -> str:
    suffix = f".{name.rpartition('.')[2]}"
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"


def _refused(problem: str, status: int = 400) -> web.Response:
    return web.json_response({"error": problem}, status=status)
