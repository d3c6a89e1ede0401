"""Access to the page: for whoever has the token, from a page that came from here.

A click is an act of root, and any program or page on this machine can reach loopback. So every request needs the
token: in the address at first (``/?token=...``), then in a cookie that other sites' pages do not send (SameSite=Strict)
and scripts cannot read, or as ``Authorization: Bearer``. The Host must be a name of ours, which a page that has
its own name point to loopback (DNS rebinding) does not have; a POST must come from our own origin, as JSON, which a
form cannot send. The answer's headers let the page load nothing from elsewhere and run no script but its own files.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from mrc_common.grpc_endpoint import is_loopback

MAX_BODY = 8192  # bytes of a request
_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOG = logging.getLogger(__name__)


class PageAccess:
    """The rule for one server, which listens on `host` and `port`, with TLS or without."""

    def __init__(self, token: str, host: str, port: int, *, tls: bool = False) -> None:
        self._token = token.encode()
        self._host = host
        self._tls = tls
        self.cookie = f"mrc-web-{port}"  # cookies are shared by all ports of a host

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Carry out a request if it is allowed; whatever is answered has the headers for security."""
        problem = self._problem(request)
        if problem:
            return web.json_response({"error": problem}, status=403, headers=HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return web.json_response({"error": error.reason}, status=error.status, headers=HEADERS)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            _LOG.exception("a request failed")
            problem = "The request failed; what 'mrc web' has printed says why."
            return web.json_response({"error": problem}, status=500, headers=HEADERS)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def grant(self, request: web.Request, response: web.StreamResponse) -> None:
        """Give the browser the cookie, if it came with the token in the address."""
        if "token" in request.query:
            response.set_cookie(
                self.cookie, self._token.decode(), httponly=True, samesite="Strict", secure=self._tls, path="/"
            )

    def _problem(self, request: web.Request) -> str:
        """Why a request is refused; nothing if it is allowed."""
        if not self._is_ours(request.host):
            return "This server does not go by that name: use the address that 'mrc web' has printed."
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # The token is taken from the address only to open the page, which takes it out of there.
        opening = request.query.get("token", "") if request.path == "/" and request.method == "GET" else ""
        given = [bearer, opening, request.cookies.get(self.cookie, "")]
        if not any(hmac.compare_digest(one.encode(errors="replace"), self._token) for one in given):
            return "The token is missing or wrong: use the whole address that 'mrc web' has printed."
        if request.method == "POST":
            return self._wrong_origin(request)
        return ""

    def _wrong_origin(self, request: web.Request) -> str:
        origin = request.headers.get("Origin")
        scheme = "https" if self._tls else "http"
        if origin is not None and origin.lower() != f"{scheme}://{request.host.lower()}":
            return "This request comes from another page."
        if origin is None and "Authorization" not in request.headers:
            return "A request without an origin must give the token as 'Authorization: Bearer'."
        if request.content_type != "application/json":
            return "A request must be JSON (Content-Type: application/json)."
        if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
            return "A request must be in UTF-8: leave the charset out."
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return "A request must not be compressed: leave Content-Encoding out."
        return ""

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if is_loopback(name) and is_loopback(self._host):
            return True  # by another port too: ssh may forward one
        return self._tls or name == self._host
