"""How a fabric comes up and is taken down: in order, interrupted, with an error, killed; nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from controller.client import ControllerClient
from controller.command_line import companion
from tests.integration import cleaning
from tests.integration.names import own
from tests.integration.traces import Traces, wait_until_gone
from tests.waiting import until
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation import bring_up, cleanup, interfaces, ownership, processes
from topologies.emulation.bring_up import emulated
from topologies.emulation.errors import EmulationError, InUseError, ProcessError
from topologies.emulation.processes import READY_FD, Command
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric, LinkEnd, LinkKind

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

NAME = own("fabric")
MRC = Path(sys.executable).with_name("mrc")


def small(name: str = NAME, **numbers: int) -> Fabric:
    return multi_plane_clos(name, **{"planes": 2, "t0": 2, "t1": 2, "hosts": 4, **numbers})


@pytest.fixture
def traces() -> Iterator[Traces]:
    """Fails the test that leaves something behind, and tidies up after it."""
    found = Traces(NAME)
    with cleaning.alone():
        yield found
        left = found.left()
        cleanup.clean(NAME, force=True)
    assert left == []


def test_a_restarted_switch_process_is_programmed_again(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        traces.note()
        switches = emulation.children["switches"]
        switches.process.kill()
        switches.process.wait()
        processes.wait_ready([emulation.spawn(switches.command)], timeout_s=20, check=lambda: None)
        with ControllerClient(emulation.controller_socket) as client:
            until(lambda: client.status().ready, "the controller to program it")
        assert emulation.net.pingAll(timeout="2") == 0


def test_an_unknown_switch_is_reported() -> None:
    with pytest.raises(
        EmulationError, match="There is no switch 'ovs': choose one of embedded, embedded-per-process, bmv2"
    ):
        emulated(small(), switch="ovs").__enter__()


def test_taking_a_fabric_down_leaves_nothing_and_frees_its_name(traces: Traces) -> None:
    for _ in range(2):
        with emulated(small(), agents=False, companions=[companion]):
            traces.note()
            assert traces.left()
        assert traces.left() == []


@pytest.mark.second_ring
def test_agents_listen_on_their_sockets(traces: Traces) -> None:
    with emulated(small(), companions=[companion]) as emulation:
        traces.note()
        for nic in emulation.fabric.nics:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                probe.connect(emulation.socket(nic.name))


@pytest.mark.second_ring
def test_embedded_per_process_runs_one_process_per_switch(traces: Traces) -> None:
    with emulated(small(t1=1), agents=False, switch="embedded-per-process", companions=[companion]) as emulation:
        traces.note()
        assert len([name for name in emulation.children if name.startswith("switch-")]) == 6
        assert emulation.net.pingAll(timeout="2") == 0


def test_a_fabric_with_one_switch_per_plane_works(traces: Traces) -> None:
    with emulated(small(t0=1, t1=0, hosts=2), agents=False, companions=[companion]) as emulation:
        assert emulation.net.pingAll(timeout="2") == 0


@pytest.mark.second_ring
def test_a_fabric_cannot_be_brought_up_twice(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        with pytest.raises(InUseError, match=f"Fabric {NAME} is up already"), emulated(small(), agents=False):
            pass
        with pytest.raises(InUseError, match="is up"):
            cleanup.clean(NAME)
        assert emulation.net.pingPair() == 0


@pytest.mark.second_ring
def test_two_fabrics_run_at_once(traces: Traces) -> None:
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


TWIN = next(name for name in (f"twin-{n}" for n in range(1_000_000)) if addressing.tag(name) == addressing.tag(NAME))


@pytest.mark.second_ring
def test_fabrics_with_the_same_interface_tag_cannot_run_together(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]):
        with pytest.raises(InUseError, match=f"interface names of fabric {NAME}: choose"), emulated(small(TWIN)):
            pass
        assert not RunDirectory(TWIN).path.exists()


@pytest.mark.second_ring
def test_interfaces_of_another_fabric_that_is_down_are_out_of_the_way(traces: Traces) -> None:
    """Its run directory may be another container's, or was lost; `mrc clean` would remove them as well."""
    with ownership.claimed(TWIN) as mark, IPRoute() as netlink:
        interfaces.create_veth(netlink, *link_ends(), mtu=1500, group=addressing.interface_group(TWIN), mark=mark)
        with pytest.raises(EmulationError, match=f"interface names of fabric {TWIN}"):
            emulated(small(), agents=False).__enter__()
    assert interfaces_of(TWIN)
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        assert emulation.net.pingPair() == 0
    assert interfaces_of(TWIN) == []


def test_the_directory_of_another_fabric_that_is_down_is_not_removed_unasked(traces: Traces) -> None:
    with RunDirectory(TWIN).locked():
        RunDirectory(TWIN).create()
    try:
        with pytest.raises(InUseError, match=f"remove its leftovers with 'mrc clean --name {TWIN}'"):
            emulated(small(), agents=False).__enter__()
    finally:
        assert cleanup.clean(TWIN).directory


@pytest.mark.second_ring
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", ["companions", "hosts", "links", "switch_ports", "start_switches", "ready"])
def test_an_interrupted_bring_up_leaves_nothing(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, phase: str, number: signal.Signals
) -> None:
    real = bring_up._Builder._phase  # private: the one place where each phase of a bring-up begins

    def interrupted(self: Any, name: str) -> None:
        if name == phase:
            traces.note()
            signal.raise_signal(number)
        real(self, name)

    monkeypatch.setattr(bring_up._Builder, "_phase", interrupted)
    expected = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with pytest.raises(expected), emulated(small(), agents=False, companions=[companion]):
        pytest.fail("it came up all the same")
    wait_until_gone(traces.pids)


@pytest.mark.second_ring
def test_an_error_in_the_body_leaves_nothing(traces: Traces) -> None:
    with pytest.raises(ZeroDivisionError), emulated(small(), agents=False, companions=[companion]):  # noqa: PT012
        traces.note()
        raise ZeroDivisionError
    wait_until_gone(traces.pids)


def test_a_failing_process_is_reported_and_leaves_nothing(traces: Traces) -> None:
    def broken(_run: RunDirectory, _switches: str) -> Command:
        return Command("broken", (sys.executable, "-c", "raise SystemExit('no luck')", READY_FD))

    with pytest.raises(ProcessError, match="Process broken ended with status 1: no luck"):
        emulated(small(), agents=False, companions=[broken]).__enter__()


@pytest.mark.second_ring
def test_user_processes_on_hosts_are_stopped(traces: Traces) -> None:
    with emulated(small(), agents=False, companions=[companion]) as emulation:
        traces.note()
        emulation.host("h1").cmd("setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    assert traces.left() == []


# Crashes

OWNER = """
    import sys, time
    from controller.command_line import companion
    from topologies.clos import multi_plane_clos
    from topologies.emulation.bring_up import emulated
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


def test_leftovers_of_a_killed_owner_are_cleaned_up(traces: Traces, owner: subprocess.Popen[str]) -> None:
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


@pytest.mark.second_ring
def test_a_terminated_owner_takes_its_fabric_down(traces: Traces, owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 128 + signal.SIGTERM
    assert traces.left() == []


@pytest.mark.second_ring
def test_forced_cleaning_stops_the_owner_first(traces: Traces, owner: subprocess.Popen[str]) -> None:
    cleanup.clean(NAME, force=True)
    assert owner.wait(20) == 128 + signal.SIGTERM
    assert traces.left() == []


def link_ends() -> tuple[interfaces.VethEnd, interfaces.VethEnd]:
    """What a link between switches of the fabric is made of."""
    fabric = small()
    link = next(link for link in fabric.links if link.kind is LinkKind.T0_T1)
    lower, upper = (
        interfaces.VethEnd(addressing.interface_name(fabric, end), addressing.mac(fabric, end))
        for end in (link.lower, link.upper)
    )
    return lower, upper


def test_interfaces_without_a_run_directory_are_found(traces: Traces) -> None:
    with ownership.claimed(NAME) as mark, IPRoute() as netlink:
        interfaces.create_veth(netlink, *link_ends(), mtu=1500, group=addressing.interface_group(NAME), mark=mark)
    assert traces.left()
    assert cleanup.orphans()
    assert any(report.interfaces for report in cleanup.clean_all())
    assert traces.left() == []


@pytest.fixture
def alien() -> Iterator[list[str]]:
    """Interfaces of somebody else in the fabric's group: a veth, a TAP device, another by a name of the fabric's."""
    group = addressing.interface_group(NAME)
    named = addressing.interface_name(small(), LinkEnd("t1-7@p0", 1))
    ours, peer, tap = (f"alien{os.getpid():x}{letter}" for letter in "opt")  # of this process: tests may run twice
    names = [ours, tap, named]
    with IPRoute() as netlink:
        try:
            netlink.link("add", kind="veth", ifname=ours, peer={"ifname": peer}, group=group)
            for name in names[1:]:
                netlink.link("add", kind="tuntap", mode="tap", ifname=name)
                netlink.link("set", index=netlink.link_lookup(ifname=name)[0], group=group)
            yield names
            assert [name for name in names if not netlink.link_lookup(ifname=name)] == []
        finally:
            for name in names:
                for index in netlink.link_lookup(ifname=name):
                    netlink.link("del", index=index)


def test_other_interfaces_are_not_touched(traces: Traces, alien: list[str]) -> None:
    assert not cleanup.clean(NAME)
    cleanup.clean_all()


@pytest.mark.second_ring
def test_other_interfaces_survive_a_fabric_running_crashing_and_ending(
    traces: Traces, alien: list[str], owner: subprocess.Popen[str]
) -> None:
    owner.kill()
    owner.wait()
    assert cleanup.clean(NAME).interfaces >= 16, "eight links between switches"
    with emulated(small(), agents=False, companions=[companion]):
        pass


def elsewhere(*words: str) -> subprocess.CompletedProcess[str]:
    """Run mrc in a mount namespace of its own, with no /run/mrc, in the same network namespace."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", MRC, *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.second_ring
def test_a_fabric_of_another_container_is_left_alone(traces: Traces, owner: subprocess.Popen[str]) -> None:
    """As of a container that shares the network namespace: its files are others, its interfaces the same."""
    before = interfaces_of(NAME)
    assert len(before) == 24, "eight links between switches, eight to hosts"
    done = elsewhere("clean")
    assert done.returncode == 0, done.stderr
    assert NAME not in done.stdout, "others may have left something on this machine"
    assert interfaces_of(NAME) == before
    done = elsewhere("clean", "--name", NAME)
    assert done.returncode == 3
    assert f"Fabric {NAME} is up (process {owner.pid}), and its files are out of reach" in done.stderr
    done = elsewhere("up", "--name", NAME, "--hosts", "2")
    assert done.returncode == 3
    assert f"Fabric {NAME} is up (process {owner.pid})" in done.stderr
    assert interfaces_of(NAME) == before
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 128 + signal.SIGTERM, "it was up all the time"


@pytest.mark.second_ring
def test_a_fabric_of_another_container_is_ended_by_force(traces: Traces, owner: subprocess.Popen[str]) -> None:
    done = elsewhere("clean", "--name", NAME, "--force")
    assert done.returncode == 0, done.stderr
    assert owner.wait(20) == 128 + signal.SIGTERM
    assert traces.left() == []


@pytest.mark.second_ring
def test_leftovers_of_another_container_are_cleaned_up(traces: Traces, owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.wait()
    done = elsewhere("clean")
    assert done.returncode == 0, done.stderr
    assert f"{NAME}: removed 0 processes and" in done.stdout
    assert interfaces_of(NAME) == []
    cleanup.clean(NAME)


def interfaces_of(name: str) -> list[str]:
    with IPRoute() as netlink:
        return sorted(interfaces.group_members(netlink, addressing.interface_group(name)))


def test_a_process_with_a_reused_id_is_not_killed() -> None:
    """What was checked before may have ended since: it is looked at again once nobody else can get its number."""
    with subprocess.Popen(["sleep", "1000"]) as other:
        cleanup.kill({other.pid: lambda: False})
        assert other.poll() is None
        cleanup.kill({other.pid: lambda: True})
        assert other.wait(10) == -signal.SIGKILL
