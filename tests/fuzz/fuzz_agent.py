"""Clients of a NIC agent that mean harm: random and broken requests, posts, credits and descriptors, and sudden ends.

Beside them two well-behaved applications write to each other: after every case their write must complete, and the
agent's descriptors must not pile up. No file may appear that a client has named.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import tempfile
from pathlib import Path

from mrc_host import verbs
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.agent_verbs import VERBS
from mrc_host.verbs.remote.protocol import MessageKind
from tests.mrc_host.agent.clients import connected, raw
from tests.mrc_host.agent.conftest import Agents

MAX_DESCRIPTORS = 64  # more than the well-behaved ones have
NAMES = tuple(sorted({name for verb in VERBS.values() for name in verb.parameters}))

PLAUSIBLE: dict[str, object] = {  # what random requests change a part of
    "pd": 1, "length": 4096, "access": 3, "capacity": 8, "send_cq": 1, "recv_cq": 1, "qp_type": "mrc", "attributes": {},
    "qpn": 1, "state": "reset", "changes": {}, "remote": {"address": "fd00::1", "qpn": 1, "psn": 0},
    "peer": "fd00:6d:7263::2", "ev": 0, "denied": True, "timeout": 1, "name": "mine", "profile": {}, "since": 0,
    "scope": "own", "path": "",
}  # fmt: skip


class Fuzzer:
    """Two agents on fake NICs in this process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._before = os.getcwd()
        os.chdir(tempfile.mkdtemp(dir=self._folder.name))  # nothing may appear in it
        self._agents = Agents(Path(self._folder.name))
        self._a, self._b = connected(self._agents)
        self._descriptors = len(os.listdir("/proc/self/fd"))

    def case(self, chance: random.Random) -> None:
        clients = [raw(self._agents.paths[0], greet=chance.random() < 0.9) for _ in range(chance.randint(1, 3))]
        for sock in clients:
            sock.setblocking(False)
        for _ in range(chance.randint(1, 30)):
            sock = chance.choice(clients)
            with contextlib.suppress(OSError):
                self._send(sock, chance)
            with contextlib.suppress(OSError):
                sock.recv(1 << 16) if chance.random() < 0.5 else None
        for sock in clients:
            sock.close()
        self._a.qp.write(self._a.mr, self._b.mr.remote)
        verbs.check(self._a.cq.wait(10))
        self._agents.turn()
        assert len(os.listdir("/proc/self/fd")) <= self._descriptors + MAX_DESCRIPTORS, "descriptors pile up"
        assert os.listdir() == [], "a client's word became a path"

    def close(self) -> None:
        self._agents.stop()
        os.chdir(self._before)
        self._folder.cleanup()

    def _send(self, sock: socket.socket, chance: random.Random) -> None:
        kind = chance.random()
        if kind < 0.05:
            head = protocol.HEADER.pack(chance.randrange(12), chance.randrange(3), 0, chance.randrange(1 << 32))
            sock.send(head + chance.randbytes(chance.choice([0, 1, 8, 48, 96, 3000])))
        elif kind < 0.8:
            request = self._request(chance)
            message = protocol.pack_json(MessageKind.REQUEST, chance.randrange(9), request)[0]
            self._with_descriptors(sock, message, chance)
        elif kind < 0.83:
            depth = chance.choice([1, 100, 20_000])
            sock.send(protocol.HEADER.pack(MessageKind.REQUEST, 0, 0, 1) + b"[" * depth)
        else:
            size = protocol.POST_SIZE * chance.randrange(20) + chance.choice([0, 0, 1])
            body = bytearray(chance.randbytes(size))
            qpn = chance.choice([self._a.qp.qpn, chance.randrange(1 << 24)])
            for start in range(0, size - protocol.POST_SIZE + 1, protocol.POST_SIZE):
                body[start + 8 : start + 12] = qpn.to_bytes(4, "little")
                body[start + 12] = chance.randrange(4)
            sock.send(protocol.HEADER.pack(MessageKind.POST, 0, 0, 0) + body)

    @staticmethod
    def _request(chance: random.Random) -> dict[str, object]:
        """A verb with some of its arguments, plausible or not; now and then one that it does not take."""
        op = chance.choice([*VERBS, "x"])
        takes = list(VERBS[op].parameters) if op in VERBS else []
        request = {"op": op, **{name: PLAUSIBLE[name] for name in takes if name in PLAUSIBLE}}
        for name in chance.sample(takes, chance.choice([0, 0, chance.randint(0, len(takes))])):
            request[name] = value(chance)
        if chance.random() < 0.1:
            request[chance.choice(NAMES)] = value(chance)
        return request

    @staticmethod
    def _with_descriptors(sock: socket.socket, message: bytes, chance: random.Random) -> None:
        if chance.random() < 0.7:
            sock.send(message)
            return
        fds = [os.memfd_create("fuzz", os.MFD_ALLOW_SEALING) for _ in range(chance.randint(1, 3))]
        try:
            for fd in fds:
                os.ftruncate(fd, chance.choice([0, 4096, 65536]))
            socket.send_fds(sock, [message], fds)
        finally:
            for fd in fds:
                os.close(fd)


def value(chance: random.Random, depth: int = 0) -> object:
    """Anything JSON can say, with a liking for the edges."""
    kind = chance.randrange(7 if depth < 3 else 4)
    if kind == 0:
        return chance.choice([0, 1, -1, 2, 3, 2**16, 2**24, 2**31, 2**32, 2**63, 2**64, 10**30, True, None, 1.5, 1e308])
    if kind == 1:
        return chance.choice(["", "mrc", "rc", "INIT", "RTS", "h2", "\0", "../x", "a" * 5000, "\ud800", "fd00::1"])
    if kind <= 3:
        return chance.randrange(16)
    if kind == 4:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(NAMES): value(chance, depth + 1) for _ in range(chance.randrange(4))}
