"""The Thrift client against a server that answers as given; against BMv2 itself in tests/integration/test_bmv2.py."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from topologies.clos import multi_plane_clos
from topologies.emulation.bmv2 import FULL_FRAME, ThriftClient, data_rates, set_queues
from topologies.emulation.errors import ProcessError
from topologies.emulation.switches import queue_frames

REPLY, EXCEPTION = 2, 3


def reply(method: bytes, field: bytes, kind: int = REPLY) -> bytes:
    return struct.pack("!Ii", 0x8001_0000 | kind, len(method)) + method + struct.pack("!i", 1) + field + b"\0"


class Server:
    """Takes one connection; answers each call with what `answer` makes of its method, or hangs up on None."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.calls: list[tuple[str, tuple[int | str, ...]]] = []
        self.kind, self.value = REPLY, struct.pack("!bhi", 8, 0, 0)
        self.hang_up = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        # a client that was refused something leaves without reading to the end
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while header := stream.read(8):
                version, length = struct.unpack("!Ii", header)
                assert version == 0x8001_0001
                method = stream.read(length)
                stream.read(4)
                self.calls.append((method.decode(), tuple(self._arguments(stream))))
                if self.hang_up:
                    return
                connection.sendall(reply(method, self.value, self.kind))

    @staticmethod
    def _arguments(stream: object) -> Iterator[int | str]:
        read = stream.read  # type: ignore[attr-defined]
        while (kind := read(1)[0]) != 0:
            read(2)
            if kind == 11:
                yield read(struct.unpack("!i", read(4))[0]).decode()
            else:
                yield int.from_bytes(read({8: 4, 10: 8}[kind]), "big", signed=True)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.listener.close()
    made.thread.join(5)


def test_every_port_of_a_switch_gets_its_queues(server: Server) -> None:
    fabric = multi_plane_clos(rate_bps=50_000_000, uplink_rate_bps=20_000_000)
    t0 = fabric.switches[0]
    set_queues(fabric, t0, server.port)
    depth = queue_frames(fabric, t0)
    expected: list[tuple[str, tuple[int | str, ...]]] = []
    for port in t0.ports:
        rate = (50_000_000 if port <= 2 else 20_000_000) // (8 * FULL_FRAME)
        expected.append(("simple_switch:set_egress_queue_depth", (port, depth)))
        expected += [("simple_switch:set_egress_priority_queue_rate", (port, priority, rate)) for priority in (0, 1)]
    assert server.calls == expected


def test_even_the_slowest_link_carries_a_packet_a_second() -> None:
    fabric = multi_plane_clos(rate_bps=8_000)
    assert {rate for _, rate in data_rates(fabric, fabric.switches[0])} == {1}


def test_a_register_is_read(server: Server) -> None:
    server.value = struct.pack("!bhq", 10, 0, 1 << 40)
    with ThriftClient(server.port) as client:
        assert client.register("queue_bytes", 17) == 1 << 40
    assert server.calls == [("standard:bm_register_read", (0, "queue_bytes", 17))]


@pytest.mark.parametrize(("kind", "value"), [(EXCEPTION, struct.pack("!bhi", 11, 1, 0)), (REPLY, b"\x0c\0\1\x08")])
def test_a_refusal_is_reported(server: Server, kind: int, value: bytes) -> None:
    server.kind, server.value = kind, value
    with ThriftClient(server.port) as client, pytest.raises(ProcessError, match="refused simple_switch:set_egress"):
        client.set_queue_depth(1, 2)


def test_a_closed_connection_is_reported(server: Server) -> None:
    server.hang_up = True
    with ThriftClient(server.port) as client, pytest.raises(ProcessError, match="closed the connection"):
        client.set_queue_depth(1, 2)


def test_an_unreachable_server_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ProcessError, match="does not answer: Connection refused"):
            ThriftClient(unused.getsockname()[1])
