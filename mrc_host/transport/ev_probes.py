"""EV probes to one peer: endpoint requests (EV_PROBE), each on one path, matched to their answers by request id.

Three modules send them: ``bad_paths`` (background probes), ``reverse_paths`` (reverse-path probes) and
``endpoint_probes`` (pings). On the wire they differ only in their traffic class. The sender keeps the id; a probe is
queued here until the port of its plane is free.
"""

from __future__ import annotations

from collections import deque


class EvProbes:
    """Probes queued or in flight to one peer."""

    __slots__ = ("_next_id", "_paths", "_queues")

    def __init__(self, first_id: int, ports: int) -> None:
        self._next_id = first_id
        self._paths: dict[int, tuple[int, int]] = {}  # request id -> path, class
        self._queues: list[deque[int]] = [deque() for _ in range(ports)]

    def send(self, index: int, plane: int, kind: int) -> int:
        """Queue a probe on path `index` of `plane`; returns its request id. `kind` is its class (see `Peer`)."""
        request_id = (self._next_id + 1) & 0xFFFF
        while request_id in self._paths:
            request_id = (request_id + 1) & 0xFFFF
        self._next_id = request_id
        self._paths[request_id] = index, kind
        self._queues[plane].append(request_id)
        return request_id

    def cancel(self, request_id: int) -> None:
        """The answer to this probe is no longer awaited."""
        self._paths.pop(request_id, None)

    def answered(self, request_id: int) -> int:
        """The path of the answered probe; -1 when the answer is not awaited."""
        return self._paths.pop(request_id, (-1, 0))[0]

    def take(self, port: int, only: int = -1) -> tuple[int, int, int]:
        """Request id, path and class of the next probe to leave on `port`, of those in class `only` (-1: any).

        The path is -1 when there is none.
        """
        queue = self._queues[port]
        for _ in range(len(queue)):
            request_id = queue.popleft()
            index, kind = self._paths.get(request_id, (-1, 0))
            if index < 0:
                continue
            if only < 0 or kind == only:
                return request_id, index, kind
            queue.append(request_id)
        return 0, -1, 0

    def ports(self) -> int:
        """Mask of ports that have probes to send."""
        return sum(1 << port for port, queue in enumerate(self._queues) if queue)
