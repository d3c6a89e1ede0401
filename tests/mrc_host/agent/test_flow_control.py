"""Posts and completions between client and agent: many at once, and who waits when a queue is full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.agent.session import RETRIES_PER_TURN
from mrc_host.errors import InvalidArgumentError, MrcError, ResourceExhaustedError
from mrc_host.verbs.remote import protocol
from mrc_host.verbs_types import CompletionStatus, QpState, WorkRequest, WrOpcode
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents
from tests.waiting import until


def test_thousands_of_requests_are_posted_in_one_call(agents: Agents) -> None:
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


def test_unpolled_completions_stay_in_the_nic(agents: Agents) -> None:
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


def test_posts_beyond_the_send_queue_depth_are_queued(agents: Agents) -> None:
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


def test_only_a_flooding_client_is_throttled(agents: Agents) -> None:
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
    assert waiting(agents) == {a.qp.qpn: protocol.PENDING_LIMIT}


def waiting(agents: Agents) -> dict[int, int]:
    """Posts that wait in the first agent, by QPN."""
    agents.turn()
    return agents.call(lambda: dict(item for s in agents.servers[0].sessions for item in s.posts_waiting().items()))


def unsignaled(a: End, b: End) -> WorkRequest:
    """A write that is only completed if it fails: unsignaled."""
    return WorkRequest(1, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 8, b.mr.address, b.mr.rkey, signaled=False)


def test_a_full_send_queue_blocks_no_other_queue_pair(agents: Agents) -> None:
    a, b = connected(agents, capacity=1000)
    agents.wire.auto = False
    agents.nics[0].send_depth = 2
    other, far = a.pd.create_qp(a.cq), b.pd.create_qp(b.cq)
    other.connect(far.address)
    far.connect(other.address)
    for i in range(5):
        a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
    other.write(a.mr, b.mr.remote, length=8, wr_id=100)
    assert waiting(agents) == {a.qp.qpn: 3}
    assert agents.call(lambda: len(agents.nics[0].pairs[other.qpn].queue)) == 1
    agents.wire.auto = True
    other.write(a.mr, b.mr.remote, length=8, wr_id=101)  # sets the wire going
    assert sorted(a.cq.wait(10).wr_id for _ in range(7)) == [0, 1, 2, 3, 4, 100, 101]


@pytest.mark.parametrize("end", ["destroy", "reset", "error"])
def test_queued_posts_are_flushed_in_order_when_their_queue_pair_fails(agents: Agents, end: str) -> None:
    a, b = connected(agents, capacity=16)
    agents.wire.auto = False
    agents.nics[0].send_depth = 4
    for _ in range(3):  # places in the completion queue come back every time
        for i in range(16):
            a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
        if end == "destroy":
            a.qp.close()
        else:
            a.qp.modify(QpState.RESET if end == "reset" else QpState.ERROR)
        got = [a.cq.wait(10) for _ in range(16)]
        assert [entry.wr_id for entry in got] == list(range(16))
        assert {entry.status for entry in got} == {CompletionStatus.FLUSHED}
        assert a.cq.poll() == []
        assert waiting(agents) == {}
        a.qp = a.pd.create_qp(a.cq)
        a.qp.connect(b.qp.address)


def test_a_reset_while_posts_wait_is_no_failure(agents: Agents) -> None:
    """Applications, libibverbs among them, would take an event of ERROR for a catastrophe (IBV_EVENT_QP_FATAL)."""
    a, _ = connected(agents, capacity=16)
    agents.wire.auto = False
    agents.nics[0].send_depth = 4
    for i in range(16):
        a.qp.write(a.mr, a.mr.remote, length=8, wr_id=i)
    assert waiting(agents) == {a.qp.qpn: 12}
    a.qp.modify(QpState.RESET)
    assert [a.cq.wait(10).status for _ in range(16)] == [CompletionStatus.FLUSHED] * 16
    assert a.context.poll_event() is None
    assert a.qp.state is QpState.RESET


def test_a_reset_that_is_refused_flushes_nothing(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = connected(agents)
    agents.wire.auto = False
    nic = agents.nics[0]
    nic.send_depth = 1
    for i in range(4):
        a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
    modify = nic.modify_qp

    def refuse(qpn: int, state: QpState, now: int, changes: object = None, **options: Any) -> None:
        if changes:
            raise InvalidArgumentError("The step to RESET takes no attributes, not timeout.")
        modify(qpn, state, now, **options)

    monkeypatch.setattr(nic, "modify_qp", refuse)
    with pytest.raises(InvalidArgumentError):
        a.qp.modify(QpState.RESET, timeout=5)
    assert a.qp.state is QpState.RTS
    assert waiting(agents) == {a.qp.qpn: 3}
    while waiting(agents):
        agents.call(agents.wire.run)
    agents.call(agents.wire.run)
    assert [a.cq.wait(10).status for _ in range(4)] == [CompletionStatus.SUCCESS] * 4


def test_a_failed_unsignaled_write_frees_no_reserved_completion_slot(agents: Agents) -> None:
    a, b = connected(agents, capacity=4)
    agents.wire.auto = False
    bad, other = a.pd.create_qp(a.cq), a.pd.create_qp(a.cq)
    for qp in (bad, other):
        qp.connect(b.qp.address)
    for i in range(4):
        other.write(a.mr, b.mr.remote, length=8, wr_id=i)
    for _ in range(3):
        bad.write(a.mr, b.mr.remote, length=8, wr_id=9, signaled=False)
    bad.close()
    failures = [a.cq.wait(10) for _ in range(3)]
    assert [(entry.wr_id, entry.status, entry.signaled) for entry in failures] == [
        (9, CompletionStatus.FLUSHED, False)
    ] * 3
    with pytest.raises(ResourceExhaustedError):
        other.write(a.mr, b.mr.remote, length=8)
    agents.call(agents.wire.run)
    assert [a.cq.wait(10).wr_id for _ in range(4)] == [0, 1, 2, 3]


def test_receive_completions_take_no_slot_reserved_for_posts(agents: Agents) -> None:
    a, b = connected(agents, capacity=4)
    for i in range(4):
        b.qp.write(b.mr, a.mr.remote, length=8, imm=i, signaled=False)
    agents.turn()
    a.provider.refresh()  # they are here
    for i in range(4):
        a.qp.write(a.mr, b.mr.remote, length=8, wr_id=i)
    assert [a.cq.wait(10).imm for _ in range(4)] == [0, 1, 2, 3]
    assert [a.cq.wait(10).wr_id for _ in range(4)] == [0, 1, 2, 3]


def test_an_error_says_how_many_of_several_requests_were_posted(agents: Agents) -> None:
    a, b = connected(agents, capacity=2000)
    post = WorkRequest(1, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 8, b.mr.address, b.mr.rkey)
    with pytest.raises(ResourceExhaustedError) as refused:
        a.qp.post_send([post] * 3000)
    assert refused.value.posted == 2000
    for _ in range(2000):
        a.cq.wait(10)
    assert a.cq.poll() == []
    agents.wire.auto = False
    agents.nics[0].send_depth = 10
    with pytest.raises(ResourceExhaustedError) as refused:
        a.qp.post_send([unsignaled(a, b)] * 10_000)
    assert protocol.PENDING_LIMIT <= refused.value.posted <= protocol.PENDING_LIMIT + 10
    assert agents.call(lambda: len(agents.nics[0].pairs[a.qp.qpn].queue)) == 10
    agents.call(agents.wire.run)
    a.qp.write(a.mr, b.mr.remote, length=8, wr_id=5)
    while waiting(agents):
        agents.call(agents.wire.run)
    agents.call(agents.wire.run)
    assert a.cq.wait(10).wr_id == 5
    assert agents.call(lambda: agents.nics[0].pairs[a.qp.qpn].sent) == 2000 + refused.value.posted + 1


def test_all_queue_pairs_with_queued_posts_are_served(agents: Agents) -> None:
    a, b = connected(agents, capacity=1000)
    agents.wire.auto = False
    agents.nics[0].send_depth = 1
    pairs = [a.pd.create_qp(a.cq) for _ in range(RETRIES_PER_TURN * 2 + 5)]
    for qp in pairs:
        qp.connect(b.qp.address)
        for _ in range(2):
            qp.write(a.mr, b.mr.remote, length=8, wr_id=qp.qpn)
    assert len(waiting(agents)) == len(pairs)
    last = pairs[-1].qpn
    agents.call(lambda: agents.nics[0].carry_out(agents.nics[0].pairs[last]))  # only the last has room now
    assert a.cq.wait(10).wr_id == last
    until(lambda: last not in waiting(agents), "the queue pair that has room not to wait any more")


def test_a_client_exceeding_the_queued_post_limit_is_disconnected(agents: Agents) -> None:
    a, b = connected(agents)
    agents.wire.auto = False
    agents.nics[0].send_depth = 1
    body = protocol.pack_posts(a.qp.qpn, [unsignaled(a, b)] * protocol.MAX_POSTS)
    connection = a.provider.connection
    for _ in range(protocol.PENDING_LIMIT // protocol.MAX_POSTS):
        connection.send(body)
        connection.request("info")
    connection.send(body)
    with pytest.raises(MrcError, match="call posts_waiting before posting more"):
        connection.request("info")
    assert b.qp.state is QpState.RTS


def test_a_client_killed_with_queued_posts_leaves_nothing(agents: Agents) -> None:
    a, b = connected(agents, capacity=1000)
    agents.wire.auto = False
    agents.nics[0].send_depth = 1
    for _ in range(100):
        a.qp.write(a.mr, b.mr.remote, length=8)
    until(lambda: waiting(agents) == {a.qp.qpn: 99}, "99 posts to wait")
    a.provider.close()
    until(lambda: waiting(agents) == {}, "no posts to wait any more")
    nic = agents.nics[0]
    until(lambda: agents.call(lambda: not nic.pairs and not nic.queues), "queue pairs and queues to be gone")


def test_large_gather_lists_and_inline_data_are_posted_in_order_over_several_messages(agents: Agents) -> None:
    a, b = connected(agents, capacity=4096)
    a.mr.buffer[:4] = b"abcd"
    pieces = tuple(verbs.Sge(a.mr.address + at, a.mr.info.lkey, 1) for at in (3, 0) * 8)
    plain = WorkRequest(0, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 1, b.mr.address + 100, b.mr.rkey)
    kinds = (
        plain,
        replace(plain, sges=pieces, length=16, remote_address=b.mr.address),
        replace(plain, inline=b"inline", length=6, remote_address=b.mr.address + 50),
    )
    a.qp.post_send([replace(kinds[number % 3], wr_id=number) for number in range(900)])
    done = [verbs.check(a.cq.wait(10)).wr_id for _ in range(900)]
    assert done == list(range(900))
    assert bytes(b.mr.buffer[:17]) == b"da" * 8 + b"\0"
    assert (bytes(b.mr.buffer[50:57]), bytes(b.mr.buffer[100:102])) == (b"inline\0", b"a\0")
    with pytest.raises(MrcError, match="2 to 16 pieces"):
        a.qp.post_send([plain, replace(plain, inline=b"four", length=5)])
