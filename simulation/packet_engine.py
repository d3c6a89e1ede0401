"""Time for which packets occupy a NIC: its packet rate and PCIe's bandwidth, in each direction.

An engine takes one frame at a time. Outwards it makes the NIC answer "nothing" until it is free, and then has ports
asked again, the one that has waited longest first, so that what leaves is still decided at the last moment. Inwards
frames queue before the NIC sees them; PAUSE frames do not, since the MAC itself obeys them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mrc_host.wire import pause
from simulation.clock import Clock
from simulation.hardware_timing import HardwareTiming

Receive = Callable[[int, bytes], None]
Transmit = Callable[[int, int], "bytes | None"]

_ETHERTYPE: Final = slice(12, 14)
_PAUSE: Final = pause.ETHER_TYPE


class PacketEngine:
    """Both directions of one NIC. `deliver` hands a frame to its node, `ask` asks a port, then all idle ones."""

    __slots__ = ("_ask", "_asking", "_clock", "_deliver", "_receive_free", "_refused", "_timing", "_transmit_free")

    def __init__(self, clock: Clock, timing: HardwareTiming, deliver: Receive, ask: Callable[[int], None]) -> None:
        self._clock = clock
        self._timing = timing
        self._deliver = deliver
        self._ask = ask
        self._receive_free = 0
        self._transmit_free = 0
        self._refused: dict[int, None] = {}  # ports that wait for the engine, in turn
        self._asking = False

    def receive(self, port: int, frame: bytes) -> None:
        """A frame arrived: the NIC gets it once those before it are dealt with, and it too."""
        now = self._clock.now
        if frame[_ETHERTYPE] == _PAUSE:
            self._deliver(port, frame)
            return
        self._receive_free = max(now, self._receive_free) + self._timing.occupancy(len(frame))
        self._clock.at(self._receive_free, self._deliver, port, frame)

    def paced(self, transmit: Transmit) -> Transmit:
        """`transmit` of the NIC, with nothing to send while the engine is busy."""

        def when_free(port: int, now: int) -> bytes | None:
            if self._busy(port, now):
                return None
            frame = transmit(port, now)
            if frame is not None:
                self._occupy(len(frame), now)
            return frame

        return when_free

    def _busy(self, port: int, now: int) -> bool:
        """Whether the engine is busy, so that `port` is asked later."""
        if now >= self._transmit_free:
            self._refused.pop(port, None)
            return False
        self._refused[port] = None
        if not self._asking:
            self._asking = True
            self._clock.at(self._transmit_free, self._ask_again)
        return True

    def _occupy(self, size: int, now: int) -> None:
        """A frame leaves."""
        self._transmit_free = now + self._timing.occupancy(size)

    def _ask_again(self, _: object, __: object) -> None:
        """The engine is free: who still waits after this keeps its place; event handler."""
        self._asking = False
        if self._refused:
            self._ask(next(iter(self._refused)))
