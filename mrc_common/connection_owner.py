"""The peer of an accepted connection: a user of this machine, or an address on the network.

A UNIX socket says it itself (SO_PEERCRED). For TCP the kernel is asked for the socket at the other end by its four
numbers (sock_diag(7)): if it is on this machine, the answer has its user. The question costs the same however many
connections there are, unlike a look through /proc/net/tcp.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence number, port
_REQUEST = struct.Struct("=BBBBI")  # inet_diag_req_v2 up to its socket id: family, protocol, extensions, -, states
_NO_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_USER = struct.Struct("=I")
_USER_AT = _HEADER.size + 4 + 48 + 12  # in inet_diag_msg: behind four bytes, the socket id, and three counts
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_NETWORK_BITS = {4: 32, 6: 64}  # of an address that belong to one owner: a host has a whole /64 of IPv6


def owner_of(sock: socket.socket) -> str:
    """The user (``user 1000``) or the address (``address 192.0.2.1``) at the other end of a connected socket."""
    if sock.family == socket.AF_UNIX:
        _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f"user {uid}"
    try:
        peer, own = sock.getpeername()[:2], sock.getsockname()[:2]
    except OSError:  # it has gone again
        return "nobody"
    user = _local_user(sock.family, peer, own)
    return f"user {user}" if user is not None else f"address {_network(peer[0])}"


def _network(address: str) -> str:
    given = ipaddress.ip_address(address.partition("%")[0])
    mapped = given.ipv4_mapped if isinstance(given, ipaddress.IPv6Address) else None
    plain = mapped or given
    return str(ipaddress.ip_network((plain, _NETWORK_BITS[plain.version]), strict=False).network_address)


def _local_user(family: int, peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Number of the user of the TCP socket at `peer` connected to `own`; None if it is not on this machine."""
    try:
        ends = [socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0") for address, _ in (peer, own)]
        ident = struct.pack("!HH", peer[1], own[1]) + b"".join(ends) + _NO_INTERFACE_AND_COOKIE
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ident
        length = _HEADER.size + len(request)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + request)
            answer = kernel.recv(8192)
    except OSError:  # no descriptor is left, or the kernel cannot say
        return None
    if len(answer) < _USER_AT + _USER.size or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    user: int = _USER.unpack_from(answer, _USER_AT)[0]
    return user
