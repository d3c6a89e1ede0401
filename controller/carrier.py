"""Notices when a link of the fabric loses or gets its carrier, whoever took it.

The kernel sends every change of an interface to the RTMGRP_LINK group of a netlink socket (rtnetlink(7)), with its name
and flags. When messages were lost (ENOBUFS), all interfaces are asked for.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable

from topologies import addressing
from topologies.fabric import Fabric

_RTMGRP_LINK = 1
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_DUMP = 0x301  # NLM_F_REQUEST and NLM_F_DUMP
_IFLA_IFNAME = 3
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port id
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change mask
_ATTRIBUTE = struct.Struct("=HH")
_UP_AND_CARRIER = 0x1 | 0x10000  # IFF_UP and IFF_LOWER_UP, netdevice(7)
_BUFFER = 1 << 20
_LONGEST = 1 << 16


class CarrierWatch:
    """Calls ``on_change(link, up)`` for every change; links count as up until something else is seen."""

    def __init__(self, fabric: Fabric, on_change: Callable[[str, bool], None]) -> None:
        self._on_change = on_change
        self._links = {addressing.interface_name(fabric, link.t0_end): link.name for link in fabric.links}
        self._up = {link.name: True for link in fabric.links}
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Begin to listen, in the running loop."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind((0, _RTMGRP_LINK))
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        self._look_up()

    def stop(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        assert self._socket is not None
        while True:
            try:
                data = self._socket.recv(_LONGEST)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._look_up()
                continue
            self.take(data)

    def take(self, data: bytes) -> None:
        """Netlink messages as they come from the kernel."""
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if length < _HEADER.size or at + length > len(data):
                return
            if kind in (_RTM_NEWLINK, _RTM_DELLINK) and length >= _HEADER.size + _LINK.size:
                flags = _LINK.unpack_from(data, at + _HEADER.size)[3]
                name = _name(data[at + _HEADER.size + _LINK.size : at + length])
                self._changed(name, kind == _RTM_NEWLINK and flags & _UP_AND_CARRIER == _UP_AND_CARRIER)
            at += length + 3 & ~3

    def _changed(self, name: str, up: bool) -> None:
        link = self._links.get(name)
        if link is not None and self._up[link] != up:
            self._up[link] = up
            self._on_change(link, up)

    def _look_up(self) -> None:
        """Ask for all interfaces; the answer comes as messages of the same kind."""
        assert self._socket is not None
        request = _HEADER.pack(_HEADER.size + _LINK.size, _RTM_GETLINK, _DUMP, 1, 0) + _LINK.pack(0, 0, 0, 0, 0)
        self._socket.send(request)


def _name(attributes: bytes) -> str:
    """The interface's name among the attributes of a message (rtattr: length, type, value)."""
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if kind == _IFLA_IFNAME:
            return attributes[at + _ATTRIBUTE.size : at + length].rstrip(b"\0").decode(errors="replace")
        if length < _ATTRIBUTE.size:
            break
        at += length + 3 & ~3
    return ""
