"""The driver on fake interfaces and a hand-driven clock: pacing, batches, link changes."""

from __future__ import annotations

import errno
import os
import random
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from mrc_common.link_monitor import LinkState
from mrc_host.config import NicConfig, PortConfig
from mrc_host.driver.loop import READABLE, WRITABLE, Handler, Loop, Turn
from mrc_host.driver.nic_driver import (
    COALESCE_SPACING_NS,
    COALESCE_VAIN,
    COALESCE_WINDOW_NS,
    DEFAULT_COALESCE_NS,
    RECEIVE_BATCH,
    TRANSMIT_BATCH,
    NicDriver,
)
from mrc_host.driver.packet import DriverError

GBIT = 1_000_000_000
REAL_OFFSET = 1_700_000_000_000_000_000


class FakePort:
    """A PacketPort without interface."""

    def __init__(self, interface: str, mac: bytes, max_frame: int) -> None:
        self.interface, self.mac, self.max_frame = interface, mac, max_frame
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
    """Offers frames and remembers what it was told."""

    def __init__(self) -> None:
        self.offered: dict[int, deque[bytes]] = {0: deque(), 1: deque()}
        self.received: list[tuple[int, bytes, int]] = []
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

    def _open(self, interface: str, mac: bytes, max_frame: int) -> FakePort:
        self.opened.append(FakePort(interface, mac, max_frame))
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


@pytest.fixture
def rigs() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options: object) -> Rig:
        made.append(Rig(**options))  # type: ignore[arg-type]
        made[-1].driver.start()
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def test_frames_leave_at_line_rate(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.nic.offered[0].extend([bytes(1226)] * 1000)  # 1250 bytes on the wire: 10 us each at 1 Gb/s
    start = rig.time
    rig.run_until(start + 5_000_000)
    assert len(rig.opened[0].sent) == 501
    rig.time = start + 20_000_000
    rig.run_until(rig.time + 20_000_000)
    assert len(rig.opened[0].sent) == 1000


def test_each_line_is_paced_by_itself(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.nic.offered[1].extend([bytes(101)] * 1000)  # 1 us each
    rig.run_until(rig.time + 100_000)
    assert [len(port.sent) for port in rig.opened] == [11, 101]


def test_an_idle_line_gains_nothing(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 3)
    rig.run_until(rig.time + 1_000_000)
    rig.time += 1_000_000_000
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.step()
    assert len(rig.opened[0].sent) == 4


def test_a_late_line_makes_up_for_no_more_than_the_allowance(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.step()
    rig.time += 1_000_000_000
    rig.step()
    assert len(rig.opened[0].sent) == 1 + 11


def test_late_wake_ups_within_the_allowance_cost_no_rate(rigs: Callable[..., Rig]) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    rng = random.Random(seed)
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 20_000)
    rig.run_until(rig.time + 100_000_000, late=lambda: rng.randrange(90_000))
    assert 9_990 <= len(rig.opened[0].sent) <= 10_021  # the last turn may be late too, and catch up


def test_rate_zero_is_unpaced_but_takes_turns(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    rig.nic.offered[0].extend([bytes(100)] * (TRANSMIT_BATCH * 3))
    assert rig.step() == rig.time
    assert len(rig.opened[0].sent) == TRANSMIT_BATCH
    rig.run_until(rig.time)
    assert len(rig.opened[0].sent) == TRANSMIT_BATCH * 3
    assert rig.step() is None


def test_what_a_frame_makes_ready_on_another_port_leaves_in_the_same_turn(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    nic, offer = rig.nic, rig.nic.transmit
    nic.offered[1].append(bytes(60))

    def transmit(port: int, now: int) -> bytes | None:
        frame = offer(port, now)
        if frame is not None and port == 1:
            nic.offered[0].append(bytes(61))
            nic.wake = 0
        return frame

    nic.transmit = transmit  # type: ignore[method-assign]
    rig.step()
    assert [len(port.sent) for port in rig.opened] == [1, 1]


def test_an_idle_driver_waits_for_input_or_the_nic(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    assert rig.step() is None
    rig.nic.wake = rig.time + 777
    assert rig.step() == rig.time + 777
    assert rig.nic.ticks == []
    rig.time += 777
    assert rig.step() is None
    assert rig.nic.ticks == [rig.time]


def test_received_frames_are_handed_on_in_batches(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    frames = [bytes([i]) * (60 + i) for i in range(RECEIVE_BATCH + 5)]
    rig.opened[1].arrive(*frames)
    rig.loop.add_turn(lambda now: rig.loop.stop())
    rig.loop.run()
    assert [(port, frame) for port, frame, _ in rig.nic.received] == [(1, frame) for frame in frames[:RECEIVE_BATCH]]
    rig.loop.run()
    assert [frame for _, frame, _ in rig.nic.received] == frames
    assert rig.nic.received[0][2] == rig.time
    status = rig.driver.ports()[1]
    assert (status.rx_frames, status.rx_bytes) == (len(frames), sum(map(len, frames)))


def _take(rig: Rig, frames: int) -> bool:
    """Let so many frames arrive, take a turn, and say whether the driver then lets more gather."""
    asked: list[int] = []
    rig.loop.rest = asked.append  # type: ignore[method-assign]
    if frames:
        rig.opened[0].arrive(*[b"x" * 60] * frames)
        rig.ready()
    rig.step()
    assert asked in ([], [rig.time + DEFAULT_COALESCE_NS])
    return bool(asked)


def test_frames_that_come_closely_are_let_gather(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rested = []
    for _ in range(50):
        rig.time += COALESCE_SPACING_NS
        rested.append(_take(rig, 1))
    assert not any(rested[:2]), "the first ones wake the driver"
    assert all(rested[20:])
    assert [_take(rig, 0) for _ in range(COALESCE_VAIN + 1)] == [True] * (COALESCE_VAIN - 1) + [False] * 2
    assert _take(rig, 1)
    assert not _take(rig, RECEIVE_BATCH), "perhaps more is there already"
    rig.time += 1_000_000
    assert not _take(rig, 1), "after a pause the next ones wake it again"


def test_frames_that_come_now_and_then_wake_the_driver(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    for i in range(200):
        rig.time += 2 * COALESCE_SPACING_NS
        assert not _take(rig, 1), i
    for i in range(20):  # a few at once, as an acknowledgement is that has completions in its train
        rig.time += 2 * COALESCE_WINDOW_NS
        assert not _take(rig, 5), i


def test_links_down_at_the_start_are_told(rigs: Callable[..., Rig]) -> None:
    rig = rigs(links=[LinkState("eth0", 2, True, 4500), LinkState("eth1", 3, False, 9000)])
    assert rig.nic.changes == [(1, False)]
    rig.nic.offered[1].append(b"x" * 60)
    rig.step()
    assert rig.opened[1].sent == []
    rig.monitor.on_change(LinkState("eth1", 3, True, 9000))
    rig.step()
    assert rig.nic.changes == [(1, False), (1, True)]
    assert len(rig.opened[1].sent) == 1


def test_other_interfaces_do_not_matter(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.monitor.on_change(LinkState("lo", 1, False))
    rig.monitor.on_change(LinkState("eth0", 2, True, 4500))
    assert rig.nic.changes == []


def test_an_interface_that_vanishes_and_returns_is_opened_again(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.nic.offered[0].append(b"x" * 60)
    rig.step()
    rig.monitor.on_change(LinkState("eth0", 0, False))
    assert rig.opened[0].closed
    assert rig.nic.changes == [(0, False)]
    assert not rig.driver.ports()[0].up
    rig.nic.offered[0].append(b"x" * 60)
    rig.step()
    rig.monitor.on_change(LinkState("eth0", 9, True, 4500))
    rig.time += 1_000_000
    rig.step()
    assert rig.nic.changes == [(0, False), (0, True)]
    assert len(rig.opened[2].sent) == 1
    assert rig.driver.ports()[0].tx_frames == 2, "counters go on over both sockets"


def test_frames_longer_than_the_mtu_are_refused(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.nic.offered[0].extend([bytes(4515), bytes(4514)])
    rig.step()
    assert [len(frame) for frame in rig.opened[0].sent] == [4514]
    assert rig.driver.ports()[0].tx_dropped == 1


def test_an_error_that_is_no_loss_is_raised(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.EBADF
    rig.nic.offered[0].append(bytes(60))
    with pytest.raises(OSError, match="no"):
        rig.step()


def test_a_failed_send_asks_netlink_but_not_all_the_time(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.ENOBUFS
    for _ in range(30):
        rig.nic.offered[0].append(b"x" * 60)
        rig.time += 100_000
        rig.step()
    assert rig.monitor.queries == [2, 2, 2]
    status = rig.driver.ports()[0]
    assert (status.tx_dropped, status.rx_dropped) == (30, 2)


def test_a_full_socket_holds_the_frame_until_it_has_room(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    port, frames = rig.opened[0], [bytes([i]) * 60 for i in range(5)]
    watched: list[tuple[int, int]] = []
    rig.loop.modify = lambda fd, mask: watched.append((fd, mask))  # type: ignore[method-assign]
    rig.nic.offered[0].extend(frames)
    port.fail = errno.EAGAIN
    assert rig.step() is None, "nothing to do until the socket has room: no spinning"
    assert watched == [(port.fileno(), READABLE | WRITABLE)]
    for _ in range(3):
        rig.time += 1_000_000
        assert rig.step() is None
    assert len(rig.nic.offered[0]) == 4, "one frame is held, no more are taken"
    rig.nic.offered[1].append(b"y" * 60)
    rig.step()
    assert rig.opened[1].sent == [b"y" * 60], "the other port goes on"
    port.arrive(b"z" * 60)
    rig.ready()
    assert rig.nic.received[-1][1] == b"z" * 60, "and so does reception"
    port.fail = 0
    rig.ready(mask=WRITABLE)
    assert watched[-1] == (port.fileno(), READABLE)
    rig.run_until(rig.time + 1_000_000)
    assert port.sent == frames, "in order, none lost"
    status = rig.driver.ports()[0]
    assert (status.tx_frames, status.tx_dropped) == (5, 0)
    assert rig.monitor.queries == []


@pytest.mark.parametrize("index", [0, 2])
def test_a_held_frame_is_lost_with_its_link(rigs: Callable[..., Rig], index: int) -> None:
    rig = rigs()
    rig.opened[0].fail = errno.EAGAIN
    rig.nic.offered[0].extend([b"x" * 60, b"y" * 60])
    rig.step()
    rig.monitor.on_change(LinkState("eth0", index, False, 4500))
    assert rig.driver.ports()[0].tx_dropped == 1
    rig.monitor.on_change(LinkState("eth0", 7, True, 4500))
    rig.step()
    assert rig.opened[-1].sent == [b"y" * 60]
    assert rig.driver.ports()[0].tx_dropped == 1


def test_time_never_runs_backwards_for_the_nic(rigs: Callable[..., Rig]) -> None:
    rig = rigs()

    def clock() -> int:
        rig.time += 1_000  # sending takes time
        return rig.time

    rig.clock = clock
    for _ in range(10):
        rig.nic.wake = rig.time
        for port in (0, 1):
            rig.nic.offered[port].extend([bytes(60)] * (TRANSMIT_BATCH + 3))
            rig.opened[port].arrive(bytes(60))
            rig.ready(port)
        again = rig.step()
        assert again is None or again >= rig.nic.times[-1] - 1_000
        rig.nic.wake = rig.time - 500  # something became due while the lines were served
        rig.step()
    assert len(rig.nic.times) > 100
    assert rig.nic.times == sorted(rig.nic.times)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([LinkState("eth0", 2, True, 4500)], "Interface 'eth1' of port 1 does not exist"),
        ([LinkState("eth0", 2, True, 1500), LinkState("eth1", 3, True, 4500)], "has MTU 1500, the NIC needs 4500"),
    ],
)
def test_unsuitable_interfaces_are_refused_and_nothing_stays_open(links: list[LinkState], message: str) -> None:
    rig = Rig(links=links)
    with pytest.raises(DriverError, match=message):
        rig.driver.start()
    assert all(port.closed for port in rig.opened)
    rig.close()


def delays(rig: Rig, port: int = 0) -> tuple[tuple[int, int], tuple[int, int]]:
    """(frames, total ns) of arrivals and of departures."""
    found = rig.driver.delays()[port]
    assert found.port == port
    arrivals, departures = ((sum(item.histogram), item.total_ns) for item in (found.arrivals, found.departures))
    return arrivals, departures


def arrive(rig: Rig, count: int, waited: int) -> None:
    """Frames on port 0, of which the first has been there for so long."""
    rig.opened[0].arrive(*[b"x" * 60] * count)
    rig.opened[0].stamped = rig.time + REAL_OFFSET - waited
    rig.ready()


def test_nothing_is_measured_unless_somebody_asks(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    arrive(rig, 3, 5_000)
    rig.nic.offered[0].extend([bytes(1226)] * 20)
    rig.step()
    assert rig.opened[0].asked == 0
    assert delays(rig) == ((0, 0), (0, 0))


def test_a_batch_has_waited_as_long_as_its_first_frame(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.driver.measure_delays(True)
    arrive(rig, 1, 9_999)  # by which the clocks are compared
    for count, waited in ((3, 700), (1, 50), (RECEIVE_BATCH, 100)):
        rig.time += 10_000
        arrive(rig, count, waited)
    assert rig.opened[0].asked == 4
    assert delays(rig)[0] == (3 + 1 + RECEIVE_BATCH, 3 * 700 + 50 + RECEIVE_BATCH * 100)
    assert delays(rig, 1) == ((0, 0), (0, 0))
    rig.driver.measure_delays(False)
    arrive(rig, 1, 700)
    assert delays(rig)[0] == (3 + 1 + RECEIVE_BATCH, 3 * 700 + 50 + RECEIVE_BATCH * 100)


def test_a_line_that_is_served_when_it_is_free_delays_nothing(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.run_until(rig.time + 5_000_000)
    assert delays(rig)[1] == (100, 0)


def test_a_line_that_is_served_late_delays_what_waited(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 4)  # 10 us each
    free = rig.step()
    assert free is not None
    rig.time = free + 25_000
    rig.step()
    assert delays(rig)[1] == (4, 25_000 + 15_000 + 5_000)
    assert rig.driver.delays()[0].line_idle_ns == 0


def test_line_time_that_is_not_made_up_for_is_counted_once(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 50)
    free = rig.step()
    assert free is not None
    rig.time = free + 1_000_000
    rig.run_until(rig.time + 5_000_000)
    assert delays(rig)[1] == (50, 1_000_000)
    assert rig.driver.delays()[0].line_idle_ns == 1_000_000


def test_a_line_that_had_nothing_to_send_did_not_stand_idle(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].append(bytes(1226))
    free = rig.step()
    assert free is not None
    rig.time = free + 1_000_000
    rig.step()  # late, but for nothing
    rig.time += 1_000_000
    rig.nic.offered[0].append(bytes(1226))
    rig.step()
    assert delays(rig)[1] == (2, 0)
    assert rig.driver.delays()[0].line_idle_ns == 0


def test_what_a_frame_caused_is_late_from_when_it_was_taken(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.driver.measure_delays(True)
    arrive(rig, 1, 0)
    rig.time += 30_000  # spent on it, and on what came with it
    rig.nic.offered[0].append(bytes(60))
    rig.run_until(rig.time + 1_000_000)
    assert delays(rig)[1] == (1, 30_000)
    rig.time += 1_000_000
    rig.nic.offered[0].append(bytes(60))  # by an application
    rig.step()
    assert delays(rig)[1] == (2, 30_000)
