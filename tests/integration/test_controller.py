"""The controller's service on a real fabric: faults that bite, counters, events, restarts under verified traffic."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.command_line import arguments
from controller.errors import ControllerError
from controller.values import FleetStatus, SwitchCounters
from mrc_host import verbs
from mrc_lab.cli.main import run
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.workloads.verified_write import Transfer, WriteReport
from tests.integration.names import own
from tests.waiting import TIMEOUT_S, until
from topologies.addressing import interface_name, kernel_address
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup
from topologies.emulation.interfaces import token_bucket
from topologies.emulation.processes import READY_FD
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

MRC = Path(sys.executable).with_name("mrc")
RATE = 20_000_000
PIECE = 256 << 10


@contextmanager
def fabric(what: str, switch: str = "embedded", hosts: int = 2) -> Iterator[EmulatedWorld]:
    name = own(what)
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=hosts, rate_bps=RATE), switch=switch) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


class SharedFabric:
    """A fabric for the tests of this file, built again only after a test that did not leave it as it was."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._world: EmulatedWorld | None = None

    def world(self) -> EmulatedWorld:
        if self._world is None:
            self._world = self._open.enter_context(fabric("shared"))
        return self._world

    def check(self) -> None:
        """Take the fabric down unless everything of it runs and is ready, without a fault."""
        world = self.world()
        with contextlib.suppress(ControllerError), world.controller() as client:
            running = all(child.process.poll() is None for child in world.emulation.children.values())
            if running and client.status().ready and not client.faults() and all(link.up for link in client.links()):
                return
        self.down()

    def down(self) -> None:
        self._world = None
        self._open.close()


@pytest.fixture(scope="module")
def shared_fabric() -> Iterator[SharedFabric]:
    shared = SharedFabric()
    yield shared
    shared.down()


@pytest.fixture
def world(shared_fabric: SharedFabric) -> Iterator[EmulatedWorld]:
    yield shared_fabric.world()
    shared_fabric.check()


@contextmanager
def transfer(world: EmulatedWorld, *between: str) -> Iterator[Transfer]:
    ends = [verbs.open(world.emulation.socket(host)) for host in between or ("h1", "h2")]
    with ends[0], ends[1], Transfer(*ends, memory=PIECE, timeout_s=TIMEOUT_S) as pair:
        yield pair


class Traffic:
    """Verified writes one after the other in a thread, while the body runs."""

    def __init__(self, pair: Transfer) -> None:
        self.reports: list[WriteReport] = []
        self._failed: list[BaseException] = []
        self._stop = threading.Event()
        self._pair = pair
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.reports.append(self._pair.write(PIECE))
        except BaseException as error:
            self._failed.append(error)

    def more(self) -> None:
        """Wait until two more writes are done: one of them was begun after this."""
        wanted = len(self.reports) + 2
        until(lambda: len(self.reports) >= wanted or self._failed, "writes go on")
        assert not self._failed, self._failed

    def __enter__(self) -> Traffic:
        self._thread.start()
        self.more()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self._failed, self._failed
        assert sum(report.wrong_bytes for report in self.reports) == 0


def until_ready(world: EmulatedWorld) -> FleetStatus:
    """Every switch holds what it should."""

    def ready() -> FleetStatus | None:
        with contextlib.suppress(ControllerError), world.controller() as client:
            status = client.status()
            return status if status.ready else None
        return None

    found = until(ready, "every switch to hold its entries")
    assert found is not None
    return found


class Watch:
    """``mrc fault watch`` beside us; its lines without the times."""

    def __init__(self, world: EmulatedWorld) -> None:
        command = [MRC, "fault", "watch", "--fabric", world.fabric.name]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        assert "subscribed" in self._lines.readline()

    def up_to(self, *wanted: str) -> list[str]:
        """Lines until each of `wanted` has come."""
        left, found = set(wanted), []
        while left:
            line = self._lines.readline().partition(" ")[2].strip()
            assert line, f"{left} never came; {found} did"
            found.append(line)
            left = {want for want in left if not line.startswith(want)}
        return found

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate()


def counted(switches: list[SwitchCounters], *names: str) -> set[tuple[str, str]]:
    """Links at which counters of these names have counted, with the name."""
    ports = [port for switch in switches for port in switch.ports]
    return {(port.link, n.name) for port in ports for n in port.counts if n.name in names and n.packets}


def test_faults_drop_packets_and_are_counted_by_their_switches() -> None:
    with fabric("bite") as world, transfer(world) as pair:
        assert pair.write(PIECE).wrong_bytes == 0
        with world.controller() as client:
            drops = {count.name for switch in client.counters() for count in switch.drops if count.packets}
            assert not drops & {"arrival loss", "departure loss", "path loss", "blackhole"}
            assert sum(table.packets for switch in client.tables() for table in switch.tables) > 0

            client.inject(Blackhole("t1-1@p0"))
            client.inject(Loss("t0-0:t1-0@p0", 0.3))
            client.inject(Corruption("h2@p1", 0.3, "h2"))
            for _ in range(4):
                assert pair.write(PIECE).wrong_bytes == 0
            drops_by = {
                switch.switch: {count.name for count in switch.drops if count.packets} for switch in client.counters()
            }
            assert {name for name, found in drops_by.items() if "blackhole" in found} == {"t1-1@p0"}
            assert {name for name, found in drops_by.items() if "arrival loss" in found} >= {"t1-0@p0"}
            assert not any("arrival loss" in found for name, found in drops_by.items() if name.endswith("@p1"))
            (t0,) = client.counters("t0-1@p1")
            assert counted([t0], "arrival_corrupted", "departure_corrupted") == {("h2@p1", "departure_corrupted")}
            assert counted(client.counters(), "arrival loss", "departure loss") == {("t0-0:t1-0@p0", "arrival loss")}
            assert {link.partition("@")[0] for link, _ in counted(client.counters(), "blackhole")} <= {
                "t0-0:t1-1",
                "t0-1:t1-1",
            }
            client.clear_all()
            assert pair.write(PIECE).wrong_bytes == 0


def test_path_loss_affects_no_other_path_to_the_same_host() -> None:
    with fabric("path", hosts=4) as world, transfer(world, "h1", "h3") as pair, world.controller() as client:
        client.inject(PathLoss(0))  # of every pair of hosts: by uplink 0, or within one T0
        for _ in range(2):
            assert pair.write(PIECE).wrong_bytes == 0
        lost = counted(client.counters(), "path loss", "arrival loss", "departure loss", "blackhole")
        assert ("h1@p0", "path loss") in lost
        assert lost <= {("h1@p0", "path loss"), ("h3@p0", "path loss")}, "the other direction has such a path as well"
        client.clear_all()
        assert pair.write(PIECE).wrong_bytes == 0


def test_a_rate_fault_slows_a_link_until_cleared(world: EmulatedWorld) -> None:
    slow = 1_000_000
    with transfer(world) as pair, world.controller() as client:
        pair.write(PIECE)
        client.inject(Rate("h1@p*", slow))  # both ends: a switch's port and one in the host's namespace
        report = pair.write(PIECE)
        assert report.wrong_bytes == 0
        # Each of two planes carries what its bucket held at first, and from then on `slow`.
        at_first = 2 * token_bucket(slow, world.fabric.mtu)["burst"]
        assert report.bits_per_second < 2 * slow * PIECE / (PIECE - at_first)
        client.clear_all()
        kinds = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True).stdout
        interfaces = {link.upper.interface for link in client.links("h1@p*")}
        left = [line for line in kinds.splitlines() if line.split()[4] in interfaces and " fa: " in line]
        assert left == []


def test_a_delay_lengthens_round_trips_and_goes_away(world: EmulatedWorld) -> None:
    fabric = world.fabric
    near, far = fabric.nic("h1"), fabric.nic("h2")

    def round_trip_ms() -> float:
        target = kernel_address(fabric, far, 0)
        answer = world.emulation.host("h1").cmd(f"ping -6 -n -c 3 -i 0.2 -W 20 {target}")
        found = re.search(r"= ([0-9.]+)/", answer)
        assert found, answer
        return float(found[1])

    with world.controller() as client:
        there = client.inject(Delay(f"{near.name}@p0", 70_000_000, towards="t0-*"))
        client.inject(Delay("t0-0:t1-*@p0", 50_000_000))
        assert round_trip_ms() >= 170, "once from the NIC, and both ways above"
        client.clear(there.id)
        assert round_trip_ms() >= 100
        with transfer(world) as pair:
            assert pair.write(PIECE).wrong_bytes == 0
        client.clear_all()
        assert round_trip_ms() < 100, "without delay it is about one"


def test_flapping_links_recover_and_subscribers_are_notified(
    world: EmulatedWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    link = "t0-0:t1-0@p0"
    with transfer(world) as pair, Traffic(pair) as traffic, Watch(world) as watch:
        name = world.fabric.name
        assert run(["fault", "add", link, "flap", "200ms", "50%", "for", "2s", "--fabric", name]) == 0
        lines = watch.up_to("fault added", f"link down {link}", f"link up {link}", "fault cleared")
        assert lines.count(f"link down {link}") >= 2
        traffic.more()
        assert run(["fault", "list", "--fabric", name]) == 0
        assert "no faults" in capsys.readouterr().out
        with world.controller() as client:
            assert all(one.up for one in client.links())


@pytest.mark.second_ring
def test_a_switch_restart_during_traffic_is_survived() -> None:
    switch = "t1-0@p0"
    with fabric("onesw", "embedded-per-process") as world, transfer(world) as pair, Traffic(pair) as traffic:
        with world.controller() as client:
            client.inject(Loss(f"t0-0:{switch}", 0.05, switch))  # its entry must be there again afterwards
        with Watch(world) as watch:
            os.kill(world.emulation.children[f"switch-{switch}"].process.pid, signal.SIGKILL)
            watch.up_to(f"switch lost {switch}")
            traffic.more()
            world.restart(f"switch-{switch}")
            watch.up_to(f"entries repaired {switch}: ", f"switch returned {switch}")
        status = until_ready(world)
        assert {one.name for one in status.switches if one.repaired} >= {switch}
        with world.controller() as client:
            (tables,) = client.tables(switch)
            assert tables.problems == ()
            assert {table.name: table.present for table in tables.tables}["arrival_fault"] == 1
            client.clear_all()
        traffic.more()


def test_a_controller_killed_during_traffic_undoes_its_faults_on_restart(world: EmulatedWorld) -> None:
    with transfer(world) as pair, Traffic(pair) as traffic:
        with world.controller() as client:
            first = client.link_down("t0-0:t1-0@p0")
            client.inject(Blackhole("t1-1@p1"))
            client.inject(Rate("h1@p1", 5_000_000))
            client.inject(Flap("t0-1:t1-0@p1", 100_000_000, 100_000_000))
            client.inject(LinkDown("h2@p0"), after_ns=3600 * 10**9)
        world.emulation.children["controller"].process.kill()
        traffic.more()
        world.restart("controller")
        until_ready(world)
        with world.controller() as client:
            assert client.faults() == []
            until(lambda: all(link.up for link in client.links()), "links up again")
            assert all(not switch.problems for switch in client.tables())
            assert number(client.link_down("h1@p0")) == number(first) + 5, "no id is given twice"
            client.clear_all()
        traffic.more()


def test_a_switch_process_killed_during_traffic_gets_its_faults_back(world: EmulatedWorld) -> None:
    with transfer(world) as pair, Traffic(pair) as traffic:
        with world.controller() as client:
            kept = client.inject(Loss("t0-0:t1-0@p0", 0.1))
            cut = client.link_down("t0-0:t1-1@p1")
        world.emulation.children["switches"].process.kill()
        world.restart("switches")
        status = until_ready(world)
        assert all(switch.present == switch.entries for switch in status.switches)
        with world.controller() as client:
            assert [fault.id for fault in client.faults()] == [kept.id, cut.id]
            assert [link.name for link in client.links() if not link.up] == ["t0-0:t1-1@p1"]
            assert all(not switch.problems for switch in client.tables())
            traffic.more()
            client.clear_all()
        traffic.more()


def test_clients_can_connect_while_no_switch_is_reachable(world: EmulatedWorld) -> None:
    world.emulation.children["switches"].process.kill()

    def lost() -> bool:
        with world.controller() as client:
            return not any(switch.state.value == "verified" for switch in client.status().switches)

    until(lost, "the loss of all switches")
    with ControllerClient(world.emulation.controller_socket) as client:
        with pytest.raises(ControllerError, match=r"Switch t1-0@p0 is not reachable, so it can make no fault\."):
            client.inject(Blackhole("t1-0@p0"))
        assert all("not reachable" in switch.problem for switch in client.counters())
        assert client.link_down("h1@p0").links == ("h1@p0",)
        client.clear_all()
    world.restart("switches")
    until_ready(world)


@contextmanager
def another_controller(world: EmulatedWorld, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A controller of our own, after the fabric's was killed; ended by the caller, or at last here."""
    emulation, at = world.emulation, world.emulation.run
    file = at.path / "faults.json"
    words = arguments(at.fabric_file, emulation.switches_address, emulation.controller_socket, fault_file=file)
    with subprocess.Popen([word for word in words if word not in ("--ready-fd", READY_FD)] + list(more)) as process:
        try:
            yield process
        finally:
            process.kill()


def test_kept_faults_survive_controller_restarts(world: EmulatedWorld) -> None:
    with world.controller() as client:
        kept = [
            client.link_down("t0-0:t1-0@p0", owner="me"),
            client.inject(Rate("h1@p1", 5_000_000)),
            client.inject(Blackhole("t1-1@p1")),
        ]
    before = state(world)
    world.emulation.children["controller"].process.kill()
    for end in (signal.SIGTERM, signal.SIGKILL):
        with another_controller(world, "--keep-faults") as process:
            until_ready(world)
            with world.controller() as client:
                found = [(fault.id, fault.owner, fault.problem) for fault in client.faults()]
            assert found == [(fault.id, owner, "") for fault, owner in zip(kept, ("me", "", ""), strict=True)]
            process.send_signal(end)
            process.wait(TIMEOUT_S)
        assert state(world) == before
    with another_controller(world, "--keep-faults"):
        until_ready(world)
        with world.controller() as client:
            assert len(client.clear_all().faults) == 3
            assert all(link.up for link in client.links())
            assert all(not switch.problems for switch in client.tables())
    assert state(world) != before
    world.restart("controller")
    until_ready(world)
    with world.controller() as client:
        assert number(client.link_down("h1@p0")) > max(map(number, kept)), "ids are not used again"
        client.clear_all()


def number(fault: FaultRecord) -> int:
    """The number in a fault's id."""
    return int(fault.id.removeprefix("f"))


def state(world: EmulatedWorld) -> tuple[str, ...]:
    """Links of switches that are down, and disciplines of a NIC, as the kernel lists them."""
    downs = subprocess.run(["ip", "-o", "link", "show", "type", "veth"], capture_output=True, text=True, check=True)
    tag = interface_name(world.fabric, world.fabric.links[0].switch_end)[:4]
    down = sorted(line.split()[1] for line in downs.stdout.splitlines() if tag in line and "state DOWN" in line)
    return (*down, world.emulation.net.get("h1").cmd("tc qdisc show | grep -c 'tbf fa:'").strip())
