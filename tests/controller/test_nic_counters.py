"""Counters of NICs over the controller's service, from agents of stand-in NICs; and agents that are stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from controller import denylists, nic_counters
from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.server import Listening
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


def test_counters_of_nic_ports_and_queue_pairs_are_read_over_grpc(agents: Agents, tmp_path: Path) -> None:
    near, _ = connected(agents)
    path = tmp_path / "controller.sock"
    with running(FABRIC, Listening(path), agents=str(tmp_path / "{name}.sock")), ControllerClient(path) as controller:
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


def test_an_unknown_host_and_a_controller_without_agents_are_reported() -> None:
    with pytest.raises(FabricError, match="h9"):
        asyncio.run(nic_counters.read(FABRIC, "/x/{name}", "h9", queue_pairs=False))
    with pytest.raises(ControllerError, match="--agents"):
        asyncio.run(nic_counters.read(FABRIC, "", "h1", queue_pairs=False))


@contextmanager
def stopped(folder: Path, *names: str) -> Iterator[list[socket.socket]]:
    """Sockets of agents that were stopped: connections are queued, and nothing is answered."""
    with ExitStack() as stack:
        listeners = []
        for name in names:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(str(folder / f"{name}.sock"))
            listener.listen()
            listener.settimeout(10)
            listeners.append(listener)
        yield listeners


def test_reading_counters_of_a_stopped_agent_times_out_with_an_error(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (nic_counters, denylists):
        monkeypatch.setattr(module, "AGENT_TIMEOUT_S", 0.2)
    path, sockets = tmp_path / "controller.sock", str(tmp_path / "{name}.sock")
    with (
        running(FABRIC, Listening(path), agents=sockets),
        stopped(tmp_path, "h3", "h4"),
        ControllerClient(path) as controller,
    ):
        every = controller.nic_counters()
        with pytest.raises(ControllerError, match=r"The agent of h3 cannot be asked: .* may be stopped or overloaded"):
            controller.denied()
    assert [bool(nic.counters) for nic in every] == [True, True, False, False]
    assert all("may be stopped or overloaded" in nic.problem for nic in every[2:])


def test_unresponsive_agents_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_counters, "AGENT_TIMEOUT_S", 60)
    sockets = str(tmp_path / "{name}.sock")
    with ThreadPoolExecutor(1) as thread, stopped(tmp_path, "h1", "h2", "h3", "h4") as listeners:
        read = thread.submit(asyncio.run, nic_counters.read(FABRIC, sockets, "", queue_pairs=False))
        asked = [listener.accept()[0] for listener in listeners]
        for connection in asked:
            connection.close()
        assert all(nic.problem for nic in read.result())
