"""A connection to the agent: requests go out; answers, completions and events come in.

There is no thread. Messages are processed when the program waits, sends a request or posts, or when the asyncio loop
the connection is attached to finds the socket readable. When the agent exits or closes the connection, every pending
and later call raises AgentLostError, every waiting coroutine is woken to see it, and nothing is left to clean up: the
agent (or its exit) has released everything.

A forked child does not share its parent's connections: the two would take each other's answers and completions, and
either would keep the other's objects alive. In the child every call raises ClosedError.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import weakref
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from mrc_host import errors
from mrc_host.errors import InvalidArgumentError, MrcError, ResourceExhaustedError
from mrc_host.verbs.declaration import Verb
from mrc_host.verbs.errors import AgentLostError, ClosedError, ProtocolError, RejectedError
from mrc_host.verbs.provider import EventSink
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.agent_verbs import AgentVerbs
from mrc_host.verbs.remote.codec import from_json
from mrc_host.verbs.remote.protocol import MessageKind
from mrc_host.verbs.remote.verb_arguments import decode_result, encode
from mrc_host.verbs_types import AsyncEvent, Completion, PathEvent, PortEvent, ProbeEvent, QpEvent, SlowPortEvent

if TYPE_CHECKING:
    import asyncio

ANSWER_TIMEOUT_S = 30.0  # how long applications wait for an agent's answer
POST_TIMEOUT_S = 1.0  # how long a post waits for room in the socket
EVENT_TYPES: dict[str, type] = {
    "path": PathEvent, "port": PortEvent, "slow_port": SlowPortEvent, "qp": QpEvent, "probe": ProbeEvent,
}  # fmt: skip

CompletionSink = Callable[[int, Completion], None]


def control_socket(path: str | os.PathLike[str]) -> str:
    """Where an agent that serves applications at `path` (NAME.sock) serves the controller: NAME.control.sock."""
    stem, extension = os.path.splitext(os.fspath(path))
    return f"{stem}.control{extension}"


def for_controller(path: str | os.PathLike[str]) -> str:
    """The controller's socket of the agent that serves applications at `path`; `path` if it has only that one."""
    control = control_socket(path)
    return control if os.path.exists(control) else os.fspath(path)


class AgentConnection(AgentVerbs):
    """An open connection to the agent at the UNIX socket `path`. Raises AgentLostError when there is none.

    Its methods are the agent's verbs (:mod:`mrc_host.verbs.remote.agent_verbs`), each a request and its answer. An
    agent that has not answered after `timeout_s` is considered lost.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, client: str | None = None, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self.path = os.fspath(path)
        self._timeout_s = timeout_s
        self.on_completion: CompletionSink = _ignore
        self.on_event: EventSink = _ignore
        self.on_failure: Callable[[], None] = _ignore
        self.events_dropped = 0  # by the agent, because we did not read
        self._error: MrcError | None = None
        self._replies: dict[int, dict[str, Any]] = {}
        self._parts: dict[int, bytearray] = {}
        self._requests = 0
        self._buffer = memoryview(bytearray(protocol.MAX_MESSAGE))
        self._socket = _connect(self.path, timeout_s)
        _connections.add(self)
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)
        self._loop: asyncio.AbstractEventLoop | None = None
        name = client or f"{os.path.basename(sys.argv[0]) or 'python'} {os.getpid()}"
        try:
            self.greeting = self._exchange(MessageKind.HELLO, {"version": protocol.VERSION, "client": name}, None)
        except BaseException:
            self.close()
            raise

    # -- requests --------------------------------------------------------------------------------------------------

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Have the agent carry out a verb."""
        data, fd = encode(verb, arguments)
        return decode_result(verb, self.request(verb.name, fd=fd, **data))

    def request(self, op: str, *, fd: int | None = None, **arguments: Any) -> Any:
        """Request the verb `op` with arguments as in JSON, and return its result as in JSON.

        Raises the agent's error, under the same class of error where this process knows it.
        """
        answer = self._exchange(MessageKind.REQUEST, {"op": op, **arguments}, fd)
        if "error" in answer:
            raise _error_named(answer.get("error"), str(answer.get("message")))
        return answer.get("result")

    def _exchange(self, kind: MessageKind, data: dict[str, Any], fd: int | None) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        self._requests = self._requests % 0xFFFFFFFF + 1
        number = self._requests
        messages = protocol.pack_json(kind, number, data)
        if len(messages) > 1:
            raise InvalidArgumentError(f"A request has at most {protocol.MAX_MESSAGE} bytes: split it.")
        self.send(messages[0], fd)
        deadline = monotonic_ns() + int(self._timeout_s * 1e9)
        while number not in self._replies:
            if monotonic_ns() >= deadline:
                self._fail(
                    AgentLostError(f"The agent at {self.path} does not answer; it may be stopped or overloaded.")
                )
            self.wait(deadline)
        return self._replies.pop(number)

    def send(self, message: bytes, fd: int | None = None) -> None:
        """Send one message. Raises ResourceExhaustedError when the agent reads nothing for a second."""
        self.check()
        if self._try_send(message, fd):
            return
        deadline = monotonic_ns() + int(POST_TIMEOUT_S * 1e9)
        while not self._try_send(message, fd):
            left = deadline - monotonic_ns()
            if left <= 0:
                raise ResourceExhaustedError("The agent accepts no more now: take completions, then try again.")
            self._wait_writable(left)

    def _try_send(self, message: bytes, fd: int | None) -> bool:
        try:
            if fd is None:
                self._socket.send(message)
            else:
                socket.send_fds(self._socket, [message], [fd])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno is None:  # the exception of a signal's handler, not the socket's
                raise
            self.refresh()  # the agent's last message may say why
            self._lose()
        return True

    def _wait_writable(self, wait_ns: int) -> None:
        self._poller.modify(self._socket, select.POLLIN | select.POLLOUT)
        try:
            self._poller.poll(max(1, wait_ns // 1_000_000))
        finally:
            self._poller.modify(self._socket, select.POLLIN)
        self.refresh()

    # -- receiving -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Process all messages that have arrived; never blocks. Raises the error if the connection is lost."""
        self.check()
        while self._error is None and self._poller.poll(0):  # rather than until an exception: that takes longer
            self._receive()
        self.check()

    def wait(self, deadline: int | None) -> None:
        """Block until a message arrives or `deadline` (monotonic ns) has passed; process one that has arrived."""
        self.check()
        timeout = None if deadline is None else max(0, deadline - monotonic_ns() + 999_999) // 1_000_000
        if self._poller.poll(timeout):
            self._receive()

    def _receive(self) -> None:
        """Process the next message, which has arrived; or find that the connection is lost."""
        try:
            length = self._socket.recv_into(self._buffer)
        except (BlockingIOError, ConnectionResetError):  # a reset is reported once, before the agent's last messages
            return
        except OSError as error:
            if error.errno is None:
                raise
            length = 0
        if not length:
            self._lose()
        try:
            self._handle(self._buffer[:length])
        except ProtocolError as error:
            self._fail(error)

    def _handle(self, message: memoryview) -> None:
        kind, flags, request = protocol.unpack_header(message)
        body = message[protocol.HEADER.size :]
        if kind == MessageKind.COMPLETIONS:
            take = self.on_completion
            for cq, entry in protocol.unpack_completions(body):
                take(cq, entry)
            return
        if flags & protocol.MORE or request in self._parts:
            collected = self._parts.setdefault(request, bytearray())
            collected += body
            if flags & protocol.MORE:
                return
            body = memoryview(self._parts.pop(request))
        self._handle_json(kind, request, protocol.unpack_json(body))

    def _handle_json(self, kind: int, request: int, data: dict[str, Any]) -> None:
        if kind == MessageKind.ERROR and not request:  # why it is about to disconnect us
            raise ProtocolError(str(data.get("message")))
        if kind in (MessageKind.HELLO, MessageKind.REPLY, MessageKind.ERROR):
            self._replies[request] = data
        elif kind == MessageKind.COMPLETION:
            self.on_completion(int(data["cq"]), from_json(Completion, data["completion"]))
        elif kind == MessageKind.EVENT:
            dropped = data.get("dropped", 0)
            self.events_dropped = dropped if isinstance(dropped, int) else 0
            self.on_event(event_from_json(data))

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Process messages whenever `loop` finds the socket readable."""
        if loop is not self._loop:
            self.check()
            self._detach()
            loop.add_reader(self._socket.fileno(), self._on_readable)
            self._loop = loop

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(Exception):  # another thread's loop, or one without readers
                self._loop.remove_reader(self._socket.fileno())
        self._loop = None

    def _on_readable(self) -> None:
        with contextlib.suppress(MrcError):  # the woken coroutines get it from their next call
            self.refresh()

    # -- the end ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the error if the connection is lost or closed."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)

    def close(self) -> None:
        """Close the connection; the agent releases everything this client had."""
        self._end(ClosedError("The connection to the agent is closed."))

    def leave_to_parent(self) -> None:
        """In a forked child: close its copy of the socket, and nothing else."""
        if self._error is None:
            self._error = ClosedError(
                f"The connection to the agent at {self.path} belongs to the parent process: open another after fork()."
            )
            self._loop = None  # a copy of the parent's, whose epoll instance it shares
            self._socket.close()

    def _lose(self) -> None:
        self._fail(AgentLostError(f"The agent at {self.path} is gone, and everything this program had there with it."))

    def _fail(self, error: MrcError) -> None:
        if self._end(error):
            self.on_failure()
        self.check()

    def _end(self, error: MrcError) -> bool:
        if self._error is not None:
            return False
        self._error = error
        self._detach()
        self._socket.close()
        return True


_connections: weakref.WeakSet[AgentConnection] = weakref.WeakSet()


def _in_child() -> None:
    for connection in tuple(_connections):
        connection.leave_to_parent()


os.register_at_fork(after_in_child=_in_child)


def event_from_json(data: dict[str, Any]) -> AsyncEvent:
    """The asynchronous event of an EVENT message or of the `events` operation; raises ProtocolError."""
    kind = EVENT_TYPES.get(data.get("type", ""))
    if kind is None:
        raise ProtocolError(f"The agent sent an event of unknown type {data.get('type')!r}.")
    event: AsyncEvent = from_json(kind, data.get("event"))
    return event


def _connect(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, protocol.SOCKET_BUFFER)
        sock.settimeout(timeout_s)
        sock.connect(path)
    except PermissionError:
        sock.close()
        raise AgentLostError(
            f"Permission denied for {path}: only its owner (root) may use the controller's socket; members of its "
            "group may also use the applications' socket (docs/privileges.md)."
        ) from None
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        raise AgentLostError(
            f"No agent answers at {path} ({reason}): is the fabric up, and the agent running?"
        ) from None
    sock.setblocking(False)
    return sock


def _error_named(name: Any, message: str) -> MrcError:
    kind = getattr(errors, str(name), None)
    if isinstance(kind, type) and issubclass(kind, MrcError):
        return kind(message)
    return RejectedError(message)


def _ignore(*_: Any) -> None:
    """Default of the callbacks."""
