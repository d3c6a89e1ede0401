"""The queues of BMv2, set over its Thrift interface: P4Runtime has no words for them.

BMv2 paces its queues in packets per second, so the queues of data of each port get the rate at which full packets fill
the link; what is smaller than that is paced by the interface's token bucket behind it. So a queue builds up, is
marked and trimmed inside BMv2, as in the embedded switch. Control traffic is not paced. Each queue holds more than
the P4 program lets wait there.

This speaks Thrift's binary protocol (strict, unframed) itself, for calls that take integers and a name: starting
``simple_switch_CLI`` for every switch would take seconds.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from topologies.emulation.errors import ProcessError
from topologies.emulation.switches import queue_frames
from topologies.entries import PRIORITY_RETRANSMIT
from topologies.fabric import Fabric, LinkEnd, Switch

FULL_FRAME = 14 + 128 + 4096  # bytes of a data packet without FCS (docs/protocol.md §1.1)
_DATA_PRIORITIES = (0, PRIORITY_RETRANSMIT)
_TIMEOUT_S = 5.0
_VERSION_AND_CALL = 0x8001_0001
_REPLY = 2
_STOP, _I32, _I64, _STRING = 0, 8, 10, 11


class ThriftClient:
    """A connection to a BMv2 process. Every failure is a :class:`ProcessError`."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._peer = f"BMv2's Thrift interface at {host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), _TIMEOUT_S)
        except OSError as error:
            raise ProcessError(f"{self._peer} does not answer: {error.strerror or error}.") from None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> ThriftClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_queue_depth(self, port: int, packets: int) -> None:
        """Room in every queue of a port."""
        self._call("simple_switch:set_egress_queue_depth", _i32(1, port) + _i32(2, packets))

    def set_queue_rate(self, port: int, priority: int, packets_per_second: int) -> None:
        """Pace of one queue of a port."""
        arguments = _i32(1, port) + _i32(2, priority) + struct.pack("!bhq", _I64, 3, packets_per_second)
        self._call("simple_switch:set_egress_priority_queue_rate", arguments)

    def register(self, name: str, index: int) -> int:
        """A cell of a register array, which BMv2's P4Runtime server cannot read."""
        encoded = name.encode()
        arguments = _i32(1, 0) + struct.pack("!bhi", _STRING, 2, len(encoded)) + encoded + _i32(3, index)
        value: int = struct.unpack("!q", self._call("standard:bm_register_read", arguments, _I64))[0]
        return value

    def _call(self, method: str, arguments: bytes, result: int = _I32) -> bytes:
        name = method.encode()
        message = struct.pack("!Ii", _VERSION_AND_CALL, len(name)) + name + struct.pack("!i", 1)
        try:
            self._socket.sendall(message + arguments + bytes((_STOP,)))
            kind, length = struct.unpack("!xxxBi", self._read(8))
            self._read(length + 4)
            field, number = struct.unpack("!bh", self._read(3))
            if (kind, field, number) != (_REPLY, result, 0):
                raise ProcessError(f"{self._peer} refused {method}.")
            value = self._read(4 if result == _I32 else 8)
            self._read(1)
        except OSError as error:
            raise ProcessError(f"{self._peer} does not answer: {error.strerror or error}.") from None
        return value

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ProcessError(f"{self._peer} closed the connection.")
            data += part
        return data


def _i32(field: int, value: int) -> bytes:
    return struct.pack("!bhi", _I32, field, value)


def data_rates(fabric: Fabric, switch: Switch) -> Iterator[tuple[int, int]]:
    """Each port of a switch with the full packets per second that its link carries."""
    for port in switch.ports:
        link = fabric.link_at(LinkEnd(switch.name, port))
        assert link is not None, "a fabric has a link on every port"
        yield port, max(1, link.rate_bps // (8 * FULL_FRAME))


def set_queues(fabric: Fabric, switch: Switch, thrift_port: int) -> None:
    """Give a running BMv2 the queues of a switch of the fabric."""
    depth = queue_frames(fabric, switch)
    with ThriftClient(thrift_port) as client:
        for port, rate in data_rates(fabric, switch):
            client.set_queue_depth(port, depth)
            for priority in _DATA_PRIORITIES:
                client.set_queue_rate(port, priority, rate)
