"""The time that a NIC takes to move its paths off a port without a link, in which it sends nothing.

In the MRC publication firmware does this, queue pair by queue pair: "typically a few seconds" in production, under a
second with four queue pairs, and its throughput is near zero meanwhile (docs/protocol.md, R3.17). Here the NIC sends
nothing on any port for the setting `port_remap`, and only then leaves the port and notifies its peers. What arrives is
taken, and its answers wait. A link that is back before that has not been noticed, but has cost the silence. A second
port that loses its link meanwhile begins the time anew for both. A NIC without queue pairs has nothing to
move.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc_host.transport.scheduler import PacketSource, Scheduler


class PortRemap(PacketSource):
    """The ports that a NIC is about to leave; as a source, it only has a timer."""

    __slots__ = ("_change", "_lost", "_scheduler", "_time", "_until")

    def __init__(self, scheduler: Scheduler, time: int, change: Callable[[int, bool, int], None]) -> None:
        """`time` is in ns; with 0 ports are left at once. `change` is called for each port that is left, with False."""
        super().__init__()
        self._scheduler = scheduler
        self._time = time
        self._change = change
        self._lost: set[int] = set()
        self._until = 0

    def begins(self, port: int, now: int) -> bool:
        """`port`, which is in use, has no link; False if it is to be left at once."""
        if self._time and port not in self._lost:
            self._lost.add(port)
            self._until = now + self._time
            self._scheduler.stop(True)
            self._scheduler.arm(self, self._until)
        return bool(self._time)

    def returned(self, port: int) -> None:
        """`port`, which is in use, has a link."""
        self._lost.discard(port)

    def on_timer(self, now: int) -> int:
        """All ports without a link are left, and the NIC sends again."""
        if now < self._until:
            return self._until
        lost, self._lost = self._lost, set()
        self._scheduler.stop(False)
        for port in sorted(lost):
            self._change(port, False, now)
        return 0

    def transmit_control(self, port: int, now: int) -> None:
        """Nothing: a source only of a timer."""

    def transmit_data(self, port: int, now: int) -> None:
        """Nothing."""

    def data_ports(self) -> int:
        """None."""
        return 0
