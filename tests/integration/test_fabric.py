"""A fabric that is up, as it really is: namespaces, veth links, switch processes, controller, Mininet's prompt.

One fabric stays up for the tests of this file; how fabrics come up and go away is in test_fabric_lifetime.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mininet")

from mininet.cli import CLI
from mininet.log import lg
from pyroute2 import IPRoute

from controller.client import ControllerClient
from controller.command_line import companion
from tests.integration.names import own
from tests.integration.traces import Traces
from topologies import addressing, paths
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup, interfaces, namespaces
from topologies.emulation.bring_up import Emulation, emulated
from topologies.emulation.errors import ProcessError
from topologies.fabric import LinkEnd

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

ETH_P_IPV6 = 0x86DD
NO_NEXT_HEADER = 59
IPV6_IN_IPV6 = 41


# A fabric that stays up for several tests


@pytest.fixture(scope="module")
def up() -> Iterator[Emulation]:
    cleanup.clean(own("module"), force=True)
    with emulated(multi_plane_clos(own("module")), agents=False, companions=[companion]) as emulation:
        yield emulation
    assert Traces(own("module")).left() == []


@pytest.fixture
def controller(up: Emulation) -> Iterator[ControllerClient]:
    with ControllerClient(up.controller_socket) as client:
        yield client
        client.clear_all()


def test_every_switch_is_verified(controller: ControllerClient, up: Emulation) -> None:
    status = controller.status()
    assert status.ready, status.problems
    assert [switch.name for switch in status.switches] == [switch.name for switch in up.fabric.switches]
    again = controller.reconcile()
    assert again.ready
    assert all(switch.repaired == 0 for switch in again.switches), "something changes entries behind our back"


@pytest.mark.usefixtures("up")  # Mininet asks once in a process which of its tools there are
def test_bring_up_starts_only_long_running_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run for a link, an interface or an address: that is what bring-up's time would be made of."""
    started: list[Any] = []
    start = subprocess.Popen.__init__

    def note(process: Any, command: Any, *arguments: Any, **named: Any) -> None:
        started.append(command)
        start(process, command, *arguments, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    with emulated(multi_plane_clos(own("quick")), agents=False, companions=[companion]) as emulation:
        print(emulation.bring_up_s, emulation.phases)
        shells, tried = len(emulation.fabric.nics), 1  # whether mnexec may make a namespace
        assert len(started) == shells + len(emulation.children) + tried, started
        assert sum(emulation.phases.values()) <= emulation.bring_up_s + 0.001


def test_the_kernel_sends_no_packets_of_its_own() -> None:
    with (
        emulated(
            multi_plane_clos(own("quiet"), planes=2, t0=2, t1=2, hosts=4), agents=False, companions=[companion]
        ) as emulation,
        ControllerClient(emulation.controller_socket) as client,
    ):
        client.link_down("h1@p0")
        client.link_up("h1@p0")  # carrier comes back: the moment when a kernel likes to talk
        time.sleep(2)  # what a kernel says of its own comes by timers, all within this
        talked = [(link.name, link.upward, link.downward) for link in client.links() if _packets(link)]
    assert talked == []


def _packets(link: Any) -> int:
    packets: int = link.upward.packets + link.downward.packets
    return packets


def test_pingall_works(up: Emulation) -> None:
    assert up.net.pingAll(timeout="2") == 0


def test_hosts_reach_each_other_in_every_plane_with_large_packets(up: Emulation) -> None:
    fabric = up.fabric
    for plane in range(fabric.planes):
        target = addressing.kernel_address(fabric, fabric.nic("h4"), plane)
        output = up.host("h1").cmd(f"ping -c 1 -W 2 -s 4096 -M do {target}")
        assert " 0% packet loss" in output, output


@pytest.mark.parametrize(("source", "target"), [("h1", "h3"), ("h4", "h2"), ("h1", "h2")])
def test_every_entropy_value_takes_the_path_it_names(
    up: Emulation, controller: ControllerClient, source: str, target: str
) -> None:
    fabric = up.fabric
    config = paths.nic_config(fabric, fabric.nic(source))
    (destination,) = (peer for peer in config.destinations if peer.name == target)
    with _sockets(up, source) as send, _sockets(up, target) as receive:
        for number, ev in enumerate(destination.evs):
            plane, uplink = destination.template.plane(ev), destination.template.uplink(ev)
            before = {link.name: link for link in controller.links("t0-*:t1-*@p*")}
            port = config.ports[plane]
            inner = _ipv6(config.address, destination.address, NO_NEXT_HEADER, number.to_bytes(4, "big") * 1000)
            outer = _ipv6(config.address, destination.template.address(ev), IPV6_IN_IPV6, inner)
            send[plane].send(port.gateway_mac + port.mac + ETH_P_IPV6.to_bytes(2, "big") + outer)
            frame = receive[plane].recv(9000)
            assert frame[14 + 40 :] == inner, "the inner packet arrives unchanged"
            own = addressing.locator(fabric, addressing.nic_usid(fabric.nic(target), plane))
            assert int.from_bytes(frame[14 + 24 : 14 + 40], "big") == own << 80
            assert frame[:6] == addressing.mac(fabric, LinkEnd(target, plane))
            used = {
                link.name for link in controller.links("t0-*:t1-*@p*") if _packets(link) > _packets(before[link.name])
            }
            t0s = {fabric.nic(source).t0, fabric.nic(target).t0}
            assert used == ({f"t0-{t0}:t1-{uplink}@p{plane}" for t0 in t0s} if len(t0s) == 2 else set())


def test_the_kernel_does_not_answer_nic_traffic(up: Emulation, controller: ControllerClient) -> None:
    """Neither a NIC's own address nor a uSID belongs to the kernel: no ICMP error, no answer to UDP."""
    fabric = up.fabric
    config = paths.nic_config(fabric, fabric.nic("h1"))
    (target,) = (peer for peer in config.destinations if peer.name == "h3")
    before = {link.name: link.upward for link in controller.links("h3@*")}
    datagram = struct.pack(">HHHH", 4791, 4791, 8, 1)
    plain = _ipv6(config.address, target.address, 17, datagram)
    with _sockets(up, "h1") as send, _sockets(up, "h3") as receive:
        for port in config.ports:
            ev = next(ev for ev in target.evs if target.template.plane(ev) == port.plane)
            for packet in (plain, _ipv6(config.address, target.template.address(ev), IPV6_IN_IPV6, plain)):
                send[port.plane].send(port.gateway_mac + port.mac + ETH_P_IPV6.to_bytes(2, "big") + packet)
                assert receive[port.plane].recv(9000).endswith(datagram)
    # An answer would have been sent before the ping below is.
    assert " 0% packet loss" in up.host("h3").cmd(f"ping -c 1 -W 2 {up.host('h1').IP()}")
    sent = {link.name: link.upward.packets - before[link.name].packets for link in controller.links("h3@*")}
    assert sent == {"h3@p0": 1, "h3@p1": 0}
    without_route = up.host("h3").cmd("awk '/Ip6InNoRoutes/ {print $2}' /proc/net/snmp6")
    assert int(without_route) == 0, "it would make an error of each packet, which costs more than to drop it"


@contextlib.contextmanager
def _sockets(up: Emulation, host: str) -> Iterator[list[socket.socket]]:
    """A packet socket on each port of a host."""

    def make() -> list[socket.socket]:
        found = []
        for plane in range(up.fabric.planes):
            packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IPV6))
            packet.bind((f"{host}-eth{plane}", ETH_P_IPV6))
            packet.settimeout(5)
            found.append(packet)
        return found

    found = namespaces.run_inside(up.host(host).pid, make)
    try:
        yield found
    finally:
        for packet in found:
            packet.close()


def _ipv6(source: bytes, destination: bytes, next_header: int, payload: bytes) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(payload), next_header, 64) + source + destination + payload


# Links


def _carrier(up: Emulation, host: str, plane: int) -> bool:
    output = up.host(host).cmd(f"cat /sys/class/net/{host}-eth{plane}/carrier 2>&1")
    return str(output).strip() == "1"


def test_a_nic_link_down_removes_the_nics_carrier(up: Emulation, controller: ControllerClient) -> None:
    assert _carrier(up, "h2", 1)
    fault = controller.link_down("h2@p1")
    assert not _carrier(up, "h2", 1)
    assert _carrier(up, "h2", 0)
    assert [link.name for link in controller.links() if not link.up] == ["h2@p1"]
    assert fault.began_at_ns < fault.applied_at_ns
    controller.clear(fault.id)
    assert _carrier(up, "h2", 1)
    assert all(link.up for link in controller.links())


def test_a_plane_without_uplinks_is_unreachable_until_they_return(up: Emulation, controller: ControllerClient) -> None:
    target = addressing.kernel_address(up.fabric, up.fabric.nic("h3"), 0)
    ping = f"ping -c 1 -W 1 {target}"
    controller.link_down("t0-0:t1-*@p0")
    assert "100% packet loss" in up.host("h1").cmd(ping)
    controller.link_up("t0-0:t1-*@p0")
    assert " 0% packet loss" in up.host("h1").cmd(ping)


def test_the_link_command_accepts_node_names(up: Emulation, controller: ControllerClient) -> None:
    up.net.configLinkStatus("h1", "t0-0@p0", "down")
    up.net.configLinkStatus("t0-1@p1", "t1-2@p1", "down")
    assert {link.name for link in controller.links() if not link.up} == {"h1@p0", "t0-1:t1-2@p1"}
    up.net.configLinkStatus("t1-2@p1", "t0-1@p1", "up")
    up.net.configLinkStatus("t0-0@p0", "h1", "up")
    assert all(link.up for link in controller.links())
    target = up.host("h3").IP()
    assert " 0% packet loss" in up.host("h1").cmd(f"ping -c 1 -W 2 {target}"), "addresses and routes are back"


def test_link_up_of_the_controller_restores_a_link_taken_down_at_the_prompt(
    up: Emulation, controller: ControllerClient
) -> None:
    up.net.configLinkStatus("t0-1@p1", "t1-2@p1", "down")
    controller.link_up("t0-1:t1-2@p1")
    assert all(link.up for link in controller.links())


def test_stopping_a_switch_takes_its_links_down(up: Emulation, controller: ControllerClient) -> None:
    up.net["t1-1@p0"].stop()
    assert {link.name for link in controller.links() if not link.up} == {"t0-0:t1-1@p0", "t0-1:t1-1@p0"}
    up.net["t1-1@p0"].start()
    assert all(link.up for link in controller.links())


def test_switches_have_a_shell_on_request(up: Emulation) -> None:
    switch = up.net["t0-0@p0"]
    assert not up.net["t1-0@p0"].shell
    assert "hello" in switch.cmd("echo hello")
    interface = addressing.interface_name(up.fabric, LinkEnd("t0-0@p0", 1))
    assert "UP" in switch.cmd(f"ip -br link show {interface}")
    output, _, status = up.net["t1-0@p0"].pexec("echo direct")
    assert (output.strip(), status) == ("direct", 0)


def test_the_network_has_mininets_interface(up: Emulation) -> None:
    net = up.net
    assert len(net.links) == len(up.fabric.links)
    link = net.linksBetween(net["h1"], net["t0-0@p1"])[0]
    assert str(link) == f"h1-eth1<->{addressing.interface_name(up.fabric, LinkEnd('t0-0@p1', 1))}"
    assert link.status() == "(OK OK)"
    assert net["h1"].IP() == str(addressing.kernel_address(up.fabric, up.fabric.nic("h1"), 0))
    assert net["h1"].MAC() == addressing.mac(up.fabric, LinkEnd("h1", 0)).hex(":")
    assert up.host("h2").intf("h2-eth1").updateIP() == str(addressing.kernel_address(up.fabric, up.fabric.nic("h2"), 1))


def test_a_process_can_be_started_on_a_host(up: Emulation) -> None:
    child = up.spawn_in("h1", "lister", ["ip", "-br", "link"])
    assert child.process.wait(10) == 0
    assert "h1-eth0" in up.run.log_file("lister").read_text()
    up.spawn_in("h1", "waiter", ["sleep", "100"])
    with pytest.raises(ProcessError, match="A process waiter is running already"):
        up.spawn_in("h1", "waiter", ["sleep", "100"])


def test_bmv2_interfaces_are_rate_limited() -> None:
    """BMv2 itself is not needed to see what its interfaces are given."""

    def queue() -> str:
        with IPRoute() as netlink:
            netlink.link("add", kind="veth", ifname="paced0", peer={"ifname": "paced1"})
            interfaces.shape(netlink, "paced0", 40_000_000, 4500)
        shown = subprocess.run(["tc", "qdisc", "show", "dev", "paced0"], capture_output=True, text=True, check=True)
        return shown.stdout

    shown = namespaces.run_in_new(queue)
    assert "tbf" in shown
    assert "rate 40Mbit" in shown


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()


def test_the_prompt_runs_mininet_commands(up: Emulation, tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text("h1 ping -c 1 -W 2 h3\nlink h1 t0-0@p0 down\nh1 ping -c 1 -W 1 h3\nlink h1 t0-0@p0 up\npingall\n")
    printed, level = _Collector(), lg.getEffectiveLevel()
    lg.addHandler(printed)
    lg.setLevel(logging.INFO)
    quiet, keyboard = os.pipe()
    try:
        with os.fdopen(quiet) as stdin:
            CLI(up.net, stdin=stdin, script=str(script))
    finally:
        os.close(keyboard)
        lg.setLevel(level)
        lg.removeHandler(printed)
    assert f"PING {up.host('h3').IP()}" in printed.text
    assert printed.text.index(" 0% packet loss") < printed.text.index("nreachable")
    assert "0% dropped (12/12 received)" in printed.text
