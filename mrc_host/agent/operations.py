"""Agent-side operations: the verbs of a client's REQUEST.

A verb's arguments and permitted callers are declared (:mod:`mrc_host.verbs.remote.agent_verbs`,
:mod:`mrc_host.verbs.nic_verbs`), and :func:`execute` checks them. A verb that only calls the NIC needs nothing here;
the methods are for those where the agent keeps records: what each client owns, whom to notify of what, and what ends
with its session. They raise MrcError for anything the client did wrong, which becomes an ERROR reply.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mrc_common.delays import PortDelays
from mrc_host.agent.control_api_operations import ControlApiOperations, ControlApiServices
from mrc_host.agent.denials import Denials
from mrc_host.agent.holdings import ClientQueue, ClientQueuePair, MappedRegion
from mrc_host.agent.long_answers import LongAnswer, array, last
from mrc_host.agent.session import ClientSession
from mrc_host.driver.nic_port import PortStatus
from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.path_probes import ProbePlan
from mrc_host.verbs import memfds
from mrc_host.verbs.declaration import Caller, Handle, ObjectKind
from mrc_host.verbs.device import DeviceVerbs
from mrc_host.verbs.errors import RejectedError
from mrc_host.verbs.remote import descriptors, verb_arguments
from mrc_host.verbs.remote.agent_verbs import VERBS, AgentInfo, AgentVerbs, EventScope, NamedNic, QueuePairInfo
from mrc_host.verbs.remote.codec import shown
from mrc_host.verbs_types import Access, MemoryRegionInfo, QpAddress, QpAttributes, QpState, QpType

if TYPE_CHECKING:
    pass  # not at the top, so that the caller chooses the compiled or the plain one

MAX_OBJECTS = 65536  # of each kind and client, so that a runaway client does not exhaust the agent


class AgentServices(ControlApiServices, Protocol):
    """What operations use of their agent: its NIC, what it knows of its clients, and its trace."""

    clock: Callable[[], int]
    ports: Callable[[], tuple[PortStatus, ...]]
    delays: Callable[[], tuple[PortDelays, ...]]
    measure_delays: Callable[[bool], None]
    owners: dict[int, ClientSession]
    """Of completion queues."""
    probing_session: ClientSession | None
    """For whom the NIC sends path probes."""
    denials: Denials
    recent_events: deque[dict[str, Any]]
    control_path: Path

    @property
    def sessions(self) -> tuple[ClientSession, ...]:
        """All connected clients."""

    @property
    def trace_path(self) -> str:
        """Where the event trace is being written; empty when it is off."""

    def send_events(self) -> None:
        """Send the NIC's events to those who have subscribed."""

    def next_pd(self) -> int:
        """A protection domain number never used before."""

    def destination_name(self, address: bytes) -> str:
        """Name of a peer NIC, or its address if it has none here."""

    def trace_to(self, path: str | Path, fd: int | None = None) -> None:
        """Write the NIC's event trace to `path`, or end it. TraceError when the file cannot be created."""


def execute(server: AgentServices, session: ClientSession, request: Mapping[str, Any], fds: list[int]) -> Any:
    """Carry out one request."""
    given = dict(request)
    name = given.pop("op", None)
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise RejectedError(f"The agent knows no operation {shown(name)}.")
    operations = Operations(server, session)
    if verb.caller is Caller.CONTROLLER:
        operations.check_controller(verb.name)
    method = getattr(operations, f"{verb.name}_in_parts", None) or getattr(operations, verb.name)
    return method(**verb_arguments.decode(verb, given, fds, operations))


class Operations(ControlApiOperations, DeviceVerbs, AgentVerbs):
    """The verbs of the agent `server` for the client of `session`."""

    def __init__(self, server: AgentServices, session: ClientSession) -> None:
        DeviceVerbs.__init__(self, server.nic, server.clock)
        ControlApiOperations.__init__(self, server)
        self._server = server
        self._session = session
        self._holdings = session.holdings

    def holds(self, handle: Handle, number: int) -> bool:
        """Whether the client (or, if the handle allows that, any client) has the object with this number."""
        sessions = self._server.sessions if handle.any_client else (self._session,)
        return any(number in _held(session, handle.kind) for session in sessions)

    def check_controller(self, what: str) -> None:
        """Refuse `what` to a client of the applications' socket."""
        if not self._session.control:
            raise RejectedError(
                f"{what!r} is for the controller, not for applications: use {self._server.control_path}, which only "
                "the agent's own user may open."
            )

    # -- protection domains and memory -----------------------------------------------------------------------------

    def alloc_pd(self) -> int:
        """Number of a new protection domain."""
        _limit(self._holdings.pds, "protection domains")
        pd = self._server.next_pd()
        self._holdings.pds[pd] = 0
        return pd

    def dealloc_pd(self, pd: int) -> None:
        """Forget a protection domain that nothing uses."""
        if self._holdings.pds.get(pd):
            raise StateError(f"Protection domain {pd} still has queue pairs or memory regions.")
        self._holdings.pds.pop(pd, None)

    def register_memory(
        self, pd: int, length: int, access: Access, fd: int, offset: int = 0, address: int | None = None
    ) -> MemoryRegionInfo:
        """Map part of the memfd sent with the request and register it with the NIC."""
        holdings = self._holdings
        _limit(holdings.regions, "memory regions")
        if not descriptors.may_map(fd):
            raise ResourceExhaustedError(descriptors.NONE_LEFT)
        memory, view = memfds.map_part(fd, offset, length)
        region = MappedRegion(memory, view)
        try:
            info = self._nic.register_memory(pd, view, access, address)
        except BaseException:
            region.close()
            raise
        holdings.regions[info.lkey] = region
        holdings.region_pds[info.lkey] = pd
        holdings.pds[pd] += 1
        return info

    def deregister_memory(self, lkey: int) -> None:
        """End a registration and unmap the memory."""
        super().deregister_memory(lkey)
        self._holdings.regions.pop(lkey).close()
        self._holdings.pds[self._holdings.region_pds.pop(lkey)] -= 1

    # -- completion queues -----------------------------------------------------------------------------------------

    def create_cq(self, capacity: int) -> int:
        """Number of a new completion queue."""
        _limit(self._holdings.queues, "completion queues")
        cq = self._nic.create_cq(capacity)
        self._holdings.queues[cq] = ClientQueue(cq, capacity, capacity)
        self._server.owners[cq] = self._session
        return cq

    def destroy_cq(self, cq: int) -> None:
        """End a completion queue."""
        super().destroy_cq(cq)
        del self._holdings.queues[cq]
        self._server.owners.pop(cq, None)

    # -- queue pairs -----------------------------------------------------------------------------------------------

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """QPN of a new queue pair."""
        _limit(self._holdings.pairs, "queue pairs")
        qpn = super().create_qp(pd, qp_type, send_cq, recv_cq, attributes)
        self._holdings.pairs[qpn] = ClientQueuePair(qpn, qp_type, send_cq, recv_cq, pd)
        self._holdings.pds[pd] += 1
        return qpn

    def connect_qp(self, qpn: int, remote: QpAddress) -> None:
        """Bring a queue pair to RTS."""
        super().connect_qp(qpn, remote)
        self._holdings.pairs[qpn].remote = self._named(remote)

    def modify_qp(self, qpn: int, state: QpState, changes: Mapping[str, Any], remote: QpAddress | None = None) -> None:
        """One step in a queue pair's life."""
        if state is QpState.RESET and not changes and remote is None:  # with either it is refused and changes nothing
            self._session.flush_posts(qpn)
        super().modify_qp(qpn, state, changes, remote)
        if remote is not None:
            self._holdings.pairs[qpn].remote = self._named(remote)
        elif state is QpState.RESET:
            self._holdings.pairs[qpn].remote = ""
            self._server.send_events()  # those of the life that has ended come before the reply

    def destroy_qp(self, qpn: int) -> None:
        """End a queue pair."""
        self._session.flush_posts(qpn)
        super().destroy_qp(qpn)
        self._holdings.pds[self._holdings.pairs.pop(qpn).pd] -= 1

    def posts_waiting(self, qpn: int | None = None) -> Mapping[int, int]:
        """How many posts wait here for room in the NIC."""
        waiting = self._session.posts_waiting()
        return waiting if qpn is None else {qpn: waiting.get(qpn, 0)}

    def completions_waiting(self, qpn: int) -> int:
        """How many completions have not been sent to the client."""
        pair = self._holdings.pairs[qpn]
        queues = {pair.send_cq, pair.recv_cq}
        return sum(entry.qpn == qpn for cq in queues for entry in self._nic.peek_cq(cq, 0))

    def _named(self, remote: QpAddress) -> str:
        return f"{self._server.destination_name(remote.address)}:{remote.qpn}"

    # -- the agent and its clients ---------------------------------------------------------------------------------

    def info(self) -> AgentInfo:
        """Who the NIC and its agent are."""
        config = self._nic.config
        known = tuple(NamedNic(destination.name, destination.address) for destination in config.destinations)
        return AgentInfo(config.name, config.address, os.getpid(), known)

    def ports(self) -> tuple[PortStatus, ...]:
        """State and counters of the NIC's ports."""
        return self._server.ports()

    def delays(self, measure: bool | None = None) -> tuple[PortDelays, ...]:
        """How long the machine delayed frames at the NIC's ports."""
        if measure is not None:
            self.check_controller("delays with measure")
            self._server.measure_delays(measure)
        return self._server.delays()

    def qps(self) -> tuple[QueuePairInfo, ...]:
        """All queue pairs of all clients."""
        return tuple(self._queue_pairs())

    def qps_in_parts(self) -> LongAnswer:
        """The same, a few at a time."""
        return array(self._queue_pairs())

    def _queue_pairs(self) -> Iterator[QueuePairInfo]:
        """Those that exist now, and still exist when their turn comes."""
        for client, pairs in [(one.name, tuple(one.holdings.pairs.values())) for one in self._server.sessions]:
            for pair in pairs:
                with contextlib.suppress(NotFoundError):
                    state, counters = self.qp_state(pair.qpn), self.qp_counters(pair.qpn)
                    yield QueuePairInfo(pair.qpn, client, pair.kind, pair.remote, state, counters)

    def hw_counters_in_parts(self, qpn: int | None = None) -> Mapping[str, int] | LongAnswer:
        """Counters of a queue pair, or of the NIC with those of all queue pairs, a few at a time."""
        if qpn is not None:
            return self.hw_counters(qpn)
        return last(self._nic.sum_counters(self._clock()))

    def events(self, since: int) -> tuple[Mapping[str, Any], ...]:
        """Recent asynchronous events."""
        return tuple(event for event in self._server.recent_events if event["number"] > since)

    def subscribe(self, scope: EventScope) -> None:
        """Subscribe to events."""
        if scope is EventScope.ALL:
            self.check_controller("subscribe to all events")
        self._session.events = scope

    # -- for the whole NIC -----------------------------------------------------------------------------------------

    def deny_path(self, peer: bytes, ev: int, denied: bool, leased: bool = False) -> None:
        """Take one path out of use, or allow it again."""
        path = peer, ev
        if not leased:
            self._server.denials.set(path, denied)
        elif denied:
            self._server.denials.lease(path, self._session)
        else:
            self._server.denials.end(path, self._session)

    def start_probing(self, plan: ProbePlan) -> None:
        """Send path probes for as long as this client is connected."""
        super().start_probing(plan)
        self._server.probing_session = self._session

    def trace(self, path: str | None = None, fd: int | None = None) -> str:
        """Write the event trace to the descriptor sent with the request."""
        if path is not None:
            if path and fd is None:
                raise InvalidArgumentError("A trace needs the descriptor of its file, open for writing.")
            self._server.trace_to(path, os.dup(fd) if path and fd is not None else None)
        return self._server.trace_path


def _held(session: ClientSession, kind: ObjectKind) -> Collection[int]:
    """Numbers of a client's objects of one kind."""
    holdings = session.holdings
    if kind is ObjectKind.QP:
        return holdings.pairs
    if kind is ObjectKind.CQ:
        return holdings.queues
    return holdings.pds if kind is ObjectKind.PD else holdings.regions


def _limit(collection: Collection[int], what: str) -> None:
    if len(collection) >= MAX_OBJECTS:
        raise ResourceExhaustedError(f"A client can have at most {MAX_OBJECTS} {what}.")
