"""Path probes of one NIC: sent by a plan, counted where they arrive (docs/path-mapping.md).

A path probe is an endpoint request with an operation of our own (docs/protocol.md §10) in the control class, so that
congestion neither delays nor drops it. It is never answered, only counted. The request id is the number of the path in
its sender's plan; the port mask field carries the round. A probe whose port has no link counts as sent and never
arrives. If the process was paused, the round continues where it was: missed probes are not sent in a burst.

The number of rounds kept for collection is bounded: the oldest are dropped.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Final

from mrc_host.errors import InvalidArgumentError
from mrc_host.path_probes import MAX_PROBE_PATHS, ProbePlan, ProbeReport, ProbesArrived, ProbesSent
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.scheduler import PacketSource
from mrc_host.wire import control
from mrc_host.wire.control import OP_PATH_PROBE, EndpointRequest
from mrc_host.wire.headers import timestamp

if TYPE_CHECKING:
    from mrc_host.datapath import native

MAX_ROUNDS: Final = 4096  # kept of those sent, and of those received from all NICs together
_MAX_WAITING: Final = 16  # probes queued at one port; beyond that, none are sent
_ROUNDS: Final = 1 << 32


class PathProber(PacketSource):
    """Sends the probes of a plan, if there is one, and counts probes that arrive."""

    __slots__ = (
        "_arrived", "_due", "_gap", "_nic", "_number", "_order", "_plan", "_position", "_rng", "_sent", "_templates",
        "_waiting",
    )  # fmt: skip

    def __init__(self, nic: NicContext) -> None:
        super().__init__()
        self._nic = nic
        self._plan: ProbePlan | None = None
        self._templates: list[native.Template] = []  # by path
        self._waiting: list[deque[tuple[int, int]]] = [deque() for _ in nic.config.ports]
        self._sent: dict[int, int] = {}
        self._arrived: dict[tuple[bytes, int], int] = {}

    # ---- commands -----------------------------------------------------------------------------------------------

    def start(self, plan: ProbePlan, now: int) -> None:
        """Probe by `plan` from now on, replacing any other; InvalidArgumentError when this NIC cannot."""
        if not self._nic.srv6:
            raise InvalidArgumentError("Paths can only be probed where MRC packets carry a uSID list (SRv6).")
        ports = len(self._nic.config.ports)
        if any(not 0 <= path.port < ports for path in plan.paths):
            raise InvalidArgumentError(f"{self._nic.config.name} has the ports 0 to {ports - 1} only.")
        self.stop()
        dscp = self._nic.settings.dscp.control
        srv6 = self._nic.encapsulation.srv6
        self._templates = [srv6(p.port, p.outer, p.destination, p.ev, dscp, 0) for p in plan.paths]
        self._plan = plan
        self._number = plan.first_round
        self._rng = random.Random(self._nic.rng.getrandbits(64))
        self._order: list[int] = []
        self._position = 0
        self._gap = max(1, plan.round_ns // len(plan.paths))
        self._due = now + 1 + self._rng.randrange(self._gap)  # NICs that start together do not send at the same time
        self._nic.scheduler.arm(self, self._due)

    def stop(self) -> None:
        """Stop sending, and discard everything counted so far."""
        self._plan = None
        self._sent.clear()
        self._arrived.clear()
        for queue in self._waiting:
            queue.clear()

    def report(self) -> ProbeReport:
        """What was sent and what arrived since the last report."""
        sent = tuple(ProbesSent(number, paths) for number, paths in self._sent.items())
        arrived = tuple(ProbesArrived(source, number, paths) for (source, number), paths in self._arrived.items())
        self._sent.clear()
        self._arrived.clear()
        return ProbeReport(self._plan is not None, sent, arrived)

    # ---- frames -------------------------------------------------------------------------------------------------

    def receive(self, source: bytes, path: int, number: int) -> bool:
        """A probe of round `number` arrived from NIC `source` on its path `path`; False when it cannot be valid."""
        if path >= MAX_PROBE_PATHS:
            return False
        arrived, key = self._arrived, (source, number)
        arrived[key] = arrived.get(key, 0) | 1 << path
        if len(arrived) > MAX_ROUNDS:
            del arrived[next(iter(arrived))]
        return True

    def on_timer(self, now: int) -> int:
        """Send the next probe of the round; the time of the one after it."""
        plan = self._plan
        if plan is None:
            return 0
        if now < self._due:
            return self._due
        if self._position == len(self._order):
            self._order = self._rng.sample(range(len(plan.paths)), len(plan.paths))
            self._number = plan.first_round if self._position == 0 else (self._number + 1) % _ROUNDS
            self._position = 0
        index = self._order[self._position]
        self._position += 1
        self._send(index, plan.paths[index].port)
        self._due = max(self._due + self._gap, now + self._gap // 2)
        return self._due

    def _send(self, index: int, port: int) -> None:
        queue = self._waiting[port]
        if self._nic.local_up >> port & 1:
            if len(queue) >= _MAX_WAITING:
                return
            queue.append((index, self._number))
            self._nic.scheduler.activate_control(self, 1 << port)
        sent, number = self._sent, self._number
        sent[number] = sent.get(number, 0) | 1 << index
        if len(sent) > MAX_ROUNDS:
            del sent[next(iter(sent))]

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """The next probe queued for `port`."""
        queue = self._waiting[port]
        if not queue:
            return None
        index, number = queue.popleft()
        body = control.pack_endpoint_request(index, EndpointRequest(OP_PATH_PROBE, number, timestamp(now)))
        frame: bytes = self._nic.datapath.frame(self._templates[index], body)
        return frame

    def data_ports(self) -> int:
        """Probes are control packets."""
        return 0

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Probes are control packets."""
        return None
