"""Session of a perftest-like tool at its two ends: the plan, the out-of-band channel, memory and connected queue pairs.

As with perftest the same program runs on both ends: without a peer's name it is the server and waits, with one it is
the client. They connect over TCP, or, because the hosts of an emulated fabric share a file system, over a UNIX socket
("unix:PATH" on both ends). Unlike perftest only the client's flags count: it sends its plan to the server.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from mrc_common import strict_json
from mrc_common.unix_sockets import SocketError, claim
from mrc_common.written_files import write_text
from mrc_host import verbs
from mrc_host.errors import InvalidArgumentError, MrcError
from mrc_host.verbs.remote.codec import CodecError, from_json
from mrc_host.verbs_types import QpAttributes, QpType

DEFAULT_PORT = 18515
MAX_QPS = 1024
MAX_DEPTH = 1 << 16
MAX_MEMORY = 1 << 30  # bytes that one end writes to, of all queue pairs together
USAGE = 2  # exit status: the command line makes no sense
GONE = "The other end has exited or closed the connection."
_TIMEOUT_S = 60.0
_MAX_LINE = 1 << 20
_WAITING = ("", "*" * 36, "* Waiting for client to connect... *", "*" * 36)  # perftest's words


class ToolError(MrcError):
    """The tool cannot continue; the message says why."""


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """What the client wants done: sizes in bytes, messages of each (or seconds), queue pairs, messages in flight.

    `both`: the server writes too.
    """

    sizes: tuple[int, ...]
    iterations: int
    seconds: float | None
    qps: int
    depth: int
    both: bool
    kind: QpType
    attributes: QpAttributes


def from_wire(data: Any) -> TransferPlan:
    """The plan that the client sent; raises ToolError when it is from another release or exceeds the limits."""
    try:
        work = from_json(TransferPlan, data)
    except CodecError as error:
        raise ToolError(f"The client is another version of this tool: {error}") from None
    check_amounts(work)
    return work


def check_amounts(work: TransferPlan) -> None:
    """Check the limits for both ends; raises ToolError."""
    if not work.sizes or min(*work.sizes, work.qps, work.depth) < 1 or work.qps > MAX_QPS or work.depth > MAX_DEPTH:
        raise ToolError(f"Use 1 to {MAX_QPS} queue pairs, with a depth of 1 to {MAX_DEPTH} each.")
    if work.qps * max(work.sizes) > MAX_MEMORY:
        raise ToolError(f"Queue pairs times message size must be at most {MAX_MEMORY} bytes.")


class PeerConnection:
    """JSON values, one a line, to and from the other end."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.settimeout(_TIMEOUT_S)
        self._lines = sock.makefile("r", encoding="utf-8", newline="\n")

    def send(self, value: Any) -> None:
        """Send one value."""
        try:
            self._socket.sendall(strict_json.dumps(value).encode() + b"\n")
        except OSError:
            raise ToolError(GONE) from None

    def receive(self) -> Any:
        """Wait for one value; raises ToolError when the other end is gone."""
        try:
            line = self._lines.readline(_MAX_LINE)
            if line:
                return strict_json.loads(line)
        except OSError:
            raise ToolError(GONE) from None
        except (ValueError, RecursionError):  # a line that is too long is cut and then is not JSON
            raise foreign() from None
        raise ToolError(GONE)

    def close(self) -> None:
        """Close the channel."""
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def foreign() -> ToolError:
    """The error for a message that this tool does not send."""
    return ToolError("The other end is not this tool, or another version of it.")


def connect(peer: str, port: str, timeout_s: float = 5.0) -> PeerConnection:
    """Connect to the server. One at a UNIX socket may just have been started, so it has `timeout_s` to listen."""
    if peer.startswith("unix:"):
        return PeerConnection(_connect_unix(peer[5:], time.monotonic() + timeout_s))
    try:
        return PeerConnection(socket.create_connection((peer, int(port)), timeout=_TIMEOUT_S))
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


def accept(port: str, bind: str = "localhost") -> PeerConnection:
    """Wait for one client at a TCP port of the address `bind`, or at unix:PATH, without a timeout.

    Prints that it waits, as perftest does. A socket at PATH is removed afterwards.
    """
    path = Path(port[5:]) if port.startswith("unix:") else None
    try:
        if path is not None:
            claim(path, socket.SOCK_STREAM)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
        else:
            family, *_, address = socket.getaddrinfo(bind, None, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server((address[0], int(port)), family=family)
    except SocketError as error:
        raise ToolError(str(error)) from None
    except (OSError, OverflowError, ValueError) as error:
        raise ToolError(f"Cannot wait for clients at port {port}: {error}.") from None
    print(*_WAITING, sep="\n", flush=True)
    try:
        with listener:
            sock, _ = listener.accept()
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
    return PeerConnection(sock)


def check_device(device: str | None) -> str:
    """The device, after checking that it answers, before the other end is contacted. Raises MrcError."""
    if device is None:
        raise ToolError("Name the NIC to use: -d and the socket of its agent, such as /run/mrc/demo/h1.sock.")
    verbs.open(device).close()
    return device


def run_tool(
    name: str,
    options: argparse.Namespace,
    serve: Callable[[str, PeerConnection], None],
    measure: Callable[[str, PeerConnection], Sequence[dict[str, float]]],
) -> int:
    """Be the server, or with a peer the client, whose results go into the file named; returns the exit status."""
    try:
        device = check_device(options.ib_dev)
        if options.peer is None:
            serve(device, accept(options.port, options.bind))
        else:
            rows = measure(device, connect(options.peer, options.port))
            if options.out_json_file:
                write_json(options.out_json_file, rows)
    except InvalidArgumentError as error:  # of flags: the NIC's limits are known only here
        print(f"{name}: error: {error}", file=sys.stderr)
        return USAGE
    except MrcError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


class Side:
    """One end: its memory (zeros at first) and connected queue pairs.

    The memory has a part for each queue pair; if both ends write, as many more follow, for the peer to write into.
    """

    def __init__(self, device: str, channel: PeerConnection, work: TransferPlan) -> None:
        self.plan = work
        self.channel = channel
        self._stack = ExitStack()
        self.context = self._stack.enter_context(verbs.open(device))
        domain = self.context.alloc_pd()
        self.cq = self.context.create_cq(work.qps * work.depth + 64)
        self.region_size = max(work.sizes)
        self.sink = work.qps * self.region_size if work.both else 0
        self.mr = domain.alloc_mr(self.sink + work.qps * self.region_size)
        self.qps = [domain.create_qp(self.cq, qp_type=work.kind, attributes=work.attributes) for _ in range(work.qps)]
        self.remote = verbs.RemoteMemory(0, 0, 0)

    def exchange(self) -> None:
        """Exchange addresses, connect all queue pairs, and return when both ends have done so."""
        own = {"memory": str(self.mr.remote), "qps": [str(qp.endpoint()) for qp in self.qps]}
        self.channel.send(own)
        other = self.channel.receive()
        try:
            self.remote = verbs.RemoteMemory.parse(other["memory"])
            ends = [verbs.Endpoint.parse(text) for text in other["qps"]]
        except (AttributeError, LookupError, TypeError):
            raise foreign() from None
        if len(ends) != len(self.qps):
            raise ToolError(f"The other end has {len(ends)} queue pairs instead of {len(self.qps)}.")
        for qp, end in zip(self.qps, ends, strict=True):
            qp.connect(end)
        self.channel.send("connected")
        self.channel.receive()

    def checksum(self, size: int, start: int) -> int:
        """CRC-32 over the first `size` bytes of every queue pair's part of the memory that begins at `start`."""
        value = 0
        for i in range(len(self.qps)):
            part = start + i * self.region_size
            value = zlib.crc32(self.mr.buffer[part : part + size], value)
        return value

    def post(self, index: int, size: int, *, wr_id: int = 0, imm: int | None = None) -> None:
        """Post one write of `size` bytes on queue pair `index` into its part of the peer's memory."""
        offset = index * self.region_size
        self.qps[index].write(
            self.mr, self.remote, offset=offset, remote_offset=self.sink + offset, length=size, wr_id=wr_id, imm=imm
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.channel.close()


def header(side: Side, title: str, columns: Sequence[str]) -> None:
    """Print what perftest prints before its results."""
    line = "-" * 100
    print(line, title.center(100).rstrip(), sep="\n")
    print(f" Device          : {side.context.name}\t Transport type : {side.plan.kind.name}")
    print(f" Number of qps   : {side.plan.qps}\t Mtu            : {side.plan.attributes.path_mtu}[B]")
    print(f" TX depth        : {side.plan.depth}")
    print(line, " " + "".join(columns), sep="\n", flush=True)


def write_json(path: str, rows: Sequence[dict[str, float]]) -> None:
    """Write results to a file as JSON, under perftest's key; ToolError."""
    try:
        write_text(path, strict_json.dumps({"results": strict_json.finite(list(rows))}, indent=2) + "\n")
    except OSError as error:
        raise ToolError(f"Cannot write {path}: {error.strerror}.") from None
