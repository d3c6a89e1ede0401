"""The driver's sockets on real interfaces: what comes in, what goes out, what netlink says."""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from pyroute2 import netns

from mrc_common.link_monitor import LinkMonitor, LinkState
from mrc_host.back_to_back import run
from mrc_host.driver.packet_port import NicDriverError, PacketPort, PacketSockets, is_lost_frame
from mrc_host.wire import pause
from tests.mrc_host.driver.rings import compiled_extension

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

MAC_A, MAC_B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


class Namespace:
    """A namespace with a veth pair `da`-`db`; `inside` runs a function in a thread that lives there."""

    def __init__(self) -> None:
        self.name = f"mrcd{os.getpid() % 100000}"

    def make(self) -> None:
        run("ip", "netns", "add", self.name)
        # the kernel's own frames (MLD, neighbour discovery) would come between those of the tests
        run("ip", "netns", "exec", self.name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.add_link()

    def add_link(self) -> None:
        self.ip("link", "add", "name", "da", "address", MAC_A.hex(":"), "mtu", "4500", "type", "veth",
                "peer", "name", "db", "address", MAC_B.hex(":"), "mtu", "4500")  # fmt: skip
        for name in ("da", "db"):
            self.ip("link", "set", name, "up")
        self.wait_up()

    def wait_up(self) -> None:
        """Wait until both ends send: the kernel gives a link its queue some time after its carrier."""
        while True:
            shown = subprocess.run(["ip", "-n", self.name, "-j", "link"], capture_output=True, text=True, check=True)
            links = {link["ifname"]: link for link in json.loads(shown.stdout)}
            if all(links[name]["operstate"] == "UP" and links[name]["qdisc"] != "noop" for name in ("da", "db")):
                return

    def ip(self, *arguments: str) -> None:
        run("ip", "-n", self.name, *arguments)

    def inside(self, function: Callable[[], None]) -> None:
        result: Future[None] = Future()

        def enter() -> None:
            try:
                netns.setns(self.name)
                function()
                result.set_result(None)
            except BaseException as error:
                result.set_exception(error)

        thread = threading.Thread(target=enter)  # the namespace is the thread's own, and ends with it
        thread.start()
        thread.join(60)
        result.result(0)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    space = Namespace()
    try:
        space.make()
        yield space
    finally:
        run("ip", "netns", "del", space.name)


def no_memory(fd: int, slots: int, longest: int) -> None:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


@pytest.fixture(params=["shared memory", "no memory to share"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How ports receive."""
    shared = request.param == "shared memory"
    module: Any = compiled_extension("socket_ring") if shared else SimpleNamespace(SocketRing=no_memory)
    monkeypatch.setitem(sys.modules, "mrc_host.driver.socket_ring", module)


def receive(port: PacketPort, timeout_s: float = 5) -> bytes:
    assert select.select([port.fileno()], [], [], timeout_s)[0], "nothing arrived"
    buffer = memoryview(bytearray(1 << 16))
    return bytes(buffer[: port.receive_into(buffer)])


def nothing_for(port: PacketPort) -> bool:
    try:
        return port.receive_into(memoryview(bytearray(100))) == 0
    except BlockingIOError:
        return True


def test_matching_frames_pass_and_others_are_filtered(namespace: Namespace, way: None) -> None:
    def inside() -> None:
        a, b = PacketPort("da", MAC_A, 4514), PacketPort("db", MAC_B, 4514)
        other = b"\x33\x33\x00\x00\x00\x01" + MAC_A + b"\x86\xdd" + bytes(50)
        wanted = MAC_B + MAC_A + b"\x86\xdd" + os.urandom(4486)
        assert len(wanted) == 4500
        held = pause.build(MAC_A, {1: 100})
        stp = b"\x01\x80\xc2\x00\x00\x00" + held[6:]
        for frame in (other, b"\x02\x00\x00\x00\x00\x03" + other[6:], wanted, stp, held):
            a.send(frame)
        assert receive(b) == wanted
        assert receive(b) == held
        assert nothing_for(b)
        assert nothing_for(a), "nor does it see its own frames"
        assert b.kernel_drops() == 0
        a.close()
        b.close()

    namespace.inside(inside)


def test_received_frames_have_a_timestamp(namespace: Namespace, way: None) -> None:
    def inside() -> None:
        a, b = PacketPort("da", MAC_A, 4514), PacketPort("db", MAC_B, 4514)
        frame = MAC_B + MAC_A + b"\x86\xdd" + bytes(100)
        before = time.time_ns()
        assert before <= b.stamp() <= time.time_ns()  # nothing has arrived yet
        a.send(frame)
        assert receive(b) == frame

        def stamped() -> bool:
            began = time.time_ns()
            a.send(frame)
            ended = time.time_ns()
            time.sleep(0.01)  # a stamp made when it is read would come after this
            assert receive(b) == frame
            return began <= b.stamp() <= ended

        # The kernel begins to stamp frames some time after it was asked to.
        assert any(stamped() for _ in range(200))
        assert stamped()
        a.close()
        b.close()

    namespace.inside(inside)


@pytest.fixture
def native() -> Any:
    """The class SocketRing."""
    return compiled_extension("socket_ring").SocketRing


class Shared:
    """A socket at `db` with shared memory, and one at `da` to send from."""

    def __init__(self, ring_class: Any, slots: int, longest: int) -> None:
        self.near, self.far = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2))
        self.near.bind(("da", 0))
        self.far.bind(("db", 0x0003))
        self.far.setblocking(False)
        self.ring = ring_class(self.far.fileno(), slots, longest)
        self.buffer = memoryview(bytearray(1 << 16))

    def take(self) -> bytes:
        return bytes(self.buffer[: self.ring.receive_into(self.buffer)])

    def readable(self) -> bool:
        return bool(select.select([self.far], [], [], 0)[0])

    def lost(self) -> int:
        return int(struct.unpack("II", self.far.getsockopt(263, 6, 8))[1])


def numbered(number: int, length: int = 100) -> bytes:
    return MAC_B + MAC_A + b"\x86\xdd" + number.to_bytes(4, "big") * (length // 4)


def test_shared_memory_has_frames_in_their_order_however_often_it_is_gone_around(
    namespace: Namespace, native: Any
) -> None:
    def inside() -> None:
        ends = Shared(native, 10, 4514)
        assert ends.take() == b""
        for start in range(0, 500, 7):
            frames = [numbered(number, 40 + 60 * (number % 70)) for number in range(start, start + 7)]
            for frame in frames:
                ends.near.send(frame)
            assert ends.readable()
            assert [ends.take() for _ in range(8)] == [*frames, b""]
            assert not ends.readable(), "all was taken"
        assert ends.lost() == 0

    namespace.inside(inside)


def test_full_shared_memory_loses_frames_and_counts_them(namespace: Namespace, native: Any) -> None:
    def inside() -> None:
        ends = Shared(native, 10, 4514)
        for number in range(100):
            ends.near.send(numbered(number))
        found = list(iter(ends.take, b""))
        assert 10 <= len(found) < 30, "slots are made by the block"
        assert found == [numbered(number) for number in range(len(found))]
        assert ends.lost() == 100 - len(found)
        ends.near.send(numbered(7))
        assert ends.take() == numbered(7)

    namespace.inside(inside)


def test_a_frame_longer_than_a_slot_is_cut_behind_the_longest(namespace: Namespace, native: Any) -> None:
    def inside() -> None:
        ends = Shared(native, 4, 200)
        for length in (186, 400):
            ends.near.send(numbered(1, length))
        assert ends.take() == numbered(1, 186)
        assert 200 < len(ends.take()) < 400

    namespace.inside(inside)


def test_shared_memory_that_is_let_go_or_emptied(namespace: Namespace, native: Any) -> None:
    def inside() -> None:
        ends = Shared(native, 10, 4514)
        for number in range(5):
            ends.near.send(numbered(number))
        ends.ring.discard()
        assert ends.take() == b""
        ends.near.send(numbered(5))
        assert ends.take() == numbered(5)
        with pytest.raises(OSError, match="busy"):
            native(ends.far.fileno(), 10, 4514)
        ends.near.send(numbered(6))
        ends.ring.close()
        ends.ring.close()
        ends.ring.discard()
        assert ends.take() == b""
        assert ends.ring.carry(5) == (0, 0, None)
        with pytest.raises(OSError, match="descriptor"):
            ends.ring.send(numbered(7))

    namespace.inside(inside)


def test_a_port_that_returns_has_nothing_from_before(namespace: Namespace, way: None) -> None:
    """Its interface was renamed and back, or deleted and made again; made while it is down, it comes up later."""

    def inside() -> None:
        sockets = PacketSockets()
        for _ in range(3):
            near, far = PacketPort("da", MAC_A, 4514), sockets.open("db", MAC_B, 4514, 0)
            near.send(numbered(1))
            assert receive(far) == numbered(1)
            near.send(numbered(2))
            far.close()
            far.close()
            near.send(numbered(3))
            namespace.ip("link", "set", "db", "down")
            returned = sockets.open("db", MAC_B, 4514, 0)
            namespace.ip("link", "set", "db", "up")
            namespace.wait_up()
            near.send(numbered(4))
            assert receive(returned) == numbered(4)
            assert nothing_for(returned)
            assert (far.fileno(), returned.fileno() >= 0) == (-1, True)
            namespace.ip("link", "del", "db")
            returned.close()
            near.close()
            namespace.add_link()
        sockets.close()

    namespace.inside(inside)


def test_only_fast_ports_with_frames_of_usual_length_share_memory(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it would hold too few frames, or take too much."""
    monkeypatch.setitem(sys.modules, "mrc_host.driver.socket_ring", compiled_extension("socket_ring"))

    def held(length: int, max_frame: int, rate_bps: int, sent: int) -> int:
        """How many frames wait for a port that nobody reads."""
        near, far = PacketPort("da", MAC_A, 4514), PacketPort("db", MAC_B, max_frame, rate_bps)
        for number in range(sent):
            near.send(numbered(number, length))
        found = 0
        while not nothing_for(far):
            found += 1
        near.close()
        far.close()
        return found

    def inside() -> None:
        for max_frame, rate in ((4514, 0), (4514, 1_000_000_000), (9014, 0)):
            assert 2000 < held(100, max_frame, rate, 4000) < 2100
        for max_frame, rate in ((4514, 499_000_000), (65_549, 0)):
            assert held(100, max_frame, rate, 4000) == 4000

    namespace.inside(inside)


def test_shared_memory_is_refused_with_a_reason(namespace: Namespace, native: Any) -> None:
    for arguments in ((0, 100), (1 << 30, 100), (10, 0), (10, 1 << 30)):
        with pytest.raises(ValueError, match="No ring has"):
            native(0, *arguments)
    with socket.socket() as other, pytest.raises(OSError, match="not"):
        native(other.fileno(), 10, 100)


def test_sends_without_carrier_count_as_lost_frames(namespace: Namespace, way: None) -> None:
    def inside() -> None:
        port, far = PacketPort("da", MAC_A, 1 << 16), PacketPort("db", MAC_B, 1 << 16)
        frame = MAC_B + MAC_A + b"\x86\xdd" + bytes(100)
        later = frame[:-1] + b"\x01"

        def lost(frame: bytes) -> bool:
            try:
                port.send(frame)
            except OSError as error:
                return is_lost_frame(error)
            return False

        assert not lost(frame)
        assert receive(far) == frame
        assert lost(bytes(5000)), "longer than the MTU"
        namespace.ip("link", "set", "db", "down")
        lost(frame)  # no carrier: the kernel drops it without an error
        namespace.ip("link", "set", "da", "down")
        assert lost(frame), "down"
        assert port.take_error()
        assert not port.take_error()
        namespace.ip("link", "set", "da", "up")
        namespace.ip("link", "set", "db", "up")
        namespace.wait_up()
        far.take_error()
        assert not lost(later)
        assert receive(far) == later, "what was sent without carrier arrived"
        namespace.ip("link", "del", "da")
        assert lost(frame), "gone"
        port.close()
        far.close()

    namespace.inside(inside)


def test_an_unknown_interface_is_reported(namespace: Namespace) -> None:
    def inside() -> None:
        with pytest.raises(NicDriverError, match="Interface 'nothere' does not exist in this network namespace"):
            PacketPort("nothere", MAC_A, 1500)

    namespace.inside(inside)


class Watcher:
    """A LinkMonitor whose changes can be waited for."""

    def __init__(self, *, receive_buffer: int = 1 << 20) -> None:
        self.changes: list[LinkState] = []
        self.monitor = LinkMonitor(self.changes.append, receive_buffer=receive_buffer)

    def wait(self, wanted: Callable[[LinkState], bool]) -> LinkState:
        deadline = time.monotonic() + 10
        while True:
            for i, change in enumerate(self.changes):
                if wanted(change):
                    del self.changes[: i + 1]
                    return change
            assert time.monotonic() < deadline
            select.select([self.monitor.fileno()], [], [], 1)
            self.monitor.on_readable()


def test_link_changes_are_received(namespace: Namespace) -> None:
    def inside() -> None:
        watcher = Watcher()
        links = watcher.monitor.links()
        assert set(links) == {"lo", "da", "db"}
        index = links["da"].index
        assert links["da"] == LinkState("da", index, True, 4500)
        assert not links["lo"].up
        watcher.changes.clear()
        namespace.ip("link", "set", "db", "down")
        assert watcher.wait(lambda link: link.name == "da") == LinkState("da", index, False, 4500)
        namespace.ip("link", "set", "db", "up")
        assert watcher.wait(lambda link: link.name == "da" and link.up) == LinkState("da", index, True, 4500)
        namespace.ip("link", "set", "da", "mtu", "2000")
        assert watcher.wait(lambda link: link.name == "da").mtu == 2000
        namespace.ip("link", "set", "da", "down")
        namespace.ip("link", "set", "da", "name", "dc")
        assert watcher.wait(lambda link: link.name == "da" and not link.index) == LinkState("da", 0, False)
        assert watcher.wait(lambda link: link.name == "dc").index == index
        namespace.ip("link", "del", "dc")
        assert watcher.wait(lambda link: link.name == "dc") == LinkState("dc", 0, False)
        assert set(watcher.monitor.links()) == {"lo"}
        watcher.monitor.close()

    namespace.inside(inside)


def test_lost_netlink_messages_trigger_a_resync(namespace: Namespace) -> None:
    def inside() -> None:
        watcher = Watcher(receive_buffer=40_000)
        dumps = []
        # Only the request shows a resync: the changes that it brings look like any others.
        start_dump = watcher.monitor._start_dump
        watcher.monitor._start_dump = lambda: dumps.append(start_dump())  # type: ignore[method-assign,func-returns-value]
        script = "".join(
            f"link add x{i} type bridge\nlink set x{i} up\nlink set x{i} down\nlink del x{i}\n" for i in range(60)
        )
        subprocess.run(("ip", "-n", namespace.name, "-batch", "-"), input=script, text=True, check=True)
        namespace.ip("link", "set", "db", "down")
        watcher.changes.clear()
        watcher.wait(lambda link: link.name == "da" and not link.up)
        while select.select([watcher.monitor.fileno()], [], [], 0.3)[0]:
            watcher.monitor.on_readable()
        assert set(watcher.monitor.links()) == {"lo", "da", "db"}
        assert dumps, "the test did not make the kernel lose any"
        watcher.monitor.close()

    namespace.inside(inside)


def test_the_interpreter_can_run_the_agent() -> None:
    """The interpreter in use can run the agent at all: its help, without touching anything."""
    done = subprocess.run(
        (sys.executable, "-m", "mrc_host.agent", "--help"), capture_output=True, text=True, check=True
    )
    assert "--ready-fd" in done.stdout
    assert "example:" in done.stdout
