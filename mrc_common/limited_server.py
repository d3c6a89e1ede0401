"""An asyncio server that accepts connections within limits (:mod:`mrc_common.connection_limits`).

asyncio's own server accepts without counting, and hands a connection over only after its TLS handshake; then whoever
never shakes hands uses up the descriptors. This one accepts itself. While the process has no descriptor left it pauses,
and it raises the number that the process may have first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

from mrc_common import unix_sockets
from mrc_common.connection_limits import HANDSHAKE_S, IDLE_S, AcceptedConnection, OpenConnections
from mrc_common.connection_owner import owner_of
from mrc_common.open_files import raise_limit

BACKLOG = 128
_AT_ONCE = 16  # connections accepted before others in the loop have their turn
_PAUSE_S = 0.1  # while there is no descriptor, or the kernel has another reason
_LOG = logging.getLogger(__name__)


class LimitedServer:
    """Gives accepted connections a protocol that `make_protocol` makes; at most `maximum` are open at once.

    One that is not :meth:`serving` anybody within `idle_s` of its beginning is closed.
    """

    def __init__(
        self, make_protocol: Callable[[], asyncio.BaseProtocol], maximum: int, *, idle_s: float = IDLE_S
    ) -> None:
        self._make_protocol = make_protocol
        self._idle_s = idle_s
        self._tls: ssl.SSLContext | None = None
        self._listener: socket.socket | None = None
        self._accepted: list[_Accepted] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_protocol: dict[asyncio.BaseProtocol, _Accepted] = {}
        self.open = OpenConnections(maximum)

    # -- listening -------------------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen at an address of this machine, with TLS if a context is given; the port. OSError if that cannot be."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        self._tls = tls
        self._begin(listener)
        return int(listener.getsockname()[1])

    def listen_unix(self, path: Path) -> None:
        """Listen at a UNIX socket for our own user; ``mrc_common.unix_sockets.SocketError`` if that cannot be."""
        self._begin(unix_sockets.listen(path, socket.SOCK_STREAM, backlog=BACKLOG))

    def _begin(self, listener: socket.socket) -> None:
        raise_limit()
        listener.setblocking(False)
        self._listener = listener
        self._watch()

    def stop_listening(self) -> None:
        """Accept no more connections; those there are stay, but for handshakes under way."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for task in tuple(self._tasks):
            task.cancel()

    def _watch(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        listener = self._listener
        for _ in range(_AT_ONCE):
            if listener is None:
                return
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _LOG.warning("accepting no connections for now: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                loop.call_later(_PAUSE_S, self._watch)
                return
            self._take(sock)

    # -- connections -----------------------------------------------------------------------------------------------

    def _take(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._forget_ended()
        accepted = _Accepted(sock)
        if not self.open.admit(accepted.connection).taken:
            sock.close()
            return
        self._accepted.append(accepted)
        task = asyncio.get_running_loop().create_task(self._connect(accepted))
        accepted.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(accepted.connected)

    async def _connect(self, accepted: _Accepted) -> None:
        loop = asyncio.get_running_loop()
        accepted.begun = True
        timeout = HANDSHAKE_S if self._tls is not None else None
        try:
            transport, protocol = await loop.connect_accepted_socket(
                self._make_protocol, accepted.sock, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except (OSError, asyncio.TimeoutError):  # no handshake, or none in time
            return
        accepted.transport = transport
        self._by_protocol[protocol] = accepted
        loop.call_later(self._idle_s, self._close_unserved, accepted)

    def _forget_ended(self) -> None:
        for one in self._accepted:
            if not one.is_open():
                self.open.ended(one.connection)
        self._accepted = [one for one in self._accepted if one.connection in self.open]
        self._by_protocol = {key: one for key, one in self._by_protocol.items() if one.is_open()}

    def _close_unserved(self, accepted: _Accepted) -> None:
        if not accepted.served:
            accepted.close()

    @contextlib.contextmanager
    def serving(self, protocol: asyncio.BaseProtocol) -> Iterator[None]:
        """The connection with this protocol is not idle within the block."""
        accepted = self._by_protocol.get(protocol)
        if accepted is None:  # it has ended already
            yield
            return
        accepted.served = True
        accepted.connection.busy = True
        try:
            yield
        finally:
            accepted.connection.busy = False


class _Accepted:
    """An accepted socket: first its task shakes hands, then it has a transport."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.BaseTransport | None = None
        self.begun = False  # from then on the transport that asyncio makes closes the socket
        self.served = False
        self.connection = AcceptedConnection(owner_of(sock), self.close)

    def connected(self, _task: asyncio.Task[None]) -> None:
        """The task has ended: with a transport, without one, or before it began."""
        self.task = None
        if not self.begun:
            self.sock.close()

    def is_open(self) -> bool:
        """Whether it still has its descriptor, and is not about to give it back."""
        return self.task is not None if self.transport is None else not self.transport.is_closing()

    def close(self) -> None:
        """End it at once."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()
