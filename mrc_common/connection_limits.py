"""Limits on a server's connections, and which one gives way: one rule for all servers of the project.

Each connection costs a descriptor from the moment it is accepted, before a TLS handshake and before anything is known
about who it is; so that is where it is counted. A server takes at most `maximum`. When there are that many, a new one
takes the place of the oldest idle one of the owner that has most of them, as long as that has no fewer than the
newcomer's owner. If none is idle, the oldest of the owner with the most gives way, if it has at least two more than
the newcomer's owner. So a user who holds all connections cannot shut others out, and who is served stays served.

:class:`OpenConnections` only decides; :class:`mrc_common.limited_server.LimitedServer` accepts by it in an asyncio
loop. Servers that gRPC runs have limits of the same kind: :func:`grpc_options`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

MAX_CONNECTIONS = 256
HANDSHAKE_S = 5.0  # for TLS; gRPC's own would be two minutes
IDLE_S = 15.0  # until a connection that sends no whole request is closed


class AcceptedConnection:
    """One accepted connection of `owner` (:func:`mrc_common.connection_owner.owner_of`); `close` ends it."""

    __slots__ = ("busy", "close", "owner")

    def __init__(self, owner: str, close: Callable[[], None], *, busy: bool = False) -> None:
        self.owner = owner
        self.close = close
        self.busy = busy  # somebody is being served on it


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a new connection is taken, and which one was closed for it."""

    taken: bool
    closed: AcceptedConnection | None = None


class OpenConnections:
    """The connections of one server, oldest first: at most `maximum`, and of each owner at most `share`.

    Without `replaces` none is ever closed for another: a server whose clients are idle for good reasons.
    """

    def __init__(self, maximum: int, *, share: int | None = None, replaces: bool = True) -> None:
        self.maximum = maximum
        self.share = sys.maxsize if share is None else share
        self._replaces = replaces
        self._open: dict[AcceptedConnection, None] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def admit(self, new: AcceptedConnection) -> Admission:
        """Take a new connection, and close another one for it if there must be; or do not take it."""
        if self._counts[new.owner] >= self.share:
            return Admission(False)
        closed: AcceptedConnection | None = None
        if len(self._open) >= self.maximum:
            closed = self._who_gives_way(new.owner) if self._replaces else None
            if closed is None:
                return Admission(False)
            self.ended(closed)
            closed.close()
        self._open[new] = None
        self._counts[new.owner] += 1
        return Admission(True, closed)

    def ended(self, connection: AcceptedConnection) -> None:
        """A connection costs no descriptor any more; doing this twice is harmless."""
        if connection in self._open:
            del self._open[connection]
            self._counts[connection.owner] -= 1
            if not self._counts[connection.owner]:
                del self._counts[connection.owner]

    def _who_gives_way(self, newcomer: str) -> AcceptedConnection | None:
        counts, its_own = self._counts, self._counts[newcomer]
        idle = [one for one in self._open if not one.busy and counts[one.owner] >= its_own]
        if idle:
            # Of owners with as many the newcomer first: it takes from nobody else then.
            return max(idle, key=lambda one: (counts[one.owner], one.owner == newcomer))
        oldest = max(self._open, key=lambda one: counts[one.owner], default=None)
        return oldest if oldest is not None and counts[oldest.owner] >= its_own + 2 else None


def grpc_options(maximum: int) -> tuple[tuple[str, int], ...]:
    """Options that give a server of gRPC the same limits; it counts connections itself, but knows no owners."""
    return (
        ("grpc.max_allowed_incoming_connections", maximum),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1000)),
    )
