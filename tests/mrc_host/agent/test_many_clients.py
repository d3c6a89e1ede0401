"""Many clients at once, and what they share: descriptors that run out, and connections after fork()."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from mrc_host import verbs
from mrc_host.errors import MrcError, ResourceExhaustedError
from mrc_host.verbs.errors import ClosedError, ProtocolError
from mrc_host.verbs.remote import descriptors, protocol
from mrc_host.verbs.remote.connection import control_socket
from tests.mrc_host.agent.agent_process import agents_with, few_descriptors
from tests.mrc_host.agent.clients import End, connected, raw
from tests.mrc_host.agent.conftest import Agents
from tests.waiting import until

T = TypeVar("T")


def until_refused(make: Callable[[], T]) -> tuple[list[T], MrcError]:
    """What could be made, and the error that ended it."""
    made: list[T] = []
    with contextlib.suppress(MrcError):
        while len(made) < 100:
            made.append(make())
    with pytest.raises(MrcError) as error:
        make()
    return made, error.value


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Agents]:
    agents = Agents(tmp_path, split=True)
    yield agents
    agents.stop()


def test_applications_exhausting_descriptors_get_the_reason_and_the_controller_still_connects(split: Agents) -> None:
    path = split.paths[0]
    with few_descriptors(descriptors.RESERVED + 20):
        clients, error = until_refused(lambda: verbs.open(path))
        assert isinstance(error, ProtocolError)
        assert "can hold no more clients or regions" in str(error)
        assert len(clients) > 5
        controller = verbs.open(control_socket(path))
        assert controller.name == "h1"
        controller.close()
        clients.pop().close()
        split.turn()
        clients.append(verbs.open(path))
    for client in clients:
        client.close()


@pytest.mark.parametrize("room", [20, 21])
def test_registrations_exhausting_descriptors_are_refused_and_the_client_continues(tmp_path: Path, room: int) -> None:
    """Each client and region takes one, and one more passes with each request; the reserve stays the controller's."""
    with agents_with(tmp_path, descriptors.RESERVED + room) as paths:
        a, b = (End(path) for path in paths)
        a.qp.connect(b.qp.address)
        b.qp.connect(a.qp.address)
        regions, error = until_refused(lambda: a.pd.alloc_mr(4096))
        assert isinstance(error, ResourceExhaustedError)
        assert str(error) == descriptors.NONE_LEFT
        assert len(regions) == room - 5  # a and b, a region of each, and what passes
        a.qp.write(a.mr, b.mr.remote)
        verbs.check(a.cq.wait(10))
        for place in (0, -1, len(regions) // 2):
            regions.pop(place).close()
            regions.append(a.pd.alloc_mr(4096))
            with pytest.raises(ResourceExhaustedError, match="use fewer, larger regions"):
                a.pd.alloc_mr(4096)
        controllers = [verbs.open(control_socket(paths[0])) for _ in range(descriptors.RESERVED // 2)]
        for context in (*controllers, a.context, b.context):
            context.close()


def test_a_descriptor_the_agent_cannot_receive_is_refused_and_the_client_continues(
    split: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = connected(split)
    monkeypatch.setattr(descriptors, "RESERVED", 0)
    file = os.memfd_create("x")
    with few_descriptors(1):
        held: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        # a request beside the client, which would need a descriptor of its own
        sock = a.provider.connection._socket  # type: ignore[attr-defined]
        (request,) = protocol.pack_json(protocol.MessageKind.REQUEST, 1 << 31, {"op": "info"})
        socket.send_fds(sock, [request], [file])
        split.turn()
        for fd in held:
            os.close(fd)
        os.close(file)
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_one_user_cannot_have_all_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = iter(["user 12345"] * 4 + ["user 54321", f"user {os.geteuid()}", "user 12345"])
    monkeypatch.setattr("mrc_host.agent.server.owner_of", lambda _sock: next(users))
    monkeypatch.setattr(descriptors, "share", lambda: 3)
    split = Agents(tmp_path, split=True)
    try:
        path = split.paths[0]
        clients = [verbs.open(path) for _ in range(3)]
        with pytest.raises(ProtocolError, match="One user can have at most 3 clients here"):
            verbs.open(path)
        clients += [verbs.open(path), verbs.open(path)]
        clients.pop(0).close()
        split.turn()
        clients.append(verbs.open(path))
        for client in clients:
            client.close()
    finally:
        split.stop()


def test_clients_are_accepted_again_once_descriptors_are_free(agents: Agents) -> None:
    """Whoever gave them back: here it is nobody's session."""
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with few_descriptors(1):
        held: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        waiting.connect(str(agents.paths[0]))
        agents.turn()
        for fd in held:
            os.close(fd)
    waiting.settimeout(10)
    (hello,) = protocol.pack_json(protocol.MessageKind.HELLO, 1, {"version": protocol.VERSION})
    waiting.send(hello)
    assert waiting.recv(1 << 16)
    waiting.close()


def test_a_thousand_silent_or_stalled_clients_disturb_nobody(agents: Agents) -> None:
    a, b = connected(agents)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        clients = [raw(agents.paths[0], greet=number % 3 == 0) for number in range(1000)]
        for number, sock in enumerate(clients):
            if number % 3 == 0:
                (request,) = protocol.pack_json(protocol.MessageKind.REQUEST, 1, {"op": "create_cq", "capacity": 8})
                sock.send(request)
            elif number % 3 == 1:
                sock.send(b"\x02\0\0")
        a.qp.write(a.mr, b.mr.remote)
        verbs.check(a.cq.wait(30))
        for sock in clients:
            sock.close()
        agents.turn()
        assert agents.call(lambda: len(agents.servers[0].sessions)) == 1
        until(lambda: agents.call(lambda: len(agents.servers[0].owners)) == 1, "the release of what they had")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_forked_child_does_not_share_its_parents_connections(agents: Agents) -> None:
    a, b = connected(agents)
    read, write = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - in the child
        outcome = "nothing"
        try:
            a.qp.write(a.mr, b.mr.remote)
        except MrcError as error:
            outcome = f"{type(error).__name__}: {error}"
        a.context.close()
        os.write(write, outcome.encode())
        signal.pause()
    try:
        os.close(write)
        outcome = os.read(read, 1000).decode()
        assert outcome.startswith(ClosedError.__name__)
        assert "open another after fork()" in outcome
        a.qp.write(a.mr, b.mr.remote)
        verbs.check(a.cq.wait(10))
        a.context.close()
        agents.turn()
        assert agents.call(lambda: len(agents.servers[0].sessions)) == 0, "the child does not keep it alive"
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
