"""Routes, neighbours and flags of interfaces over rtnetlink(7), by hand: pyroute2 does not know the flavours of SRv6.

A :class:`RouteSocket` belongs to the network namespace in which it was made, whoever uses it. Numbers of headers and
attributes are in host byte order, addresses in network order; attributes are padded to four bytes. Only IPv6 routes of
the main table are written and read, and only those of our own protocol number, which others do not use.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from mrc_common import rtnetlink

PROTOCOL = 109  # of our routes: one that iproute2 has no name for
IFF_UP, IFF_NOARP, IFF_MULTICAST = 0x1, 0x80, 0x1000

_RTM_NEWLINK, _RTM_NEWROUTE, _RTM_DELROUTE, _RTM_GETROUTE = 16, 24, 25, 26
_RTM_NEWNEIGH, _RTM_GETNEIGH = 28, 30
_REQUEST, _ACK, _REPLACE, _CREATE, _DUMP = 0x1, 0x4, 0x100, 0x400, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence number, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, device type, index, flags, change mask
_ROUTE = struct.Struct("=BBBBBBBBI")  # rtmsg: family, lengths, tos, table, protocol, scope, type, flags
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # ndmsg: family, index, state, flags, type
_HOP = struct.Struct("=HBBi")  # rtnexthop: length, flags, weight - 1, index
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NUMBER = struct.Struct("=I")
_TABLE_MAIN, _UNICAST, _PERMANENT = 254, 1, 0x80
_DST, _OIF, _GATEWAY, _MULTIPATH, _ENCAP_TYPE, _ENCAP = 1, 4, 5, 9, 21, 22  # RTA_*
_NDA_DST, _NDA_LLADDR = 1, 2
_SEG6_LOCAL = 7  # LWTUNNEL_ENCAP_SEG6_LOCAL
_ACTION, _FLAVORS = 1, 11  # SEG6_LOCAL_*
_END = 1  # SEG6_LOCAL_ACTION_END
_FLV_OPERATION, _FLV_BLOCK_BITS, _FLV_NODE_BITS = 1, 2, 3  # SEG6_LOCAL_FLV_*
_NEXT_CSID = 1 << 4  # SEG6_LOCAL_FLV_OP_NEXT_CSID, as a mask
_TYPE_BITS = 0x3FFF
_RECEIVE_SIZE = 1 << 17
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Shift:
    """SRv6's ``End`` with NEXT-CSID: behind a block of so many bits, so many are shifted out (RFC 9800)."""

    block_bits: int
    node_bits: int


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """A route to `prefix` by interfaces, each with the gateway or, where it has none, straight.

    With a `shift` the address is not that of a destination: it is changed and looked up again.
    """

    prefix: IPv6Network
    hops: frozenset[tuple[int, IPv6Address | None]]
    shift: Shift | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A static neighbour at an interface."""

    interface: int
    address: IPv6Address
    mac: bytes


class RouteSocket:
    """To be closed, or used as a context manager. What the kernel refuses is an OSError."""

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        """The kernel has `timeout_s` for each answer; TimeoutError if it takes longer."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(timeout_s)
        self._socket.bind((0, 0))
        self._number = 0

    def __enter__(self) -> RouteSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def port(self) -> int:
        """Its number, by which the kernel says who has changed something."""
        number: int = self._socket.getsockname()[0]
        return number

    def set_link(self, index: int, *, on: int = 0, off: int = 0) -> None:
        """Set flags (IFF_*) of an interface, and clear others."""
        self._change(_RTM_NEWLINK, 0, _LINK.pack(0, 0, index, on, on | off))

    def links(self) -> list[rtnetlink.LinkMessage]:
        """All interfaces."""
        found = self._dump(rtnetlink.get_link(0, 0)[_HEADER.size :], 18)
        return [link for link in found_links(found) if link.name is not None]

    def add_route(self, route: KernelRoute) -> None:
        """Add a route of ours."""
        self._change(_RTM_NEWROUTE, _CREATE | _REPLACE, encode_route(route))

    def delete_route(self, prefix: IPv6Network) -> None:
        """Delete our route to a prefix, all its hops."""
        self._change(_RTM_DELROUTE, 0, _route_header(prefix))

    def routes(self) -> list[KernelRoute]:
        """The routes of ours that there are."""
        request = _ROUTE.pack(socket.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0)
        return [*decode_routes(self._dump(request, _RTM_GETROUTE))]

    def add_neighbour(self, neighbour: Neighbour) -> None:
        """Add a static neighbour, or change it."""
        body = _NEIGHBOUR.pack(socket.AF_INET6, neighbour.interface, _PERMANENT, 0, 0)
        body += _attribute(_NDA_DST, neighbour.address.packed) + _attribute(_NDA_LLADDR, neighbour.mac)
        self._change(_RTM_NEWNEIGH, _CREATE | _REPLACE, body)

    def neighbours(self) -> list[Neighbour]:
        """All static neighbours."""
        found = []
        for kind, body in self._dump(_NEIGHBOUR.pack(socket.AF_INET6, 0, 0, 0, 0), _RTM_GETNEIGH):
            family, index, state, _flags, _type = _NEIGHBOUR.unpack_from(body)
            if kind == _RTM_NEWNEIGH and family == socket.AF_INET6 and state & _PERMANENT:
                values = dict(_attributes(body[_NEIGHBOUR.size :]))
                if len(values.get(_NDA_DST, b"")) == 16 and _NDA_LLADDR in values:
                    found.append(Neighbour(index, IPv6Address(values[_NDA_DST]), values[_NDA_LLADDR]))
        return found

    def _change(self, kind: int, flags: int, body: bytes) -> None:
        for answer, content in self._ask(kind, _REQUEST | _ACK | flags, body):
            if answer == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", content)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return

    def _dump(self, body: bytes, kind: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for answer, content in self._ask(kind, _REQUEST | _DUMP, body):
            if answer == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", content)
                raise OSError(-code, os.strerror(-code))
            if answer == _NLMSG_DONE:
                return found
            found.append((answer, content))
        return found

    def _ask(self, kind: int, flags: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Send a message; the answers to it, without end."""
        self._number += 1
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, self._number, 0) + body)
        while True:
            data = self._socket.recv(_RECEIVE_SIZE)
            at = 0
            while at + _HEADER.size <= len(data):
                length, answer, _flags, number, _port = _HEADER.unpack_from(data, at)
                if number == self._number:  # else to a request that was given up
                    yield answer, data[at + _HEADER.size : at + length]
                at += _padded(length)


def found_links(messages: Sequence[tuple[int, bytes]]) -> Iterator[rtnetlink.LinkMessage]:
    """Interfaces as ``mrc_common.rtnetlink`` reads them."""
    for kind, body in messages:
        yield from rtnetlink.parse(_HEADER.pack(_HEADER.size + len(body), kind, 0, 0, 0) + body)


def encode_route(route: KernelRoute) -> bytes:
    """The body of a message that adds a route."""
    body = _route_header(route.prefix)
    if len(route.hops) == 1:
        ((index, gateway),) = route.hops
        body += _attribute(_OIF, _NUMBER.pack(index)) + _gateway(gateway)
    else:
        body += _attribute(_MULTIPATH, b"".join(_hop(*hop) for hop in sorted(route.hops, key=lambda hop: hop[0])))
    if route.shift is not None:
        flavor = _attribute(_FLV_OPERATION, _NUMBER.pack(_NEXT_CSID))
        flavor += _attribute(_FLV_BLOCK_BITS, bytes((route.shift.block_bits,)))
        flavor += _attribute(_FLV_NODE_BITS, bytes((route.shift.node_bits,)))
        encap = _attribute(_ACTION, _NUMBER.pack(_END)) + _attribute(_FLAVORS | 0x8000, flavor)
        body += _attribute(_ENCAP_TYPE, struct.pack("=H", _SEG6_LOCAL)) + _attribute(_ENCAP | 0x8000, encap)
    return body


def decode_routes(messages: Sequence[tuple[int, bytes]]) -> Iterator[KernelRoute]:
    """Our routes among messages. The kernel lists each hop of one as a message, or all in one."""
    hops: dict[IPv6Network, set[tuple[int, IPv6Address | None]]] = {}
    shifts: dict[IPv6Network, Shift | None] = {}
    for kind, body in messages:
        family, length, _source, _tos, table, protocol, _scope, _type, _flags = _ROUTE.unpack_from(body)
        if (kind, family, table, protocol) != (_RTM_NEWROUTE, socket.AF_INET6, _TABLE_MAIN, PROTOCOL):
            continue
        values = dict(_attributes(body[_ROUTE.size :]))
        prefix = IPv6Network((int.from_bytes(values.get(_DST, bytes(16)), "big"), length))
        found = hops.setdefault(prefix, set())
        if _OIF in values:
            found.add((_NUMBER.unpack(values[_OIF])[0], _address(values.get(_GATEWAY))))
        found.update(_hops(values.get(_MULTIPATH, b"")))
        shifts[prefix] = _shift(values.get(_ENCAP, b""))
    return (KernelRoute(prefix, frozenset(found), shifts[prefix]) for prefix, found in hops.items())


def _shift(encap: bytes) -> Shift | None:
    flavors = dict(_attributes(dict(_attributes(encap)).get(_FLAVORS, b"")))
    if _FLV_BLOCK_BITS not in flavors or _FLV_NODE_BITS not in flavors:
        return None
    return Shift(flavors[_FLV_BLOCK_BITS][0], flavors[_FLV_NODE_BITS][0])


def _route_header(prefix: IPv6Network) -> bytes:
    body = _ROUTE.pack(socket.AF_INET6, prefix.prefixlen, 0, 0, _TABLE_MAIN, PROTOCOL, 0, _UNICAST, 0)
    return body + _attribute(_DST, prefix.network_address.packed)


def _hop(index: int, gateway: IPv6Address | None) -> bytes:
    more = _gateway(gateway)
    return _HOP.pack(_HOP.size + len(more), 0, 0, index) + more


def _hops(data: bytes) -> Iterator[tuple[int, IPv6Address | None]]:
    at = 0
    while at + _HOP.size <= len(data):
        length, _flags, _weight, index = _HOP.unpack_from(data, at)
        yield index, _address(dict(_attributes(data[at + _HOP.size : at + length])).get(_GATEWAY))
        at += max(_HOP.size, _padded(length))


def _gateway(address: IPv6Address | None) -> bytes:
    return b"" if address is None else _attribute(_GATEWAY, address.packed)


def _address(packed: bytes | None) -> IPv6Address | None:
    return None if packed is None or len(packed) != 16 else IPv6Address(packed)


def _attribute(what: int, value: bytes) -> bytes:
    data = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), what) + value
    return data.ljust(_padded(len(data)), b"\0")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, what = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield what & _TYPE_BITS, data[at + _ATTRIBUTE.size : at + length]
        at += _padded(length)


def _padded(length: int) -> int:
    return (length + 3) & ~3
