"""Agent and client together, over a fake NIC: verbs and events that cross the socket, and questions of observers."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_host.agent.server import AgentServer
from mrc_host.back_to_back import nic_config
from mrc_host.driver.loop import Loop
from mrc_host.errors import MrcError, StateError, UnknownDestinationError
from mrc_host.verbs import RejectedError, WaitTimeoutError
from mrc_host.verbs.remote.connection import AgentConnection, event_from_json
from mrc_host.verbs_types import (
    CompletionOpcode,
    CompletionStatus,
    PathState,
    PortEvent,
    QpAddress,
    QpCounters,
    QpEvent,
    QpState,
)
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents
from tests.mrc_host.fake_nic import FakeNic, Wire
from tests.seeds import SEED


def test_a_write_between_two_clients_arrives(agents: Agents) -> None:
    a, b = connected(agents)
    seed = SEED
    print("seed", seed)
    data = random.Random(seed).randbytes(1 << 16)
    a.mr.buffer[:] = data
    a.qp.write(a.mr, b.mr.remote, wr_id=1 << 63, imm=7)
    done = verbs.check(a.cq.wait(10))
    assert (done.wr_id, done.qpn, done.byte_len) == (1 << 63, a.qp.qpn, 1 << 16)
    arrived = b.cq.wait(10)
    assert (arrived.opcode, arrived.imm) == (CompletionOpcode.RECV_WRITE_WITH_IMM, 7)
    assert bytes(b.mr.buffer) == data


def test_completions_are_announced_before_the_driver_has_its_turn(tmp_path: Path) -> None:
    """Acknowledgements that it sends wake other processes, behind which the application would wait."""
    loop, nic = Loop(), FakeNic(nic_config(0), Wire())
    unannounced: list[set[int]] = []

    def drive(_now: int) -> None:
        unannounced.append(set(nic.ready))
        loop.stop()

    loop.add_turn(drive)
    server = AgentServer(nic, loop, tmp_path / "agent.sock")
    server.start()
    nic.ready.add(5)
    loop.run()
    server.close()
    loop.close()
    assert unannounced == [set()]


def test_peers_addresses_and_properties_are_queried(agents: Agents) -> None:
    a, _ = connected(agents)
    nic = agents.nics[0]
    assert (a.context.name, a.context.address) == ("h1", nic.config.address)
    assert a.qp.address == nic.qp_address(a.qp.qpn)
    assert a.qp.state is QpState.RTS
    assert a.qp.counters() == QpCounters()
    assert {path.plane for path in a.qp.paths()} == {0, 1}
    assert all(path.state is PathState.GOOD for path in a.qp.paths())
    assert a.context.counters()["tx_frames"] == 2
    assert a.context.hw_counters() == a.qp.hw_counters() == {"tx_data_packets": 0}
    assert a.context.port_counters() == ({"link_up": 1}, {"link_up": 1})


def test_asyncio_and_blocking_calls_can_be_mixed(agents: Agents) -> None:
    a, b = connected(agents)

    async def receive(count: int) -> list[int | None]:
        return [(await b.cq.next()).imm for _ in range(count)]

    async def main() -> list[int | None]:
        task = asyncio.ensure_future(receive(20))
        for i in range(20):
            a.qp.write(a.mr, b.mr.remote, length=8, imm=i)
            verbs.check(await a.cq.next())
        return await task

    assert asyncio.run(main()) == list(range(20))
    a.qp.write(a.mr, b.mr.remote, length=8, imm=99)
    assert b.cq.wait(10).imm == 99
    assert asyncio.run(asyncio.wait_for(main(), 20)) == list(range(20))  # and on a second loop


def test_waits_time_out(agents: Agents) -> None:
    a, _ = connected(agents)
    with pytest.raises(WaitTimeoutError):
        a.cq.wait(0.01)
    with pytest.raises(WaitTimeoutError):
        a.context.wait_event(0.01)


def test_failed_completions_carry_their_reason(agents: Agents) -> None:
    a, b = connected(agents)
    a.qp.post_write(a.mr, 0, 8, b.mr.address, b.mr.rkey ^ 1, wr_id=5, signaled=False)
    done = a.cq.wait(10)
    assert (done.wr_id, done.status, done.reason) == (5, CompletionStatus.REMOTE_ACCESS_ERROR, "it was wrong")
    assert a.context.wait_event(10) == QpEvent(7, a.qp.qpn, "remote_access_error")
    assert a.qp.state is QpState.ERROR


def test_nic_errors_are_raised_as_their_class(agents: Agents) -> None:
    a, b = connected(agents)
    with pytest.raises(StateError, match="connected already"):
        a.qp.connect(b.qp.address)
    with pytest.raises(StateError):
        a.cq.close()
    with pytest.raises(UnknownDestinationError):
        a.pd.create_qp(a.cq).connect(QpAddress(bytes(16), 5, 0))
    with pytest.raises(StateError, match="not connected"):
        a.pd.create_qp(a.cq).write(a.mr, b.mr.remote)


def test_events_reach_the_clients_concerned(agents: Agents) -> None:
    a, b = connected(agents)
    other = verbs.open(agents.paths[0])
    watcher = AgentConnection(agents.paths[0])
    watched: list[object] = []
    watcher.on_event = watched.append
    watcher.request("subscribe", scope="all")
    agents.call(lambda: agents.nics[0].port_changed(1, False, 11))
    assert a.context.wait_event(10) == other.wait_event(10) == PortEvent(11, 1, False, True)
    a.qp.post_write(a.mr, 0, 1 << 20, b.mr.address, b.mr.rkey)
    event = a.context.wait_event(10)
    assert isinstance(event, QpEvent)
    assert other.poll_event() is None
    watcher.request("info")
    assert watched == [PortEvent(11, 1, False, True), event]
    recent = watcher.request("events", since=0)
    assert [event_from_json(data) for data in recent] == watched
    assert watcher.request("events", since=recent[0]["number"]) == recent[1:]


def test_observers_can_query_state(agents: Agents) -> None:
    a, b = connected(agents)
    a.qp.write(a.mr, b.mr.remote)
    a.cq.wait(10)
    observer = AgentConnection(agents.paths[0], client="prompt")
    (row,) = observer.request("qps")
    assert (row["qpn"], row["type"], row["state"]) == (a.qp.qpn, "mrc", "rts")
    assert row["remote"] == f"h2:{b.qp.qpn}"
    assert row["counters"]["data_sent"] == 1
    assert len(observer.request("qp_paths", qpn=a.qp.qpn)) == 8
    assert observer.request("info")["destinations"] == [{"name": "h2", "address": "fd00:6d:7263::2"}]
    assert observer.request("ports") == []
    assert observer.request("delays", measure=True) == []
    with pytest.raises(MrcError, match="measure"):
        observer.request("delays", measure="yes")
    observer.request("deny_path", peer="fd00:6d:7263::2", ev=5, denied=True)
    assert agents.call(lambda: agents.nics[0].denied) == [(agents.nics[1].config.address, 5, True)]
    with pytest.raises(RejectedError, match="knows no operation 'fly'"):
        observer.request("fly")


def test_long_responses_arrive_whole(agents: Agents) -> None:
    end = End(agents.paths[0])
    for _ in range(400):
        end.pd.create_qp(end.cq)
    assert len(AgentConnection(agents.paths[0]).request("qps")) == 401
