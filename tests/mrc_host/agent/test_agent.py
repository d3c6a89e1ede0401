"""Agent and client together, over a fake NIC: verbs, isolation, hostile clients, death on either side."""

from __future__ import annotations

import array
import asyncio
import fcntl
import json
import os
import random
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.agent import protocol
from mrc_host.agent.client import AgentProvider
from mrc_host.agent.connection import AgentConnection, event_from_json
from mrc_host.agent.protocol import Kind
from mrc_host.agent.server import SocketError, listen
from mrc_host.agent.session import PENDING_LIMIT
from mrc_host.errors import (
    InvalidArgumentError,
    MrcError,
    NotFoundError,
    ResourceExhaustedError,
    StateError,
    UnknownDestinationError,
)
from mrc_host.values import (
    Access,
    CompletionOpcode,
    CompletionStatus,
    PathState,
    PortEvent,
    QpAddress,
    QpCounters,
    QpEvent,
    QpState,
    WorkRequest,
    WrOpcode,
)
from mrc_host.verbs import AgentLostError, ClosedError, Context, ProtocolError, RefusedError, WaitTimeoutError
from tests.mrc_host.agent.conftest import Agents


class End:
    """One application: its context, queue, memory and queue pair."""

    def __init__(self, path: Path, *, length: int = 1 << 16, capacity: int = 64) -> None:
        self.context = verbs.open(path)
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(capacity)
        self.mr = self.pd.alloc_mr(length)
        self.qp = self.pd.create_qp(self.cq)


def connected(agents: Agents, **options: int) -> tuple[End, End]:
    a, b = (End(path, **options) for path in agents.paths)
    a.qp.connect(b.qp.address)
    b.qp.connect(a.qp.address)
    return a, b


def raw(path: Path, *, greet: bool = True) -> socket.socket:
    """A client without library."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(str(path))
    if greet:
        (hello,) = protocol.pack_json(Kind.HELLO, 1, {"version": protocol.VERSION})
        sock.send(hello)
        assert sock.recv(1 << 16)
    return sock


def ended(sock: socket.socket) -> str:
    """Wait until the agent has closed `sock`; its last message."""
    message = ""
    while True:
        try:
            data = sock.recv(1 << 16)
        except ConnectionResetError:  # told once, before what the agent said last
            continue
        if not data:
            return message
        body = json.loads(data[protocol.HEADER.size :])
        message = body.get("message", message)


def test_bytes_travel_between_two_clients(agents: Agents) -> None:
    a, b = connected(agents)
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    data = random.Random(seed).randbytes(1 << 16)
    a.mr.buffer[:] = data
    a.qp.write(a.mr, b.mr.remote, wr_id=1 << 63, imm=7)
    done = verbs.check(a.cq.wait(10))
    assert (done.wr_id, done.qpn, done.byte_len) == (1 << 63, a.qp.qpn, 1 << 16)
    arrived = b.cq.wait(10)
    assert (arrived.opcode, arrived.imm) == (CompletionOpcode.RECV_WRITE_WITH_IMM, 7)
    assert bytes(b.mr.buffer) == data


def test_names_addresses_and_questions(agents: Agents) -> None:
    a, _ = connected(agents)
    nic = agents.nics[0]
    assert (a.context.name, a.context.address) == ("h1", nic.config.address)
    assert a.qp.address == QpAddress(nic.config.address, a.qp.qpn)
    assert a.qp.state is QpState.RTS
    assert a.qp.counters() == QpCounters()
    assert {path.plane for path in a.qp.paths()} == {0, 1}
    assert all(path.state is PathState.GOOD for path in a.qp.paths())
    assert a.context.counters()["tx_frames"] == 2


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


def test_asyncio_and_blocking_use_mix(agents: Agents) -> None:
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


def test_failures_carry_their_reason(agents: Agents) -> None:
    a, b = connected(agents)
    a.qp.post_write(a.mr, 0, 8, b.mr.address, b.mr.rkey ^ 1, wr_id=5, signaled=False)
    done = a.cq.wait(10)
    assert (done.wr_id, done.status, done.reason) == (5, CompletionStatus.REMOTE_ACCESS_ERROR, "it was wrong")
    assert a.context.wait_event(10) == QpEvent(7, a.qp.qpn, "remote_access_error")
    assert a.qp.state is QpState.ERROR


def test_errors_of_the_nic_come_back_as_their_class(agents: Agents) -> None:
    a, b = connected(agents)
    with pytest.raises(StateError, match="connected already"):
        a.qp.connect(b.qp.address)
    with pytest.raises(StateError):
        a.cq.close()
    with pytest.raises(UnknownDestinationError):
        a.pd.create_qp(a.cq).connect(QpAddress(bytes(16), 5))
    with pytest.raises(StateError, match="not connected"):
        a.pd.create_qp(a.cq).write(a.mr, b.mr.remote)


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


def test_closing_gives_everything_back(agents: Agents) -> None:
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


def test_memory_outlives_its_region_while_a_view_is_held(agents: Agents) -> None:
    a, _ = connected(agents)
    view = a.mr.buffer[10:20]
    a.mr.close()
    view[0] = 5
    assert view[0] == 5
    with pytest.raises(ClosedError):
        _ = a.mr.buffer


def test_a_killed_client_loses_all_and_others_nothing(agents: Agents) -> None:
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


def test_a_dead_agent_is_told_at_once(agents: Agents) -> None:
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


def test_a_dead_agent_wakes_coroutines(agents: Agents) -> None:
    a, _ = connected(agents)

    async def main() -> list[Any]:
        waiting = [asyncio.ensure_future(a.cq.next()), asyncio.ensure_future(a.context.next_event())]
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, lambda: agents.call(agents.servers[0].close, 10))
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)

    results = asyncio.run(main())
    assert [type(result) for result in results] == [AgentLostError, AgentLostError]


def test_no_agent_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(AgentLostError, match=r"No agent answers at .*/none\.sock"):
        verbs.open(tmp_path / "none.sock")


def test_events_reach_those_they_concern(agents: Agents) -> None:
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


def test_questions_of_an_observer(agents: Agents) -> None:
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
    observer.request("deny_path", peer="fd00:6d:7263::2", ev=5, denied=True)
    assert agents.call(lambda: agents.nics[0].denied) == [(agents.nics[1].config.address, 5, True)]
    with pytest.raises(RefusedError, match="knows no operation 'fly'"):
        observer.request("fly")


def test_long_answers_arrive_whole(agents: Agents) -> None:
    end = End(agents.paths[0])
    for _ in range(400):
        end.pd.create_qp(end.cq)
    assert len(AgentConnection(agents.paths[0]).request("qps")) == 401


def test_clients_cannot_touch_each_others_objects(agents: Agents) -> None:
    a, b = connected(agents)
    thief = AgentConnection(agents.paths[0])
    pd = thief.request("create_pd")
    cq = thief.request("create_cq", capacity=4)
    for op, arguments in (
        ("destroy_qp", {"qpn": a.qp.qpn}),
        ("connect_qp", {"qpn": a.qp.qpn, "remote": {"address": "fd00::1", "qpn": 1}}),
        ("destroy_cq", {"cq": a.cq.number}),
        ("deregister_memory", {"lkey": a.mr.info.lkey}),
        ("destroy_pd", {"pd": a.pd.number}),
        ("create_qp", {"pd": a.pd.number, "send_cq": cq, "recv_cq": cq, "type": "mrc", "attributes": {}}),
        ("create_qp", {"pd": pd, "send_cq": a.cq.number, "recv_cq": cq, "type": "mrc", "attributes": {}}),
    ):
        with pytest.raises(NotFoundError, match="This client has no"):
            thief.request(op, **arguments)
    # its own queue pair cannot read the other's memory: another protection domain
    provider = AgentProvider(agents.paths[0])
    context = Context(provider, owns_provider=True)
    own = context.create_cq(4)
    qp = context.alloc_pd().create_qp(own)
    qp.connect(b.qp.address)
    qp.write(a.mr, b.mr.remote, length=8)
    assert own.wait(10).status is CompletionStatus.LOCAL_PROTECTION_ERROR
    # posting to a foreign queue pair costs the connection
    sock = raw(agents.paths[0])
    post = WorkRequest(1, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 8, b.mr.address, b.mr.rkey)
    sock.send(protocol.pack_posts(a.qp.qpn, [post]))
    assert "is not the client's own" in ended(sock)
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_a_protection_domain_in_use_stays(agents: Agents) -> None:
    end = End(agents.paths[0])
    provider = end.context._provider
    with pytest.raises(StateError):
        provider.dealloc_pd(end.pd.number)
    end.qp.close()
    with pytest.raises(StateError):
        provider.dealloc_pd(end.pd.number)
    end.mr.close()
    provider.dealloc_pd(end.pd.number)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("create_cq", {}),
        ("create_cq", {"capacity": 0}),
        ("create_cq", {"capacity": "many"}),
        ("events", {"since": -1}),
        ("subscribe", {"scope": "everything"}),
    ],
)
def test_wrong_arguments_are_an_error(agents: Agents, op: str, arguments: dict[str, Any]) -> None:
    client = AgentConnection(agents.paths[0])
    with pytest.raises(InvalidArgumentError):
        client.request(op, **arguments)
    assert client.request("info")["name"] == "h1"


def memfd(length: int, seals: int = fcntl.F_SEAL_SHRINK) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def test_memory_that_could_fault_the_agent_is_refused(agents: Agents, tmp_path: Path) -> None:
    client = AgentConnection(agents.paths[0])
    pd = client.request("create_pd")
    arguments = {"pd": pd, "length": 8192, "access": 3}
    plain = os.open(tmp_path / "plain", os.O_RDWR | os.O_CREAT)
    os.ftruncate(plain, 8192)
    read_only = memfd(8192)
    pipe, other_end = os.pipe()
    os.close(other_end)
    cases = [
        (pipe, "not a memfd"),
        (plain, r"not a memfd|not sealed against shrinking"),  # the latter where /tmp is a tmpfs, which has seals
        (memfd(8192, 0), "not sealed against shrinking"),
        (memfd(4096), "has 4096 bytes, less than the region's 8192"),
        (os.open(f"/proc/self/fd/{read_only}", os.O_RDONLY), "cannot map"),
        (None, "exactly one descriptor"),
    ]
    for fd, message in cases:
        with pytest.raises(Exception, match=message):
            client.request("register_memory", fd=fd, **arguments)
        if fd is not None:
            os.close(fd)
    with pytest.raises(InvalidArgumentError):
        client.request("register_memory", fd=read_only, **{**arguments, "length": 0})
    assert client.request("register_memory", fd=read_only, **arguments)["length"] == 8192
    os.close(read_only)


def test_descriptors_never_pile_up(agents: Agents) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    sock = raw(agents.paths[0])
    agents.turn()
    before = count()
    fds = [memfd(10) for _ in range(4)]
    (request,) = protocol.pack_json(Kind.REQUEST, 5, {"op": "info"})
    for _ in range(50):
        socket.send_fds(sock, [request], fds)
        assert sock.recv(1 << 16)
    agents.turn()
    assert count() == before + 4
    sock.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds * 30))])
    assert "longer than" in ended(sock)
    agents.turn()
    assert count() <= before + 4
    for fd in fds:
        os.close(fd)


GOOD_HELLO = protocol.pack_json(Kind.HELLO, 1, {"version": protocol.VERSION})[0]


@pytest.mark.parametrize(
    "messages",
    [
        [b"x"],
        [b"GET / HTTP/1.0\r\n\r\n"],
        [protocol.pack_json(Kind.HELLO, 1, {"version": protocol.VERSION + 1})[0]],
        [protocol.pack_json(Kind.REQUEST, 1, {"op": "info"})[0]],
        [GOOD_HELLO, GOOD_HELLO],
        [GOOD_HELLO, b"\x02\0\0\0\x01\0\0\0{"],
        [GOOD_HELLO, b"\x02\x01\0\0\x01\0\0\0{}"],
        [GOOD_HELLO, b"\x05\0\0\0\0\0\0\0123"],
        [GOOD_HELLO, b"\x08\0\0\0\0\0\0\0123"],
        [GOOD_HELLO, b"\x63\0\0\0\0\0\0\0"],
        [GOOD_HELLO, bytes(protocol.MAX_MESSAGE + 1)],
    ],
)
def test_whoever_breaks_the_protocol_is_cut_off_alone(agents: Agents, messages: list[bytes]) -> None:
    bystander = End(agents.paths[0])
    sock = raw(agents.paths[0], greet=False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
    for message in messages:
        sock.send(message)
    assert ended(sock)
    assert bystander.qp.state is QpState.RESET


def test_garbage_from_many_clients_harms_nobody(agents: Agents) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    rng = random.Random(seed)
    a, b = connected(agents)
    ops = ["create_pd", "create_cq", "create_qp", "connect_qp", "qps", "register_memory", "subscribe", "x"]
    for _ in range(150):
        sock = raw(agents.paths[0], greet=rng.random() < 0.8)
        sock.setblocking(False)
        try:
            for _ in range(rng.randrange(6)):
                if rng.random() < 0.5:
                    request = {"op": rng.choice(ops), "pd": rng.randrange(5), "capacity": rng.choice([1, None, "x"])}
                    sock.send(protocol.pack_json(Kind.REQUEST, rng.randrange(9), request)[0])
                else:
                    head = protocol.HEADER.pack(rng.randrange(12), rng.randrange(2), 0, 0)
                    sock.send(head + rng.randbytes(rng.choice([0, 5, 48, 96, 3000])))
        except OSError:
            pass
        if rng.random() < 0.7:
            sock.close()
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_a_client_of_another_version_hears_why(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    sock = raw(agents.paths[0], greet=False)
    sock.send(protocol.pack_json(Kind.HELLO, 1, {"version": 99})[0])
    assert "speaks version 1 of the protocol, the client 99" in ended(sock)


def test_the_clients_own_mistake_is_a_protocol_error(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0])
    client.send(protocol.HEADER.pack(77, 0, 0, 0))
    with pytest.raises(ProtocolError, match="kind 77"):
        client.request("info")


def test_the_socket_is_private_and_replaced_only_when_stale(agents: Agents, tmp_path: Path) -> None:
    path = agents.paths[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(SocketError, match="Another process listens"):
        listen(path)
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(stale))
    listen(stale).close()
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(SocketError, match="is not a socket"):
        listen(file)
    assert file.read_text() == "precious"
    with pytest.raises(SocketError, match="longer than 107"):
        listen(tmp_path / ("x" * 120))
    with pytest.raises(SocketError, match="Cannot listen"):
        listen(tmp_path / "no" / "folder")


def test_the_socket_file_goes_with_the_agent(agents: Agents) -> None:
    agents.call(agents.servers[1].close, 10)
    assert not agents.paths[1].exists()


def test_access_rights_are_honoured(agents: Agents) -> None:
    a, b = connected(agents)
    private = b.pd.alloc_mr(64, Access.LOCAL_WRITE)
    a.qp.write(a.mr, private.remote)
    assert a.cq.wait(10).status is CompletionStatus.REMOTE_ACCESS_ERROR


PEER = "fd00:6d:7263::2"


def denied(observer: AgentConnection) -> set[int]:
    return {int(path["ev"]) for path in observer.request("denied_paths")}


def test_leased_denials_end_with_the_last_who_leases_them(agents: Agents) -> None:
    observer = AgentConnection(agents.paths[0])
    one, two = (AgentConnection(agents.paths[0]) for _ in range(2))
    for ev in (1, 2):
        one.request("deny_path", peer=PEER, ev=ev, denied=True, leased=True)
    two.request("deny_path", peer=PEER, ev=2, denied=True, leased=True)
    assert denied(observer) == {1, 2}
    one.close()
    agents.turn()
    assert denied(observer) == {2}
    two.request("deny_path", peer=PEER, ev=2, denied=False, leased=True)
    assert denied(observer) == set()


def test_a_lease_takes_nothing_from_those_who_deny_for_good(agents: Agents) -> None:
    observer, map_ = (AgentConnection(agents.paths[0]) for _ in range(2))
    observer.request("deny_path", peer=PEER, ev=1, denied=True)
    for ev in (1, 2, 3):
        map_.request("deny_path", peer=PEER, ev=ev, denied=True, leased=True)
    observer.request("deny_path", peer=PEER, ev=2, denied=True)  # now for good
    observer.request("deny_path", peer=PEER, ev=3, denied=False)  # the last word
    map_.request("deny_path", peer=PEER, ev=1, denied=False, leased=True)
    assert denied(observer) == {1, 2}
    map_.close()
    agents.turn()
    assert denied(observer) == {1, 2}


def test_a_refused_lease_is_none(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0])
    for wrong in ({"leased": 1}, {"denied": "yes"}, {"ev": -1}, {"peer": "h2"}):
        with pytest.raises(MrcError):
            client.request("deny_path", **{"peer": PEER, "ev": 1, "denied": True, "leased": True} | wrong)
    assert denied(client) == set()
