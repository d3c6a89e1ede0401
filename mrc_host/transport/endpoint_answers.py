"""Answers to one peer's endpoint requests: what waits to be sent, and on which plane.

Answers take the planes that suit all of ours (``AnswerRoutes.port``): those where our packets were last known to
arrive. That may be old news, and then two NICs could probe each other for ever: each one's probes arrive on the plane
that works again, and are answered on the one that has failed since. So when the peer keeps asking, and none of our
packets is known to have arrived meanwhile, answers take the plane where the request arrived, and the usual ones again,
by turns. Each turn is longer than the one before, since a path is restored only after several answers in a row, and
after the longest they begin again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mrc_host.config import ProtocolSettings
from mrc_host.wire import control
from mrc_host.wire.control import EndpointRequest, EndpointResponse

_MAX_WAITING: Final = 256
_ROUND: Final = 64  # requests of all turns, in those of the first


class EndpointAnswers:
    """Those to one peer."""

    __slots__ = ("_asked", "_first_turn", "_settings", "waiting")

    def __init__(self, settings: ProtocolSettings) -> None:
        self._settings = settings
        self._first_turn = settings.transport.probe_successes  # requests that are answered as usual
        self._asked = 0  # requests since one of our packets was last known to have arrived
        self.waiting: deque[tuple[int, int, int, int, int]] = deque()  # id, operation, timestamp, arrival, plane

    def confirmed(self) -> None:
        """One of our packets is known to have arrived at the peer."""
        self._asked = 0

    def add(self, request_id: int, request: EndpointRequest, port: int, now: int) -> bool:
        """Answer a request that arrived at `port`; False when too many answers are waiting."""
        if len(self.waiting) >= _MAX_WAITING:
            return False
        turn = (self._asked // self._first_turn).bit_length()
        self._asked = (self._asked + 1) % (_ROUND * self._first_turn)
        self.waiting.append((request_id, request.op, request.timestamp, now, port if turn & 1 else -1))
        return True

    def plane(self) -> int:
        """The plane that the next answer is to take; -1 when that is not decided here."""
        return self.waiting[0][4] if self.waiting else -1

    def take(self, now: int) -> bytes:
        """The next answer, from the BTH on."""
        request_id, op, stamp, arrived, _ = self.waiting.popleft()
        took = max(1, now - arrived) if self._settings.service_time else 0
        response = EndpointResponse(op, stamp, took if took <= control.MAX_SERVICE_TIME else 0)
        return control.pack_endpoint_response(request_id, response, self._settings.endpoint_op_shift)
