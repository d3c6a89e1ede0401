"""An agent's two sockets: what applications may, and what only the controller may."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.agent.server import AgentServer, AgentSocketError
from mrc_host.back_to_back import nic_config
from mrc_host.errors import MrcError
from mrc_host.verbs import AgentLostError
from mrc_host.verbs.declaration import Caller
from mrc_host.verbs.errors import RejectedError
from mrc_host.verbs.remote.agent_verbs import VERBS
from mrc_host.verbs.remote.connection import AgentConnection, control_socket
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents
from tests.mrc_host.fake_nic import FakeNic, Wire

PEER = "fd00:6d:7263::2"
CONTROL = {name for name, verb in VERBS.items() if verb.caller is Caller.CONTROLLER}


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Agents]:
    """Agents with two sockets each."""
    agents = Agents(tmp_path, split=True)
    yield agents
    agents.stop()


def test_controller_operations_are_refused_to_applications(split: Agents) -> None:
    application = AgentConnection(split.paths[0])
    control = control_socket(split.paths[0])
    attempts: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in sorted(CONTROL)]
    attempts += [
        ("deny_path", {"peer": PEER, "ev": 5, "denied": True}),
        ("delays", {"measure": True}),
        ("subscribe", {"scope": "all"}),
        ("trace", {"path": "/tmp/x"}),
    ]
    for name, arguments in attempts:
        with pytest.raises(RejectedError) as refused:
            application.request(name, **arguments)
        message = str(refused.value)
        assert "is for the controller, not for applications: use" in message
        assert control in message
        assert message.count(". ") == 0
        assert message.endswith(".")
    assert split.call(lambda: split.nics[0].denied) == []
    assert split.call(lambda: split.nics[0].trace) is None


def test_controller_operations_are_those_affecting_other_clients(split: Agents) -> None:
    """Each operation is decided on: a new one is listed here."""
    own = {"alloc_pd", "dealloc_pd", "register_memory", "deregister_memory", "create_cq", "destroy_cq", "create_qp"}
    own |= {
        "connect_qp",
        "modify_qp",
        "destroy_qp",
        "post_recv",
        "query_qp",
        "qp_address",
        "completions_waiting",
        "posts_waiting",
        "subscribe",
    }
    looking = {"qp_state", "qp_counters", "qp_paths", "nic_counters", "info", "ports", "delays", "qps", "events"}
    looking |= {"hw_counters", "port_counters", "query_device", "control_limits"}
    looking |= {"denied_paths", "ev_profiles", "cc_profiles", "port_states", "destinations"}
    assert VERBS.keys() - CONTROL == own | looking


def test_applications_work_and_query_over_their_socket(split: Agents) -> None:
    a, b = connected(split)
    a.qp.write(a.mr, b.mr.remote, imm=7)
    assert a.cq.wait(10).byte_len == len(a.mr)
    assert b.cq.wait(10).imm == 7
    looking = AgentConnection(split.paths[0])
    for name in ("nic_counters", "info", "ports", "delays", "qps", "denied_paths", "destinations"):
        looking.request(name)
    looking.request("subscribe", scope="own")


def test_the_controllers_socket_is_derived_from_the_applications(split: Agents, tmp_path: Path) -> None:
    end = End(split.paths[0])
    for controller in (
        verbs.open_controller(split.paths[0]),
        verbs.open_controller(control_socket(split.paths[0])),
        end.context.controller(),
    ):
        with controller:
            far = controller.destination("h2")
            controller.deny(far.address, far.evs[0])
            assert [path.ev for path in controller.denied()] == [far.evs[0]]
            controller.allow(far.address, far.evs[0])
            assert controller.ping(far.address, far.evs[0]).rtt == 1000
            controller.trace(tmp_path / "trace")
            controller.trace("")
    end.qp.close()
    end.context.close()
    split.turn()
    assert split.call(lambda: split.servers[0].sessions) == ()


def test_the_client_opens_its_trace_file(split: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace"
    with verbs.open_controller(split.paths[0]) as controller:
        with pytest.raises(MrcError, match=r"Cannot write the trace to .*: No such file"):
            controller.trace(tmp_path / "none" / "trace")
        controller.trace(path)
        path.rename(tmp_path / "moved")  # it is written to all the same
        split.call(lambda: split.nics[0].trace({"t": 1, "event": "send"}))  # type: ignore[misc]
        assert AgentConnection(split.paths[0]).request("info")
        controller.trace("")
    assert (tmp_path / "moved").read_text().splitlines()[1:] == ['{"t":1,"event":"send"}']
    assert not path.exists()


def test_sockets_have_their_modes_and_group(tmp_path: Path) -> None:
    agents = Agents(tmp_path, split=True, group=os.getegid())
    try:
        path = agents.paths[0]
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(os.stat(control_socket(path)).st_mode) == 0o600
    finally:
        agents.stop()
    assert not path.exists()
    assert not os.path.exists(control_socket(path))


def test_a_single_socket_accepts_controller_operations_only_if_private(tmp_path: Path) -> None:
    for name, group in (("own", None), ("shared", os.getegid())):
        folder = tmp_path / name
        folder.mkdir()
        agents = Agents(folder, group=group)
        try:
            client = AgentConnection(agents.paths[0])
            if group is None:
                client.request("subscribe", scope="all")
            else:
                with pytest.raises(RejectedError, match="for the controller"):
                    client.request("subscribe", scope="all")
        finally:
            agents.stop()


def test_a_failed_start_leaves_neither_socket(split: Agents, tmp_path: Path) -> None:
    blocked = tmp_path / "other.control.sock"
    blocked.write_text("precious")
    server = AgentServer(FakeNic(nic_config(0), Wire()), split.loop, tmp_path / "other.sock", control=blocked)
    with pytest.raises(AgentSocketError, match="is not a socket"):
        split.call(server.start)
    assert blocked.read_text() == "precious"
    assert not (tmp_path / "other.sock").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_only_group_members_may_use_the_nic(tmp_path: Path) -> None:
    from tests.mrc_common.test_privileges import in_child

    agents = Agents(tmp_path, split=True, group=4242)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(0o711)

    def answer(path: str) -> str:
        try:
            AgentConnection(path).request("info")
        except AgentLostError as error:
            return str(error)
        return ""

    def user(groups: list[int]) -> Any:
        def child() -> list[str]:
            os.setgroups(groups)
            os.setgid(65534)
            os.setuid(65534)
            return [answer(path) for path in (str(agents.paths[0]), control_socket(agents.paths[0]))]

        return in_child(child)

    try:
        application, control = user([4242])
        assert application == ""
        assert "Permission denied for" in control
        assert all("Permission denied for" in answer for answer in user([]))
    finally:
        agents.stop()
