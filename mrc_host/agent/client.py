"""The provider that verbs use on an agent's NIC: each verb is a request, a post or a look at what has arrived.

Completions are kept in a deque for each queue until the application takes them; the agent is told how many were taken,
so that it never sends more than the queue's capacity.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import Any

from mrc_host.agent import protocol
from mrc_host.agent.codec import from_json, parse_bytes, to_json
from mrc_host.agent.connection import ANSWER_TIMEOUT_S, AgentConnection, for_controller
from mrc_host.errors import MrcError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.notify import Notification
from mrc_host.values import (
    Access,
    AsyncEvent,
    CcProfile,
    Completion,
    CompletionOpcode,
    DeniedPath,
    DestinationInfo,
    EvProfile,
    MemoryRegionInfo,
    PathInfo,
    PortState,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpState,
    QpType,
    WorkRequest,
)
from mrc_host.verbs.provider import EventSink


class AgentProvider:
    """Verbs on the NIC of the agent at `path` (see :class:`mrc_host.verbs.provider.Provider`)."""

    def __init__(self, path: str | os.PathLike[str], *, patience_s: float = ANSWER_TIMEOUT_S) -> None:
        self._connection = connection = AgentConnection(path, patience_s=patience_s)
        connection.on_completion = self._on_completion
        connection.on_event = self._on_event
        connection.on_failure = self._on_failure
        self._name = str(connection.greeting.get("name"))
        self._address = parse_bytes(str(connection.greeting.get("address")))
        self._queues: dict[int, _Queue] = {}
        self._pairs: dict[int, _Pair] = {}
        self._unsettled = 0  # posts of all queue pairs that may be waiting in the agent
        self._sinks: dict[EventSink, bool] = {}  # whether it wants events of everybody's queue pairs
        self._attributes: dict[QpAttributes, Any] = {}
        self.now = monotonic_ns
        self.refresh = connection.refresh
        self.wait = connection.wait
        self.attach = connection.attach
        self._control: AgentProvider | None = None

    @property
    def name(self) -> str:
        """Name of the NIC."""
        return self._name

    @property
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""
        return self._address

    def alloc_pd(self) -> int:
        """A new protection domain's number."""
        return int(self._connection.request("create_pd"))

    def dealloc_pd(self, pd: int) -> None:
        """Forget a protection domain."""
        self._connection.request("destroy_pd", pd=pd)

    def register_memory(self, pd: int, length: int, access: Access) -> tuple[MemoryRegionInfo, memoryview]:
        """Make a memfd, map it here, and have the agent map and register it too."""
        fd = os.memfd_create("mrc-mr", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, length)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            memory = mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            result = self._connection.request("register_memory", fd=fd, pd=pd, length=length, access=int(access))
        except OSError as error:
            raise ResourceExhaustedError(f"No memory for a region of {length} bytes: {error.strerror}.") from None
        finally:
            os.close(fd)
        return from_json(MemoryRegionInfo, result), memoryview(memory)

    def deregister_memory(self, lkey: int) -> None:
        """End a registration."""
        self._connection.request("deregister_memory", lkey=lkey)

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """A completion queue."""
        cq = int(self._connection.request("create_cq", capacity=capacity))
        self._queues[cq] = _Queue(capacity, on_ready, on_notify)
        return cq

    def destroy_cq(self, cq: int) -> None:
        """End a completion queue."""
        self._connection.request("destroy_cq", cq=cq)
        self._queues.pop(cq, None)

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue; entries count when they come in here."""
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
            self._connection.refresh()
            if not entries:
                return []
        taken = [entries.popleft() for _ in range(min(max_entries, len(entries)))]
        for entry in taken:
            if entry.opcode is CompletionOpcode.WRITE and entry.signaled and queue.promised:
                queue.promised -= 1
        queue.taken += len(taken)
        if queue.taken >= queue.credit_step:
            # What is already here can still be taken when the agent is gone, so a lost connection is not told now.
            with contextlib.suppress(MrcError):
                self._connection.send(protocol.pack_credit(cq, queue.taken))
            queue.taken = 0
        return taken

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """A queue pair."""
        qpn = int(
            self._connection.request(
                "create_qp",
                pd=pd,
                type=qp_type.value,
                send_cq=send_cq,
                recv_cq=recv_cq,
                attributes=to_json(attributes),
            )
        )
        self._pairs[qpn] = _Pair(self._queues[send_cq])
        return qpn

    def connect_qp(self, qpn: int, remote: QpAddress) -> None:
        """Bring a queue pair to RTS."""
        self._connection.request("connect_qp", qpn=qpn, remote=to_json(remote))
        self._pairs[qpn].connected = True

    def modify_qp(self, qpn: int, state: QpState, changes: Mapping[str, Any], remote: QpAddress | None = None) -> None:
        """One step in a queue pair's life."""
        step = {"state": state.value, "changes": dict(changes), "remote": to_json(remote)}
        self._connection.request("modify_qp", qpn=qpn, **step)
        pair = self._pairs[qpn]
        pair.connected = state in (QpState.RTS, QpState.ERROR)
        if state is QpState.RESET:
            self._settle(pair, 0)

    def destroy_qp(self, qpn: int) -> None:
        """End a queue pair."""
        self._connection.request("destroy_qp", qpn=qpn)
        pair = self._pairs.pop(qpn, None)
        if pair is not None:
            self._settle(pair, 0)

    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Send work requests to the agent.

        What can be known here is refused here, as the NIC itself would: a queue pair that is not connected
        (StateError), and from the first request on for which there is no room, in the completion queue or behind the
        send queue (ResourceExhaustedError). `posted` of an error says how many were sent before.
        """
        pair = self._pairs.get(qpn)
        if pair is None:
            raise NotFoundError(f"There is no queue pair {qpn}.")
        if not pair.connected:
            raise StateError(f"QP {qpn} is not connected: connect it before posting.")
        posted = 0
        try:
            while posted < len(requests):
                posted += self._post_some(qpn, pair, requests, posted)
        except MrcError as error:
            error.posted = posted
            raise

    def _post_some(self, qpn: int, pair: _Pair, requests: Sequence[WorkRequest], start: int) -> int:
        """Send one message of those requests from `start` on for which there is room; how many."""
        queue = pair.send_queue
        end = start + min(protocol.MAX_POSTS, len(requests) - start, self._backlog_room(qpn, pair))
        if end == start:
            raise ResourceExhaustedError(
                f"The send queue of QP {qpn} is full, and so is the agent's queue behind it: take completions, "
                "then post again."
            )
        places = queue.capacity - queue.promised
        signaled = 0
        for i in range(start, end):
            if requests[i].signaled:
                if signaled == places:
                    end = i
                    break
                signaled += 1
        if end == start:
            raise ResourceExhaustedError(
                f"The completion queue has room for {queue.capacity} entries: take completions, then post again."
            )
        self._connection.send(protocol.pack_posts(qpn, requests[start:end]))
        queue.promised += signaled
        pair.unsettled += end - start
        self._unsettled += end - start
        return end - start

    def _backlog_room(self, qpn: int, pair: _Pair) -> int:
        """How many posts the agent will let wait, if it has to; asks it when by our own count there are none left."""
        room = min(protocol.PENDING_LIMIT - pair.unsettled, protocol.CLIENT_PENDING_LIMIT - self._unsettled)
        if room <= 0:
            # One queue pair's count is a short answer; all of them are needed when it is their sum that is too large.
            asked = {"qpn": qpn} if pair.unsettled >= protocol.PENDING_LIMIT else {}
            waiting = dict(self._connection.request("posts_waiting", **asked))
            for number in (qpn,) if asked else self._pairs:
                self._settle(self._pairs[number], int(waiting.get(number, 0)))
            room = min(protocol.PENDING_LIMIT - pair.unsettled, protocol.CLIENT_PENDING_LIMIT - self._unsettled)
        return room

    def _settle(self, pair: _Pair, waiting: int) -> None:
        """No more than so many posts of a queue pair can still be waiting in the agent."""
        self._unsettled -= pair.unsettled - waiting
        pair.unsettled = waiting

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect to a queue pair."""
        return from_json(QpAddress, self._connection.request("qp_address", qpn=qpn))

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""
        return from_json(QpState, self._connection.request("qp_state", qpn=qpn))

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""
        return from_json(QpCounters, self._connection.request("qp_counters", qpn=qpn))

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Paths of a queue pair."""
        result: tuple[PathInfo, ...] = _decode_tuple(PathInfo, self._connection.request("qp_paths", qpn=qpn))
        return result

    def nic_counters(self) -> Mapping[str, int]:
        """Counters of the NIC."""
        return {str(key): int(value) for key, value in self._connection.request("nic_counters").items()}

    def hw_counters(self, qpn: int | None) -> Mapping[str, int]:
        """All counters of a queue pair, or of the NIC."""
        given = {} if qpn is None else {"qpn": qpn}
        return {str(key): int(value) for key, value in self._connection.request("hw_counters", **given).items()}

    def port_counters(self) -> tuple[Mapping[str, int], ...]:
        """All counters of each port."""
        return tuple(dict(port) for port in self._connection.request("port_counters"))

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Number of a new EV profile."""
        return int(self._connection.request("create_ev_profile", profile=to_json(profile)))

    def destroy_ev_profile(self, number: int) -> None:
        """Forget an EV profile."""
        self._connection.request("destroy_ev_profile", number=number)

    def ev_profiles(self) -> dict[int, EvProfile]:
        """All EV profiles by number."""
        pairs = self._connection.request("ev_profiles")
        return {int(number): from_json(EvProfile, profile) for number, profile in pairs}

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """A new CC profile under a name."""
        self._connection.request("create_cc_profile", name=name, profile=to_json(profile))

    def destroy_cc_profile(self, name: str) -> None:
        """Forget a CC profile."""
        self._connection.request("destroy_cc_profile", name=name)

    def cc_profiles(self) -> dict[str, CcProfile]:
        """All CC profiles by name."""
        return {str(name): from_json(CcProfile, profile) for name, profile in self._connection.request("cc_profiles")}

    def set_path_denied(self, peer: bytes, ev: int, denied: bool) -> None:
        """Forbid a path, or allow it again."""
        self._connection.request("deny_path", peer=to_json(peer), ev=ev, denied=denied)

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """All forbidden paths."""
        return _decode_tuple(DeniedPath, self._connection.request("denied_paths"))

    def probe(self, peer: bytes, ev: int, timeout_ns: int) -> int:
        """Send an endpoint probe."""
        return int(self._connection.request("probe", peer=to_json(peer), ev=ev, timeout=timeout_ns))

    def port_states(self, peer: bytes | None) -> tuple[PortState, ...]:
        """The NIC's ports, or a peer's as it told us."""
        return _decode_tuple(PortState, self._connection.request("port_states", peer=to_json(peer)))

    def destinations(self) -> tuple[DestinationInfo, ...]:
        """The NICs to which there are paths."""
        return _decode_tuple(DestinationInfo, self._connection.request("destinations"))

    def trace(self, path: str) -> None:
        """Open `path` and have the agent write the event trace there, which needs no right to the file for it."""
        if not path:
            self._connection.request("trace", path="")
            return
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise MrcError(f"Cannot write the trace to {path}: {getattr(error, 'strerror', error)}.") from None
        try:
            self._connection.request("trace", fd=fd, path=path)
        finally:
            os.close(fd)

    def for_controller(self) -> AgentProvider:
        """The provider for what is the controller's, on a connection of its own where that has a socket of its own."""
        path = for_controller(self._connection.path)
        if path == self._connection.path:
            return self
        if self._control is None:
            self._control = AgentProvider(path)
        return self._control

    def close(self) -> None:
        """Close the connection; the agent gives everything back."""
        if self._control is not None:
            self._control.close()
        self._connection.close()

    def events_dropped(self) -> int:
        """Events that the NIC could not keep, or the agent not send to us."""
        return self._connection.events_dropped + self.nic_counters().get("events_lost", 0)

    def add_event_sink(self, sink: EventSink, *, whole_nic: bool = False) -> None:
        """Call `sink` with events of the NIC's ports and of this client's queue pairs, or of everybody's."""
        if whole_nic and not any(self._sinks.values()):
            self._connection.request("subscribe", scope="all")
        elif not self._sinks:
            self._connection.request("subscribe", scope="own")
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
        self.taken = 0  # entries taken for which the agent has no credit back yet
        self.credit_step = max(1, capacity // 4)


class _Pair:
    """A queue pair on the client's side."""

    __slots__ = ("connected", "send_queue", "unsettled")

    def __init__(self, send_queue: _Queue) -> None:
        self.send_queue = send_queue
        self.connected = False
        self.unsettled = 0  # posts that may be waiting in the agent, as far as we know


def _decode_tuple(kind: type, data: Any) -> tuple[Any, ...]:
    return tuple(from_json(kind, item) for item in data)
