"""A client of the agent: its socket, and everything it has on the NIC.

Messages in: posts go straight to the NIC; requests go to :mod:`mrc_host.agent.operations`. Messages out: what the
socket cannot take is kept in an outbox. While that is not empty no completions are fetched for this client and no
messages of it are read, so a client that does not read costs a bounded amount of memory and delays nobody else.

A post that the NIC cannot take yet (send queue full) waits here, with later posts of the same queue pair behind it, and
is retried every turn; other queue pairs do not wait for it. Waiting posts are never lost: when their queue pair is
reset or destroyed they complete as FLUSHED, after those in the NIC. The client counts how many may wait
(:mod:`mrc_host.verbs.remote.protocol`), so reading never has to stop because of one queue pair.
"""

from __future__ import annotations

import array
import contextlib
import logging
import os
import select
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from mrc_host.agent.holdings import Holdings
from mrc_host.agent.long_answers import LongAnswer
from mrc_host.driver.loop import HUNG_UP, READABLE, WRITABLE, Loop
from mrc_host.errors import MrcError, ResourceExhaustedError
from mrc_host.verbs.errors import ProtocolError, RejectedError
from mrc_host.verbs.remote import descriptors, protocol
from mrc_host.verbs.remote.agent_verbs import EventScope
from mrc_host.verbs.remote.codec import to_json
from mrc_host.verbs.remote.protocol import MessageKind
from mrc_host.verbs_types import AsyncEvent, Completion, CompletionOpcode, CompletionStatus, WorkRequest

if TYPE_CHECKING:
    from mrc_host.nic import Nic

MESSAGES_PER_TURN = 16
RETRIES_PER_TURN = 64  # queue pairs of one client whose waiting posts are retried in one turn
RETRY_NS = 1_000_000  # until the next turn, while there are more
EVENT_BACKLOG = 64  # outbox length beyond which events are dropped, and counted
_FETCH = 256
_MAX_FDS = 4

log = logging.getLogger("mrc.agent")


Execute = Callable[["ClientSession", "dict[str, Any]", "list[int]"], Any]


class ClientSession:
    """Serves one connected socket until it closes or breaks the protocol; `on_closed` gets what the client had."""

    def __init__(
        self,
        sock: socket.socket,
        number: int,
        *,
        nic: Nic,
        loop: Loop,
        clock: Callable[[], int],
        execute: Execute,
        greeting: dict[str, Any],
        on_closed: Callable[[ClientSession, Holdings], None],
        waiting: set[ClientSession],
        buffer: bytearray,
        control: bool = True,
    ) -> None:
        self.number = number
        self.control = control  # connected to the controller's socket
        self.name = f"client {number}"
        self.holdings = Holdings()
        self.events = EventScope.NONE  # subscription
        self.events_dropped = 0
        self.nic = nic
        self.clock = clock
        self._socket = sock
        self._loop = loop
        self._execute = execute
        self._greeting = greeting
        self._on_closed = on_closed
        self._waiting = waiting  # sessions whose `retry` is called every turn
        self._greeted = False
        self._outbox: deque[bytes] = deque()
        self._stalled: set[int] = set()  # queues with entries left in the NIC
        self._pending: OrderedDict[int, deque[WorkRequest]] = (
            OrderedDict()
        )  # posts for which the NIC has no room, by QPN
        self._pending_count = 0
        self._flushed = False  # waiting posts, many perhaps: further messages wait for the next turn
        self._answer: tuple[int, Iterator[str]] | None = None  # a request, and what is left of its long answer
        self._buffer = buffer  # shared by the sessions of a loop: each message is handled before the next is read
        self._poller = select.poll()
        self._poller.register(sock, select.POLLIN)
        self._mask = READABLE
        self.closed = False
        loop.add(sock.fileno(), READABLE, self._on_ready)

    # -- socket ----------------------------------------------------------------------------------------------------

    def _on_ready(self, mask: int) -> None:
        try:
            if mask & HUNG_UP:
                self.close("gone")
                return
            if mask & WRITABLE:
                self._flush()
                for cq in tuple(self._stalled):
                    self.push(cq)
            if mask & READABLE:
                self._read()
        except ProtocolError as error:
            self._disconnect(error)
        except OSError as error:  # reset by the client
            self.close(f"socket error: {error.strerror}")

    def _read(self) -> None:
        for _ in range(MESSAGES_PER_TURN):
            if self.closed or self._outbox or self._answer is not None or self._flushed:
                self._flushed = False
                return
            try:
                length, ancillary, flags, _ = self._socket.recvmsg_into(
                    (self._buffer,), socket.CMSG_SPACE(4 * _MAX_FDS), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            fds = _descriptors(ancillary)
            try:
                if not length:
                    self.close("closed by the client")
                    return
                if flags & socket.MSG_TRUNC or (flags & socket.MSG_CTRUNC and len(fds) >= _MAX_FDS):
                    raise ProtocolError(f"A message is longer than {protocol.MAX_MESSAGE} bytes.")
                # Ancillary data cut short with fewer descriptors: the agent has none left for the client's.
                self._handle(memoryview(self._buffer)[:length], fds, bool(flags & socket.MSG_CTRUNC))
            finally:
                for fd in fds:
                    os.close(fd)
            if not (self.closed or self._poller.poll(0)):  # rather than read until an exception: that takes longer
                return

    def send(self, messages: Iterable[bytes]) -> None:
        """Send messages in order, keeping those that the socket cannot take now."""
        if not self.closed:
            self._outbox.extend(messages)
            self._flush()

    def _flush(self) -> None:
        outbox = self._outbox
        try:
            while outbox:
                self._socket.send(outbox[0])
                outbox.popleft()
        except BlockingIOError:
            pass
        except OSError:  # closed by the peer: the hang-up is about to be reported, and the session closes then
            outbox.clear()
        self._watch()

    def _watch(self) -> None:
        if self.closed:
            return
        mask = WRITABLE if self._outbox else READABLE if self._answer is None else 0
        if mask != self._mask:
            self._mask = mask
            self._loop.modify(self._socket.fileno(), mask)

    def _disconnect(self, error: ProtocolError) -> None:
        with contextlib.suppress(OSError):
            for message in protocol.pack_json(MessageKind.ERROR, 0, {"error": "ProtocolError", "message": str(error)}):
                self._socket.send(message)
        self.close(f"disconnected: {error}")

    def close(self, reason: str) -> None:
        """Close the socket and give up everything the client had. Closing twice does nothing."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove(self._socket.fileno())
        self._socket.close()
        held, self.holdings = self.holdings, Holdings()
        self._pending.clear()
        self._answer = None
        log.info("%s: %s", self.name, reason)
        self._on_closed(self, held)

    # -- messages --------------------------------------------------------------------------------------------------

    def _handle(self, message: memoryview, fds: list[int], truncated: bool) -> None:
        kind, flags, request = protocol.unpack_header(message)
        body = message[protocol.HEADER.size :]
        if not self._greeted:
            self._greet(kind, request, body)
        elif kind == MessageKind.POST:
            self._post_all(protocol.unpack_posts(body))
        elif kind == MessageKind.POST_INLINE:
            self._post_all(protocol.unpack_inline_post(body))
        elif kind == MessageKind.CREDIT:
            self._credit(body)
        elif kind == MessageKind.REQUEST and not flags:
            self._request(request, body, fds, truncated)
        else:
            raise ProtocolError(f"No client sends messages of kind {kind} with flags {flags}.")

    def _greet(self, kind: int, request: int, body: memoryview) -> None:
        if kind != MessageKind.HELLO:
            raise ProtocolError("The first message is not a greeting.")
        hello = protocol.unpack_json(body)
        if hello.get("version") != protocol.VERSION:
            raise ProtocolError(
                f"The agent speaks version {protocol.VERSION} of the protocol, the client {hello.get('version')!r}: "
                "use the same release on both sides."
            )
        # The name is printed on terminals and in logs of others: control characters would be obeyed there.
        given = str(hello.get("client", ""))[:64]
        self.name = f"client {self.number} ({''.join(one if one.isprintable() else '?' for one in given)})"
        self._greeted = True
        self.send(protocol.pack_json(MessageKind.HELLO, request, self._greeting))
        log.info("%s: connected", self.name)

    def _request(self, request: int, body: memoryview, fds: list[int], truncated: bool) -> None:
        arguments = protocol.unpack_json(body)
        try:
            if truncated:
                raise ResourceExhaustedError(descriptors.NONE_LEFT)
            result = self._execute(self, arguments, fds)
            if isinstance(result, LongAnswer):
                self._begin_answer(request, result)
                return
            answer = protocol.pack_json(MessageKind.REPLY, request, {"result": to_json(result)})
        except MrcError as error:
            answer = _refusal(request, error)
        except Exception:  # a bug, but no client may stop the NIC with it
            log.exception("%s: a request failed", self.name)
            answer = _refusal(request, RejectedError("The agent failed to carry out this request; see its log."))
        self.send(answer)

    def _begin_answer(self, request: int, answer: LongAnswer) -> None:
        self.send((protocol.pack_part(request, '{"result":', more=True),))
        self._answer = request, answer.pieces
        self._waiting.add(self)
        self._watch()

    def _continue_answer(self) -> None:
        """Send the next piece of the answer under way, if the socket takes any."""
        if self._answer is None or self._outbox:
            return
        request, pieces = self._answer
        try:
            piece = next(pieces, None)
        except Exception:  # a bug; what was sent of the answer cannot be taken back
            log.exception("%s: a request failed", self.name)
            self.close("a request failed")
            return
        if piece is None:
            self._answer = None
            self.send((protocol.pack_part(request, "}", more=False),))
        elif piece:
            self.send((protocol.pack_part(request, piece, more=True),))

    # -- posts -----------------------------------------------------------------------------------------------------

    def _post_all(self, posts: Sequence[tuple[int, WorkRequest]]) -> None:
        pairs = self.holdings.pairs
        for qpn, _ in posts:
            if qpn not in pairs:
                raise ProtocolError(f"QP {qpn} is not the client's own.")
        now = self.clock()
        for qpn, request in posts:
            if qpn in self._pending or not self._post(qpn, request, now):
                self._keep(qpn, request)
        if self._pending:
            self._waiting.add(self)

    def _post(self, qpn: int, request: WorkRequest, now: int) -> bool:
        """Post one request; False if the NIC has no room for it now."""
        try:
            self.nic.post_send(qpn, request, now)
        except ResourceExhaustedError:
            return False
        except MrcError as error:
            self._refuse(qpn, request, str(error))
        return True

    def _keep(self, qpn: int, request: WorkRequest) -> None:
        """Let a post wait until the NIC has room."""
        waiting = self._pending.setdefault(qpn, deque())
        if len(waiting) >= protocol.PENDING_LIMIT or self._pending_count >= protocol.CLIENT_PENDING_LIMIT:
            raise ProtocolError(f"Too many posts wait for QP {qpn}: call posts_waiting before posting more.")
        waiting.append(request)
        self._pending_count += 1

    def retry(self) -> int | None:
        """Go on with an answer and with posts that wait; when to be called again (None: after the next input)."""
        self._continue_answer()
        pending, now = self._pending, self.clock()  # read again: others have run since the turn began
        answering = self._answer is not None
        progress = answering and not self._outbox
        for qpn in list(islice(pending, RETRIES_PER_TURN)):
            waiting = pending.pop(qpn)
            before = len(waiting)
            while waiting and self._post(qpn, waiting[0], now):
                waiting.popleft()
            self._pending_count -= before - len(waiting)
            progress |= len(waiting) < before
            if waiting:
                pending[qpn] = waiting  # behind the others
        if not pending and not answering:
            self._waiting.discard(self)
        if progress:
            return now  # the NIC has something to send, or there is more to answer
        return now + RETRY_NS if len(pending) > RETRIES_PER_TURN else None

    def posts_waiting(self) -> dict[int, int]:
        """How many posts wait here, by QPN; queue pairs without any are left out."""
        return {qpn: len(waiting) for qpn, waiting in self._pending.items()}

    def flush_posts(self, qpn: int) -> None:
        """Complete the waiting posts of a queue pair that is about to be reset or destroyed as FLUSHED.

        The NIC does that, as for its own: so they complete in order, in the entries reserved for them.
        """
        waiting = self._pending.pop(qpn, None)
        if waiting is None:
            return
        self._pending_count -= len(waiting)
        self._flushed = True
        now = self.clock()
        self.nic.flush_qp(qpn, now)
        for request in waiting:
            # A post refused even now is unsignaled, and needs no completion, or the client overran its queue.
            self._post(qpn, request, now)

    def _refuse(self, qpn: int, request: WorkRequest, reason: str) -> None:
        entry = Completion(
            request.wr_id,
            qpn,
            CompletionOpcode.WRITE,
            CompletionStatus.FLUSHED,
            request.length,
            None,
            reason,
            signaled=request.signaled,
        )
        self._send_failure(self.holdings.pairs[qpn].send_cq, entry)

    # -- completions and events ------------------------------------------------------------------------------------

    def push(self, cq: int) -> None:
        """Send completions of a queue, as far as credit and the socket allow."""
        queue = self.holdings.queues.get(cq)
        if queue is None:
            return
        while queue.credit > 0 and not self._outbox:
            entries = self.nic.poll_cq(cq, min(queue.credit, _FETCH), self.clock())
            if not entries:
                self._stalled.discard(cq)
                return
            queue.credit -= len(entries)
            self._send_completions(cq, entries)
        self._stalled.add(cq)

    def _send_completions(self, cq: int, entries: list[Completion]) -> None:
        success = CompletionStatus.SUCCESS
        if all(entry.status is success for entry in entries):
            self.send((protocol.pack_completions(cq, entries),))
            return
        for entry in entries:
            if entry.status is success:
                self.send((protocol.pack_completions(cq, (entry,)),))
            else:
                self._send_failure(cq, entry)

    def _send_failure(self, cq: int, entry: Completion) -> None:
        self.send(protocol.pack_json(MessageKind.COMPLETION, 0, {"cq": cq, "completion": to_json(entry)}))

    def _credit(self, body: memoryview) -> None:
        for cq, taken in protocol.unpack_credits(body):
            queue = self.holdings.queues.get(cq)
            if queue is not None:  # it may have been destroyed meanwhile
                queue.credit = min(queue.credit + taken, queue.capacity)
                if cq in self._stalled:
                    self.push(cq)

    def send_event(self, event: AsyncEvent, message: dict[str, Any]) -> None:
        """Send an asynchronous event if the client subscribed to it; dropped and counted if it does not read."""
        qpn = getattr(event, "qpn", None)
        if self.events is EventScope.NONE:
            return
        if self.events is EventScope.OWN and qpn is not None and qpn not in self.holdings.pairs:
            return
        if len(self._outbox) >= EVENT_BACKLOG:
            self.events_dropped += 1
            return
        self.send(protocol.pack_json(MessageKind.EVENT, 0, {**message, "dropped": self.events_dropped}))


def _refusal(request: int, error: MrcError) -> list[bytes]:
    return protocol.pack_json(MessageKind.ERROR, request, {"error": type(error).__name__, "message": str(error)})


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
