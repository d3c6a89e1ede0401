"""A NIC driver on fake interfaces and a clock that the test turns."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mrc_common.link_monitor import LinkState
from mrc_host.config import NicConfig, PortConfig
from mrc_host.driver.loop import READABLE, Handler, Loop, Turn
from mrc_host.driver.nic_driver import Datapath, NicDriver
from mrc_host.driver.packet_port import AnswerDue, Carry
from mrc_host.wire.encap import Flow

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing

GBIT = 1_000_000_000
REAL_OFFSET = 1_700_000_000_000_000_000


class FakePort:
    """A PacketPort without interface."""

    def __init__(self, interface: str, mac: bytes, max_frame: int, rate_bps: int) -> None:
        self.interface, self.mac, self.max_frame, self.rate_bps = interface, mac, max_frame, rate_bps
        self.ring: FrameRing | None = None
        self.carry: Carry | None = None
        self.carrier: tuple[object, object, int] | None = None
        self.flow = Flow(bytes(16), 0, 0, False, False, True, 102, 200)
        self._read, self._write = os.pipe()
        self.sent: list[bytes] = []
        self.arrived: deque[bytes] = deque()
        self.stamped = 0
        self.asked = 0
        self.fail = 0
        self.closed = False

    def fileno(self) -> int:
        return self._read

    def arrive(self, *frames: bytes) -> None:
        if not self.arrived:
            os.write(self._write, b"x")
        self.arrived.extend(frames)

    def receive_into(self, buffer: memoryview) -> int:
        if not self.arrived:
            raise BlockingIOError
        frame = self.arrived.popleft()
        if not self.arrived:
            os.read(self._read, 1)
        buffer[: len(frame)] = frame
        return len(frame)

    def carry_to(self, receiver: object, carry_frame: object, port: int) -> None:
        self.carrier = receiver, carry_frame, port
        self.carry = self._carry

    def _carry(self, limit: int) -> tuple[int, int, AnswerDue | None]:
        """What begins with `carried` is; an eighth byte makes an answer due."""
        frames = size = 0
        while frames < limit and self.arrived and self.arrived[0].startswith(b"carried"):
            frame = bytearray(60)
            length = self.receive_into(memoryview(frame))
            frames, size = frames + 1, size + length
            if length > 7:
                return frames, size, (16, frame[7], 0, self.flow)
        return frames, size, None

    def stamp(self) -> int:
        self.asked += 1
        return self.stamped

    def send(self, frame: bytes) -> int:
        if self.fail:
            raise OSError(self.fail, "no")
        self.sent.append(frame)
        return len(frame)

    def take_error(self) -> int:
        return 0

    def kernel_drops(self) -> int:
        return 2

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self._read)
            os.close(self._write)


class FakeMonitor:
    """A LinkMonitor whose changes the test makes."""

    def __init__(self, on_change: Callable[[LinkState], None], initial: list[LinkState]) -> None:
        self.on_change = on_change
        self.state = {link.name: link for link in initial}
        self.queries: list[int] = []
        self._read, self._write = os.pipe()
        for link in initial:
            on_change(link)

    def fileno(self) -> int:
        return self._read

    def links(self) -> dict[str, LinkState]:
        return self.state

    def query(self, index: int) -> None:
        self.queries.append(index)

    def on_readable(self, mask: int = 0) -> None:
        raise AssertionError("nothing to read")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


class FakeDevice:
    """Offers frames and remembers its inputs."""

    datapath: Datapath | None = None

    def __init__(self) -> None:
        self.offered: dict[int, deque[bytes]] = {0: deque(), 1: deque()}
        self.received: list[tuple[int, bytes, int]] = []
        self.due: list[tuple[int, int]] = []  # PSN and time
        self.changes: list[tuple[int, bool]] = []
        self.ticks: list[int] = []
        self.times: list[int] = []  # of every call
        self.wake: int | None = None

    def receive(self, port: int, frame: memoryview, now: int) -> None:
        self.times.append(now)
        self.received.append((port, bytes(frame), now))

    def transmit(self, port: int, now: int) -> bytes | None:
        self.times.append(now)
        return self.offered[port].popleft() if self.offered[port] else None

    def waiting(self, ports: int) -> int:
        return sum(1 << port for port, frames in self.offered.items() if frames) & ports

    def answer_due(self, due: AnswerDue, now: int) -> None:
        self.due.append((due[1], now))

    def wakeup(self) -> int | None:
        return self.wake

    def tick(self, now: int) -> None:
        self.times.append(now)
        self.ticks.append(now)
        self.wake = None

    def port_changed(self, port: int, up: bool, now: int) -> None:
        self.changes.append((port, up))


class Watched(Loop):
    """A loop whose handlers and turns the test may call, too."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.turns: list[Turn] = []
        super().__init__()

    def add(self, fd: int, mask: int, handler: Handler) -> None:
        super().add(fd, mask, handler)
        self.handlers[fd] = handler

    def add_turn(self, turn: Turn) -> None:
        super().add_turn(turn)
        self.turns.append(turn)


class Rig:
    """A driver with everything around it faked; `step` is one turn at the present time."""

    def __init__(self, *, rate: int = GBIT, burst_ns: int = 100_000, links: list[LinkState] | None = None) -> None:
        self.time = 1_000_000_000
        self.nic = FakeDevice()
        self.opened: list[FakePort] = []
        ports = tuple(PortConfig(i, bytes([2, 0, 0, 0, 0, i]), bytes(6), 0x6001, rate, f"eth{i}") for i in range(2))
        self.config = NicConfig("h1", bytes(16), 0xFC000000, ports, ())
        self.links = links or [
            LinkState("lo", 1, True, 65536),
            *(LinkState(f"eth{i}", i + 2, True, 4500) for i in (0, 1)),
        ]
        self.loop = Watched()
        self.clock = lambda: self.time
        self.driver = NicDriver(
            self.nic,
            self.config,
            self.loop,
            burst_ns=burst_ns,
            clock=lambda: self.clock(),
            real_clock=lambda: self.time + REAL_OFFSET,
            open_port=self._open,  # type: ignore[arg-type]
            open_monitor=self._monitor,  # type: ignore[arg-type]
        )

    def _open(self, interface: str, mac: bytes, max_frame: int, rate_bps: int) -> FakePort:
        self.opened.append(FakePort(interface, mac, max_frame, rate_bps))
        return self.opened[-1]

    def _monitor(self, on_change: Callable[[LinkState], None]) -> FakeMonitor:
        self.monitor = FakeMonitor(on_change, self.links)
        return self.monitor

    def step(self) -> int | None:
        return self.loop.turns[0](self.time)

    def ready(self, port: int = 0, mask: int = READABLE) -> None:
        """A port's socket is ready."""
        self.loop.handlers[self.opened[port].fileno()](mask)

    def run_until(self, end: int, *, late: Callable[[], int] = lambda: 0) -> None:
        """Take turns at the times the driver asks for, each `late` ns later than asked."""
        while True:
            wanted = self.step()
            if wanted is None or wanted > end:
                return
            self.time = max(self.time, wanted + late())

    def close(self) -> None:
        self.driver.close()
        self.loop.close()
