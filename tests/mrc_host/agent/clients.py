"""Clients of agents for tests: whole applications on the library, and bare sockets that say what they like."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from mrc_host import verbs
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.client import AgentProvider
from mrc_host.verbs.remote.protocol import MessageKind
from tests.mrc_host.agent.conftest import Agents


class End:
    """One application: its context, queue, memory and queue pair."""

    def __init__(self, path: Path, *, length: int = 1 << 16, capacity: int = 64) -> None:
        self.provider = AgentProvider(path)
        self.context = verbs.Context(self.provider, owns_provider=True)
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(capacity)
        self.mr = self.pd.alloc_mr(length)
        self.qp = self.pd.create_qp(self.cq)


def connected(agents: Agents, **options: int) -> tuple[End, End]:
    """An application on each of the two agents, their queue pairs connected."""
    a, b = (End(path, **options) for path in agents.paths)
    agents.applications += [a.context, b.context]
    a.qp.connect(b.qp.address)
    b.qp.connect(a.qp.address)
    return a, b


def raw(path: Path, *, greet: bool = True) -> socket.socket:
    """A client without library."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(str(path))
    if greet:
        (hello,) = protocol.pack_json(MessageKind.HELLO, 1, {"version": protocol.VERSION})
        sock.send(hello)
        assert sock.recv(1 << 16)
    return sock


def ended(sock: socket.socket) -> str:
    """Wait until the agent has closed `sock`; its last message."""
    message = ""
    while True:
        try:
            data = sock.recv(1 << 16)
        except ConnectionResetError:  # reported once, before the agent's last message
            continue
        if not data:
            return message
        body = json.loads(data[protocol.HEADER.size :])
        message = body.get("message", message)
