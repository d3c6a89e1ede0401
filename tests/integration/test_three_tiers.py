"""A fabric of three tiers from a file, up: every path carries packets, cuts at the top are survived and found."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controller.path_map.client import PathMapClient
from controller.path_map.values import ElementKind
from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.map_waiting import wait
from tests.integration.names import own
from topologies.faults.link_down import LinkDown
from topologies.loader import load_text

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

FILE = f"""
name: {own("tiers")}
planes: 2
pods: 2
t0: 2
t1: 2
t2: 2
hosts: 4
rate: 20M
ports: {{h2: 1}}
links:
  t1-t2: {{rate: 40M}}
  t0-0:t1-1@p1: missing
"""
CUT = "t1-2:t2-0@p0"
UNREACHED = {"t0-1:t1-0@p1", "t0-1:t1-1@p1", "t1-1:t2-1@p1"}  # above T0 1 alone, whose host has no port in this plane


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(load_text(FILE)) as found:
        yield found


@pytest.fixture
def controller(world: EmulatedWorld) -> Iterator[PathMapClient]:
    with world.controller() as client:
        yield client
        client.clear_all()
        client.stop_map()


def test_probes_on_every_path_are_answered(world: EmulatedWorld) -> None:
    for host in world.fabric.nic_names:
        with verbs.open_controller(world.emulation.socket(host)) as nic:
            for peer in nic.destinations():
                paths = world.fabric.paths(world.fabric.nic(host), world.fabric.nic(peer.name))
                assert len(peer.evs) == len(paths)
                for ev in peer.evs:
                    assert nic.ping(peer.address, ev).rtt is not None, (host, peer.name, ev)


def test_a_port_without_a_link_has_no_carrier(world: EmulatedWorld) -> None:
    with verbs.open_controller(world.emulation.socket("h2")) as nic:
        assert [port.up for port in nic.ports()] == [True, False]


def test_a_write_completes_while_a_t2_link_is_down(world: EmulatedWorld, controller: PathMapClient) -> None:
    with verbs.open(world.emulation.socket("h1")) as near, verbs.open(world.emulation.socket("h4")) as far:
        transfer = Transfer(near, far)
        assert transfer.write(1 << 18).wrong_bytes == 0
        controller.inject(LinkDown(CUT))
        report = transfer.write(1 << 20)
        assert (report.nbytes, report.wrong_bytes) == (1 << 20, 0)
        controller.clear_all()
        assert transfer.write(1 << 18).wrong_bytes == 0


def test_the_map_suspects_a_t1_t2_link_that_is_down_until_it_recovers(controller: PathMapClient) -> None:
    controller.start_map(20)
    wait(controller, lambda state: {link.name for link in state.links if link.sent <= 5} == UNREACHED)
    cut = controller.link_down(CUT)
    state = wait(controller, lambda state: bool(state.suspected))
    assert {fault.name: fault.part for fault in state.suspected} == {CUT: ElementKind.T1_T2}
    controller.clear(cut.id)
    wait(controller, lambda state: not state.suspected)
