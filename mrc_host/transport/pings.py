"""Endpoint probes that a controller asked for: what is on the way, and what came of it (docs/protocol.md §11.5).

The peer numbers and sends the requests; this keeps the book. Each ends in exactly one ``ProbeEvent``, answered or not.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.host import Host
from mrc_host.values import ProbeEvent

MAX_PINGS: Final = 1024  # on the way to one peer


class _Ping:
    __slots__ = ("deadline", "ev", "plane", "probe_id", "sent")

    def __init__(self, probe_id: int, ev: int, plane: int, deadline: int) -> None:
        self.probe_id = probe_id
        self.ev = ev
        self.plane = plane
        self.deadline = deadline
        self.sent = -1  # not yet


class Pings:
    """Endpoint probes towards one peer, by the request id they carry."""

    __slots__ = ("_host", "_peer", "_waiting")

    def __init__(self, host: Host, peer: bytes) -> None:
        self._host = host
        self._peer = peer
        self._waiting: dict[int, _Ping] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request_id: int, probe_id: int, ev: int, plane: int, deadline: int) -> None:
        """A probe waits to be sent; it is given up at `deadline`."""
        self._waiting[request_id] = _Ping(probe_id, ev, plane, deadline)

    def sent(self, request_id: int, now: int) -> None:
        """The request left."""
        ping = self._waiting.get(request_id)
        if ping is not None:
            ping.sent = now

    def answered(self, request_id: int, port: int, service_time: int, now: int) -> bool:
        """An answer came in at `port`; False when it answers none of these probes.

        `service_time` (ns, 0: not told) is what the responder says it took, and no part of the round trip.
        """
        ping = self._waiting.get(request_id)
        if ping is None or ping.sent < 0:
            return False
        del self._waiting[request_id]
        rtt = now - ping.sent
        told = 0 < service_time <= rtt
        rtt -= service_time if told else 0
        self._host.emit(ProbeEvent(now, ping.probe_id, self._peer, ping.ev, ping.plane, port, rtt, told))
        return True

    def expire(self, now: int) -> list[int]:
        """Give up what is overdue; the request ids of these."""
        late = [request_id for request_id, ping in self._waiting.items() if ping.deadline <= now]
        for request_id in late:
            ping = self._waiting.pop(request_id)
            self._host.emit(ProbeEvent(now, ping.probe_id, self._peer, ping.ev, ping.plane))
        return late

    def next_deadline(self) -> int:
        """Earliest deadline, 0 for none."""
        return min((ping.deadline for ping in self._waiting.values()), default=0)
