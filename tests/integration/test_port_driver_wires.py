"""The port driver with wires past the kernel: a NIC's ring, two switches joined in memory, and a cable.

test ==ring== [switch A] --joined-- [switch B] --veth-- test
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from mrc_common import wire_counters
from mrc_common.frame_rings import FrameRings
from mrc_host.wire import pause as pause_frame
from p4runtime_shim.port_driver import PortDriver, PortDriverError, Wires
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from p4runtime_shim.traffic_manager import PauseConfig, PortDelay
from tests.integration.test_port_driver import PATCH, driving, patched
from tests.integration.veth_switch import Wire, ip, wires
from tests.mrc_host.driver.rings import compiled_ring
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

PAUSE = bytes.fromhex("0180c2000001 020000000002 8808")


def roce(mark: int, length: int = 100) -> bytes:
    """What a NIC takes: IPv6, UDP to port 4791."""
    ethernet = bytes.fromhex("020000000001 020000000002 86dd")
    head = ethernet + bytes(6) + bytes((17, 64)) + bytes(32) + bytes((0, 0, 0x12, 0xB7)) + mark.to_bytes(4, "big")
    return head.ljust(length, b"\0")


def ping(mark: int) -> bytes:
    """What a NIC does not take: IPv6, ICMP."""
    return roce(mark)[:20] + bytes((58,)) + roce(mark)[21:]


class NicEnd:
    """The test as a NIC: its ring, and a socket at its interface."""

    def __init__(self, ring_class: Any, rings: FrameRings, cable: Wire) -> None:
        self.end = end = rings.ends[1]
        self._make = lambda: ring_class(end.map(), end.receiving, end.bell, end.other_bell)
        self.cable = cable
        self.start()

    def start(self) -> None:
        self.ring = self._make()
        self.ring.connect(self.cable.socket.fileno(), 4514)
        self.ring.stand_aside(False)

    def send(self, frame: bytes) -> None:
        self.ring.send(frame)
        self.ring.flush()

    def receive(self) -> bytes:
        """The next frame that comes through the ring."""
        buffer = bytearray(9000)
        until(self.ring.pending, "a frame in the ring")
        length = self.ring.receive_into(buffer)
        self.ring.release()
        return bytes(buffer[:length])

    def receive_either_way(self) -> bytes:
        """The next frame; through the interface if it came while this end stood aside, as one does at first."""
        through: list[bytes] = []

        def arrived() -> bool:
            through.extend(filter(None, [self.cable.receive(0.001)]))
            return bool(through) or self.ring.pending()

        until(arrived, "a frame in the ring or at the interface")
        return through[0] if through else self.receive()


@dataclass
class Setup:
    driver: PortDriver
    switches: tuple[EmbeddedSwitch, EmbeddedSwitch]
    nic: NicEnd
    far: Wire
    between: tuple[str, str]
    counters: Path

    def count(self, interface: str) -> wire_counters.WireCount:
        return wire_counters.read(self.counters)[interface]

    def numbers(self, interface: str) -> tuple[int, ...]:
        """Packets and bytes received, packets and bytes sent."""
        return astuple(self.count(interface))[1:5]

    def settled(self, interface: str, aside: bool) -> None:
        until(lambda: self.count(interface).aside is aside, f"{interface} to be {'' if aside else 'not '}aside")

    def passes(self, mark: int) -> None:
        self.nic.send(roce(mark))
        assert self.far.receive() == roce(mark)


@pytest.fixture(scope="module")
def ring_class() -> Any:
    return compiled_ring()


@pytest.fixture
def setup(ring_class: Any, tmp_path: Path) -> Iterator[Setup]:
    pipeline = Pipeline.load(PATCH.read_text())
    with contextlib.ExitStack() as stack:
        near, middle, far = stack.enter_context(wires(3))
        rings = stack.enter_context(FrameRings(1 << 16))
        a, b = (stack.enter_context(patched(pipeline)) for _ in range(2))
        between = middle.inside, middle.outside
        laid = Wires([between], {near.inside: rings.ends[0]}, tmp_path / "wires")
        driver = PortDriver({a: {1: near.inside, 2: between[0]}, b: {1: between[1], 2: far.inside}}, wires=laid)
        thread = threading.Thread(target=driver.run)
        thread.start()

        def end() -> None:
            driver.stop()
            thread.join(5)
            assert not thread.is_alive()
            driver.close()

        stack.callback(end)
        found = Setup(driver, (a, b), NicEnd(ring_class, rings, near), far, between, tmp_path / "wires")
        for name in (near.inside, *between):
            found.settled(name, False)
        until(lambda: driver.stats(b, 2).up == 1, "ports to be up")
        yield found


def test_frames_pass_in_memory_and_are_counted(setup: Setup) -> None:
    kernel = interface_packets(setup.between[0])
    for mark in range(50):
        setup.passes(mark)
        setup.far.send(roce(1000 + mark, 4000))
        assert setup.nic.receive() == roce(1000 + mark, 4000)
    until(lambda: setup.count(setup.nic.cable.inside).tx_packets == 50, "the last frame to be counted")
    assert setup.numbers(setup.nic.cable.inside) == (50, 5000, 50, 200_000)
    assert setup.numbers(setup.between[0]) == (50, 200_000, 50, 5000)
    assert setup.numbers(setup.between[1]) == (50, 5000, 50, 200_000)
    assert interface_packets(setup.between[0]) == kernel
    stats = setup.driver.stats(setup.switches[0], 1)
    assert (stats.rx_packets, stats.tx_packets, stats.tx_blocked) == (50, 50, 0)


def test_delays_make_rings_and_wires_in_memory_longer(setup: Setup) -> None:
    """A delay of what arrives through a ring, and of what leaves into a ring or to the next switch in memory."""
    near = setup.switches[0]
    ring, joined = 1, 2

    def nanoseconds(send: Callable[[bytes], None], receive: Callable[[], bytes | None]) -> int:
        began = monotonic_ns()
        for mark in range(5):
            send(roce(mark))
        assert [receive() for _ in range(5)] == [roce(mark) for mark in range(5)]
        return monotonic_ns() - began

    def there() -> int:
        return nanoseconds(setup.nic.send, setup.far.receive)

    def back() -> int:
        return nanoseconds(setup.far.send, setup.nic.receive)

    near.set_port_delay(ring, PortDelay(arriving=40_000_000), monotonic_ns())
    near.set_port_delay(joined, PortDelay(leaving=30_000_000), monotonic_ns())
    assert there() >= 70_000_000
    near.set_port_delay(joined, PortDelay(arriving=20_000_000), monotonic_ns())
    near.set_port_delay(ring, PortDelay(leaving=50_000_000), monotonic_ns())
    assert back() >= 70_000_000
    for port in (ring, joined):
        near.set_port_delay(port, PortDelay(), monotonic_ns())
    until(lambda: there() < 20_000_000, "frames to be there sooner than with any delay")
    until(lambda: back() < 20_000_000, "frames to be back sooner than with any delay")


def test_what_a_nic_does_not_take_goes_to_the_kernel_of_its_host(setup: Setup) -> None:
    for mark, frame in enumerate((ping(1), bytes.fromhex("020000000001 020000000002 0806") + bytes(40))):
        setup.far.send(frame)
        assert setup.nic.cable.receive() == frame
        setup.nic.cable.send(frame)
        assert setup.far.receive() == frame
        setup.far.send(roce(mark))
        assert setup.nic.receive() == roce(mark)
    setup.far.send(PAUSE + bytes(46))
    assert setup.nic.receive() == PAUSE + bytes(46)


@pytest.mark.parametrize("why", ["promisc", "qdisc"])
@pytest.mark.parametrize("which", ["ring", "joined"])
def test_frames_pass_through_interfaces_that_are_watched_or_shaped(setup: Setup, which: str, why: str) -> None:
    name = setup.nic.cable.inside if which == "ring" else setup.between[1]
    setup.passes(1)
    before = setup.numbers(name)
    turn(name, why, on=True)
    setup.settled(name, True)
    kernel = interface_packets(name)
    setup.passes(2)
    assert interface_packets(name) > kernel
    setup.far.send(roce(3))
    if which == "ring":
        assert setup.nic.cable.receive() == roce(3)
    else:
        assert setup.nic.receive() == roce(3)
    assert setup.numbers(name) == before
    turn(name, why, on=False)
    setup.settled(name, False)
    setup.passes(4)


def test_carrier_is_the_interfaces(setup: Setup) -> None:
    a, b = setup.switches
    for name, ports in ((setup.between[1], ((a, 2), (b, 1))), (setup.nic.cable.outside, ((a, 1),))):
        ip(f"link set {name} down")
        until(lambda ports=ports: all(not setup.driver.stats(*port).up for port in ports), "the ports to be down")
        setup.nic.send(roce(1))
        assert setup.far.receive(0.05) is None
        ip(f"link set {name} up")
        until(lambda ports=ports: all(setup.driver.stats(*port).up for port in ports), "the ports to be up")
        until(lambda name=name: not any(row.aside for row in wire_counters.read(setup.counters).values()), "rings")
        setup.passes(2)


def send_to_nic(setup: Setup, frames: int) -> None:
    """Send frames of 4000 bytes to the NIC, numbered from 0, until all of them have reached its switch."""
    before = setup.switches[0].stats().ports[2].rx_packets
    for mark in range(frames):
        setup.far.send(roce(mark, 4000))
    until(lambda: setup.switches[0].stats().ports[2].rx_packets == before + frames, "all frames to be at the switch")
    until(lambda: setup.driver.stats(setup.switches[0], 1).tx_blocked == 1, "the ring to be full")


def test_frames_for_a_nic_that_takes_none_wait_in_the_switch_and_hold_up_nobody(setup: Setup) -> None:
    send_to_nic(setup, 100)
    assert 10 < setup.driver.stats(setup.switches[0], 1).tx_packets < 20, "what the ring holds"
    setup.passes(1)
    for mark in range(100):
        assert setup.nic.receive() == roce(mark, 4000)
    setup.far.send(roce(1234))
    assert setup.nic.receive() == roce(1234)
    assert setup.driver.stats(setup.switches[0], 1).tx_lost == 0


def test_a_nic_that_tampers_with_its_descriptors_holds_up_nobody(setup: Setup) -> None:
    """It makes all of them wait and fills both doorbells, larger than they were, while others send."""
    for bell in (setup.nic.end.bell, setup.nic.end.other_bell):
        fcntl.fcntl(bell, fcntl.F_SETPIPE_SZ, 1 << 20)
        filling = os.open(f"/proc/self/fd/{bell}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(filling, bytes(4096))
        os.close(filling)
    for descriptor in setup.nic.end.descriptors:
        os.set_blocking(descriptor, True)
    for mark in range(20):
        assert setup.nic.ring.arm()
        setup.far.send(roce(mark))
        assert setup.nic.receive() == roce(mark)
        setup.passes(mark)


def test_frames_that_a_nic_does_not_take_meet_the_limits_of_the_switchs_queues(setup: Setup) -> None:
    switch = setup.switches[0]
    switch.set_queue_limits(1, max_packets=10)
    send_to_nic(setup, 100)
    dropped = switch.stats().ports[1].queue_drops
    assert dropped > 20
    arrived = [setup.nic.receive() for _ in range(100 - dropped)]
    assert arrived == sorted(arrived), "in order, without those for which a queue had no room"
    assert len(set(arrived)) == len(arrived)
    assert not setup.nic.ring.pending()


def test_frames_that_wait_for_a_nic_are_lost_with_the_link(setup: Setup) -> None:
    send_to_nic(setup, 50)
    a, port = setup.switches[0], 1
    ip(f"link set {setup.nic.cable.outside} down")
    until(lambda: not setup.driver.stats(a, port).up, "the port to be down")
    assert setup.driver.stats(a, port).tx_lost > 0
    ip(f"link set {setup.nic.cable.outside} up")
    until(lambda: setup.driver.stats(a, port).up == 1, "the port to be up")
    setup.settled(setup.nic.cable.inside, False)
    setup.nic.start()  # another process in its place
    setup.far.send(roce(1234))
    assert setup.nic.receive() == roce(1234)


def test_frames_that_wait_for_a_nic_pass_through_its_interface_once_somebody_captures_there(setup: Setup) -> None:
    send_to_nic(setup, 50)
    held = setup.driver.stats(setup.switches[0], 1).tx_packets
    turn(setup.nic.cable.inside, "promisc", on=True)
    for mark in range(held, 50):
        assert setup.nic.cable.receive() == roce(mark, 4000)
    turn(setup.nic.cable.inside, "promisc", on=False)


def test_a_nic_started_in_place_of_one_that_took_nothing_gets_what_waited_in_the_switch(setup: Setup) -> None:
    send_to_nic(setup, 50)
    held = setup.driver.stats(setup.switches[0], 1).tx_packets
    setup.nic.start()  # discards what is in the ring
    for mark in range(held, 50):
        assert setup.nic.receive_either_way() == roce(mark, 4000)


def test_wires_of_unknown_interfaces_are_refused() -> None:
    with wires(1) as (cable,), EmbeddedSwitch(Pipeline.load(PATCH.read_text()), ports=(1,), seed=1) as switch:
        for laid in (Wires([(cable.inside, "nowhere0")]), Wires([(cable.inside, cable.inside)])):
            with pytest.raises(PortDriverError, match="wire"):
                PortDriver({switch: {1: cable.inside}}, wires=laid)


def interface_packets(name: str) -> int:
    folder = Path("/sys/class/net") / name / "statistics"
    return sum(int((folder / f"{way}_packets").read_text()) for way in ("rx", "tx"))


def turn(name: str, why: str, *, on: bool) -> None:
    """Watch an interface, or shape it, or end that."""
    if why == "qdisc":
        words = ["add", "dev", name, "root", "pfifo"] if on else ["del", "dev", name, "root"]
        subprocess.run(["tc", "qdisc", *words], check=True)
    else:
        ip(f"link set {name} promisc {'on' if on else 'off'}")


def test_a_port_that_goes_down_lets_paused_neighbours_go_on_at_once() -> None:
    with wires(2) as (near, far), patched(Pipeline.load(PATCH.read_text())) as switch:
        switch.set_port_rate(2, 100)
        switch.set_pause(1, PauseConfig(1_000_000, xoff=1000, xon=500, headroom=10_000))  # repeated after 17 s
        driver = PortDriver({switch: {1: near.inside, 2: far.inside}})
        with driving(driver):
            until(lambda: driver.stats(switch, 2).up == 1, "ports to be up")
            for mark in range(5):
                near.send(roce(mark, 500))
            assert pause_frame.parse(near.receive() or b"") == {0: 65535}
            ip(f"link set {far.outside} down")
            assert pause_frame.parse(near.receive() or b"") == {0: 0}


def test_a_closed_driver_says_so() -> None:
    with EmbeddedSwitch(None, ports=(1,), seed=1) as switch:
        driver = PortDriver({switch: {}})
        driver.close()
        driver.close()
        for use in (driver.run, driver.stop, lambda: driver.measure_delays(True)):
            with pytest.raises(PortDriverError, match="closed"):
                use()
