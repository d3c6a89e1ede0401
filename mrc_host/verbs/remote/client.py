"""The provider of verbs on an agent's NIC: each verb is a request, a post, or a look at what has arrived.

Each queue's completions are kept in a deque until the application takes them. The client returns credit for those
taken, so the agent never sends more than the queue's capacity.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from mrc_host.errors import MrcError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.notify import Notification
from mrc_host.verbs import memfds
from mrc_host.verbs.declaration import Verb
from mrc_host.verbs.provider import EventSink, Provider
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.agent_verbs import EventScope
from mrc_host.verbs.remote.codec import parse_bytes
from mrc_host.verbs.remote.connection import ANSWER_TIMEOUT_S, AgentConnection, for_controller
from mrc_host.verbs_types import (
    Access,
    AsyncEvent,
    Completion,
    CompletionOpcode,
    MemoryRegionInfo,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
    WorkRequest,
)

if TYPE_CHECKING:
    import asyncio


class AgentProvider(Provider):
    """Verbs on the NIC of the agent at `path` (see :class:`mrc_host.verbs.provider.Provider`), over `connection`."""

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.connection = connection = AgentConnection(path, timeout_s=timeout_s)
        connection.on_completion = self._on_completion
        connection.on_event = self._on_event
        connection.on_failure = self._on_failure
        self._name = str(connection.greeting.get("name"))
        self._address = parse_bytes(str(connection.greeting.get("address")))
        self._queues: dict[int, _Queue] = {}
        self._pairs: dict[int, _Pair] = {}
        self._unsettled = 0  # posts of all queue pairs that may still be waiting in the agent
        self._sinks: dict[EventSink, bool] = {}  # whether it wants events of everybody's queue pairs
        self._control: AgentProvider | None = None

    @property
    def name(self) -> str:
        """Name of the NIC."""
        return self._name

    @property
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""
        return self._address

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Have the agent carry out a verb for which that is all there is to do."""
        return self.connection.call(verb, arguments)

    def allocate_memory(
        self, pd: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Create a memfd, map it here, and have the agent map and register it too."""
        try:
            fd = memfds.create(length)
        except OSError as error:
            raise ResourceExhaustedError(f"No memory for a region of {length} bytes: {error.strerror}.") from None
        try:
            return self.register_memory(pd, fd, 0, length, access, address)
        finally:
            os.close(fd)

    def register_memory(
        self, pd: int, fd: int, offset: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Map part of a memfd here, and have the agent map and register it too."""
        _memory, view = memfds.map_part(fd, offset, length)
        return self.connection.register_memory(pd, length, access, fd, offset, address), view

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """A completion queue."""
        cq = self.connection.create_cq(capacity)
        self._queues[cq] = _Queue(capacity, on_ready, on_notify)
        return cq

    def destroy_cq(self, cq: int) -> None:
        """End a completion queue."""
        super().destroy_cq(cq)
        self._queues.pop(cq, None)

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue; an entry counts when it arrives here."""
        self._queue(cq).notification.arm(solicited_only)

    def _queue(self, cq: int) -> _Queue:
        queue = self._queues.get(cq)
        if queue is None:
            raise NotFoundError(f"There is no completion queue {cq}.")
        return queue

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take up to `max_entries` completions."""
        queue = self._queue(cq)
        entries = queue.entries
        if not entries:
            self.connection.refresh()
            if not entries:
                return []
        taken = [entries.popleft() for _ in range(min(max_entries, len(entries)))]
        for entry in taken:
            if entry.opcode is CompletionOpcode.WRITE and entry.signaled and queue.promised:
                queue.promised -= 1
        queue.taken += len(taken)
        if queue.taken >= queue.credit_step:
            # Entries already here can still be taken when the agent is gone, so a lost connection is no error yet.
            with contextlib.suppress(MrcError):
                self.connection.send(protocol.pack_credit(cq, queue.taken))
            queue.taken = 0
        return taken

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """A queue pair."""
        qpn = super().create_qp(pd, qp_type, send_cq, recv_cq, attributes)
        self._pairs[qpn] = _Pair(self._queues[send_cq])
        return qpn

    def connect_qp(self, qpn: int, remote: QpAddress) -> None:
        """Bring a queue pair to RTS."""
        super().connect_qp(qpn, remote)
        self._pairs[qpn].connected = True

    def modify_qp(self, qpn: int, state: QpState, changes: Mapping[str, Any], remote: QpAddress | None = None) -> None:
        """One step in a queue pair's life."""
        super().modify_qp(qpn, state, changes, remote)
        pair = self._pairs[qpn]
        pair.connected = state in (QpState.RTS, QpState.ERROR)
        if state is QpState.RESET:
            self._settle(pair, 0)

    def destroy_qp(self, qpn: int) -> None:
        """End a queue pair."""
        super().destroy_qp(qpn)
        pair = self._pairs.pop(qpn, None)
        if pair is not None:
            self._settle(pair, 0)

    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Send work requests to the agent.

        What the client can check is refused here, as by the NIC itself: posts to a queue pair that is not connected
        (StateError), and requests from the first one on for which the completion queue or the agent's queue behind the
        send queue has no room (ResourceExhaustedError). An error's `posted` is the number of requests sent before it.
        """
        pair = self._pairs.get(qpn)
        if pair is None:
            raise NotFoundError(f"There is no queue pair {qpn}.")
        if not pair.connected:
            raise StateError(f"QP {qpn:#x} is not connected: connect it before posting.")
        posted = 0
        try:
            while posted < len(requests):
                posted += self._post_some(qpn, pair, requests, posted)
        except MrcError as error:
            error.posted = posted
            raise

    def _post_some(self, qpn: int, pair: _Pair, requests: Sequence[WorkRequest], start: int) -> int:
        """Send one message with the requests from `start` on for which there is room; return how many."""
        queue = pair.send_queue
        end = start + min(len(requests) - start, self._backlog_room(qpn, pair))
        if end == start:
            raise ResourceExhaustedError(
                f"The send queue of QP {qpn:#x} is full, and so is the agent's queue behind it: take completions, "
                "then post again."
            )
        places = queue.capacity - queue.promised
        signaled = taken = 0  # records of the message
        for i in range(start, end):
            request = requests[i]
            size = protocol.records(request)
            if taken + size > protocol.MAX_POSTS or (not size and i > start):
                end = i  # the next message takes it
                break
            if request.signaled:
                if signaled == places:
                    end = i
                    break
                signaled += 1
            taken += size
            if not size:
                end = start + 1
                break
        if end == start:
            raise ResourceExhaustedError(
                f"The completion queue has room for {queue.capacity} entries: take completions, then post again."
            )
        self.connection.send(protocol.pack_posts(qpn, requests[start:end]))
        queue.promised += signaled
        pair.unsettled += end - start
        self._unsettled += end - start
        return end - start

    def _backlog_room(self, qpn: int, pair: _Pair) -> int:
        """How many more posts the agent can queue; queries the agent when by our own count there is no room."""
        room = min(protocol.PENDING_LIMIT - pair.unsettled, protocol.CLIENT_PENDING_LIMIT - self._unsettled)
        if room <= 0:
            # One queue pair's count is a short answer; all are needed only when their sum is too large.
            queried = qpn if pair.unsettled >= protocol.PENDING_LIMIT else None
            waiting = self.connection.posts_waiting(queried)
            for number in self._pairs if queried is None else (queried,):
                self._settle(self._pairs[number], waiting.get(number, 0))
            room = min(protocol.PENDING_LIMIT - pair.unsettled, protocol.CLIENT_PENDING_LIMIT - self._unsettled)
        return room

    def _settle(self, pair: _Pair, waiting: int) -> None:
        """At most `waiting` posts of a queue pair can still be waiting in the agent."""
        self._unsettled -= pair.unsettled - waiting
        pair.unsettled = waiting

    def trace(self, path: str) -> None:
        """Open `path` and have the agent write the event trace to it; the agent itself needs no right to the file."""
        if not path:
            self.connection.trace("")
            return
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except (OSError, ValueError) as error:
            raise MrcError(f"Cannot write the trace to {path}: {getattr(error, 'strerror', error)}.") from None
        try:
            self.connection.trace(path, fd)
        finally:
            os.close(fd)

    def for_controller(self) -> AgentProvider:
        """The provider of the controller's verbs: on a second connection if these have a socket of their own."""
        path = for_controller(self.connection.path)
        if path == self.connection.path:
            return self
        if self._control is None:
            self._control = AgentProvider(path)
        return self._control

    def close(self) -> None:
        """Close the connection; the agent releases everything this client had."""
        if self._control is not None:
            self._control.close()
        self.connection.close()

    def events_dropped(self) -> int:
        """Events that the NIC could not keep or the agent could not send to us."""
        return self.connection.events_dropped + self.nic_counters().get("events_lost", 0)

    def now(self) -> int:
        """Monotonic time."""
        return monotonic_ns()

    def refresh(self) -> None:
        """Process all messages that have arrived."""
        self.connection.refresh()

    def wait(self, deadline: int | None) -> None:
        """Block until a message arrives or `deadline` has passed."""
        self.connection.wait(deadline)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Process messages whenever `loop` finds the socket readable."""
        self.connection.attach(loop)

    def add_event_sink(self, sink: EventSink, *, whole_nic: bool = False) -> None:
        """Call `sink` with events of the NIC's ports and of this client's queue pairs, or of all queue pairs."""
        if whole_nic and not any(self._sinks.values()):
            self.connection.subscribe(EventScope.ALL)
        elif not self._sinks:
            self.connection.subscribe(EventScope.OWN)
        self._sinks[sink] = whole_nic

    def remove_event_sink(self, sink: EventSink) -> None:
        """Undo :meth:`add_event_sink`."""
        self._sinks.pop(sink, None)

    def _on_completion(self, cq: int, entry: Completion) -> None:
        queue = self._queues.get(cq)
        if queue is None:  # destroyed meanwhile
            return
        queue.entries.append(entry)
        queue.on_ready()
        if queue.notification.due(entry):
            queue.on_notify()

    def _on_event(self, event: AsyncEvent | None) -> None:
        qpn = getattr(event, "qpn", None)
        own = qpn is None or qpn in self._pairs
        for sink, whole_nic in tuple(self._sinks.items()):
            if own or whole_nic:
                sink(event)

    def _on_failure(self) -> None:
        for queue in tuple(self._queues.values()):
            queue.on_ready()
            queue.on_notify()
        self._on_event(None)


class _Queue:
    """A completion queue on the client's side."""

    __slots__ = ("capacity", "credit_step", "entries", "notification", "on_notify", "on_ready", "promised", "taken")

    def __init__(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> None:
        self.capacity = capacity
        self.on_ready = on_ready
        self.on_notify = on_notify
        self.notification = Notification()
        self.entries: deque[Completion] = deque()
        self.promised = 0  # signaled requests posted whose completion the application has not taken
        self.taken = 0  # entries taken for which no credit has been sent yet
        self.credit_step = max(1, capacity // 4)


class _Pair:
    """A queue pair on the client's side."""

    __slots__ = ("connected", "send_queue", "unsettled")

    def __init__(self, send_queue: _Queue) -> None:
        self.send_queue = send_queue
        self.connected = False
        self.unsettled = 0  # posts that may be waiting in the agent, as far as we know
