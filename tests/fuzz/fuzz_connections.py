"""Clients of a server with limits: idle, half, gone, busy, in bursts, and while no descriptor is left.

Whoever asks is answered, soon; no more than the limit are open; and in the end no descriptor is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import socket
import time
from collections.abc import Iterator

from mrc_common.limited_server import LimitedServer
from tests.waiting import until_async

MAX_SECONDS = 20.0  # for one answer, on a busy machine
ACTS = 60


class Echo(asyncio.Protocol):
    """Answers each piece with the same."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer."""
        assert self.transport is not None
        self.transport.write(data)


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


async def answers(port: int) -> bool:
    """Whether a new connection is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"x")
    try:
        return await asyncio.wait_for(reader.read(1), MAX_SECONDS) == b"x"
    finally:
        writer.close()


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    """None is left within."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


async def attack(chance: random.Random) -> None:
    """A server, and clients that do as they like."""
    maximum = chance.randrange(2, 12)
    server = LimitedServer(Echo, maximum)
    port = await server.listen("127.0.0.1", 0)
    held: list[socket.socket] = []
    try:
        for _ in range(ACTS):
            act = chance.randrange(6)
            if act <= 1 or not held:
                held += [socket.create_connection(("127.0.0.1", port)) for _ in range(chance.randrange(1, 8))]
            elif act == 2:
                held.pop(chance.randrange(len(held))).close()
            elif act == 3:
                with contextlib.suppress(OSError):  # it gave way
                    chance.choice(held).send(chance.randbytes(chance.randrange(1, 5)))
            elif act == 4:
                waiting = socket.socket()
                waiting.setblocking(False)
                held.append(waiting)
                with few_descriptors(), contextlib.suppress(OSError):
                    waiting.connect(("127.0.0.1", port))
                    await asyncio.sleep(0)
            else:
                begin = time.monotonic()
                assert await answers(port)
                assert time.monotonic() - begin < MAX_SECONDS
            await asyncio.sleep(0)
            assert len(server.open) <= maximum
        assert await answers(port)
        for sock in held:
            sock.close()

        async def all_closed() -> bool:
            server._forget_ended()
            return not len(server.open)

        await until_async(all_closed, "the end of all connections")
    finally:
        for sock in held:
            sock.close()
        server.stop_listening()


class Fuzzer:
    """Servers, one after the other."""

    def case(self, chance: random.Random) -> None:
        """One server."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = descriptors()
        try:
            asyncio.run(attack(chance))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert descriptors() == before

    def close(self) -> None:
        """Nothing is left."""
