"""Kernel switches: they forward as the embedded switch does, byte for byte, and belong to the fabric."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("mininet")

from controller.client import ControllerClient
from controller.command_line import companion
from controller.errors import ControllerError
from controller.values import EventKind
from mrc_host import verbs
from mrc_lab.fabric.doctor import check_kernel_switches
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.prompt.captures import Captures
from mrc_lab.workloads.verified_write import Transfer, usable_paths
from tests.integration.names import own
from tests.integration.questions import questions
from tests.integration.traces import Traces
from tests.integration.wire_kinds import WIRES
from tests.waiting import TIMEOUT_S, until
from topologies import addressing, paths
from topologies.clos import multi_plane_clos
from topologies.emulation import namespaces, requirements
from topologies.emulation.bring_up import Emulation, emulated
from topologies.emulation.errors import RequirementError
from topologies.fabric import Fabric, LinkEnd
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.rate import Rate


def _why_not() -> str:
    if os.geteuid() != 0:
        return "bringing up a fabric needs root"
    try:
        requirements.check_srv6()
    except RequirementError as error:
        return str(error)
    return ""


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "it can")]

T1, T0 = "t1-0@p0", "t0-1@p1"
ETH_P_ALL, ETH_P_IPV6 = 3, 0x86DD
UDP, IPV6_IN_IPV6, NO_NEXT_HEADER = 17, 41, 59


def _fabric(name: str) -> Fabric:
    return multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=4, rate_bps=20_000_000)


# Byte for byte


@contextlib.contextmanager
def _at_ports(up: Emulation, ends: list[LinkEnd]) -> Iterator[list[socket.socket]]:
    """A packet socket at each of some ports that gets what arrives there, and nothing that leaves."""

    def listen(end: LinkEnd) -> socket.socket:
        packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        packet.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
        packet.bind((addressing.interface_name(up.fabric, end), ETH_P_ALL))
        packet.settimeout(20)
        return packet

    found = []
    with contextlib.ExitStack() as stack:
        for end in ends:
            node, make = up.net[end.node], partial(listen, end)
            made = namespaces.run_inside(node.pid, make) if node.inNamespace else make()
            found.append(stack.enter_context(made))
        yield found


def _ipv6(source: bytes, target: bytes, next_header: int, payload: bytes, *, label: int = 0, hops: int = 64) -> bytes:
    return struct.pack(">IHBB", 6 << 28 | label, len(payload), next_header, hops) + source + target + payload


def _udp(payload: bytes, port: int = 0xC123) -> bytes:
    return struct.pack(">HHHH", port, 4791, 8 + len(payload), 0xBEEF) + payload


def _packets(fabric: Fabric, uplink: int) -> list[bytes]:
    """IPv6 packets of h1 for h3 by T1 `uplink` of plane 0, each with a number of its own at its end."""
    config = paths.nic_config(fabric, fabric.nic("h1"))
    (target,) = (peer for peer in config.destinations if peer.name == "h3")
    ev = addressing.entropy_value(0, uplink)
    listed = target.template.address(ev)
    found = []

    def add(destination: bytes, next_header: int, payload: bytes, **fields: int) -> None:
        found.append(_ipv6(config.address, destination, next_header, payload, **fields))

    block = fabric.usid_block.to_bytes(4, "big")
    t0, t1 = (addressing.switch_usid(fabric.switch(name)) for name in ("t0-0@p0", f"t1-{uplink}@p0"))
    own = addressing.nic_usid(fabric.nic("h1"), 0)

    def list_of(*usids: int) -> bytes:
        return (block + b"".join(usid.to_bytes(2, "big") for usid in usids)).ljust(16, b"\0")

    for turn in ((t0, own), (t0, t1, t0, own)):  # out to a switch and back, as probes go: by the port it came by
        add(list_of(*turn), NO_NEXT_HEADER, b"back")
    for size in (0, 1, 40, 63, 64, 65, 1499, 4096, 4500 - 40 - 48 - 4):
        inner = _ipv6(config.address, target.address, UDP, _udp((bytes(range(256)) * 20)[:size]))
        add(listed, IPV6_IN_IPV6, inner + struct.pack(">I", size))
    for label in (0x00000001, 0x000FFFFF, 0x0FF00000, 0x00100000, 0x00300000, 0x0B912345):  # traffic class, ECN, label
        add(listed, NO_NEXT_HEADER, struct.pack(">I", label), label=label)
    for hops in (255, 4, 3, 2, 1):  # the last ones end on the way: four remain for the NIC's link
        add(listed, NO_NEXT_HEADER, struct.pack(">I", hops), hops=hops)
    for sport in (0xC000, 0xC001, 0xFFFF):
        add(target.address, UDP, _udp(struct.pack(">I", sport), sport))  # plain IPv6, as of RoCE
    for usids in ((t0,), (t0, t1), (t0, t1, 0x7FFF), (0x7FFF,)):  # a list that ends too early, or leads nowhere
        add(list_of(*usids), NO_NEXT_HEADER, b"lost")
    add(listed, NO_NEXT_HEADER, b"last")
    return found


def _journey(name: str, switch: str) -> dict[str, list[bytes]]:
    """What arrives at each port on the way when h1 sends all packets, one after the other: frames by node.

    Not at kernel switches: Linux shifts the list before it hands a packet to those who capture on arrival.
    """
    fabric = multi_plane_clos(name, planes=1, t0=2, t1=1, hosts=4, rate_bps=20_000_000)
    with emulated(fabric, switch=switch, agents=False, companions=[companion]) as up:
        port = paths.nic_config(up.fabric, up.fabric.nic("h1")).ports[0]
        links = [up.fabric.link("h1@p0"), up.fabric.link("t0-0:t1-0@p0"), up.fabric.link("t0-1:t1-0@p0")]
        ends = [links[0].upper, links[1].upper, links[2].lower, up.fabric.link("h3@p0").lower]
        back = [links[0].lower, links[1].lower, links[2].upper]
        with _at_ports(up, [*ends, *back]) as at, _at_ports(up, [LinkEnd("h1", 0)]) as (sender,):
            for packet in _packets(up.fabric, 0):
                sender.send(port.gateway_mac + port.mac + ETH_P_IPV6.to_bytes(2, "big") + packet)
            arrived: dict[str, list[bytes]] = {}
            for end, listener in zip(ends, at, strict=False):
                if up.fabric.is_kernel(end.node):
                    continue
                frames = arrived.setdefault(end.node, [])
                while not frames or not frames[-1].endswith(b"last"):
                    assert select.select([listener], [], [], 20)[0], (
                        f"the last packet did not reach {end.node}; at {list(arrived)}: {[*map(len, arrived.values())]}"
                    )
                    frames.append(listener.recv(9000))
            for end, listener in zip(back, at[len(ends) :], strict=True):
                if not up.fabric.is_kernel(end.node):
                    arrived[f"back at {end.node}"] = list(_waiting(listener))
    return arrived


def _waiting(listener: socket.socket) -> Iterator[bytes]:
    """What has come; that a link was down, which is said once, is passed over."""
    while select.select([listener], [], [], 0)[0]:
        with contextlib.suppress(OSError):
            yield listener.recv(9000)


@pytest.fixture(scope="module")
def journey() -> dict[str, list[bytes]]:
    """The journey over embedded switches."""
    found = _journey(own("asembedded"), "embedded")
    assert len(found["h3"]) > 20
    return found


@pytest.mark.parametrize(
    "switch",
    [
        "kernel",
        *(pytest.param(f"{name}@p0=kernel", marks=pytest.mark.second_ring) for name in ("t1-0", "t0-0", "t0-*")),
    ],
)
def test_frames_are_those_of_the_embedded_switch_at_every_hop(journey: dict[str, list[bytes]], switch: str) -> None:
    found = _journey(own("askernel"), switch)
    assert found.keys() >= {"h3", "back at h1"}
    for node, frames in found.items():
        # The embedded switch lets control packets overtake others.
        assert sorted(frame.hex() for frame in frames) == sorted(frame.hex() for frame in journey[node]), node
    assert len(found["back at h1"]) == 2  # and no ICMP error


def test_the_kernel_of_a_switch_sends_no_packets_of_its_own_and_answers_none() -> None:
    fabric = multi_plane_clos(own("quietkernel"), planes=1, t0=2, t1=2, hosts=4)
    with (
        emulated(fabric, switch="kernel", agents=False, companions=[companion]) as up,
        ControllerClient(up.controller_socket) as client,
    ):
        first = up.fabric.link("h1@p0")
        ends = [end for link in fabric.links for end in (link.lower, link.upper) if end != first.upper]
        node = up.net[first.upper.node]
        before = node.cmd("ip -6 addr; ip -6 route; ip -6 neigh | sort")
        with _at_ports(up, ends) as listeners, _at_ports(up, [first.lower]) as (sender,):
            client.link_down("t0-0:t1-0@p0")
            client.link_up("t0-0:t1-0@p0")  # carrier comes back: the moment when a kernel likes to talk
            for question in questions(up.fabric):
                sender.send(question)
            assert " 0% packet loss" in up.host("h1").cmd(f"ping -c 4 -i 0.7 -W 2 {up.host('h3').IP()}")
            # What a kernel says of its own comes by timers, all within these two seconds.
            for listener in listeners:
                listener.setblocking(False)
                for frame in _waiting(listener):
                    assert frame[12:14] == b"\x86\xdd"
                    assert frame[20] == 58, frame.hex()  # ICMPv6
                    assert frame[54] in (128, 129), frame.hex()  # an echo, or the answer to one
                    assert frame[62:65] not in (b"who", b"no ", b"too", b"rep"), frame.hex()
        assert node.cmd("ip -6 addr; ip -6 route; ip -6 neigh | sort") == before


# Part of a fabric


@pytest.fixture(scope="module", params=WIRES)
def world(request: pytest.FixtureRequest) -> Iterator[EmulatedWorld]:
    name = own(f"kernel{request.param}")
    traces = Traces(name)
    with running(_fabric(name), switch=f"embedded,{T1}=kernel,{T0}=kernel", wire=request.param) as found:
        traces.note()
        yield found
    assert traces.left() == []


@pytest.fixture
def controller(world: EmulatedWorld) -> Iterator[ControllerClient]:
    with world.controller() as client:
        yield client
        client.clear_all()


_patient = partial(Transfer, timeout_s=TIMEOUT_S)


@contextlib.contextmanager
def _transfer(world: EmulatedWorld, source: str = "h1", target: str = "h3") -> Iterator[Transfer]:
    socket_of = world.emulation.socket
    with verbs.open(socket_of(source)) as near, verbs.open(socket_of(target)) as far, _patient(near, far) as transfer:
        yield transfer


def test_all_switches_are_verified(world: EmulatedWorld, controller: ControllerClient) -> None:
    status = controller.status()
    assert status.ready, status.problems
    assert [switch.name for switch in status.switches] == [switch.name for switch in world.fabric.switches]
    assert all(switch.repaired == 0 for switch in controller.reconcile().switches)


def test_probes_on_every_path_are_answered(world: EmulatedWorld) -> None:
    for host in world.fabric.nic_names:
        with verbs.open_controller(world.emulation.socket(host)) as nic:
            for peer in nic.destinations():
                for ev in peer.evs:
                    assert nic.ping(peer.address, ev).rtt is not None, (host, peer.name, ev)


def test_hosts_reach_each_other_by_plain_ipv6(world: EmulatedWorld) -> None:
    assert world.emulation.net.pingAll(timeout="5") == 0


def test_a_verified_write_takes_all_paths(world: EmulatedWorld, controller: ControllerClient) -> None:
    before = {link.name: link.upward.packets for link in controller.links()}
    with _transfer(world) as transfer:
        report = transfer.write(1 << 20)
    assert (report.wrong_bytes, report.paths) == (0, {0: 2, 1: 2})
    carried = {link.name: link.upward.packets - before[link.name] for link in controller.links()}
    assert all(carried[f"t0-0:t1-{t1}@p{plane}"] > 10 for t1 in (0, 1) for plane in (0, 1)), carried
    assert carried["h1@p1"] > 10


def test_both_directions_of_a_link_are_counted_where_only_the_kernel_is(
    world: EmulatedWorld, controller: ControllerClient
) -> None:
    """The link of h3 in plane 1 has no end in the root namespace."""

    def now() -> tuple[int, int]:
        (link,) = controller.links("h3@p1")
        return link.upward.bytes, link.downward.bytes

    before = now()
    with _transfer(world) as transfer:
        transfer.write(1 << 19)
    after = now()
    assert after[1] - before[1] > 100_000  # the data of one plane
    assert 0 < after[0] - before[0] < after[1] - before[1]  # its acknowledgements


# Of a port that is down h3 tells h1, which then leaves the plane alone, and need not find its paths bad. Where a path
# of the other plane times out while the machine does not get round to its frames, probes soon bring it back.
@pytest.mark.parametrize(("link", "left"), [(f"t0-1:{T1}", {0: 1, 1: 2}), ("h3@p1", None)])
def test_a_cut_link_of_a_kernel_switch_is_ridden_out_and_used_again(
    world: EmulatedWorld, controller: ControllerClient, link: str, left: dict[int, int] | None
) -> None:
    with _transfer(world) as transfer:
        assert transfer.write(1 << 18).wrong_bytes == 0
        controller.link_down(link)
        assert [found.name for found in controller.links() if not found.up] == [link]
        report = transfer.write(1 << 19)
        assert report.wrong_bytes == 0
        until(lambda: left is None or usable_paths(transfer.paths()) == left, "the cut path alone to be out of use")
        controller.link_up(link)
        assert all(found.up for found in controller.links())
        until(lambda: usable_paths(transfer.paths()) == {0: 2, 1: 2}, "every path works again")
        assert transfer.write(1 << 18).wrong_bytes == 0


def test_a_stopped_kernel_switch_is_ridden_out_and_gets_its_routes_back(
    world: EmulatedWorld, controller: ControllerClient
) -> None:
    node = world.emulation.net[T1]
    with _transfer(world) as transfer:
        node.stop()
        report = transfer.write(1 << 18)
        assert report.wrong_bytes == 0
        until(lambda: usable_paths(transfer.paths()) == {0: 1, 1: 2}, "the switch's path alone to be out of use")
        assert "via" not in node.cmd("ip -6 route")
        node.start()
        until(lambda: usable_paths(transfer.paths()) == {0: 2, 1: 2}, "every path works again")
    assert controller.status().ready


DAMAGE = {
    "a route deleted": "ip -6 route del {route}",
    "a neighbour deleted": "ip -6 neigh del fe80::1 dev {port}",
    "a route replaced": "ip -6 route replace blackhole {route}",
    "the uSID's link down": "ip link set sid0 down",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_a_person_breaks_in_a_kernel_switch_is_mended_at_once(
    world: EmulatedWorld, controller: ControllerClient, damage: str
) -> None:
    node = world.emulation.net[T0]

    def held() -> tuple[str, str]:
        return node.cmd("ip -6 route show"), node.cmd("ip -6 neigh show nud permanent | sort")

    before = held()
    assert before[0].count("encap seg6local action End") == 1
    port = addressing.interface_name(world.fabric, world.fabric.link("h3@p1").upper)
    usid = addressing.switch_usid(world.fabric.switch("t1-0@p1"))
    with controller.events(timeout_s=TIMEOUT_S) as events:
        next(events)  # it holds
        assert node.cmd(damage.format(port=port, route=f"fc00:0:{usid:x}::/48")) == ""
        repaired = (event for event in events if event.kind is EventKind.ENTRIES_REPAIRED)
        assert next(repaired).name == T0
    assert held() == before
    assert controller.status().ready


def test_a_capture_has_both_directions_where_only_the_kernel_is(world: EmulatedWorld, tmp_path: Any) -> None:
    from scapy.utils import RawPcapNgReader

    file = tmp_path / "link.pcapng"
    captures = Captures(world.emulation)
    captures.start("h3@p1", str(file))
    with contextlib.closing(captures), _transfer(world) as transfer:
        transfer.write(1 << 18)
    with RawPcapNgReader(str(file)) as reader:
        addressed = {frame[:6] for frame, _ in reader}
    link = world.fabric.link("h3@p1")
    assert addressed == {addressing.mac(world.fabric, end) for end in (link.lower, link.upper)}


# Faults


POSSIBLE = {
    "loss on arrival at the embedded switch": Loss(f"t0-0:{T1}", 0.02, "t0-0@p0"),
    "loss on departure from the embedded switch": Loss(f"t0-0:{T1}", 0.02, T1),
    "both": Corruption(f"t0-1:{T1}", 0.02),
    "rate of a kernel port": Rate("h3@p1", 5_000_000),
    "delay of what arrives from a kernel port": Delay(f"t0-1:{T1}", 2_000_000),
}


@pytest.mark.parametrize("fault", POSSIBLE.values(), ids=POSSIBLE)
def test_faults_that_the_other_end_makes_are_made(
    world: EmulatedWorld, controller: ControllerClient, fault: Any
) -> None:
    controller.inject(fault)
    with _transfer(world) as transfer:
        assert transfer.write(1 << 18).wrong_bytes == 0
    controller.clear_all()
    assert controller.status().ready


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (Blackhole(T1), f"{T1} is the kernel's"),
        (Blackhole("t1-*@p0"), f"{T1} is the kernel's"),
        (Loss("h3@p1", 0.5), "no end at a P4 switch"),
        (Corruption("h3@p1", 0.5, "h3"), "no end at a P4 switch"),
        (Delay("h3@p1", 1_000_000), "no end at a P4 switch"),
        (PathLoss(addressing.entropy_value(1, 0), 0.5, "h3", "h1"), f"{T0} is the kernel's"),
    ],
)
def test_faults_that_would_be_in_the_kernel_are_refused(
    world: EmulatedWorld, controller: ControllerClient, fault: Any, names: str
) -> None:
    with pytest.raises(ControllerError, match=names):
        controller.inject(fault)
    assert controller.faults() == []


def test_loss_towards_a_kernel_switch_is_counted_where_it_is_made(
    world: EmulatedWorld, controller: ControllerClient
) -> None:
    controller.inject(Loss(f"t0-0:{T1}", 1.0, T1))
    with _transfer(world) as transfer:
        assert transfer.write(1 << 18).wrong_bytes == 0
    (counters,) = controller.counters("t0-0@p0")
    assert next(count.packets for count in counters.drops if count.name == "departure loss") > 0


def test_tables_and_counters_are_refused_in_a_sentence(controller: ControllerClient) -> None:
    (tables,) = controller.tables(T1)
    assert tables.problems == (f"Switch {T1} is the kernel's: it has no tables, and counts by link alone.",)
    assert {switch.switch for switch in controller.counters()} >= {T1, T0, "t0-0@p0"}


def test_a_slow_kernel_port_drops_what_its_queue_does_not_hold(
    world: EmulatedWorld, controller: ControllerClient
) -> None:
    interface = addressing.interface_name(world.fabric, world.fabric.link("h3@p1").upper)
    node = world.emulation.net[T0]
    shown = node.cmd(f"tc qdisc show dev {interface}")
    assert "rate 20Mbit" in shown
    controller.inject(Rate("h3@p1", 1_000_000, "h3"))
    assert "rate 1Mbit" in node.cmd(f"tc qdisc show dev {interface}")
    controller.clear_all()
    assert node.cmd(f"tc qdisc show dev {interface}") == shown


def test_the_doctor_says_that_this_kernel_can() -> None:
    assert check_kernel_switches().ok


# On the command line


def _mrc(*words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "mrc_lab", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.second_ring
def test_a_prompt_on_kernel_switches_alone_writes_and_shows_routes() -> None:
    name = own("kernelshell")
    commands = ("write h1 h3 1M", "t1-0@p0 ip -6 route", "links h1@p0")
    printed = _mrc(
        "shell", "--name", name, "--switch", "kernel", "--rate", "20M", "--t1", "2",
        *(word for command in commands for word in ("-c", command)),
    )  # fmt: skip
    assert "every byte right" in printed
    assert "encap seg6local action End" in printed
    refused = _mrc("shell", "--name", name, "--switch", "kernel", "--t1", "1", "-c", "tables t1-0@p0", status=1)
    assert "Switch t1-0@p0 is the kernel's: it has no tables, and counts by link alone." in refused
    assert Traces(name).left() == []


def test_a_fabric_in_the_background_has_chosen_switches_of_the_kernel() -> None:
    name = own("kernelup")
    words = ("--switch", "t1-0@p0=kernel", "--switch", "t0-*@p1=kernel", "--rate", "20M", "--t1", "2")
    try:
        assert "up and verified" in _mrc("up", name, *words)
        assert "via fe80::1" in _mrc("exec", name, "t0-0@p1", "--", "ip", "-6", "route")
        assert "every byte right" in _mrc("shell", name, "-c", "write h1 h3 512K", "-c", "switch t0-1@p1 stop")
        assert "DOWN" in _mrc("shell", name, "-c", "links h3@p1", "-c", "switch t0-1@p1 start")
        assert "every byte right" in _mrc("shell", name, "-c", "wait", "-c", "write h1 h3 512K")
        added = _mrc("fault", "add", "--fabric", name, "t1-0@p0", "blackhole", status=3)
        assert "switch t1-0@p0 is the kernel's" in added
    finally:
        _mrc("down", name)
    assert Traces(name).left() == []
