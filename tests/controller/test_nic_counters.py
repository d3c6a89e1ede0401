"""Counters of NICs over the controller's service, from agents of stand-in NICs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import nic_counters
from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.listening import Listening
from tests.controller.serving import running
from tests.mrc_host.agent.clients import connected
from tests.mrc_host.agent.conftest import Agents
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError

FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    found = Agents(tmp_path)
    yield found
    found.stop()


def test_counters_of_a_nic_its_ports_and_its_queue_pairs_come_over_grpc(agents: Agents, tmp_path: Path) -> None:
    near, _ = connected(agents)
    socket = tmp_path / "controller.sock"
    with running(FABRIC, Listening(socket)) as server:
        server.service._agents = str(tmp_path / "{name}.sock")
        with ControllerClient(socket) as controller:
            (one,) = controller.nic_counters("h1", queue_pairs=True)
            every = controller.nic_counters()
    assert (one.host, one.problem) == ("h1", "")
    assert one.counters == {"tx_data_packets": 0}
    assert one.ports == ({"link_up": 1}, {"link_up": 1})
    assert one.queue_pairs == {near.qp.qpn: {"tx_data_packets": 0}}
    assert [nic.host for nic in every] == ["h1", "h2", "h3", "h4"]
    assert [bool(nic.problem) for nic in every] == [False, False, True, True]
    assert "h3" in every[2].problem
    assert not every[0].queue_pairs


def test_a_host_that_does_not_exist_and_a_controller_without_agents_are_sentences() -> None:
    with pytest.raises(FabricError, match="h9"):
        asyncio.run(nic_counters.read(FABRIC, "/x/{name}", "h9", queue_pairs=False))
    with pytest.raises(ControllerError, match="--agents"):
        asyncio.run(nic_counters.read(FABRIC, "", "h1", queue_pairs=False))
