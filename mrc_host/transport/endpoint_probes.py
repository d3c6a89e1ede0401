"""Endpoint probes (pings), requested by a controller: those in flight, and their results (docs/protocol.md §11.5).

On the wire an endpoint probe is an EV probe. The peer numbers and sends it (``ev_probes``); this module keeps track of
it. Each ends in exactly one ``ProbeEvent``, answered or not.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.nic_context import NicContext
from mrc_host.verbs_types import ProbeEvent

MAX_ENDPOINT_PROBES: Final = 1024  # in flight to one peer


class _EndpointProbe:
    __slots__ = ("deadline", "ev", "plane", "probe_id", "sent")

    def __init__(self, probe_id: int, ev: int, plane: int, deadline: int) -> None:
        self.probe_id = probe_id
        self.ev = ev
        self.plane = plane
        self.deadline = deadline
        self.sent = -1  # send time; -1: not sent yet


class EndpointProbes:
    """Endpoint probes to one peer, by their request ids."""

    __slots__ = ("_nic", "_peer", "_waiting")

    def __init__(self, nic: NicContext, peer: bytes) -> None:
        self._nic = nic
        self._peer = peer
        self._waiting: dict[int, _EndpointProbe] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request_id: int, probe_id: int, ev: int, plane: int, deadline: int) -> None:
        """A probe was queued; it is given up at `deadline`."""
        self._waiting[request_id] = _EndpointProbe(probe_id, ev, plane, deadline)

    def sent(self, request_id: int, now: int) -> None:
        """The request was sent."""
        probe = self._waiting.get(request_id)
        if probe is not None:
            probe.sent = now

    def answered(self, request_id: int, port: int, service_time: int, now: int) -> bool:
        """An answer arrived at `port`; False when it answers none of these probes.

        `service_time` (ns, 0: not given) is the processing time reported by the responder; it is not part of the round
        trip.
        """
        probe = self._waiting.get(request_id)
        if probe is None or probe.sent < 0:
            return False
        del self._waiting[request_id]
        rtt = now - probe.sent
        timed = 0 < service_time <= rtt
        rtt -= service_time if timed else 0
        self._nic.emit(ProbeEvent(now, probe.probe_id, self._peer, probe.ev, probe.plane, port, rtt, timed))
        return True

    def expire(self, now: int) -> list[int]:
        """Give up overdue probes; returns their request ids."""
        late = [request_id for request_id, probe in self._waiting.items() if probe.deadline <= now]
        for request_id in late:
            probe = self._waiting.pop(request_id)
            self._nic.emit(ProbeEvent(now, probe.probe_id, self._peer, probe.ev, probe.plane))
        return late

    def next_deadline(self) -> int:
        """Earliest deadline, 0 for none."""
        return min((probe.deadline for probe in self._waiting.values()), default=0)
