"""Reading a fabric whose agents, controller and switches are there, silent or gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.server import Listening
from controller.values import SwitchCounters
from mrc_lab.telemetry import readings
from mrc_lab.telemetry.readings import FabricReader, FabricReading
from tests.controller.serving import running
from tests.mrc_host.agent.clients import connected
from tests.mrc_host.agent.conftest import Agents
from topologies.clos import multi_plane_clos
from topologies.emulation.run_directory import RunDirectory
from topologies.loader import dump_text

pytestmark = pytest.mark.plain_transport  # its agents have fake NICs

FABRIC = multi_plane_clos("lab", planes=2, t0=2, t1=2, hosts=4)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    """The run directory of a fabric that is up, without processes."""
    run = RunDirectory("lab", tmp_path)
    with run.locked():
        run.fabric_file.write_text(dump_text(FABRIC))
        yield run


@pytest.fixture
def agents(run: RunDirectory) -> Iterator[Agents]:
    """Those of h1 and h2; h3 and h4 have none."""
    found = Agents(run.path)
    yield found
    found.stop()


def read(run: RunDirectory) -> FabricReading | None:
    reader = FabricReader(run.name, run.root)
    try:
        return asyncio.run(reader.read())
    finally:
        reader.close()


def test_every_process_that_answers_is_read_and_others_are_named(run: RunDirectory, agents: Agents):
    near, _ = connected(agents)
    with running(FABRIC, Listening(run.controller_socket)):
        found = read(run)
    assert found is not None
    assert found.fabric == FABRIC
    assert [nic.name for nic in found.nics] == ["h1", "h2", "h3", "h4"]
    assert [bool(nic.problem) for nic in found.nics] == [False, False, True, True]
    pairs = found.nics[0].queue_pairs
    assert pairs is not None
    assert [pair.qpn for pair in pairs] == [near.qp.qpn]
    assert found.links is not None
    assert {link.name for link in found.links} == {link.name for link in FABRIC.links}
    assert found.faults == ()


def test_a_switch_that_the_controller_cannot_read_leaves_the_others(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    def counters(_: ControllerClient, switch: str) -> list[SwitchCounters]:
        if switch == "t1-0@p1":
            raise ControllerError("it does not answer")
        return [SwitchCounters(switch)]

    monkeypatch.setattr(ControllerClient, "counters", counters)
    with running(FABRIC, Listening(run.controller_socket)):
        found = read(run)
    assert found is not None
    assert found.counters is not None
    assert {one.switch for one in found.counters} == {switch.name for switch in FABRIC.switches}
    assert [one.switch for one in found.counters if one.problem] == ["t1-0@p1"]


def test_a_missing_controller_leaves_the_nics(run: RunDirectory, agents: Agents):
    found = read(run)
    assert found is not None
    assert (found.links, found.faults, found.counters, found.switches) == (None, None, None, ())
    assert found.nics[0].problem == ""


def test_stopped_agents_are_waited_for_together_and_within_a_limit(
    run: RunDirectory, agents: Agents, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(readings, "ANSWER_LIMIT_S", 0.2)
    with ExitStack() as stack:
        for name in ("h3", "h4"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(str(run.host_socket(name)))
            listener.listen()
        found = read(run)
    assert found is not None
    assert [bool(nic.counters) for nic in found.nics] == [True, True, False, False]
    assert all("may be stopped" in nic.problem for nic in found.nics[2:])


def test_queue_pairs_are_left_out_once_they_take_too_long(
    run: RunDirectory, agents: Agents, monkeypatch: pytest.MonkeyPatch
):
    held = connected(agents)
    monkeypatch.setattr(readings, "NIC_LIMIT_S", -1.0)
    found = read(run)
    del held
    assert found is not None
    assert found.nics[0].queue_pairs is None
    assert found.nics[0].counters


def test_a_fabric_that_is_not_up_has_no_reading(tmp_path: Path):
    assert read(RunDirectory("lab", tmp_path)) is None
    left_over = RunDirectory("lab", tmp_path)
    left_over.create()
    left_over.fabric_file.write_text(dump_text(FABRIC))
    assert read(left_over) is None, "its owner is gone"


def test_a_fabric_that_is_coming_up_has_no_reading(run: RunDirectory):
    run.fabric_file.write_text("name: lab\nplanes:")
    assert read(run) is None
    run.fabric_file.unlink()
    assert read(run) is None


def test_a_fabric_that_is_up_again_is_read_in_its_new_size(run: RunDirectory):
    reader = FabricReader(run.name, run.root)
    try:
        first = asyncio.run(reader.read())
        run.fabric_file.write_text(dump_text(multi_plane_clos("lab", planes=1, t0=1, t1=1, hosts=2)))
        second = asyncio.run(reader.read())
    finally:
        reader.close()
    assert first is not None
    assert second is not None
    assert (len(first.nics), len(second.nics)) == (4, 2)
