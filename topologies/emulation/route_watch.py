"""Tells that somebody has changed IPv6 routes or neighbours of a network namespace: the kernel, or a person at a shell.

What is there now is for others to read (``route_netlink``); here only that reading is worth while. Changes made through
one socket, that of whoever watches, are passed over: who repairs would else wake up for every repair of its own, and
without end where one does not last.
"""

from __future__ import annotations

import errno
import socket
import struct

_RTMGRP_NEIGH, _RTMGRP_IPV6_ROUTE = 0x4, 0x400
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence number, port
_RECEIVE_SIZE = 1 << 17


class RouteWatch:
    """Belongs to the network namespace in which it was made. `own` is the port of the socket that is passed over."""

    def __init__(self, own: int) -> None:
        self._own = own
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        self._socket.bind((0, _RTMGRP_NEIGH | _RTMGRP_IPV6_ROUTE))

    def fileno(self) -> int:
        """Descriptor to wait on."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def changed(self) -> bool:
        """Read what the kernel has sent; whether any of it is a change by others."""
        found = False
        while True:
            try:
                data = self._socket.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                found = True  # more than it could keep for us
                continue
            found = found or any(port != self._own for port in _ports(data))


def _ports(data: bytes) -> list[int]:
    """Who made each of the changes: the port of a netlink socket, or 0 for the kernel itself."""
    found, at = [], 0
    while at + _HEADER.size <= len(data):
        length, _kind, _flags, _number, port = _HEADER.unpack_from(data, at)
        found.append(port)
        at += max(_HEADER.size, length + 3 & ~3)
    return found
