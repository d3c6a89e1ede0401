"""What a running agent may still do: nothing that it needs no more, and everything that it does need."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common.privileges import current
from mrc_host import verbs
from mrc_host.back_to_back import BackToBack
from mrc_host.verbs.remote.connection import AgentConnection, control_socket
from mrc_host.verbs_types import CompletionStatus, PathState
from tests.integration.test_agent import End, connected
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[BackToBack]:
    with BackToBack(tmp_path) as hosts:
        yield hosts


def agent_pid(hosts: BackToBack, number: int) -> int:
    """The agent's own process, whatever it was started through."""
    return int(AgentConnection(hosts.agents[number].socket).request("info")["pid"])


def write(a: End, b: End, length: int = 1 << 20) -> None:
    """Carry bytes from one to the other over what links there are."""
    data = os.urandom(length)
    a.mr.buffer[:length] = data
    a.qp.write(a.mr, b.mr.remote, length=length)
    assert a.cq.wait(20).status is CompletionStatus.SUCCESS
    assert b.mr.buffer[:length] == data


def test_a_running_agent_has_no_capabilities_and_cannot_create_files(hosts: BackToBack, tmp_path: Path) -> None:
    a, b = connected(hosts)
    for number in range(2):
        left = current(agent_pid(hosts, number))
        assert (left.permitted, left.effective, left.inheritable, left.ambient, left.bounding) == (0, 0, 0, 0, 0)
        assert left.no_new_privs
    write(a, b)
    with verbs.open_controller(hosts.agents[0].socket) as controller:
        assert controller.destinations()
    control = AgentConnection(control_socket(hosts.agents[0].socket))
    with pytest.raises(verbs.MrcError):
        control.request("trace", path=str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_privileges_are_kept_on_request(hosts: BackToBack) -> None:
    hosts.start(0, "--keep-privileges")
    assert current(agent_pid(hosts, 0)) == current()


def test_sockets_belong_to_root_and_a_group(hosts: BackToBack) -> None:
    path = hosts.start(0, "--group", "nogroup").socket
    control = Path(control_socket(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert path.group() == "nogroup"
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    path = hosts.start(1, "--group", "").socket
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_that_go_down_or_disappear_are_used_again(hosts: BackToBack) -> None:
    """Renamed, deleted and created again: each takes a port to be opened again, without a right to make raw sockets."""
    a, b = connected(hosts)
    observer = AgentConnection(hosts.agents[0].socket)

    def up() -> list[bool]:
        return [bool(port["up"]) for port in observer.request("ports")]

    for plane in (0, 1):
        hosts.set_link(0, plane, "down")
        until(lambda: up().count(True) == 1)
        write(a, b)
        hosts.set_link(0, plane, "up")
        until(lambda: all(up()))
    for _ in range(3):
        hosts.delete_link(0)
        until(lambda: up() == [False, True])
        write(a, b)
        hosts.add_link(0)
        until(lambda: all(up()))
    hosts.set_link(0, 0, "down")
    name = hosts.configs[0].ports[0].interface
    hosts.execute(hosts.namespaces[0], "ip", "link", "set", name, "name", "elsewhere")
    hosts.execute(hosts.namespaces[0], "ip", "link", "set", "elsewhere", "up")
    until(lambda: up() == [False, True])
    hosts.execute(hosts.namespaces[0], "ip", "link", "set", "elsewhere", "down")
    hosts.execute(hosts.namespaces[0], "ip", "link", "set", "elsewhere", "name", name)
    hosts.set_link(0, 0, "up")
    until(lambda: all(up()))
    hosts.delete_link(1)  # now everything goes over the port that was reopened
    until(lambda: up() == [True, False])
    write(a, b, 4 << 20)
    counters = observer.request("ports")
    assert counters[0]["rx_frames"] > 0
    assert counters[0]["tx_frames"] > 500


def test_denials_and_traces_work_without_privileges(hosts: BackToBack, tmp_path: Path) -> None:
    a, b = connected(hosts)
    folder = tmp_path / "users"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    trace = folder / "trace.jsonl"
    with verbs.open_controller(hosts.agents[0].socket) as controller:
        far = controller.destination("h2")
        controller.deny(far.address, far.evs[0])
        until(lambda: any(path.state is PathState.DENIED for path in a.qp.paths()))
        controller.trace(trace)
        write(a, b)
        controller.allow(far.address, far.evs[0])
        until(lambda: all(path.state is not PathState.DENIED for path in a.qp.paths()))
        controller.trace("")
    events = [json.loads(line)["event"] for line in trace.read_text().splitlines()]
    assert "completion" in events


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_can_be_restarted(hosts: BackToBack, number: signal.Signals, tmp_path: Path) -> None:
    trace = tmp_path / "start.jsonl"
    for _ in range(2):
        agent = hosts.start(0, "--trace", str(trace))
        with verbs.open_controller(agent.socket) as controller:
            assert controller.destinations()
        agent.process.send_signal(number)
        agent.process.wait(10)
        left = [path for path in (agent.socket, Path(control_socket(agent.socket))) if path.exists()]
        assert len(left) == (0 if number is signal.SIGTERM else 2)
        agent.close()
    assert trace.exists()
