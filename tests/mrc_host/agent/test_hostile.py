"""Hostile or faulty clients: they reach nothing of others, and only they are disconnected."""

from __future__ import annotations

import array
import fcntl
import gc
import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.errors import InvalidArgumentError, NotFoundError
from mrc_host.verbs import Context, ProtocolError
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.client import AgentProvider
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_host.verbs.remote.protocol import MessageKind
from mrc_host.verbs_types import Access, CompletionStatus, QpState, WorkRequest, WrOpcode
from tests.mrc_host.agent.clients import End, connected, ended, raw
from tests.mrc_host.agent.conftest import Agents
from tests.seeds import SEED
from tests.waiting import until


def test_clients_cannot_access_each_others_objects(agents: Agents) -> None:
    a, b = connected(agents)
    thief = AgentConnection(agents.paths[0])
    pd = thief.request("alloc_pd")
    cq = thief.request("create_cq", capacity=4)
    for op, arguments in (
        ("destroy_qp", {"qpn": a.qp.qpn}),
        ("connect_qp", {"qpn": a.qp.qpn, "remote": {"address": "fd00::1", "qpn": 1}}),
        ("destroy_cq", {"cq": a.cq.number}),
        ("deregister_memory", {"lkey": a.mr.info.lkey}),
        ("dealloc_pd", {"pd": a.pd.number}),
        ("create_qp", {"pd": a.pd.number, "send_cq": cq, "recv_cq": cq, "qp_type": "mrc", "attributes": {}}),
        ("create_qp", {"pd": pd, "send_cq": a.cq.number, "recv_cq": cq, "qp_type": "mrc", "attributes": {}}),
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


def test_a_clients_name_cannot_control_the_terminals_that_it_is_printed_on(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0], client="\x1b]0;mine\x07 a\nb \ud800 Zoë")
    pd, cq = client.request("alloc_pd"), client.request("create_cq", capacity=4)
    client.request("create_qp", pd=pd, send_cq=cq, recv_cq=cq, qp_type="mrc", attributes={})
    (pair,) = client.qps()
    assert pair.client.endswith("(?]0;mine? a?b ? Zoë)")


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
def test_wrong_arguments_are_refused(agents: Agents, op: str, arguments: dict[str, Any]) -> None:
    client = AgentConnection(agents.paths[0])
    with pytest.raises(InvalidArgumentError):
        client.request(op, **arguments)
    assert client.request("info")["name"] == "h1"


def memfd(length: int, seals: int = fcntl.F_SEAL_SHRINK) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def test_memory_that_could_crash_the_agent_is_refused(agents: Agents, tmp_path: Path) -> None:
    client = AgentConnection(agents.paths[0])
    pd = client.request("alloc_pd")
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
        (os.open(f"/proc/self/fd/{read_only}", os.O_RDONLY), "Cannot map"),
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"offset": 8192}, "has 8192 bytes, less than the region's 100 at offset 8192"),
        ({"offset": 8093}, "has 8192 bytes, less than the region's 100 at offset 8093"),
        ({"offset": (1 << 62) - 1}, "has 8192 bytes, less than"),
        ({"offset": -1}, "offset must be an integer from 0"),
        ({"offset": 1 << 63}, "offset must be an integer from 0"),
        ({"address": -1}, "address must be an integer from 0"),
        ({"address": 1 << 64}, "address must be an integer from 0"),
        ({"length": -100}, "length must be an integer from 1"),
        ({"length": 1 << 40}, "has 8192 bytes, less than"),
    ],
)
def test_ranges_outside_the_memory_are_refused(agents: Agents, values: dict[str, int], message: str) -> None:
    client = AgentConnection(agents.paths[0])
    arguments = {"pd": client.request("alloc_pd"), "length": 100, "access": 3, **values}
    fd = memfd(8192)
    with pytest.raises(Exception, match=message):
        client.request("register_memory", fd=fd, **arguments)
    os.close(fd)
    assert agents.call(lambda: dict(agents.nics[0].regions), 10) == {}


def test_a_registered_memfd_cannot_shrink(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0])
    fd = memfd(8192)
    client.request("register_memory", fd=fd, pd=client.request("alloc_pd"), length=8192, access=3)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.ftruncate(fd, 16384)  # growing harms nobody
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_FUTURE_WRITE if hasattr(fcntl, "F_SEAL_FUTURE_WRITE") else 0x10)
    os.close(fd)


def test_memory_of_huge_pages_is_refused(agents: Agents) -> None:
    """Touching such a page may raise SIGBUS when the machine has none left."""
    try:
        fd = os.memfd_create("huge", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
    except OSError:
        pytest.skip("this kernel has no huge pages")
    os.ftruncate(fd, 1 << 21)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    client = AgentConnection(agents.paths[0])
    with pytest.raises(InvalidArgumentError, match="huge pages"):
        client.request("register_memory", fd=fd, pd=client.request("alloc_pd"), length=4096, access=3)
    os.close(fd)


def test_a_client_killed_amid_many_registrations_leaves_nothing(agents: Agents) -> None:
    """Of one memfd, whose ranges overlap, at addresses that do."""
    agents.turn()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    client, fd = AgentConnection(agents.paths[0]), memfd(1 << 16)
    pd = client.request("alloc_pd")
    for number in range(300):
        client.request("register_memory", fd=fd, pd=pd, length=4096, access=3, offset=number * 7, address=number)
    assert agents.call(lambda: len(agents.nics[0].regions), 10) == 300
    # a message that the client would not send, on its own connection
    sock = socket.socket(fileno=os.dup(client._socket.fileno()))
    request = {"op": "register_memory", "pd": pd, "length": 10, "access": 3}
    socket.send_fds(sock, protocol.pack_json(MessageKind.REQUEST, 99, request), [fd])
    sock.close()
    client.close()
    os.close(fd)
    until(lambda: not agents.call(lambda: dict(agents.nics[0].regions), 10), "the release of its regions, some a turn")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_descriptors_never_pile_up(agents: Agents) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    sock = raw(agents.paths[0])
    gc.collect()  # what earlier tests left open is not to be closed while this one counts
    agents.turn()
    before = count()
    fds = [memfd(10) for _ in range(4)]
    (request,) = protocol.pack_json(MessageKind.REQUEST, 5, {"op": "info"})
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


GOOD_HELLO = protocol.pack_json(MessageKind.HELLO, 1, {"version": protocol.VERSION})[0]


@pytest.mark.parametrize(
    "messages",
    [
        [b"x"],
        [b"GET / HTTP/1.0\r\n\r\n"],
        [protocol.pack_json(MessageKind.HELLO, 1, {"version": protocol.VERSION + 1})[0]],
        [protocol.pack_json(MessageKind.REQUEST, 1, {"op": "info"})[0]],
        [GOOD_HELLO, GOOD_HELLO],
        [GOOD_HELLO, b"\x02\0\0\0\x01\0\0\0{"],
        [GOOD_HELLO, b"\x02\x01\0\0\x01\0\0\0{}"],
        [GOOD_HELLO, b"\x05\0\0\0\0\0\0\0123"],
        [GOOD_HELLO, b"\x08\0\0\0\0\0\0\0123"],
        [GOOD_HELLO, b"\x63\0\0\0\0\0\0\0"],
        [GOOD_HELLO, bytes(protocol.MAX_MESSAGE + 1)],
    ],
)
def test_only_a_client_that_breaks_the_protocol_is_disconnected(agents: Agents, messages: list[bytes]) -> None:
    bystander = End(agents.paths[0])
    sock = raw(agents.paths[0], greet=False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
    for message in messages:
        sock.send(message)
    assert ended(sock)
    assert bystander.qp.state is QpState.RESET


def test_random_bytes_from_many_clients_do_no_harm(agents: Agents) -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    a, b = connected(agents)
    ops = ["alloc_pd", "create_cq", "create_qp", "connect_qp", "qps", "register_memory", "subscribe", "x"]
    for _ in range(150):
        sock = raw(agents.paths[0], greet=rng.random() < 0.8)
        sock.setblocking(False)
        try:
            for _ in range(rng.randrange(6)):
                if rng.random() < 0.5:
                    request = {"op": rng.choice(ops), "pd": rng.randrange(5), "capacity": rng.choice([1, None, "x"])}
                    sock.send(protocol.pack_json(MessageKind.REQUEST, rng.randrange(9), request)[0])
                else:
                    head = protocol.HEADER.pack(rng.randrange(12), rng.randrange(2), 0, 0)
                    sock.send(head + rng.randbytes(rng.choice([0, 5, 48, 96, 3000])))
        except OSError:
            pass
        if rng.random() < 0.7:
            sock.close()
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_a_client_of_another_version_gets_the_reason(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    sock = raw(agents.paths[0], greet=False)
    sock.send(protocol.pack_json(MessageKind.HELLO, 1, {"version": 99})[0])
    assert f"speaks version {protocol.VERSION} of the protocol, the client 99" in ended(sock)


def test_malformed_client_messages_are_protocol_errors(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0])
    client.send(protocol.HEADER.pack(77, 0, 0, 0))
    with pytest.raises(ProtocolError, match="kind 77"):
        client.request("info")


def test_access_rights_are_enforced(agents: Agents) -> None:
    a, b = connected(agents)
    private = b.pd.alloc_mr(64, Access.LOCAL_WRITE)
    a.qp.write(a.mr, private.remote, length=64)
    assert a.cq.wait(10).status is CompletionStatus.REMOTE_ACCESS_ERROR
