"""The collector's client of one host's agent: starts probing, fetches reports, changes the denylist. Calls block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from controller.path_map.values import SlowPort
from mrc_host.errors import MrcError
from mrc_host.path_probes import ProbePlan, ProbeReport
from mrc_host.verbs.errors import AgentLostError
from mrc_host.verbs.remote.connection import AgentConnection, for_controller

T = TypeVar("T")
Path = tuple[bytes, int]
"""Address of a peer, and an entropy value."""


class ProbingAgent:
    """The agent at the UNIX socket `path`, connected to again if lost.

    It probes while we are connected, and what we deny is leased: both end with the connection, however it ends.
    """

    def __init__(self, path: str, plan: ProbePlan) -> None:
        self._path = path
        self._plan = plan
        self._connection: AgentConnection | None = None
        self._denied: frozenset[Path] = frozenset()
        self._lock = threading.Lock()
        self._left = False

    @property
    def denied(self) -> int:
        """How many paths we have denied on this connection."""
        return len(self._denied)

    def report(self) -> ProbeReport:
        """What was sent and has arrived since the last time; MrcError when the agent does not answer.

        `probing` is False where there is a gap before it, because the agent has only just begun.
        """
        fresh = self._connection is None
        report = self._ask(lambda agent: agent.probe_report())
        if not report.probing:  # somebody else had it stop
            self._ask(lambda agent: agent.start_probing(self._plan))
        return replace(report, probing=report.probing and not fresh)

    def slow_ports(self, host: str) -> tuple[SlowPort, ...]:
        """What the NIC of `host` has found to be slow; MrcError when the agent does not answer."""
        counters = self._ask(AgentConnection.port_counters)
        return tuple(
            SlowPort(f"{host}@p{plane}", bool(found.get("slow")), found.get("slow_peers", 0))
            for plane, found in enumerate(counters)
            if found.get("slow") or found.get("slow_peers")
        )

    def deny(self, wanted: frozenset[Path]) -> None:
        """Deny these paths and no others, as far as it is for us to say; MrcError when the agent does not answer."""
        for paths, denied in ((wanted - self._denied, True), (self._denied - wanted, False)):
            for peer, ev in sorted(paths):
                self._ask(partial(AgentConnection.deny_path, peer=peer, ev=ev, denied=denied, leased=True))
                self._denied ^= {(peer, ev)}

    def close(self) -> None:
        """Leave for good; the agent stops probing and allows what we denied. Another thread's request fails then."""
        with self._lock:
            self._left = True
        self._drop()

    def _ask(self, verb: Callable[[AgentConnection], T]) -> T:
        try:
            return verb(self._connection or self._connect())
        except MrcError:
            self._drop()
            raise

    def _connect(self) -> AgentConnection:
        connection = AgentConnection(for_controller(self._path), client="path map")
        with self._lock:
            if not self._left:
                self._connection = connection
        if self._left:
            connection.close()
            raise AgentLostError("The path map has left.")
        connection.start_probing(self._plan)
        return connection

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            self._denied = frozenset()
        if connection is not None:
            connection.close()
