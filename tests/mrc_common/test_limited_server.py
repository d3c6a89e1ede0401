"""The server that accepts within limits: where it counts, handshakes that never come, and no descriptor left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mrc_common import limited_server
from mrc_common.connection_owner import owner_of
from mrc_common.limited_server import LimitedServer
from tests.fuzz.fuzz_connections import Echo, Fuzzer, answers, descriptors
from tests.seeds import SEED
from tests.waiting import until_async


def run(test: Callable[[LimitedServer, int], Awaitable[None]], maximum: int, idle_s: float = 60.0) -> None:
    async def main() -> None:
        server = LimitedServer(Echo, maximum, idle_s=idle_s)
        port = await server.listen("127.0.0.1", 0)
        try:
            await test(server, port)
        finally:
            server.stop_listening()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_shut_nobody_out() -> None:
    async def test(server: LimitedServer, port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        assert await answers(port)
        assert len(server.open) <= 4
        assert await held[0][0].read() == b""
        for _, writer in held:
            writer.close()

    run(test, 4)


def test_an_unserved_connection_is_closed() -> None:
    async def test(_server: LimitedServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()

    run(test, 4, idle_s=0.01)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    names = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", names[0],
         "-out", names[1]], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(names[1], names[0])
    return context


def _tls_client() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_connections_that_never_shake_hands_are_counted_and_give_way(tls: ssl.SSLContext) -> None:
    async def main() -> None:
        server = LimitedServer(Echo, 5)
        port = await server.listen("127.0.0.1", 0, tls)
        before = descriptors()
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=_tls_client())
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        assert len(server.open) <= 5

        async def few() -> bool:
            return descriptors() <= before + len(held) + 5 + 2  # the two are the client's, and one on the way

        await until_async(few, "the descriptors of those that gave way")
        for sock in held:
            sock.close()
        writer.close()
        server.stop_listening()

    asyncio.run(main())


def test_a_handshake_that_never_comes_is_not_waited_for(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_server, "HANDSHAKE_S", 0.01)

    async def main() -> None:
        server = LimitedServer(Echo, 5)
        port = await server.listen("127.0.0.1", 0, tls)
        before = descriptors()
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 1), 10) == b""
        sock.close()

        async def none() -> bool:
            return descriptors() == before

        await until_async(none, "its descriptor")
        server.stop_listening()

    asyncio.run(main())


def test_without_a_descriptor_it_waits_and_goes_on() -> None:
    async def test(server: LimitedServer, port: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        waiting = socket.socket()
        waiting.setblocking(False)
        highest = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        held = []
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(waiting, ("127.0.0.1", port))
        await asyncio.sleep(0)
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await loop.sock_sendall(waiting, b"x")
        assert await asyncio.wait_for(loop.sock_recv(waiting, 1), 10) == b"x"
        waiting.close()

    run(test, 4)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_owner_of_a_local_connection_is_its_user(family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        accepted, _ = listener.accept()
        with client, accepted:
            assert owner_of(accepted) == f"user {os.getuid()}"


def test_the_owner_of_a_connection_over_a_unix_socket_is_its_user() -> None:
    ends = socket.socketpair()
    with ends[0], ends[1]:
        assert owner_of(ends[0]) == f"user {os.getuid()}"


@pytest.mark.root
def test_another_user_with_all_connections_shuts_root_out_of_nothing() -> None:
    async def test(server: LimitedServer, port: int) -> None:
        hold = (
            "import socket\n"
            f"c = [socket.create_connection(('127.0.0.1', {port})) for _ in range(8)]\n"
            "print(1, flush=True)\ninput()"
        )
        with subprocess.Popen(
            ["/usr/bin/setpriv", "--reuid", "65534", "python3", "-c", hold],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            await asyncio.to_thread(other.stdout.readline)
            mine = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in mine:
                writer.write(b"x")
            assert [await reader.read(1) for reader, _ in mine] == [b"x", b"x"], "its own stay, the other's give way"
            other.stdin.close()
            for _, writer in mine:
                writer.close()

    run(test, 4)


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_clients_leave_no_descriptor_and_others_are_served(seed: int) -> None:
    print("seed", seed)
    Fuzzer().case(random.Random(seed))
