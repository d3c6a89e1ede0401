"""Priority flow control at a NIC: which ports may not send which classes, and until when.

A NIC has two transmit queues per port, control and data, each of which stands for some of the network's priorities
(``PausePriorities``). A PAUSE for a priority of a queue stops that queue on the port where it arrived: for the given
time, or until another PAUSE gives time zero. Probes in the data class stop too, although they are not in that queue. A
packet already being sent is not interrupted. The NIC itself sends no PAUSE, since it takes packets as fast as they
arrive.
"""

from __future__ import annotations

from typing import Final

from mrc_host.config import NicConfig, PausePriorities
from mrc_host.transport.scheduler import PacketSource, Scheduler
from mrc_host.wire import pause

_SECOND: Final = 1_000_000_000


class Pauses(PacketSource):
    """The pauses of one NIC; as a source, it only has timers.

    `received` counts PAUSE frames; `paused_ns` is the time for which ports could not send data, summed over ports, each
    pause added when it ends.
    """

    __slots__ = ("_paused", "_queues", "_rates", "_scheduler", "_since", "_until", "paused_ns", "received")

    def __init__(self, config: NicConfig, priorities: PausePriorities, scheduler: Scheduler) -> None:
        super().__init__()
        assumed = config.settings.transport.assumed_rate
        self._rates = [(port.rate_bps or assumed) for port in config.ports]
        self._queues = (priorities.data, priorities.control)
        self._scheduler = scheduler
        self._until: dict[tuple[int, int], int] = {}  # by port and priority
        self._paused = 0  # mask of ports that may not send data
        self._since: dict[int, int] = {}  # by port: since when data is stopped
        self.received = 0
        self.paused_ns = 0

    def receive(self, port: int, frame: bytes | memoryview, now: int) -> bool:
        """Whether the frame is a PAUSE; if so, obey it."""
        times = pause.parse(frame)
        if times is None:
            return False
        self.received += 1
        rate = self._rates[port]
        for priority, quanta in times.items():
            self._until[port, priority] = now + quanta * pause.QUANTUM_BITS * _SECOND // rate
        self._refresh(now)
        return True

    def port_down(self, port: int, now: int) -> None:
        """A port that loses its link forgets its pauses."""
        for key in [key for key in self._until if key[0] == port]:
            del self._until[key]
        self._refresh(now)

    def _refresh(self, now: int) -> None:
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key]
        held = [0, 0]
        for port, priority in self._until:
            for queue, priorities in enumerate(self._queues):
                if priority in priorities:
                    held[queue] |= 1 << port
        self._account(held[0], now)
        self._scheduler.pause(*held)
        if self._until:
            self._scheduler.arm(self, min(self._until.values()))

    def _account(self, held: int, now: int) -> None:
        changed, self._paused = held ^ self._paused, held
        for port in range(len(self._rates)):
            if changed >> port & 1:
                if held >> port & 1:
                    self._since[port] = now
                else:
                    self.paused_ns += now - self._since.pop(port)

    def on_timer(self, now: int) -> int:
        """Pauses end."""
        self._refresh(now)
        return min(self._until.values(), default=0)

    def transmit_control(self, port: int, now: int) -> None:
        """Nothing: a source only of timers."""

    def transmit_data(self, port: int, now: int) -> None:
        """Nothing."""

    def data_ports(self) -> int:
        """None."""
        return 0
