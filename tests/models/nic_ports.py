"""The ports of a NIC that packets occupy (`simulation/core/nic_ports.h`, `packet_engine.h`), without any short cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tests.models.channel import ModelChannel
from tests.models.clock import ModelClock


class Nic(Protocol):
    """The device."""

    def receive(self, port: int, frame: bytes, now: int) -> None: ...
    def transmit(self, port: int, now: int) -> bytes | None: ...
    def wakeup(self) -> int | None: ...
    def tick(self, now: int) -> None: ...


class ModelNicPorts:
    """Asks the NIC again and again; each frame occupies it for `packet` ns, or as long as it takes at `pcie_rate`."""

    def __init__(
        self, clock: ModelClock, nic: Nic, channels: Mapping[int, ModelChannel], packet: int, pcie_rate: int
    ) -> None:
        self._clock, self._nic, self._channels = clock, nic, channels
        self._packet, self._pcie_rate = packet, pcie_rate
        self._receive_free = self._transmit_free = 0
        self._waiting: list[int] = []  # ports that wait for the engine, in turn
        self._asking = False
        self._wake_at: int | None = None
        for port, channel in channels.items():
            channel.pull = lambda port=port: self._pull(port)

    def occupancy(self, size: int) -> int:
        by_bytes = -(-8 * size * 10**9 // self._pcie_rate) if self._pcie_rate else 0
        return max(self._packet, by_bytes)

    def receive(self, port: int, frame: bytes) -> None:
        if not (self._packet or self._pcie_rate) or frame[12:14] == b"\x88\x08":  # PAUSE
            self._take(port, frame)
            return
        self._receive_free = max(self._clock.now, self._receive_free) + self.occupancy(len(frame))
        self._clock.at(self._receive_free, lambda: self._take(port, frame))

    def _take(self, port: int, frame: bytes) -> None:
        self._nic.receive(port, frame, self._clock.now)
        self.poke()

    def poke(self) -> None:
        """Ask every idle port, until nothing is due."""
        while True:
            for port, channel in self._channels.items():
                if channel.idle:
                    self._ask(port)
            due = self._nic.wakeup()
            if due is None or due > self._clock.now:
                break
            self._nic.tick(self._clock.now)
        self._come_back(due)

    def _ask(self, port: int) -> bool:
        if self._clock.now < self._transmit_free:
            if port not in self._waiting:
                self._waiting.append(port)
            if not self._asking:
                self._asking = True
                self._clock.at(self._transmit_free, self._engine_is_free)
            return False
        if port in self._waiting:
            self._waiting.remove(port)
        frame = self._nic.transmit(port, self._clock.now)
        if frame is not None:
            self._transmit_free = self._clock.now + self.occupancy(len(frame))
            self._channels[port].send(frame)
        return frame is not None

    def _pull(self, port: int) -> None:
        if not self._ask(port):
            self._channels[port].idle = True
        due = self._nic.wakeup()
        if due is not None and due <= self._clock.now and (self._wake_at is None or due < self._wake_at):
            self._nic.tick(self._clock.now)
            self.poke()
        else:
            self._come_back(due)

    def _engine_is_free(self) -> None:
        self._asking = False
        if self._waiting:
            if self._channels[self._waiting[0]].idle:
                self._pull(self._waiting[0])
            self.poke()

    def _come_back(self, due: int | None) -> None:
        if due is None or (self._wake_at is not None and due >= self._wake_at):
            return
        self._wake_at = due

        def wake() -> None:
            if self._wake_at == due:
                self._wake_at = None
                self._nic.tick(due)
                self.poke()

        self._clock.at(due, wake)
