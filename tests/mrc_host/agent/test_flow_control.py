"""Posts and completions between client and agent: many at once, and who waits when a queue is full."""

from __future__ import annotations

import pytest

from mrc_host.agent import protocol
from mrc_host.agent.session import PENDING_LIMIT
from mrc_host.errors import ResourceExhaustedError
from mrc_host.values import QpState, WorkRequest, WrOpcode
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents


def test_thousands_of_posts_in_one_call(agents: Agents) -> None:
    a, b = connected(agents, capacity=1 << 14)
    count = 5000
    posts = [
        WorkRequest(i, WrOpcode.WRITE, a.mr.address + i, a.mr.info.lkey, 1, b.mr.address + i, b.mr.rkey)
        for i in range(count)
    ]
    a.mr.buffer[:count] = bytes(i % 251 for i in range(count))
    a.qp.post_send(posts)
    assert [a.cq.wait(10).wr_id for _ in range(count)] == list(range(count))
    assert b.mr.buffer[:count] == a.mr.buffer[:count]


def test_a_full_completion_queue_refuses_posts_until_it_is_read(agents: Agents) -> None:
    a, b = connected(agents, capacity=4)
    for i in range(4):
        a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
    with pytest.raises(ResourceExhaustedError):
        a.qp.write(a.mr, b.mr.remote, length=8)
    assert a.cq.wait(10).wr_id == 0
    a.qp.write(a.mr, b.mr.remote, length=8, wr_id=4)
    assert [a.cq.wait(10).wr_id for _ in range(4)] == [1, 2, 3, 4]


def test_completions_nobody_takes_stay_in_the_nic(agents: Agents) -> None:
    a, b = connected(agents, capacity=16)
    for i in range(100):
        a.qp.write(a.mr, b.mr.remote, length=8, imm=i, signaled=False)
    agents.turn()
    held = agents.call(lambda: sum(len(entries) for _, entries in agents.nics[1].queues.values()))
    assert held == 16  # a queue full here, a queue full in the client's hands, the rest not yet done
    seen = []
    for _ in range(100):
        seen.append(b.cq.wait(10).imm)
        agents.call(agents.wire.run)
    assert seen == list(range(100))


def test_posts_beyond_the_send_queue_wait_their_turn(agents: Agents) -> None:
    a, b = connected(agents, capacity=1000)
    agents.nics[0].send_depth = 8
    agents.wire.auto = False
    for i in range(100):
        a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
    agents.turn()
    assert a.cq.poll() == []
    seen: list[int] = []
    while len(seen) < 100:
        agents.call(lambda: agents.wire.run(3), 10)
        seen += [entry.wr_id for entry in a.cq.poll(1000)]
    assert seen == list(range(100))


def test_a_client_that_floods_is_held_back_and_nobody_else(agents: Agents) -> None:
    a, b = connected(agents, capacity=1000)
    agents.nics[0].send_depth = 1
    agents.wire.auto = False
    other = End(agents.paths[0])
    post = WorkRequest(
        1, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 8, b.mr.address, b.mr.rkey, None, signaled=False
    )

    def flood() -> None:
        for _ in range(1000):
            a.qp.post_send([post] * 1000)

    with pytest.raises(ResourceExhaustedError):
        flood()
    assert other.qp.state is QpState.RESET
    session = agents.call(lambda: next(s for s in agents.servers[0].sessions if a.qp.qpn in s.holdings.pairs))
    assert len(session._pending) < PENDING_LIMIT + 2 * protocol.MAX_POSTS
