"""A connection matrix of htsim, as values and as text.

    Nodes 16
    Connections 3
    Triggers 1
    Failures 1
    7->15 id 1 start 0 size 2000000 send_done_trigger 1
    7->0 id 2 trigger 1 size 2000000
    3->4 start 5000 size 4096
    trigger id 1 oneshot
    failure switch_type AGG switch_id 0 link_id 0

Nodes count from 0. A connection is one flow of `size` bytes, which begins at `start` (picoseconds) or when a trigger
says so; its end activates triggers in turn, at the sender when everything is acknowledged (``send_done_trigger``), at
the receiver when everything has arrived (``recv_done_trigger``). Format: ``connection_matrix.cpp`` of ultraethernet's
uet-htsim and of Broadcom's csg-htsim, which agree but for ``msg`` and ``addon``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_NODES: Final = 65_535
MAX_CONNECTIONS: Final = 200_000
PICOSECONDS: Final = 1000  # in a nanosecond


class TriggerKind(enum.Enum):
    """What a trigger does when the end of a flow activates it."""

    ONESHOT = "oneshot"  # begins all its flows, and may be activated once
    MULTISHOT = "multishot"  # begins one of its flows each time, in the order of the file
    BARRIER = "barrier"  # begins all its flows the last of `count` times


@dataclass(frozen=True, slots=True)
class MatrixFlow:
    """A connection: `size` bytes from node `source` to node `destination`, from 0 on.

    `start` is in ps, None where `trigger` begins it. Numbers of triggers are None where there are none, `id` too.
    """

    source: int
    destination: int
    size: int
    start: int | None = None
    id: int | None = None
    trigger: int | None = None
    send_done_trigger: int | None = None
    recv_done_trigger: int | None = None
    line: int = 0

    @property
    def start_ns(self) -> int | None:
        """When it begins, in ns: the nearest."""
        return None if self.start is None else (self.start + PICOSECONDS // 2) // PICOSECONDS

    @property
    def activates(self) -> tuple[int, ...]:
        """Triggers that its end activates, that at the receiver first."""
        return tuple(one for one in (self.recv_done_trigger, self.send_done_trigger) if one is not None)


@dataclass(frozen=True, slots=True)
class MatrixTrigger:
    """A trigger; `count` is that of a barrier, 0 of others."""

    id: int
    kind: TriggerKind
    count: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class MatrixFailure:
    """A link that has failed: `link_id` is htsim's number of an uplink of aggregation switch `switch_id`."""

    switch_id: int
    link_id: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionMatrix:
    """All that a file says. `source` is the file, as messages name it."""

    nodes: int
    flows: tuple[MatrixFlow, ...]
    triggers: tuple[MatrixTrigger, ...] = ()
    failures: tuple[MatrixFailure, ...] = ()
    source: str = "connection matrix"

    def text(self) -> str:
        """The file."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield f"Nodes {self.nodes}"
        yield f"Connections {len(self.flows)}"
        if self.triggers:
            yield f"Triggers {len(self.triggers)}"
        if self.failures:
            yield f"Failures {len(self.failures)}"
        yield from map(_flow_line, self.flows)
        for one in self.triggers:
            count = f" count {one.count}" if one.kind is TriggerKind.BARRIER else ""
            yield f"trigger id {one.id} {one.kind.value}{count}"
        for failure in self.failures:
            yield f"failure switch_type AGG switch_id {failure.switch_id} link_id {failure.link_id}"


def _flow_line(flow: MatrixFlow) -> str:
    """The line of a connection; htsim wants `id` before `trigger`."""
    words = [f"{flow.source}->{flow.destination}"]
    for name in ("id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger"):
        value = getattr(flow, name)
        if value is not None:
            words.append(f"{name} {value}")
    return " ".join(words)
