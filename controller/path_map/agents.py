"""One host's agent as the collector sees it: start probing, take reports, change the denylist. Calls block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mrc_host.agent.codec import from_json, to_json
from mrc_host.agent.connection import AgentConnection
from mrc_host.errors import MrcError
from mrc_host.probing import ProbePlan, ProbeReport


class ProbingAgent:
    """The agent at the UNIX socket `path`. It probes while we are connected, and is connected to again if lost."""

    def __init__(self, path: str, plan: ProbePlan) -> None:
        self._path = path
        self._plan = plan
        self._connection: AgentConnection | None = None

    def report(self) -> ProbeReport:
        """What was sent and has arrived since the last time; MrcError when the agent does not answer.

        `probing` is False where there is a gap before it, because the agent has only just begun.
        """
        fresh = self._connection is None
        report = from_json(ProbeReport, self._request("probe_report"))
        if not report.probing:  # somebody else had it stop
            self._request("start_probing", plan=to_json(self._plan))
        return replace(report, probing=report.probing and not fresh)

    def denied(self) -> set[tuple[bytes, int]]:
        """The NIC's denylist: addresses of peers, and entropy values."""
        found = self._request("denied_paths")
        return {(from_json(bytes, path["peer"]), int(path["ev"])) for path in found}

    def set_denied(self, paths: Iterable[tuple[bytes, int]], denied: bool) -> None:
        """Forbid paths, or allow them again."""
        for peer, ev in paths:
            self._request("deny_path", peer=to_json(peer), ev=ev, denied=denied)

    def close(self) -> None:
        """Leave; the agent stops probing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, op: str, **arguments: Any) -> Any:
        try:
            if self._connection is None:
                self._connection = AgentConnection(self._path, client="path map")
                self._connection.request("start_probing", plan=to_json(self._plan))
            return self._connection.request(op, **arguments)
        except MrcError:
            self.close()
            raise
