"""How a fabric comes up and goes away: in order, interrupted, with an error, killed; nothing is ever left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute

from controller.client import ControllerClient
from controller.command import companion
from tests.integration.names import own
from tests.integration.traces import Traces, wait_until_gone
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation import build, cleanup, interfaces, processes
from topologies.emulation.build import emulated
from topologies.emulation.errors import EmulationError, InUseError, ProcessError
from topologies.emulation.processes import READY_FD, Command
from topologies.emulation.rundir import RunDirectory
from topologies.fabric import Fabric, LinkKind

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

NAME = own("fabric")


def small(name: str = NAME, **numbers: int) -> Fabric:
    return multi_plane_clos(name, **{"planes": 2, "t0": 2, "t1": 2, "hosts": 4, **numbers})


@pytest.fixture
def traces() -> Iterator[Traces]:
    """Fails the test that leaves something behind, and tidies up after it."""
    found = Traces(NAME)
    yield found
    left = found.left()
    cleanup.clean(NAME, force=True)
    assert left == []


def test_a_switch_process_that_was_restarted_is_programmed_again(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        traces.note()
        switches = emulation.children["switches"]
        switches.process.kill()
        switches.process.wait()
        processes.wait_ready([emulation.spawn(switches.command)], timeout_s=20, check=lambda: None)
        with ControllerClient(emulation.controller_socket) as client:
            deadline = time.monotonic() + 30
            while not client.status().ready:
                assert time.monotonic() < deadline, client.status().problems
                time.sleep(0.05)
        assert emulation.net.pingAll(timeout="2") == 0


def test_an_unknown_switch_is_one_sentence() -> None:
    with pytest.raises(EmulationError, match="There is no switch 'ovs': choose one of shim, shim-each, bmv2"):
        emulated(small(), switch="ovs").__enter__()


def test_nothing_is_left_and_the_name_is_free_again(traces: Traces) -> None:
    for _ in range(2):
        with emulated(small(), agents=False, companions=[companion]):
            traces.note()
            assert traces.left()
        assert traces.left() == []


def test_agents_listen(traces: Traces) -> None:
    with emulated(small(), companions=[companion]) as emulation:
        traces.note()
        for nic in emulation.fabric.nics:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                probe.connect(emulation.socket(nic.name))


def test_a_process_per_switch(traces: Traces) -> None:
    with emulated(small(t1=1), agents=False, switch="shim-each", companions=[companion]) as emulation:
        traces.note()
        assert len([name for name in emulation.children if name.startswith("switch-")]) == 6
        assert emulation.net.pingAll(timeout="2") == 0


def test_single_switch_planes(traces: Traces) -> None:
    with emulated(small(t0=1, t1=0, hosts=2), agents=False, companions=[companion]) as emulation:
        assert emulation.net.pingAll(timeout="2") == 0


def test_a_fabric_is_up_once(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        with pytest.raises(InUseError, match=f"Fabric {NAME} is up already"), emulated(small(), agents=False):
            pass
        with pytest.raises(InUseError, match="is up"):
            cleanup.clean(NAME)
        assert emulation.net.pingPair() == 0


def test_two_fabrics_at_once(traces: Traces) -> None:
    with (
        emulated(small(), agents=False, companions=[companion]) as one,
        emulated(small(own("other")), agents=False, companions=[companion]) as two,
    ):
        assert one.net.pingPair() == 0
        assert two.net.pingPair() == 0
        with ControllerClient(one.controller_socket) as client:
            client.link_down("h1@p0")
        with ControllerClient(two.controller_socket) as client:
            assert all(link.up for link in client.links())
    assert Traces(own("other")).left() == []


def test_names_with_the_same_tag_are_not_up_together(traces: Traces) -> None:
    twin = next(name for name in (f"twin-{n}" for n in range(100_000)) if addressing.tag(name) == addressing.tag(NAME))
    with emulated(small(), agents=False, companions=[companion]):
        with pytest.raises(InUseError, match="would use the interface names of fabric"), emulated(small(twin)):
            pass
        assert not RunDirectory(twin).path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", ["companions", "hosts", "links", "switch_ports", "start_switches", "ready"])
def test_an_interrupted_bring_up_leaves_nothing(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, phase: str, number: signal.Signals
) -> None:
    real = build._Builder._phase

    def interrupted(self: Any, name: str) -> None:
        if name == phase:
            traces.note()
            signal.raise_signal(number)
        real(self, name)

    monkeypatch.setattr(build._Builder, "_phase", interrupted)
    expected = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with pytest.raises(expected), emulated(small(), agents=False, companions=[companion]):
        pytest.fail("it came up all the same")
    wait_until_gone(traces.pids)


def test_an_error_inside_leaves_nothing(traces: Traces) -> None:
    with pytest.raises(ZeroDivisionError), emulated(small(), agents=False, companions=[companion]):  # noqa: PT012
        traces.note()
        raise ZeroDivisionError
    wait_until_gone(traces.pids)


def test_a_process_that_fails_is_reported_and_leaves_nothing(traces: Traces) -> None:
    def broken(_run: RunDirectory, _switches: str) -> Command:
        return Command("broken", (sys.executable, "-c", "raise SystemExit('no luck')", READY_FD))

    with pytest.raises(ProcessError, match="Process broken ended with status 1: no luck"):
        emulated(small(), agents=False, companions=[broken]).__enter__()


def test_what_users_start_on_hosts_goes_too(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        traces.note()
        emulation.host("h1").cmd("setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    assert traces.left() == []


# Crashes

OWNER = """
    import sys, time
    from controller.command import companion
    from topologies.clos import multi_plane_clos
    from topologies.emulation.build import emulated
    with emulated(multi_plane_clos(sys.argv[1], t1=2), agents=False, companions=[companion]) as emulation:
        emulation.host("h1").cmd("setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
        print("up", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def owner(traces: Traces) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the fabric up."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    traces.note()
    yield process
    process.kill()
    process.communicate()


def test_kill_9_of_the_owner_is_cleaned_up_after(traces: Traces, owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.wait()
    report = cleanup.clean(NAME)
    assert report.directory
    assert report.interfaces, "links between switches stay when their owner is killed"
    wait_until_gone(traces.pids)
    assert traces.left() == []
    assert not cleanup.clean(NAME), "a second time there is nothing to do"


def test_after_kill_9_the_name_can_be_used_at_once(traces: Traces, owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.wait()
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        assert emulation.net.pingPair() == 0


def test_a_terminated_owner_takes_its_fabric_down(traces: Traces, owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 128 + signal.SIGTERM
    assert traces.left() == []


def test_forced_cleaning_ends_the_owner_first(traces: Traces, owner: subprocess.Popen[str]) -> None:
    cleanup.clean(NAME, force=True)
    assert owner.wait(20) == 128 + signal.SIGTERM
    assert traces.left() == []


def test_interfaces_without_a_run_directory_are_found(traces: Traces) -> None:
    fabric = small()
    link = next(link for link in fabric.links if link.kind is LinkKind.T0_T1)
    ends = [
        interfaces.VethEnd(addressing.interface_name(fabric, end), addressing.mac(fabric, end))
        for end in (link.lower, link.upper)
    ]
    with IPRoute() as netlink:
        interfaces.create_veth(netlink, *ends, mtu=fabric.mtu, group=addressing.interface_group(NAME))
    assert traces.left()
    assert any(report.interfaces for report in cleanup.clean_all())
    assert traces.left() == []


def test_interfaces_of_others_are_not_touched(traces: Traces) -> None:
    group = addressing.interface_group(NAME)
    with IPRoute() as netlink:
        netlink.link("add", kind="veth", ifname="it-alien0", peer={"ifname": "it-alien1"}, group=group)
        try:
            with pytest.raises(EmulationError, match="holds interfaces that are not the fabric's"):
                cleanup.clean(NAME)
            assert netlink.link_lookup(ifname="it-alien0")
        finally:
            netlink.link("del", ifname="it-alien0")
