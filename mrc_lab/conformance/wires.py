"""Wires between the conformance kit and the NIC under test, and whose time counts there.

:class:`SocketWire` uses network interfaces, one for each port of the NIC, and the machine's clock. :class:`MemoryWire`
drives a NIC device of this project in memory, under a clock that moves from event to event: so a whole examination
takes a second, needs no root, and is the same each time.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

from mrc_host.config import NicConfig
from mrc_host.nic import Nic
from mrc_lab.errors import ExperimentError

_ALL = 0x0003
_OUTGOING = 4
_MTU = 1 << 16
_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1
DELAY_NS = 5_000  # of a frame in memory
Frame = tuple[int, int, bytes]  # time in ns, port, frame


class Wire(Protocol):
    """Frames in both directions, and a clock."""

    def now(self) -> int:
        """The time in ns, from any beginning."""

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame to a port of the NIC."""

    def receive(self, until: int) -> Frame | None:
        """The next frame of the NIC; None when there was none by the time `until`."""


class SocketWire:
    """Network interfaces of this namespace, in the order of the NIC's ports. Use it in a `with` statement."""

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._interfaces = interfaces
        self._sockets: list[socket.socket] = []
        self._stack = ExitStack()

    def __enter__(self) -> SocketWire:
        try:
            for name in self._interfaces:
                self._sockets.append(self._stack.enter_context(_packet_socket(name)))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def now(self) -> int:
        """Monotonic time."""
        return time.monotonic_ns()

    def send(self, port: int, frame: bytes) -> None:
        """Raises ExperimentError when the interface does not take it."""
        try:
            self._sockets[port].send(frame)
        except OSError as error:
            raise ExperimentError(f"{self._interfaces[port]} does not send: {error.strerror}") from None

    def receive(self, until: int) -> Frame | None:
        """Wait on all interfaces."""
        while True:
            left = until - self.now()
            if left < 0:  # however many frames there are
                return None
            ready, _, _ = select.select(self._sockets, (), (), left / 1e9)
            for sock in ready:
                port = self._sockets.index(sock)
                try:
                    frame, where = sock.recvfrom(_MTU)
                except OSError as error:
                    raise ExperimentError(f"{self._interfaces[port]} does not receive: {error.strerror}") from None
                if where[2] != _OUTGOING:
                    return self.now(), port, frame
            if not ready:
                return None


def _packet_socket(name: str) -> socket.socket:
    try:
        number = socket.if_nametoindex(name)
    except OSError:
        raise ExperimentError(
            f"there is no network interface {name} here", "'ip link' lists those of this namespace."
        ) from None
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise ExperimentError("raw packets need root", "Run the same command with sudo.") from None
    try:
        sock.bind((name, _ALL))
        # The peer's MAC addresses need not be those of the interfaces.
        membership = struct.pack("IHH8s", number, _PROMISCUOUS, 0, bytes(8))
        sock.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
    except OSError as error:
        sock.close()
        raise ExperimentError(f"{name} cannot be opened: {error.strerror}") from None
    return sock


class MemoryWire:
    """A NIC device of this project and its clock; a frame takes `DELAY_NS` either way."""

    def __init__(self, config: NicConfig, seed: int = 1) -> None:
        self.nic = Nic(config, seed=seed)
        self._ports = range(len(config.ports))
        self._now = 10_000_000
        self._to_nic: deque[Frame] = deque()  # with the time of arrival
        self._from_nic: deque[Frame] = deque()

    def now(self) -> int:
        """Virtual time."""
        return self._now

    def send(self, port: int, frame: bytes) -> None:
        """Put the frame on its way."""
        self._to_nic.append((self._now + DELAY_NS, port, frame))

    def receive(self, until: int) -> Frame | None:
        """Let time pass until a frame of the NIC arrives."""
        while True:
            self._collect()
            times = [queue[0][0] for queue in (self._to_nic, self._from_nic) if queue]
            due = self.nic.wakeup()
            if due is not None:
                times.append(due)
            self._now = max(self._now, min(until, *times) if times else until)
            if self._from_nic and self._from_nic[0][0] <= self._now:
                return self._from_nic.popleft()
            while self._to_nic and self._to_nic[0][0] <= self._now:
                _, port, frame = self._to_nic.popleft()
                self.nic.receive(port, frame, self._now)
            self.nic.tick(self._now)
            if self._now >= until and not self._is_busy():
                return None

    def _is_busy(self) -> bool:
        """Whether something else is due at this very moment."""
        self._collect()
        return any(queue and queue[0][0] <= self._now for queue in (self._to_nic, self._from_nic))

    def _collect(self) -> None:
        """Take what the NIC sends at this moment, from all ports in turn."""
        more = True
        while more:
            more = False
            for port in self._ports:
                frame = self.nic.transmit(port, self._now)
                if frame is not None:
                    self._from_nic.append((self._now + DELAY_NS, port, frame))
                    more = True
