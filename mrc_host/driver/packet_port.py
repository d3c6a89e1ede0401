"""A network interface as a NIC port: raw Ethernet frames in and out through an AF_PACKET socket.

The socket is bound to one interface of the current network namespace. A classic BPF program in the kernel lets through
only frames addressed to the port's own MAC, as a NIC's unicast filter does, and PAUSE frames, so that the kernel
stack's own traffic (neighbour and multicast messages) does not wake the process. Outgoing frames are not looped back to
the socket. The driver paces the port, not the kernel: a veth interface has no queueing discipline unless somebody adds
one, to make the link slower than the NIC believes it to be. Bypassing it (PACKET_QDISC_BYPASS) would save less than
1 % of a send while there is none, and hide packets from tcpdump.

Creating such a socket takes CAP_NET_RAW, and CAP_NET_ADMIN for a receive buffer of its size; binding it takes nothing.
A process that drops its capabilities therefore opens its ports through :class:`PacketSockets`, which keeps the socket
of a port whose interface vanished until the interface returns.

Fast ports receive in memory shared with the kernel
(:mod:`mrc_host.driver.socket_ring`), and what the NIC's datapath carries never enters Python. It holds fewer frames
than a socket, since each takes a place for the longest: on a slow port that many short ones could arrive while the
process is kept from running for a moment, so the sockets of slow ports are read.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING

from mrc_host.errors import MrcError
from mrc_host.wire.encap import Flow
from mrc_host.wire.pause import DESTINATION as PAUSE_DESTINATION

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing
    from mrc_host.driver.socket_ring import SocketRing

ETH_P_ALL = 0x0003
ETHERNET_HEADER = 14
ETHERNET_OVERHEAD = 24  # preamble 8, frame check sequence 4, inter-frame gap 12: on the wire, not in the frame

_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23
_SO_ATTACH_FILTER = 26
_SO_RCVBUFFORCE = 33
_SIOCGSTAMPNS = 0x8907
_NOTHING = ((0x06, 0, 0, 0),)  # a filter that lets no frame through
_TIMESPEC = struct.Struct("ll")

# errno values of an interface that is down or gone; netlink says which
_LINK_ERRORS = frozenset({errno.ENETDOWN, errno.ENXIO, errno.ENODEV, errno.ENETUNREACH})
# Memory is shared with the kernel from this rate on (b/s), for so many frames, up to this length
_SHARED_FROM = 500_000_000
_SHARED_FRAMES = 2048
_SHARED_LONGEST = 10_000
_LOSS_ERRORS = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.EMSGSIZE})


AnswerDue = tuple[int, int, int, Flow]
"""QPN, PSN, timestamp and flow of a frame that was carried and makes an answer due."""
Carry = Callable[[int], "tuple[int, int, AnswerDue | None]"]
"""Has up to so many frames carried by the datapath: how many were, their bytes, and what makes an answer due."""


class NicDriverError(MrcError):
    """The driver cannot use an interface; the message says which and what to do."""


class InterfaceGoneError(NicDriverError):
    """There is no interface of this name, or no longer."""


class PacketSockets:
    """Opens ports, with a new socket only for a MAC for which it has kept none; `rings` are those of interfaces."""

    def __init__(self, rings: Mapping[str, FrameRing] | None = None) -> None:
        self._idle: dict[bytes, _Opened] = {}
        self._rings = rings or {}

    def open(self, interface: str, mac: bytes, max_frame: int, rate_bps: int) -> PacketPort:
        """The port at an interface; raises NicDriverError as :class:`PacketPort` does."""
        ring = self._rings.get(interface)
        return PacketPort(interface, mac, max_frame, rate_bps, idle=self._idle, ring=ring)

    def close(self) -> None:
        """Close the sockets of ports that are closed."""
        for opened in self._idle.values():
            opened.close()
        self._idle.clear()


@dataclass(frozen=True, slots=True)
class _Opened:
    """A packet socket, and the memory that it receives in, if it shares any with the kernel.

    They stay together: while the kernel makes or removes such memory it does not notice that the interface comes up.
    """

    socket: socket.socket
    shared: SocketRing | None

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()
        self.socket.close()


class PacketPort:
    """An open AF_PACKET socket on one interface; `max_frame` is the longest frame in bytes without check sequence.

    `rate_bps` is that of the port, 0 for as fast as it goes.

    `idle` has the sockets of closed ports by MAC: one is taken from there if possible, and put back by :meth:`close`.

    `send(frame)` and `receive_into(buffer)` are methods of the socket or of the memory that it shares with the kernel,
    because every packet of the emulation goes through them. They never block: BlockingIOError, or a length of 0, means
    nothing to read, and BlockingIOError no room to send. `carry` is None where the datapath gets no frames from here.

    If there is a `ring`, frames pass through that and not through the interface, unless the ring stands aside. `send`
    is then the ring's, and has to be followed by `ring.flush()`.
    """

    def __init__(
        self,
        interface: str,
        mac: bytes,
        max_frame: int,
        rate_bps: int = 0,
        *,
        receive_buffer: int = 16 << 20,
        idle: dict[bytes, _Opened] | None = None,
        ring: FrameRing | None = None,
    ) -> None:
        self.interface = interface
        self.max_frame = max_frame
        self._mac = mac
        self._idle = idle
        self.ring = ring
        self.carry: Carry | None = None
        self._closed = False
        known = None if idle is None else idle.pop(mac, None)
        if known is None:
            self._opened = _open_socket(interface, mac, receive_buffer, max_frame, rate_bps)
        else:
            self._opened = known
            try:
                _wake_socket(known, interface, mac)
            except BaseException:
                self.close()
                raise
        self._socket, self._shared = self._opened.socket, self._opened.shared
        self.send: Callable[[bytes], int] = self._socket.send
        self.receive_into: Callable[[memoryview], int] = self._socket.recv_into
        if self._shared is not None:
            self.send, self.receive_into = self._shared.send, self._shared.receive_into
        if ring is not None:
            ring.connect(self._socket.fileno(), max_frame)
            self.send = ring.send

    def fileno(self) -> int:
        """Descriptor to wait on; -1 once closed."""
        return -1 if self._closed else self._socket.fileno()

    def carry_to(self, receiver: object, carry_frame: object, port: int) -> None:
        """Give the frames of `port` to a NIC's datapath from now on, with ``carry`` of the ring and of this."""
        if self._shared is not None:
            self._shared.carry_to(receiver, carry_frame, port)
            self.carry = self._shared.carry
        if self.ring is not None:
            self.ring.carry_to(receiver, carry_frame, port)

    def stamp(self) -> int:
        """When the kernel received the frame read last (CLOCK_REALTIME, ns).

        The kernel timestamps frames from the first call on, until the socket is closed; a frame without a timestamp
        gets the time of this call. In shared memory all have one.
        """
        if self._shared is not None:
            return self._shared.stamp() or time_ns()
        try:
            data = fcntl.ioctl(self._socket, _SIOCGSTAMPNS, bytes(_TIMESPEC.size))
        except FileNotFoundError:  # nothing was read yet
            return time_ns()
        seconds, nanoseconds = _TIMESPEC.unpack(data)
        return int(seconds * 1_000_000_000 + nanoseconds)

    def take_error(self) -> int:
        """Pending socket error (ENETDOWN after the interface went down), cleared by reading it; 0 if none."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def kernel_drops(self) -> int:
        """Frames the kernel dropped because the socket's buffer was full, since the last call."""
        data = self._socket.getsockopt(_SOL_PACKET, 6, 8)  # PACKET_STATISTICS resets on read
        return int(struct.unpack("II", data)[1])

    def close(self) -> None:
        """Close the socket, or keep it idle for reuse; closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        if self.ring is not None:
            self.ring.connect(-1, self.max_frame)
        if self._idle is None or self._mac in self._idle:
            self._opened.close()
        else:
            _set_filter(self._opened.socket, _NOTHING)
            self._idle[self._mac] = self._opened


def is_lost_frame(error: OSError) -> bool:
    """Whether a failed send only means that the frame is lost, as on a wire; anything else is a bug.

    The interface may be down or gone, have no carrier, have a queue that dropped the frame (ENOBUFS), or a smaller MTU
    than before. A full socket (EAGAIN) has lost nothing: the frame may be sent later.
    """
    return error.errno in _LINK_ERRORS or error.errno in _LOSS_ERRORS


def is_link_error(error: OSError) -> bool:
    """Whether an error means that the interface is down or gone."""
    return error.errno in _LINK_ERRORS


def _open_socket(interface: str, mac: bytes, receive_buffer: int, max_frame: int, rate_bps: int) -> _Opened:
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0)
    except PermissionError:
        raise NicDriverError("Opening a raw socket needs the CAP_NET_RAW capability: run as root.") from None
    try:
        _attach_filter(sock, mac)  # before bind, so that no other frame is ever queued
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        _set_receive_buffer(sock, receive_buffer)
        opened = _Opened(sock, _share_memory(sock, max_frame, rate_bps))
        _bind(sock, interface)
    except BaseException:
        sock.close()
        raise
    return opened


def _share_memory(sock: socket.socket, max_frame: int, rate_bps: int) -> SocketRing | None:
    """Memory for a socket to receive in, before it is bound; None where there is none, or it would be too small."""
    if 0 < rate_bps < _SHARED_FROM or max_frame > _SHARED_LONGEST:
        return None
    from mrc_host.driver.socket_ring import SocketRing

    try:
        return SocketRing(sock.fileno(), _SHARED_FRAMES, max_frame)
    except OSError:  # the kernel has no such memory
        return None


def _bind(sock: socket.socket, interface: str) -> None:
    try:
        sock.bind((interface, ETH_P_ALL))
    except OSError as error:
        if error.errno in _LINK_ERRORS:
            raise InterfaceGoneError(
                f"Interface {interface!r} does not exist in this network namespace: "
                "run this in the host's, as `mrc exec FABRIC HOST -- COMMAND` does, once its links are made."
            ) from None
        raise


def _wake_socket(opened: _Opened, interface: str, mac: bytes) -> None:
    """Bind an idle socket to an interface, and discard what is left of the previous one: frames and a pending error."""
    sock = opened.socket
    sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    with contextlib.suppress(OSError):
        while True:
            sock.recv(1)
    if opened.shared is not None:
        opened.shared.discard()
    _bind(sock, interface)
    _attach_filter(sock, mac)


def _set_receive_buffer(sock: socket.socket, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)  # up to net.core.rmem_max


def _attach_filter(sock: socket.socket, mac: bytes) -> None:
    """Accept only frames whose Ethernet destination is `mac` or that of PAUSE frames (classic BPF)."""
    high, low = struct.unpack("!IH", mac)
    pause_high, pause_low = struct.unpack("!IH", PAUSE_DESTINATION)
    load_word, load_half, jump_equal, ret = 0x20, 0x28, 0x15, 0x06
    _set_filter(
        sock,
        (
            (load_word, 0, 0, 0),
            (jump_equal, 0, 2, high),
            (load_half, 0, 0, 4),
            (jump_equal, 3, 4, low),
            (jump_equal, 0, 3, pause_high),
            (load_half, 0, 0, 4),
            (jump_equal, 0, 1, pause_low),
            (ret, 0, 0, 0xFFFFFFFF),
            (ret, 0, 0, 0),
        ),
    )


def _set_filter(sock: socket.socket, instructions: Sequence[tuple[int, int, int, int]]) -> None:
    """Attach a classic BPF program: code, jump if true, jump if false, k of each instruction."""
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    code = ctypes.create_string_buffer(program, len(program))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    )
