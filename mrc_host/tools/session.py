"""What the two ends of a perftest-like tool share: flags, the out-of-band channel, memory and connected queue pairs.

As with perftest the same program runs on both ends: without a peer's name it is the server and waits, with one it is
the client. They meet over TCP, or, because the hosts of an emulated fabric share a file system, at a UNIX socket
("unix:PATH" on both ends). Unlike perftest only the client's flags count: it tells the server what it is about to do.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.values import QpAttributes, QpType

DEFAULT_PORT = 18515
ALL_SIZES = tuple(1 << i for i in range(1, 24))
MOST_QPS = 1024
MOST_DEPTH = 1 << 16
MOST_MEMORY = 1 << 30  # bytes, of all queue pairs together
_PATIENCE_S = 60.0
_LONGEST_LINE = 1 << 20


class ToolError(MrcError):
    """The tool cannot go on; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the client wants done: sizes in bytes, messages of each (or seconds), queue pairs, messages in flight."""

    sizes: tuple[int, ...]
    iterations: int
    seconds: float | None
    qps: int
    depth: int
    kind: QpType
    attributes: QpAttributes


def parser(prog: str, about: str, *, iterations: int, size: int, depth: int) -> argparse.ArgumentParser:
    """The flags of perftest that make sense here."""
    arguments = argparse.ArgumentParser(prog=f"python -m mrc_host.tools.{prog}", description=about)
    add = arguments.add_argument
    add("peer", nargs="?", help="server's host name, address or unix:PATH; without it this is the server")
    add("-d", "--ib-dev", required=True, metavar="SOCKET", help="socket of this host's agent")
    add("-p", "--port", default=str(DEFAULT_PORT), help="TCP port of the server, or unix:PATH (default %(default)s)")
    add("--bind", default="localhost", metavar="ADDRESS", help="where the server listens (default %(default)s)")
    add("-s", "--size", type=message_size, default=size, help="bytes of a message, or 64K, 8M (default %(default)s)")
    add("-a", "--all", action="store_true", help="sizes from 2 to 2^23")
    add("-n", "--iters", type=int, default=iterations, help="messages of each size (default %(default)s)")
    add("-D", "--duration", type=float, metavar="S", help="seconds for each size instead of a number of messages")
    add("-q", "--qp", type=int, default=1, help="queue pairs (default %(default)s)")
    add("-t", "--tx-depth", type=int, default=depth, help="messages in flight on a queue pair (default %(default)s)")
    add("-m", "--mtu", type=int, default=4096, help="path MTU in bytes (default %(default)s)")
    add("-c", "--connection", choices=["MRC", "RC"], default="MRC", help="transport (default %(default)s)")
    return arguments


def message_size(text: str) -> int:
    """Bytes of ``65536``, ``64K`` or ``8M``, as perftest takes them."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    digits = text if factor == 1 else text[:-1]
    if not (digits.isascii() and digits.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 65536 or 64K")
    return int(digits) * factor


def plan(options: argparse.Namespace) -> Plan:
    """The plan that the client's flags describe; raises ToolError."""
    if min(options.size, options.iters, options.qp, options.tx_depth) < 1:
        raise ToolError("Size, messages, queue pairs and depth are at least 1.")
    work = Plan(
        sizes=ALL_SIZES if options.all else (options.size,),
        iterations=options.iters,
        seconds=options.duration,
        qps=options.qp,
        depth=options.tx_depth,
        kind=QpType[options.connection],
        attributes=QpAttributes(path_mtu=options.mtu),
    )
    check_amounts(work)
    return work


def check_amounts(work: Plan) -> None:
    """Refuse what neither end should try; raises ToolError, and TypeError for what is not even a number."""
    numbers = (*work.sizes, work.iterations, work.qps, work.depth)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise TypeError("its numbers are not whole")
    if not work.sizes or min(*work.sizes, work.qps, work.depth) < 1 or work.qps > MOST_QPS or work.depth > MOST_DEPTH:
        raise ToolError(f"There are 1 to {MOST_QPS} queue pairs, each with a depth of 1 to {MOST_DEPTH}.")
    if work.qps * max(work.sizes) > MOST_MEMORY:
        raise ToolError(f"The messages of all queue pairs together have at most {MOST_MEMORY} bytes.")


class Channel:
    """JSON values, one a line, to and from the other end."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.settimeout(_PATIENCE_S)
        self._lines = sock.makefile("r", encoding="utf-8", newline="\n")

    def send(self, value: Any) -> None:
        """Send one value."""
        try:
            self._socket.sendall(json.dumps(value).encode() + b"\n")
        except OSError as error:
            raise ToolError(f"The other end is gone: {error}.") from None

    def receive(self) -> Any:
        """Wait for one value; raises ToolError when the other end has gone."""
        try:
            line = self._lines.readline(_LONGEST_LINE)
            if line:
                return json.loads(line)
        except OSError as error:
            raise ToolError(f"The other end is gone: {error}.") from None
        except (ValueError, RecursionError):  # a line that is too long is cut and then is not JSON
            raise _foreign() from None
        raise ToolError("The other end is gone.")

    def close(self) -> None:
        """Close the channel."""
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def _foreign() -> ToolError:
    return ToolError("The other end does not speak this tool's language.")


def connect(peer: str, port: str, patience_s: float = 5.0) -> Channel:
    """Reach the server. One at a UNIX socket may just have been started, so it is given `patience_s` to listen."""
    if peer.startswith("unix:"):
        return Channel(_connect_unix(peer[5:], time.monotonic() + patience_s))
    try:
        return Channel(socket.create_connection((peer, int(port)), timeout=_PATIENCE_S))
    except (OSError, ValueError) as error:
        raise ToolError(f"No server answers at {peer} port {port}: {error}.") from None


def _connect_unix(path: str, deadline: float) -> socket.socket:
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
            return sock
        except (FileNotFoundError, ConnectionRefusedError) as error:
            sock.close()
            if time.monotonic() >= deadline:
                raise ToolError(
                    f"No server answers at unix:{path}: {error.strerror}. Start the same tool there first."
                ) from None
            time.sleep(0.02)
        except OSError as error:
            sock.close()
            raise ToolError(f"No server answers at unix:{path}: {error.strerror or error}.") from None


def accept(port: str, bind: str = "localhost") -> Channel:
    """Wait for one client at a TCP port of the address `bind`, or at unix:PATH, however long it takes."""
    try:
        if port.startswith("unix:"):
            path = Path(port[5:])
            if path.is_socket():
                path.unlink()
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
        else:
            family, *_, address = socket.getaddrinfo(bind, None, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server((address[0], int(port)), family=family)
    except (OSError, OverflowError, ValueError) as error:
        raise ToolError(f"Cannot wait for clients at port {port}: {error}.") from None
    with listener:
        sock, _ = listener.accept()
    return Channel(sock)


class Side:
    """One end: its memory (random bytes at the client, zeros at the server) and connected queue pairs."""

    def __init__(self, device: str, channel: Channel, work: Plan) -> None:
        self.plan = work
        self.channel = channel
        self._stack = ExitStack()
        self.context = self._stack.enter_context(verbs.open(device))
        domain = self.context.alloc_pd()
        self.cq = self.context.create_cq(work.qps * work.depth + 64)
        self.region_size = max(work.sizes)
        self.mr = domain.alloc_mr(work.qps * self.region_size)
        self.qps = [domain.create_qp(self.cq, qp_type=work.kind, attributes=work.attributes) for _ in range(work.qps)]
        self.remote = verbs.RemoteMemory(0, 0, 0)

    def exchange(self) -> None:
        """Tell each other addresses, connect all queue pairs, and return when both ends have."""
        own = {"memory": str(self.mr.remote), "qps": [str(qp.endpoint()) for qp in self.qps]}
        self.channel.send(own)
        other = self.channel.receive()
        try:
            self.remote = verbs.RemoteMemory.parse(other["memory"])
            ends = [verbs.Endpoint.parse(text) for text in other["qps"]]
        except (AttributeError, LookupError, TypeError):
            raise _foreign() from None
        if len(ends) != len(self.qps):
            raise ToolError(f"The other end has {len(ends)} queue pairs instead of {len(self.qps)}.")
        for qp, end in zip(self.qps, ends, strict=True):
            qp.connect(end)
        self.channel.send("connected")
        self.channel.receive()

    def checksum(self, size: int) -> int:
        """CRC-32 over the first `size` bytes of every queue pair's part of the memory."""
        value = 0
        for i in range(len(self.qps)):
            value = zlib.crc32(self.mr.buffer[i * self.region_size : i * self.region_size + size], value)
        return value

    def post(self, index: int, size: int, *, wr_id: int = 0, imm: int | None = None) -> None:
        """Post one write of `size` bytes on queue pair `index` into its part of the peer's memory."""
        offset = index * self.region_size
        self.qps[index].write(
            self.mr, self.remote, offset=offset, remote_offset=offset, length=size, wr_id=wr_id, imm=imm
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.channel.close()


def header(side: Side, title: str, columns: Sequence[str]) -> None:
    """Print what perftest prints before its figures."""
    line = "-" * 100
    print(line, title.center(100).rstrip(), sep="\n")
    print(f" Device          : {side.context.name}\t Transport type : {side.plan.kind.name}")
    print(f" Number of qps   : {side.plan.qps}\t Mtu            : {side.plan.attributes.path_mtu}[B]")
    print(f" TX depth        : {side.plan.depth}")
    print(line, " " + "".join(columns), sep="\n", flush=True)
