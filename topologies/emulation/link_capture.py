"""Capture a link of an emulated fabric: ``python -m topologies.emulation.link_capture JOB``, a :class:`Job` in JSON.

This takes what *arrives* at either end of the link and writes it to one pcapng file, with an interface for each end:
that is what crossed the wire. tcpdump and dumpcap listen at one end; what they show of the other direction is what was
handed to the interface.

Frames that pass the kernel by (`--wire ring`) do not arrive at interfaces. NICs and switches send them through an
interface while it is promiscuous, which a capture makes it; counters show that they do, and the capture begins then.

A line on standard output says when the capture has begun; SIGTERM or SIGINT end it, and a last line reports, as JSON,
how many packets were written and how many the kernel dropped because this was too slow. Times are the kernel's, of
arrival.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrc_common import strict_json, wire_counters
from mrc_host.captures.pcapng import PcapngWriter
from mrc_host.verbs.remote.codec import from_json, to_json
from topologies.emulation import namespaces

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_IGNORE_OUTGOING = 263, 6, 23
_PACKET_ADD_MEMBERSHIP, _PACKET_MR_PROMISC = 1, 1
_ASIDE_S = 2.0  # for rings to stand aside
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_BUFFER = 64 << 20  # bytes that may wait in the kernel at each end
_LONGEST = 1 << 17
_BURST = 512  # packets taken from one end before the other has its turn
_FLUSH_S = 0.2
_IPV6, _IPV6_BYTES, _MARKED = bytes.fromhex("86dd"), 54, 3
_timespec = struct.Struct("@qq").unpack_from


@dataclass(frozen=True, slots=True)
class CaptureEnd:
    """One end of the link: its node, its interface, and a process in whose namespace that is (None: the root's)."""

    node: str
    interface: str
    pid: int | None = None
    sender: str = ""  # the node at the other end, if it is a switch


@dataclass(frozen=True, slots=True)
class Job:
    """What to capture where to; `comment` goes into the file, which is given to user and group `owner` if it is new."""

    file: str
    ends: tuple[CaptureEnd, ...]
    comment: str = ""
    owner: tuple[int, int] | None = None
    trimmed: tuple[int, int] = (-1, -1)  # DSCP of packets trimmed on their way, and of those trimmed on the last hop
    counters: tuple[str, ...] = ()  # files of mrc_common.wire_counters

    def to_json(self) -> str:
        """As the command line takes it."""
        return strict_json.dumps(to_json(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The reverse of :meth:`to_json`."""
        return from_json(cls, strict_json.loads(text))


class LinkCapture:
    """Sockets at both ends of a link and the file that takes what arrives there."""

    def __init__(self, job: Job) -> None:
        """Raises OSError when the file cannot be made or an interface is not there."""
        self.packets = 0
        self.lost = 0
        self._stopping = False
        self._sockets = [_open(end) for end in job.ends]
        _wait_for_rings(job)
        self._stream = os.fdopen(open_new(job.file, job.owner), "wb", buffering=1 << 20)
        self._job = job
        ends = [(end.interface, f"arrived at {end.node}") for end in job.ends]
        self._writer = PcapngWriter(self._stream, ends, job.comment)
        self._stream.flush()

    def stop(self) -> None:
        """Have :meth:`run` return; safe in a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Write what arrives until stopped; what has arrived by then is written too."""
        with selectors.DefaultSelector() as selector:
            for end in self._sockets:
                selector.register(end, selectors.EVENT_READ)
            flushed = time.monotonic()
            while not self._stopping:
                if selector.select(_FLUSH_S):
                    self._write_burst()
                if time.monotonic() - flushed > _FLUSH_S:
                    self._stream.flush()
                    flushed = time.monotonic()
            while self._write_burst():
                pass

    def close(self) -> None:
        """Complete the file."""
        for end in self._sockets:
            _, dropped = struct.unpack("II", end.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
            self.lost += dropped
            end.close()
        self._stream.close()

    def _write_burst(self) -> int:
        """Write what waits, up to a burst of each end, in the order of time; returns how many packets."""
        burst = [packet for number in range(len(self._sockets)) for packet in self._take(number)]
        burst.sort(key=lambda packet: packet[0])
        for when, number, frame in burst:
            sender = self._job.ends[number].sender
            comment = describe(frame, sender, self._job.trimmed) if sender else ""
            self._writer.packet(number, when, frame, len(frame), comment)
        self.packets += len(burst)
        return len(burst)

    def _take(self, number: int) -> Iterator[tuple[int, int, bytes]]:
        receive = self._sockets[number].recvmsg
        for _ in range(_BURST):
            try:
                frame, ancillary, _, _ = receive(_LONGEST, 64)
            except BlockingIOError:
                return
            except OSError:  # the interface went down; it may come up again
                continue
            seconds, nanoseconds = _timespec(ancillary[0][2]) if ancillary else divmod(time.time_ns(), 10**9)
            yield seconds * 10**9 + nanoseconds, number, frame


def describe(frame: bytes, sender: str, trimmed: tuple[int, int]) -> str:
    """What a frame that arrives from switch `sender` shows of its way: whether it was trimmed or marked, and where."""
    if len(frame) < _IPV6_BYTES or frame[12:14] != _IPV6:
        return ""
    dscp, ecn = (frame[14] & 15) << 2 | frame[15] >> 6, frame[15] >> 4 & 3
    found = []
    if dscp == trimmed[1]:
        found.append(f"trimmed by {sender}: its queue towards this link was too long")
    elif dscp == trimmed[0]:
        found.append(f"trimmed: a queue was too long at {sender} or at a switch before it")
    if ecn == _MARKED:
        found.append(f"marked: congestion at {sender} or at a switch before it")
    return "; ".join(found)


def open_new(file: str, owner: tuple[int, int] | None = None) -> int:
    """A descriptor to write `file` from its beginning, made if need be and then given to user and group `owner`.

    We are root, and others may write to the folder. So nothing but a plain file with one name is written to, and only
    what was made here is given away. Raises OSError: ELOOP for a symbolic link, EINVAL or ENXIO for anything else.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO without a reader does not block us
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o644)
        if owner is not None:
            os.fchown(descriptor, *owner)
        return descriptor
    descriptor = os.open(file, flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file with this name alone", file)
    os.ftruncate(descriptor, 0)
    return descriptor


def _wait_for_rings(job: Job) -> None:
    """Wait until frames pass through the interfaces, if there are rings; a switch process that is down stays behind."""
    names = {end.interface for end in job.ends}
    deadline = time.monotonic() + _ASIDE_S
    while time.monotonic() < deadline:
        rows = [row for file in job.counters for row in wire_counters.read(Path(file)).values()]
        if all(row.aside for row in rows if row.interface in names):
            return
        time.sleep(0.005)


def _open(end: CaptureEnd) -> socket.socket:
    if end.pid is None:
        return _listen(end.interface)
    return namespaces.run_inside(end.pid, lambda: _listen(end.interface))


def _listen(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    sock.bind((interface, _ETH_P_ALL))
    membership = struct.pack("@iHH8s", socket.if_nametoindex(interface), _PACKET_MR_PROMISC, 0, b"")
    sock.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)
    return sock


def main(text: str) -> int:
    """Capture until a signal; returns 1 and prints a message if it cannot start or the file cannot be written."""
    job = Job.from_json(text)
    try:
        capture = LinkCapture(job)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: capture.stop())
        print("capturing", flush=True)
        with contextlib.closing(capture):
            capture.run()
    except OSError as error:
        why = "it is a symbolic link, which root does not follow" if error.errno == errno.ELOOP else error.strerror
        print(f"{job.file} cannot be written: {why or error}.", flush=True)
        return 1
    print(strict_json.dumps({"packets": capture.packets, "lost": capture.lost}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
