"""The embedded switch as a device: the fabric program on it, hostile input, threads, all under the sanitizers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mrc_common.p4_match import Exact, GroupRef, Lpm
from p4runtime_shim.entities import ActionCall, CloneSession, CounterValue, Entry, Replica
from p4runtime_shim.errors import NotFound, SwitchClosed
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PortDelay, QueueConfig
from tests.p4runtime_shim import programs

F = "FabricIngress."
BLOCK = 0xFC000000
OWN, NEXT, NIC = 0x2000, 0x4001, 0x6003
NEXT_MAC = 0x02000000AA01
OWN_MAC = 0x02_0000_0000_03  # of the port it leaves by


@pytest.fixture
def fabric() -> Iterator[EmbeddedSwitch]:
    pipeline = Pipeline.load(programs.FABRIC.read_text())
    with EmbeddedSwitch(pipeline, ports=range(1, 9), seed=0) as made:
        yield made


def address(*usids: int) -> bytes:
    words = [BLOCK >> 16, BLOCK & 0xFFFF, *usids]
    return b"".join(word.to_bytes(2, "big") for word in words).ljust(16, b"\0")


def ipv6(
    destination: bytes, payload: bytes, *, hop_limit: int = 64, header: int = 41, label: int = 0, dscp: int = 0
) -> bytes:
    first = (6 << 28 | dscp << 22 | label).to_bytes(4, "big")
    source = bytes.fromhex("fd00006d726300000000000000000001")
    return first + len(payload).to_bytes(2, "big") + bytes([header, hop_limit]) + source + destination + payload


def ethernet(payload: bytes) -> bytes:
    return bytes.fromhex("02000000000102000000000286dd") + payload


def locator(usid: int) -> int:
    return BLOCK << 16 | usid


def configure(switch: EmbeddedSwitch) -> None:
    switch.control_plane.table(F + "usid_endpoint.usid_local").insert(
        Entry((Exact(locator(OWN)),), ActionCall(F + "usid_endpoint.usid_shift")),
    )
    switch.control_plane.table(F + "usid_endpoint.usid_next").insert(
        Entry((Exact(locator(NEXT)),), ActionCall(F + "usid_endpoint.set_egress", (5, NEXT_MAC, OWN_MAC))),
    )
    switch.control_plane.table(F + "traffic_class.traffic_class").insert(
        Entry((Exact(46),), ActionCall(F + "traffic_class.set_priority", (7,))),
    )


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_handles_of_a_replaced_program_raise_not_found(fabric: EmbeddedSwitch, how: str) -> None:
    configure(fabric)
    plane, table = fabric.control_plane, fabric.control_plane.table(F + "usid_endpoint.usid_local")
    parts = plane.externs, plane.replication
    fabric.set_pipeline(None if how == "removed" else Pipeline.load(programs.FABRIC.read_text()))
    for call in (
        table.entries,
        lambda: table.delete((Exact(locator(OWN)),)),
        lambda: parts[0].counter_fill("any", CounterValue()),
        lambda: parts[1].group_set(1, ()),
        lambda: plane.table(F + "usid_endpoint.usid_local"),
    ):
        with pytest.raises(NotFound, match="no program is loaded"):
            call()


def test_usids_are_shifted_and_sent_to_the_neighbour(fabric: EmbeddedSwitch) -> None:
    configure(fabric)
    inner = ipv6(bytes(15) + b"\x02", bytes.fromhex("c00012b7") + bytes(4) + os.urandom(4096), header=17)
    fabric.receive(1, ethernet(ipv6(address(OWN, NEXT, 0x2001, NIC), inner)), 0)
    expected = ethernet(ipv6(address(NEXT, 0x2001, NIC), inner, hop_limit=63))
    expected = NEXT_MAC.to_bytes(6, "big") + OWN_MAC.to_bytes(6, "big") + expected[12:]
    assert fabric.ready() == [5]
    assert fabric.transmit(5, 0) == expected
    counter = fabric.control_plane.table(F + "usid_endpoint.usid_next").counter_read((Exact(locator(NEXT)),))
    assert counter == CounterValue(1, len(expected))


def test_control_overtakes_data(fabric: EmbeddedSwitch) -> None:
    configure(fabric)
    for dscp in (0, 0, 46):
        fabric.receive(1, ethernet(ipv6(address(OWN, NEXT, NIC), b"x" * 40, dscp=dscp)), 0)
    classes = []
    while (frame := fabric.transmit(5, 0)) is not None:
        classes.append((int.from_bytes(frame[14:16], "big") >> 6) & 63)
    assert classes == [46, 0, 0]


def test_plain_ipv6_is_spread_over_the_group_by_flow_label(fabric: EmbeddedSwitch) -> None:
    for member in range(4):
        call = ActionCall(F + "ipv6_route.set_egress", (member + 1, NEXT_MAC + member, OWN_MAC))
        fabric.control_plane.profile(F + "ipv6_route.ecmp").member_add(member + 1, call)
    fabric.control_plane.profile(F + "ipv6_route.ecmp").group_add(1, [(member, 1) for member in range(1, 5)])
    fabric.control_plane.table(F + "ipv6_route.ipv6_route").insert(Entry((Lpm(0xFD00 << 112, 16),), GroupRef(1)))
    destination = bytes.fromhex("fd00006d726300010000000000000001")
    for label in range(400):
        fabric.receive(6, ethernet(ipv6(destination, bytes(8), header=17, label=label)), 0)
    sent = [fabric.stats().ports[port].queued_packets for port in range(1, 5)]
    assert sum(sent) == 400
    assert min(sent) > 60


MALFORMED = [
    ethernet(ipv6(address(OWN, NEXT), b"x" * 10))[:40],
    bytes(60),
    ethernet(ipv6(address(OWN, NEXT), b"x" * 10, header=59))[:-1],
]
EXPIRED = [ethernet(ipv6(address(OWN, NEXT), b"x" * 10, hop_limit=1, header=59))]
NO_NEIGHBOUR = [ethernet(ipv6(address(OWN), b"x" * 10, header=59))]


def test_the_program_counts_drops(fabric: EmbeddedSwitch) -> None:
    """Every drop is counted once, and different reasons in different cells."""
    configure(fabric)
    pipeline = fabric.pipeline
    assert pipeline is not None
    name = next(name for name in pipeline.counters if name.endswith("drop_reasons"))
    reasons: list[int] = []
    for frames in (MALFORMED, EXPIRED, NO_NEIGHBOUR):
        before = [cell.packets for cell in fabric.control_plane.externs.counter_read_all(name)]
        for frame in frames:
            fabric.receive(1, frame, 0)
        assert fabric.ready() == []
        after = [cell.packets for cell in fabric.control_plane.externs.counter_read_all(name)]
        grown = {index: b - a for index, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
        assert list(grown.values()) == [len(frames)]
        reasons.extend(grown)
    assert len(set(reasons)) == 3


def exercise(pipeline: Pipeline, seed: int, rounds: int) -> None:
    """Random frames through a program whose tables hold whatever could be put into them."""
    rng = random.Random(seed)
    queues = QueueConfig(max_packets=20, buffer_packets=64, max_frame=2048)
    with EmbeddedSwitch(pipeline, ports=range(8), seed=seed, queues=queues) as switch:
        for number in range(16):
            replicas = tuple(Replica(rng.randrange(511), number) for _ in range(rng.randint(0, 4)))
            switch.control_plane.replication.group_set(number + 1, replicas)
            switch.control_plane.replication.session_set(number, CloneSession(replicas, rng.choice([0, 10])))
        valid = [bytes([what, rng.randrange(9)]) for what in range(12)] + [b"P4"]
        now = 0
        for _ in range(rounds):
            now += rng.randrange(2_000_000)
            size = rng.choice([0, 1, 2, 3, 8, 14, 20, 34, 54, 94, 200, 2048, 2049, rng.randrange(2100)])
            frame = rng.choice(valid) + rng.randbytes(size) if rng.random() < 0.7 else rng.randbytes(size)
            if rng.random() < 0.3:
                frame = (
                    bytes.fromhex("020000000001020000000002") + rng.choice([b"\x08\x00\x45", b"\x86\xdd\x60"]) + frame
                )
            switch.receive(rng.randrange(10), frame, now)
            if rng.random() < 0.02:
                switch.port_changed(rng.randrange(8), rng.random() < 0.7, now)
            if rng.random() < 0.02:
                switch.set_port_rate(rng.randrange(8), rng.choice([0, 1000, 10**9]))
            if rng.random() < 0.5:
                port = rng.randrange(8)
                while switch.transmit(port, now) is not None:
                    pass
            if rng.random() < 0.02:
                switch.set_logging(messages=rng.random() < 0.5, trace=rng.random() < 0.5)
                switch.take_log()
            switch.wakeup()
        switch.control_plane.take_digests()
        switch.stats()
        switch.queue_stats(1, reset_peaks=True)


@pytest.mark.parametrize("name", [*programs.NAMES, "fabric"])
def test_random_frames_do_no_harm(name: str) -> None:
    pipeline = Pipeline.load(programs.FABRIC.read_text()) if name == "fabric" else programs.pipeline(name)
    exercise(pipeline, seed=1, rounds=3000)


def test_concurrent_calls_from_threads_are_safe(fabric: EmbeddedSwitch) -> None:
    """Packets and table writes from several threads: nothing is lost, nothing breaks."""
    configure(fabric)
    frame = ethernet(ipv6(address(OWN, NEXT, NIC), b"x" * 100))
    count, received, stop = 3000, [], threading.Event()
    fabric.set_queue_limits(5, max_packets=0)

    def packets() -> None:
        for _ in range(count):
            fabric.receive(1, frame, 0)
            while (out := fabric.transmit(5, 0)) is not None:
                received.append(len(out))

    def writes() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            entry = Entry((Exact(number & 63),), ActionCall(F + "traffic_class.set_priority", (1,)))
            try:
                fabric.control_plane.table(F + "traffic_class.traffic_class").delete(entry.match)
            except NotFound:
                fabric.control_plane.table(F + "traffic_class.traffic_class").insert(entry)

    workers = [threading.Thread(target=packets) for _ in range(2)]
    writer = threading.Thread(target=writes)
    writer.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    stop.set()
    writer.join()
    while (out := fabric.transmit(5, 0)) is not None:
        received.append(len(out))
    assert len(received) == 2 * count


SANITIZED = """
import sys
from pathlib import Path
from p4runtime_shim.build import BuildOptions
from p4runtime_shim.capture import Capture
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs, test_switch, test_table_state
flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
options = BuildOptions(flags=flags)
folder, name = sys.argv[1:]
text = programs.FABRIC.read_text() if name == "fabric" else programs.text(name)
pipeline = Pipeline.load(text, options=options)
test_switch.exercise(pipeline, seed=2, rounds=1500)
if name == "keys":
    for masks in ("upper and lower bits", "random bits"):
        with EmbeddedSwitch(pipeline, ports=range(8), seed=0) as switch:
            switch.set_logging(trace=True)
            test_table_state.test_arbitrary_masks_match_correctly(switch, masks)
    with EmbeddedSwitch(pipeline, ports=range(8), seed=0) as switch:
        test_table_state.test_members_whose_port_is_down_are_skipped(switch)
    with EmbeddedSwitch(pipeline, ports=range(8), seed=0) as switch:
        test_table_state.test_packets_match_while_trees_are_rebuilt(switch)
    with EmbeddedSwitch(pipeline, ports=range(8), seed=0) as switch:
        names = {port: str(port) for port in range(8)}
        capture = Capture(switch, Path(folder) / "pcap", names, buffer_bytes=9000)
        for number in range(300):
            switch.receive(number % 9, bytes(number * 31 % 9300), number)
            switch.transmit(1, number)
        stats = capture.close()
        assert stats.frames and stats.lost and not stats.problem
print("clean", name)
"""


def test_a_closed_switch_refuses_every_verb_and_setting() -> None:
    with EmbeddedSwitch(Pipeline.load(programs.FABRIC.read_text()), ports=[1], seed=0) as switch:
        other = EmbeddedSwitch(switch.pipeline, ports=[1], seed=0)
        assert switch.handle
        assert switch.transmit(1, 0) is None
    calls: list[Callable[[], object]] = [
        lambda: switch.handle,
        lambda: switch.adopt(other),
        lambda: other.adopt(switch),
        lambda: switch.receive(1, bytes(64), 0),
        lambda: switch.transmit(1, 0),
        switch.wakeup,
        lambda: switch.tick(0),
        lambda: switch.port_changed(1, False, 0),
        switch.ready,
        lambda: switch.set_port_rate(1, 1),
        lambda: switch.set_port_delay(1, PortDelay(), 0),
        lambda: switch.set_queue_limits(1, max_packets=1),
        lambda: switch.queue_stats(1),
        lambda: switch.set_pause(1, None),
        lambda: switch.set_epoch(0),
        lambda: switch.set_event(-1),
        lambda: switch.set_port_event(1, -1),
        lambda: switch.set_digest_event(-1),
        switch.set_logging,
        switch.digests_lost,
        switch.take_log,
        switch.log_lost,
        lambda: switch.sample_ports(0),
        switch.stats,
    ]
    for call in calls:
        with pytest.raises(SwitchClosed, match="closed"):
            call()
    with pytest.raises(NotFound):
        _ = switch.control_plane.externs
    assert switch.control_plane.take_digests() == []
    switch.close()
    assert other.transmit(1, 0) is None  # what was to be adopted is as before
    other.close()


def _runtime(name: str) -> str | None:
    done = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = done.stdout.strip()
    return path if os.path.isabs(path) and os.path.exists(path) else None


@pytest.mark.second_ring
@pytest.mark.parametrize("name", [*programs.NAMES, "fabric"])
def test_random_frames_are_clean_under_the_sanitizers(name: str, tmp_path: Path) -> None:
    asan = _runtime("libasan.so")
    if asan is None or _runtime("libubsan.so") is None:
        pytest.skip("the compiler has no address or undefined behaviour sanitizer")
    environment = os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(tmp_path), name],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith(f"clean {name}\n")
