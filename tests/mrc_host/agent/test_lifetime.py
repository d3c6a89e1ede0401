"""What ends when: objects that are closed, clients that die, agents that die, and the socket file."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.agent.server import AgentSocketError, listen
from mrc_host.errors import StateError
from mrc_host.verbs import AgentLostError, ClosedError
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents


def test_closing_releases_everything(agents: Agents) -> None:
    a, b = connected(agents)
    with a.context:
        pass
    with pytest.raises(ClosedError):
        a.cq.poll()
    b.qp.close()
    b.cq.close()
    b.mr.close()
    b.pd.close()
    agents.turn()
    for nic in agents.nics:
        assert agents.call(lambda nic=nic: (nic.pairs, nic.queues, nic.regions)) == ({}, {}, {})  # type: ignore[misc]


def test_memory_stays_valid_while_a_view_exists(agents: Agents) -> None:
    a, _ = connected(agents)
    view = a.mr.buffer[10:20]
    a.mr.close()
    view[0] = 5
    assert view[0] == 5
    with pytest.raises(ClosedError):
        _ = a.mr.buffer


def test_a_killed_client_loses_its_objects_and_others_none(agents: Agents) -> None:
    a, b = connected(agents)
    pid = os.fork()
    if not pid:
        End(agents.paths[0])
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    agents.turn()
    assert agents.call(lambda: (len(agents.nics[0].pairs), len(agents.nics[0].regions))) == (1, 1)
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_an_agent_crash_is_reported_immediately(agents: Agents) -> None:
    a, b = connected(agents)
    a.qp.write(a.mr, b.mr.remote, wr_id=3)
    agents.turn()
    closer = threading.Timer(0.05, lambda: agents.call(agents.servers[0].close, 10))
    closer.start()
    assert a.cq.wait(10).wr_id == 3
    with pytest.raises(AgentLostError, match="is gone"):
        a.cq.wait(30)
    for use in (a.cq.poll, lambda: a.qp.state, lambda: a.qp.write(a.mr, b.mr.remote), a.context.poll_event):
        with pytest.raises(AgentLostError):
            use()
    a.context.close()
    closer.join()


def test_an_agent_crash_wakes_waiting_coroutines(agents: Agents) -> None:
    a, _ = connected(agents)

    async def main() -> list[Any]:
        waiting = [asyncio.ensure_future(a.cq.next()), asyncio.ensure_future(a.context.next_event())]
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, lambda: agents.call(agents.servers[0].close, 10))
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)

    results = asyncio.run(main())
    assert [type(result) for result in results] == [AgentLostError, AgentLostError]


def test_a_listener_is_notified_of_completions_and_of_an_agent_crash(agents: Agents) -> None:
    a, b = connected(agents)
    seen: list[int] = []

    async def main() -> None:
        gone = asyncio.get_running_loop().create_future()

        def listener() -> None:
            try:
                for done in a.cq.poll():
                    seen.append(done.wr_id)
                    a.qp.write(a.mr, b.mr.remote, wr_id=done.wr_id + 1, signaled=done.wr_id < 40)
                    if done.wr_id == 40:
                        closing = lambda: agents.call(agents.servers[0].close, 10)  # noqa: E731
                        asyncio.get_running_loop().run_in_executor(None, closing)
            except AgentLostError as error:
                gone.set_result(error)

        a.cq.listen(listener)
        a.qp.write(a.mr, b.mr.remote, wr_id=0)
        await asyncio.wait_for(gone, 10)

    asyncio.run(main())
    assert seen == list(range(41))


def test_connecting_without_an_agent_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(AgentLostError, match=r"No agent answers at .*/none\.sock"):
        verbs.open(tmp_path / "none.sock")


def test_a_protection_domain_in_use_cannot_be_deallocated(agents: Agents) -> None:
    end = End(agents.paths[0])
    with pytest.raises(StateError):
        end.provider.dealloc_pd(end.pd.number)
    end.qp.close()
    with pytest.raises(StateError):
        end.provider.dealloc_pd(end.pd.number)
    end.mr.close()
    end.provider.dealloc_pd(end.pd.number)


def test_the_socket_is_private_and_replaced_only_when_stale(agents: Agents, tmp_path: Path) -> None:
    path = agents.paths[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(AgentSocketError, match="Another process listens"):
        listen(path)
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(stale))
    listen(stale).close()
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(AgentSocketError, match="is not a socket"):
        listen(file)
    assert file.read_text() == "precious"
    with pytest.raises(AgentSocketError, match="longer than 107"):
        listen(tmp_path / ("x" * 120))
    with pytest.raises(AgentSocketError, match="Cannot listen"):
        listen(tmp_path / "no" / "folder")


def test_the_socket_file_is_removed_with_the_agent(agents: Agents) -> None:
    agents.call(agents.servers[1].close, 10)
    assert not agents.paths[1].exists()
