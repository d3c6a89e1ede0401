"""The path map of a running fabric: links that are down are suspected and denied until they recover, under traffic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from controller.path_map.client import PathMapClient
from controller.path_map.values import ElementKind, MapState
from mrc_host import verbs
from mrc_host.verbs.remote.connection import AgentConnection, for_controller
from mrc_host.verbs_types import PathState
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.map_waiting import wait
from tests.integration.names import own
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.faults.loss import Loss

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

UPLINK, NIC = "t0-0:t1-1@p0", "h2@p1"


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    fabric = multi_plane_clos(own("map"), planes=2, t0=2, t1=2, hosts=4, rate_bps=20_000_000)
    with running(fabric) as found:
        yield found


@pytest.fixture
def controller(world: EmulatedWorld) -> Iterator[PathMapClient]:
    with world.controller() as client:
        yield client
        client.clear_all()
        client.stop_map()


def suspected(state: MapState) -> dict[str, ElementKind]:
    return {fault.name: fault.part for fault in state.suspected}


def denied(world: EmulatedWorld) -> set[int]:
    """Entropy values that the queue pairs of h1 may not use."""
    with closing(AgentConnection(world.emulation.socket("h1"))) as agent:
        paths = [path for qp in agent.request("qps") for path in agent.request("qp_paths", qpn=qp["qpn"])]
    return {path["ev"] for path in paths if path["state"] == PathState.DENIED.value}


def probed(state: MapState) -> bool:
    return bool(state.links) and all(link.sent > 5 for link in state.links)


def test_the_map_suspects_t0_t1_and_nic_links_that_are_down_until_they_recover(
    controller: PathMapClient,
) -> None:
    controller.start_map(20)
    wait(controller, probed)
    up = controller.link_down(UPLINK)
    wait(controller, lambda state: suspected(state) == {UPLINK: ElementKind.T0_T1})
    controller.link_down(NIC)
    wait(controller, lambda state: suspected(state) == {UPLINK: ElementKind.T0_T1, NIC: ElementKind.NIC_T0})
    controller.clear(up.id)
    wait(controller, lambda state: suspected(state) == {NIC: ElementKind.NIC_T0})
    controller.clear_all()
    wait(controller, lambda state: suspected(state) == {})


def test_a_lossy_link_is_denied_to_running_traffic_until_it_recovers(
    world: EmulatedWorld, controller: PathMapClient
) -> None:
    with verbs.open(world.emulation.socket("h1")) as near, verbs.open(world.emulation.socket("h3")) as far:
        transfer = Transfer(near, far)
        assert transfer.write(1 << 20).wrong_bytes == 0
        controller.start_map(20, feed=True)
        wait(controller, probed)
        controller.inject(Loss(UPLINK, 0.5))
        state = wait(controller, lambda state: UPLINK in suspected(state) and state.denied > 0)
        assert set(suspected(state)) == {UPLINK}
        report = transfer.write(1 << 20)
        assert report.wrong_bytes == 0
        until(lambda: denied(world) == {1}, "the denylist to reach the agents")
        controller.clear_all()
        wait(controller, lambda state: not state.suspected and state.denied == 0)
        report = transfer.write(1 << 20)
        assert report.wrong_bytes == 0
        assert denied(world) == set()


def test_paths_denied_by_a_killed_controllers_map_are_allowed_again(world: EmulatedWorld) -> None:
    with verbs.open(world.emulation.socket("h1")) as near, verbs.open(world.emulation.socket("h3")) as far:
        transfer = Transfer(near, far)
        transfer.write(1 << 20)
        with world.controller() as controller:
            controller.start_map(20, feed=True)
            controller.inject(Loss(UPLINK, 1.0))
            wait(controller, lambda state: UPLINK in suspected(state) and state.denied > 0)
        until(lambda: denied(world) == {1}, "the denylist to reach the agents")
        world.emulation.children["controller"].process.kill()
        until(lambda: not denied(world), "denied paths to be given back")
        world.restart("controller")
        assert transfer.write(1 << 20).wrong_bytes == 0


def test_agents_stop_probing_when_the_map_is_stopped(world: EmulatedWorld, controller: PathMapClient) -> None:
    controller.start_map()
    wait(controller, probed)
    assert not controller.stop_map().running
    agent = AgentConnection(for_controller(world.emulation.socket("h1")))
    until(lambda: not agent.request("probe_report")["probing"], "the agent to stop its probes")
    agent.close()
