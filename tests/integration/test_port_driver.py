"""The port driver in C around real switches in this process, on veth pairs."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common.p4_match import Exact
from mrc_host.wire import pause as pause_frame
from p4runtime_shim.ctypes_bindings import load_engine
from p4runtime_shim.entities import ActionCall, CloneSession, Entry, Replica
from p4runtime_shim.port_driver import PortDriver, PortDriverError
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from p4runtime_shim.traffic_manager import PauseConfig, PortDelay, QueueConfig
from tests.integration.veth_switch import Wire, ip, wires
from tests.p4runtime_shim.builder import Builder, call, const, field, send_to
from tests.waiting import until

pytestmark = pytest.mark.root

PATCH = Path(__file__).parent / "programs" / "patch.json"
TABLE = "PatchIngress.patch"


def frame(length: int = 100, mark: int = 0) -> bytes:
    return bytes.fromhex("020000000001 020000000002 88b5") + mark.to_bytes(4, "big") + bytes(length - 18)


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline.load(PATCH.read_text())


@pytest.fixture
def cables() -> Iterator[list[Wire]]:
    with wires(2) as made:
        yield made


@pytest.fixture(params=["socket", "shared"])
def fast(request: pytest.FixtureRequest, cables: list[Wire]) -> list[str]:
    """Interfaces whose ports receive in memory shared with the kernel: none, or both."""
    return [cable.inside for cable in cables] if request.param == "shared" else []


def patched(pipeline: Pipeline, **options: object) -> EmbeddedSwitch:
    """A switch with ports 1 and 2, patched to each other."""
    switch = EmbeddedSwitch(pipeline, ports=(1, 2), seed=1, **options)  # type: ignore[arg-type]
    for port in (1, 2):
        switch.control_plane.table(TABLE).insert(Entry((Exact(port),), ActionCall("PatchIngress.to_port", (3 - port,))))
    return switch


@contextlib.contextmanager
def driving(driver: PortDriver) -> Iterator[None]:
    thread = threading.Thread(target=driver.run)
    thread.start()
    try:
        yield
    finally:
        driver.stop()
        thread.join(5)
        assert not thread.is_alive()
        driver.close()


@pytest.fixture
def running(pipeline: Pipeline, cables: list[Wire], fast: list[str]) -> Iterator[tuple[EmbeddedSwitch, PortDriver]]:
    with patched(pipeline) as switch:
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}}, fast=fast)
        with driving(driver):
            yield switch, driver


def test_counters_of_both_sides_agree(running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]) -> None:
    switch, driver = running
    for number in range(10):
        cables[0].send(frame(60 + number))
        assert cables[1].receive() == frame(60 + number)
    until(lambda: driver.stats(switch, 2).tx_packets == 10, "the last frame to be noted")
    total = sum(60 + number for number in range(10))
    into, out = driver.stats(switch, 1), driver.stats(switch, 2)
    assert (into.rx_packets, into.rx_bytes, into.tx_packets) == (10, total, 0)
    assert (out.tx_packets, out.tx_bytes, out.rx_packets) == (10, total, 0)
    assert (into.rx_dropped, into.rx_too_long, into.rx_no_checksum, out.tx_errors) == (0, 0, 0, 0)
    ports = switch.stats().ports
    assert (ports[1].rx_packets, ports[2].tx_bytes) == (10, total)


def test_delays_are_measured_on_request(running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]) -> None:
    switch, driver = running

    def pass_frames(count: int) -> None:
        for number in range(count):
            cables[0].send(frame(mark=number))
            assert cables[1].receive() == frame(mark=number)

    def counts(port: int) -> list[int]:
        found = driver.delays(switch, port)
        return [sum(found.arrivals.histogram), sum(found.departures.histogram)]

    pass_frames(5)
    assert counts(1) == counts(2) == [0, 0]
    driver.measure_delays(True)
    before = time.monotonic_ns()
    pass_frames(200)
    passed = time.monotonic_ns() - before
    until(lambda: counts(2)[1] == 200, "the last frame to be noted")
    arrivals, departures = driver.delays(switch, 1).arrivals, driver.delays(switch, 2).departures
    assert (counts(1)[1], counts(2)[0]) == (0, 0)
    assert 150 < sum(arrivals.histogram) <= 200  # but those at which the clocks could not be compared
    # No two frames are at one stage at once, but one may arrive while the call that sent the other has yet to return.
    assert 0 < arrivals.total_ns < passed
    assert 0 < departures.total_ns < passed
    driver.measure_delays(False)
    pass_frames(5)
    assert sum(driver.delays(switch, 2).departures.histogram) == 200


def test_time_the_driver_is_blocked_counts_as_delay(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]
) -> None:
    switch, driver = running
    library, handle = load_engine().library, ctypes.c_void_p(switch.handle)
    driver.measure_delays(True)
    cables[0].send(frame(mark=1))  # by the first one the clocks are compared
    assert cables[1].receive() == frame(mark=1)
    until(lambda: sum(driver.delays(switch, 2).departures.histogram) == 1, "the first frame to be noted")
    before, began = _delayed(driver, switch), time.monotonic_ns()
    library.sw_lock(handle)
    try:
        cables[0].send(frame(mark=2))
        time.sleep(0.05)  # the delay that is to be measured
    finally:
        library.sw_unlock(handle)
    assert cables[1].receive() == frame(mark=2)
    until(lambda: sum(driver.delays(switch, 2).departures.histogram) == 2, "the frame to be noted")
    delayed = _delayed(driver, switch) - before
    assert delayed >= 50_000_000  # at arrival, at departure, or partly at both
    assert delayed <= time.monotonic_ns() - began  # of one frame no time is counted twice


def _delayed(driver: PortDriver, switch: EmbeddedSwitch) -> int:
    return driver.delays(switch, 1).arrivals.total_ns + driver.delays(switch, 2).departures.total_ns


def test_carrier_is_followed(running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]) -> None:
    switch, driver = running
    until(lambda: driver.stats(switch, 2).up == 1, "the port to be up")
    cables[1].far_end("down")
    until(lambda: not switch.stats().ports[2].up, "the switch to see the carrier go")
    cables[0].send(frame())
    until(lambda: switch.stats().drops["port_down"] == 1, "the drop to be counted")
    cables[1].far_end("up")
    until(lambda: switch.stats().ports[2].up, "the switch to see the carrier come")
    assert driver.stats(switch, 2).downs == 1


def test_a_port_is_held_down_and_released(running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]) -> None:
    switch, driver = running
    driver.hold_down(switch, 2)
    until(lambda: not switch.stats().ports[2].up, "the port to go down")
    cables[1].far_end("down")
    cables[1].far_end("up")
    cables[0].send(frame())
    until(lambda: switch.stats().drops["port_down"] == 1, "the drop to be counted")
    driver.hold_down(switch, 2, False)
    until(lambda: switch.stats().ports[2].up, "the port to come up")


def test_a_removed_interface_is_counted_and_used_again(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]
) -> None:
    switch, driver = running
    index = driver.stats(switch, 2).ifindex
    cables[1].delete()
    until(lambda: driver.stats(switch, 2).ifindex == 0, "the interface to be missed")
    assert not switch.stats().ports[2].up
    cables[1].create()
    until(lambda: bool(switch.stats().ports[2].up), "the new interface to be used")
    stats = driver.stats(switch, 2)
    assert stats.ifindex not in (0, index)
    assert stats.reopens == 1
    cables[0].send(frame(mark=3))
    assert cables[1].receive() == frame(mark=3)


def test_setting_the_switchs_end_down_and_up_changes_carrier(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]
) -> None:
    switch, driver = running
    for _ in range(3):
        ip(f"link set {cables[1].inside} down")
        until(lambda: not switch.stats().ports[2].up, "the port to go down")
        cables[0].send(frame())
        ip(f"link set {cables[1].inside} up")
        until(lambda: bool(switch.stats().ports[2].up), "the port to come up")
    assert driver.stats(switch, 2).reopens == 0
    cables[1].drain()
    cables[0].send(frame(mark=4))
    assert cables[1].receive() == frame(mark=4)


def test_oversized_frames_are_counted_and_not_sent(pipeline: Pipeline, cables: list[Wire], fast: list[str]) -> None:
    with patched(pipeline, queues=QueueConfig(max_frame=1000)) as switch:
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}}, max_frame=1000, fast=fast)
        with driving(driver):
            for length in (1001, 1002, 1100, 4500):
                cables[0].send(frame(length))
            cables[0].send(frame(1000))
            assert cables[1].receive() == frame(1000)
            assert driver.stats(switch, 1).rx_too_long == 4
            assert switch.stats().drops["frame_size"] == 4


@pytest.mark.parametrize(("tpid", "tci"), [(0x8100, 0x6064), (0x88A8, 0x0001)])
def test_an_outer_vlan_tag_passes(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire], tpid: int, tci: int
) -> None:
    """The kernel hands it over beside the frame, at both ends of the test too."""
    switch, driver = running
    cables[1].socket.setsockopt(263, 8, 1)  # PACKET_AUXDATA
    cables[1].socket.settimeout(2)
    for length in (60, 200, 1500):
        plain = frame(length, mark=length)
        cables[0].send(plain[:12] + struct.pack(">HH", tpid, tci) + plain[12:])
        data, control, _, _ = cables[1].socket.recvmsg(65536, 64)
        *_, found_tci, found_tpid = struct.unpack("=IIIHHHH", control[0][2][:20])
        assert (data, found_tpid, found_tci) == (plain, tpid, tci)
    assert driver.stats(switch, 1).rx_bytes == 60 + 200 + 1500 + 3 * 4


def test_a_longer_flood_than_there_is_room_for_is_counted_and_the_rest_is_right(
    pipeline: Pipeline, cables: list[Wire], fast: list[str]
) -> None:
    with patched(pipeline, queues=QueueConfig(max_packets=8192, buffer_packets=8192)) as switch:
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}}, socket_buffer=1 << 20, fast=fast)
        for number in range(4000):  # nothing takes them yet
            cables[0].send(frame(mark=number))
        with driving(driver):
            into = lambda: driver.stats(switch, 1)  # noqa: E731
            until(lambda: into().rx_packets + into().rx_dropped == 4000, "every frame to be taken or counted")
            assert 500 < into().rx_packets < 4000
            for number in range(into().rx_packets):
                assert cables[1].receive() == frame(mark=number)


def test_a_frame_longer_than_the_mtu_is_dropped_and_others_pass(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]
) -> None:
    switch, driver = running
    ip(f"link set {cables[1].inside} mtu 1000")
    cables[0].send(frame(3000))
    cables[0].send(frame(100, 2))
    assert cables[1].receive() == frame(100, 2)
    stats = driver.stats(switch, 2)
    assert (stats.tx_errors, stats.tx_too_long) == (1, 1)


def test_a_frame_without_checksum_is_counted(running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]) -> None:
    """A vnet header leaves the checksum to the kernel, as offloading stacks do."""
    switch, driver = running
    packet = bytes.fromhex("020000000001 020000000002 0800") + bytes.fromhex(
        "4500001c000000004011000001010101 02020202 0001000200080000"
    )
    header = bytes([1, 0, 0, 0, 0, 0, 34, 0, 6, 0])  # NEEDS_CSUM, start 34, offset 6
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
        sender.bind((cables[0].outside, 0))
        sender.send(header + packet)
    assert cables[1].receive() is not None
    assert driver.stats(switch, 1).rx_no_checksum == 1


def test_packets_from_the_control_plane_wake_the_driver(
    running: tuple[EmbeddedSwitch, PortDriver], cables: list[Wire]
) -> None:
    switch, _ = running
    for number in range(20):
        switch.receive(1, frame(mark=number), time.monotonic_ns())
        assert cables[1].receive() == frame(mark=number)


def test_a_recirculated_packet_leaves_another_port_without_waiting_for_the_next(cables: list[Wire]) -> None:
    builder = Builder()
    to_port = call("assign", field("standard_metadata", "egress_spec"), {"type": "runtime_data", "value": 0})
    send = builder.action("send", [to_port], [("port", 9)])
    again, nothing = builder.action("again", [call("recirculate", const(1))]), builder.action("nothing", [])
    builder.data["field_lists"] = [{"id": 1, "name": "none", "elements": []}]
    builder.table("where", [("exact", field("standard_metadata", "instance_type"))], [send])
    port = field("standard_metadata", "egress_port")
    builder.table("round", [("exact", port)], [again, nothing], default=nothing, pipeline="egress")
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=(1, 2), seed=1) as switch:
        for instance, to in ((0, 1), (4, 2)):  # first to port 1, whose egress has it recirculated; then to port 2
            switch.control_plane.table("where").insert(Entry((Exact(instance),), ActionCall("send", (to,))))
        switch.control_plane.table("round").insert(Entry((Exact(1),), ActionCall("again", ())))
        with driving(PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}})):
            for number in range(3):
                cables[0].send(frame(mark=number))
                assert cables[1].receive() == frame(mark=number)


def test_a_port_rate_holds_for_long_and_short_frames(pipeline: Pipeline, cables: list[Wire]) -> None:
    with patched(pipeline, queues=QueueConfig(max_packets=1000)) as switch:
        switch.set_port_rate(2, 10_000_000, 300_000)
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}})
        with driving(driver):
            for length, count in ((1250, 100), (125, 500)):  # 0.1 s and 0.05 s of line time
                start = time.monotonic()
                for number in range(count):
                    cables[0].send(frame(length, number))
                for _ in range(count):
                    assert cables[1].receive() is not None
                took, exact = time.monotonic() - start, (count - 1) * length * 8 / 10_000_000
                assert took > 0.95 * exact  # how much longer is the machine's; exact in test_traffic_manager.py


def test_frames_on_long_wires_do_not_wait_for_links_that_share_a_wake_up(
    pipeline: Pipeline, cables: list[Wire]
) -> None:
    with patched(pipeline) as switch:
        switch.set_port_delay(1, PortDelay(arriving=20_000_000), time.monotonic_ns())
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}}, coalesce_ns=3_000_000_000)
        with driving(driver):
            for number in range(3):
                start = time.monotonic()
                cables[0].send(frame(mark=number))
                assert cables[1].receive() == frame(mark=number)
                assert 0.02 <= time.monotonic() - start < 1


def test_frames_on_long_wires_do_not_wait_for_a_port_from_which_nobody_takes_frames(
    pipeline: Pipeline, cables: list[Wire]
) -> None:
    with EmbeddedSwitch(pipeline, ports=(1, 2, 3), seed=1) as switch:
        for port, to in ((1, 2), (3, 3)):
            switch.control_plane.table(TABLE).insert(Entry((Exact(port),), ActionCall("PatchIngress.to_port", (to,))))
        switch.set_port_rate(3, 1_000_000_000)
        switch.receive(3, frame(), time.monotonic_ns())  # its link is free, so it is due at any time
        switch.set_port_delay(1, PortDelay(arriving=100_000), time.monotonic_ns())

        def passes() -> float:
            start = time.monotonic()
            cables[0].send(frame())
            assert cables[1].receive() == frame()
            return time.monotonic() - start

        with driving(PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}})):
            assert any(passes() < 0.0008 for _ in range(500)), "each waits for the driver's next look at port 3, 1 ms"


def test_the_end_of_a_pause_does_not_wait_for_links_that_share_a_wake_up(
    pipeline: Pipeline, cables: list[Wire]
) -> None:
    rate, quanta = 10_000_000, 1000  # a quantum is 512 bits: 51 ms
    with patched(pipeline) as switch:
        switch.set_port_rate(2, rate, 300_000)
        switch.set_pause(2, PauseConfig(rate, xoff=10_000, xon=5_000, headroom=10_000))
        driver = PortDriver({switch: {1: cables[0].inside, 2: cables[1].inside}}, coalesce_ns=3_000_000_000)
        with driving(driver):
            start = time.monotonic()
            cables[1].send(pause_frame.build(bytes.fromhex("020000000009"), {0: quanta}))
            until(lambda: switch.stats().ports[2].pauses_received == 1, "the pause")
            cables[0].send(frame())
            assert cables[1].receive() == frame()
            assert quanta * 512 / rate <= time.monotonic() - start < 1


@pytest.mark.parametrize("qdisc", [True, False])
def test_frames_wait_for_a_slow_queueing_discipline_or_bypass_it(
    pipeline: Pipeline, cables: list[Wire], qdisc: bool
) -> None:
    shaper = f"qdisc add dev {cables[1].inside} root tbf rate 20mbit burst 6000 limit 10000000"
    if subprocess.run(["tc", *shaper.split()], capture_output=True, check=False).returncode:
        pytest.skip("the kernel has no token bucket filter (sch_tbf)")
    with patched(pipeline, queues=QueueConfig(max_packets=1000)) as switch:
        ports = {1: cables[0].inside, 2: cables[1].inside}
        driver = PortDriver({switch: ports}, socket_buffer=60_000, qdisc=qdisc)
        with driving(driver):
            start = time.monotonic()
            for number in range(300):
                switch.receive(1, frame(1000, number), time.monotonic_ns())
            marks = [int.from_bytes((cables[1].receive() or b"")[14:18], "big") for _ in range(300)]
            took = time.monotonic() - start
            until(lambda: driver.stats(switch, 2).tx_packets == 300, "the last frame to be noted")
            stats = driver.stats(switch, 2)
        assert marks == list(range(300))
        assert (stats.tx_blocked > 0) is qdisc
        assert stats.tx_packets == 300
        if qdisc:
            assert took > 0.8 * 300 * 1000 * 8 / 20_000_000


def test_a_flood_does_not_fill_another_switchs_queues(pipeline: Pipeline, cables: list[Wire], fast: list[str]) -> None:
    """Two switches in one driver: what one cannot carry is dropped in its own socket and counted there."""
    with wires_more(2) as more, patched(pipeline) as first, patched(pipeline) as second:
        driver = PortDriver(
            {
                first: {1: cables[0].inside, 2: cables[1].inside},
                second: {1: more[0].inside, 2: more[1].inside},
            },
            socket_buffer=100_000,
            fast=fast,
        )
        stop = threading.Event()

        def flood() -> None:
            burst = frame(1400)
            while not stop.is_set():
                for _ in range(200):
                    cables[0].send(burst)

        flooding = threading.Thread(target=flood)
        with driving(driver):
            flooding.start()
            try:
                for number in range(100):
                    more[0].send(frame(mark=number))
                    assert more[1].receive() == frame(mark=number)
            finally:
                stop.set()
                flooding.join()
            until(lambda: driver.stats(first, 1).rx_packets > 0, "frames to be counted")
            assert driver.stats(second, 1).rx_packets == 100


@contextlib.contextmanager
def wires_more(count: int) -> Iterator[list[Wire]]:
    made: list[Wire] = []
    try:
        made.extend(Wire(10 + number) for number in range(count))
        yield made
    finally:
        for wire in made:
            wire.delete()


def test_packets_that_multiply_in_egress_do_not_keep_another_switch_waiting(
    pipeline: Pipeline, cables: list[Wire]
) -> None:
    builder, copies, limit, generations = Builder(), 512, 256, 64
    builder.run(builder.action("send", [send_to(1)]))
    builder.data["field_lists"] = [{"id": 1, "name": "none", "elements": []}]
    clone = call("clone_egress_pkt_to_egress", const(1), const(1))
    builder.run(builder.action("clone", [clone]), pipeline="egress")
    program = Pipeline.load(builder.text())
    with EmbeddedSwitch(program, ports=(1,), seed=1) as cloning, patched(pipeline) as other:
        replicas = tuple(Replica(1, number) for number in range(copies))
        cloning.control_plane.replication.session_set(1, CloneSession(replicas))
        # Both send to one interface, where one sees what came first.
        ports = {cloning: {1: cables[0].inside}, other: {1: cables[1].inside, 2: cables[0].inside}}
        library, handle = load_engine().library, ctypes.c_void_p(cloning.handle)
        with driving(PortDriver(ports)):
            library.sw_lock(handle)
            try:
                cables[0].send(frame(mark=1))
                time.sleep(0.05)  # the driver has seen it by then, and waits for the switch
                cables[1].send(frame(mark=2))
            finally:
                library.sw_unlock(handle)
            before = 0
            while cables[0].receive() == frame(mark=1):
                before += 1
        assert before < generations * limit / 2


def test_stop_before_run_counts(pipeline: Pipeline, cables: list[Wire]) -> None:
    with patched(pipeline) as switch:
        driver = PortDriver({switch: {1: cables[0].inside}})
        driver.stop()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        driver.run()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
        driver.close()
        driver.close()


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ({1: "nosuchif"}, "no interface nosuchif"),
        ({1: "an-interface-name-too-long"}, "no interface"),
        ({600: "lo"}, "not a port number"),
    ],
)
def test_unusable_interfaces_are_refused(pipeline: Pipeline, ports: dict[int, str], words: str) -> None:
    with patched(pipeline) as switch, pytest.raises(PortDriverError, match=words):
        PortDriver({switch: ports})
