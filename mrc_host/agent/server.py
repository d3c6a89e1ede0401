"""The agent: lets the applications of a host use its NIC.

It runs in the same loop as the NIC's driver, so NIC, ports and clients share one thread and need no locks. It accepts
clients on UNIX sockets, gives each a :class:`~mrc_host.agent.session.ClientSession`, and once per turn passes
completions and asynchronous events from the NIC to the sessions concerned.

There are two sockets, since users of the NIC need not be its administrators: one for applications, which its owner and
perhaps a group may open, and one for the controller, which only its owner may. Whatever changes the NIC for others is
refused on the first (:mod:`~mrc_host.agent.operations`). A server with a single socket, its owner's, serves both there.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from mrc_common import unix_sockets
from mrc_common.connection_limits import AcceptedConnection, OpenConnections
from mrc_common.connection_owner import owner_of
from mrc_common.delays import PortDelays
from mrc_host.agent.denials import Denials
from mrc_host.agent.gradual_release import Releases
from mrc_host.agent.holdings import Holdings
from mrc_host.agent.operations import execute
from mrc_host.agent.programmed_profiles import ProgrammedProfiles
from mrc_host.agent.session import ClientSession
from mrc_host.agent.trace_file import TraceFile
from mrc_host.driver.loop import READABLE, Loop
from mrc_host.driver.nic_port import PortStatus
from mrc_host.errors import MrcError
from mrc_host.verbs.remote import descriptors, protocol
from mrc_host.verbs.remote.codec import format_bytes, to_json
from mrc_host.verbs_types import PathEvent, PortEvent, ProbeEvent, QpEvent, SlowPortEvent

if TYPE_CHECKING:
    from mrc_host.nic import Nic

RECENT_EVENTS = 4096
ACCEPT_AGAIN_NS = 100_000_000  # pause when there was no descriptor for another client
_EVENT_TYPES: dict[type, str] = {
    PathEvent: "path", PortEvent: "port", SlowPortEvent: "slow_port", QpEvent: "qp", ProbeEvent: "probe",
}  # fmt: skip

log = logging.getLogger("mrc.agent")


class AgentSocketError(MrcError):
    """The agent's socket cannot be created; the message says why and what to do."""


class AgentServer:
    """Serves `nic` to applications at the UNIX socket `path`, and to its controller at `control`, in `loop`.

    Without `control`, `path` serves both. Members of the group with number `group` may open `path` as well as its
    owner. `ports` returns the driver's view of the ports, `delays` the delays it measured, once `measure_delays` is on,
    and `enable_port` has it use a port or not.
    """

    def __init__(
        self,
        nic: Nic,
        loop: Loop,
        path: str | Path,
        *,
        control: str | Path | None = None,
        group: int | None = None,
        ports: Callable[[], tuple[PortStatus, ...]] = tuple,
        delays: Callable[[], tuple[PortDelays, ...]] = tuple,
        measure_delays: Callable[[bool], None] = lambda on: None,
        enable_port: Callable[[int, bool], None] = lambda port, enabled: None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.nic = nic
        self.clock = clock
        self.ports = ports
        self.delays = delays
        self.measure_delays = measure_delays
        self.enable_port = enable_port
        self.disabled_ports: set[int] = set()
        self.owners: dict[int, ClientSession] = {}  # of completion queues
        self._releases = Releases(nic, clock, self.owners)
        self.probing_session: ClientSession | None = None  # for whom the NIC sends path probes
        self.denials = Denials(nic.control, clock)
        self.programmed = ProgrammedProfiles(
            nic,
            lambda peer, ev, denied: self.denials.set((peer, ev), denied),
            lambda: [qpn for session in self._sessions for qpn in session.holdings.pairs],
        )
        self.recent_events: deque[dict[str, Any]] = deque(maxlen=RECENT_EVENTS)
        self._sessions: dict[ClientSession, None] = {}
        self._applications = OpenConnections(descriptors.most(), share=descriptors.share(), replaces=False)
        self._waiting: set[ClientSession] = set()  # with posts for which the NIC had no room
        self._loop = loop
        self._path = Path(path)
        self._group = group
        self.control_path = self._path if control is None else Path(control)
        self._listeners: dict[Path, socket.socket] = {}
        self._accept_at: int | None = None  # accept no clients until then
        self._buffer = bytearray(protocol.MAX_MESSAGE)  # what a session is reading
        self._accepted = 0
        self._pds = 0
        self._event_count = 0
        self._trace: TraceFile | None = None
        self._names = {destination.address: destination.name for destination in nic.config.destinations}

    @property
    def sessions(self) -> tuple[ClientSession, ...]:
        """All connected clients."""
        return tuple(self._sessions)

    def next_pd(self) -> int:
        """A protection domain number never used before."""
        self._pds += 1
        return self._pds

    def destination_name(self, address: bytes) -> str:
        """Name of a peer NIC, or its address if it has none here."""
        return self._names.get(address) or format_bytes(address)

    @property
    def trace_path(self) -> str:
        """Where the event trace is being written; empty when it is off."""
        return "" if self._trace is None else str(self._trace.path)

    def trace_to(self, path: str | Path, fd: int | None = None) -> None:
        """Write the NIC's event trace (docs/trace.md) to `path` from now on; an empty `path` ends it.

        With `fd`, a descriptor of that file open for writing, the file is not opened here (but closed at the end).
        Raises TraceError when the file cannot be created; the trace then goes on as before.
        """
        new = TraceFile(path, fd) if str(path) else None
        if new is not None:
            clock = {"t": monotonic_ns(), "event": "clock", "host": self.nic.config.name, "realtime": time_ns()}
            new(clock)
        self.nic.set_trace(new)
        if self._trace is not None:
            self._trace.close()
        self._trace = new

    def start(self) -> None:
        """Listen. Raises SocketError, leaving no socket behind, when a path is in use or cannot be created."""
        try:
            self._listen(self._path, self._group)
            if self.control_path != self._path:
                self._listen(self.control_path, None)
        except BaseException:
            self._stop_listening()
            raise
        self._loop.add_turn(self._push_arrivals, first=True)
        self._loop.add_turn(self._turn)

    def _listen(self, path: Path, group: int | None) -> None:
        control = path == self.control_path and group is None  # a group's socket is never the controller's
        self._listeners[path] = sock = listen(path, group)
        self._loop.add(sock.fileno(), READABLE, lambda _mask: self._on_connect(sock, control))

    def _stop_listening(self) -> None:
        for path, sock in self._listeners.items():
            self._loop.remove(sock.fileno())
            sock.close()
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        self._listeners.clear()

    def close(self) -> None:
        """Close all sessions and the listening sockets, and remove their files. Closing twice does nothing."""
        if not self._listeners:
            return
        self._loop.remove_turn(self._push_arrivals)
        self._loop.remove_turn(self._turn)
        for session in self.sessions:
            session.close("the agent exits")
        self._releases.finish()
        self.trace_to("")
        self._stop_listening()

    def _on_connect(self, listener: socket.socket, control: bool) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                log.warning("accepting no clients for now: %s", error.strerror)
                self._accept_at = self.clock() + ACCEPT_AGAIN_NS
                self._watch_listeners(0)
            return
        sock.setblocking(False)
        connection = AcceptedConnection(owner_of(sock), sock.close, busy=True)
        if not control:
            if descriptors.is_reserved(sock.fileno()):
                self._reject(sock, "The agent can hold no more clients or regions.")
                return
            if connection.owner != f"user {os.geteuid()}" and not self._applications.admit(connection).taken:
                self._reject(sock, f"One user can have at most {self._applications.share} clients here.")
                return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, protocol.SOCKET_BUFFER)
        self._accepted += 1
        config = self.nic.config
        session = ClientSession(
            sock,
            self._accepted,
            nic=self.nic,
            loop=self._loop,
            clock=self.clock,
            execute=lambda session, arguments, fds: execute(self, session, arguments, fds),
            greeting={"version": protocol.VERSION, "name": config.name, "address": format_bytes(config.address)},
            on_closed=lambda session, held: self._on_closed(session, held, connection),
            waiting=self._waiting,
            buffer=self._buffer,
            control=control,
        )
        self._sessions[session] = None

    def _reject(self, sock: socket.socket, message: str) -> None:
        """No application, or none of this user, may take another descriptor: say so, and close."""
        why = {"error": "ResourceExhaustedError", "message": message}
        with sock, contextlib.suppress(OSError):
            for part in protocol.pack_json(protocol.MessageKind.ERROR, 0, why):
                sock.send(part)
        log.warning("rejected a client: too many descriptors are in use")

    def _on_closed(self, session: ClientSession, held: Holdings, connection: AcceptedConnection) -> None:
        self._sessions.pop(session, None)
        self._applications.ended(connection)
        self._waiting.discard(session)
        if session is self.probing_session:
            self.probing_session = None
            self.nic.control.stop_probing()
        self.denials.release(session)
        self._releases.add(held)

    def _watch_listeners(self, mask: int) -> None:
        for sock in self._listeners.values():
            self._loop.modify(sock.fileno(), mask)

    def _push_arrivals(self, _now: int) -> int | None:
        """Announce completions before the driver sends acknowledgements, each of which wakes another process."""
        for cq in self.nic.cq_ready():
            owner = self.owners.get(cq)
            if owner is not None:
                owner.push(cq)
        return None

    def _turn(self, now: int) -> int | None:
        self._push_arrivals(now)
        self.send_events()
        due = None if self._trace is None else self._trace.turn(now)
        if self._trace is not None and self._trace.ended:  # its disk is full
            self.trace_to("")
        for session in tuple(self._waiting):
            again = session.retry()
            if again is not None and (due is None or again < due):
                due = again
        if self._releases.turn():
            due = now
        if self._accept_at is not None:
            if now >= self._accept_at:
                self._accept_at = None
                self._watch_listeners(READABLE)
                return now
            due = self._accept_at if due is None else min(due, self._accept_at)
        return due

    def send_events(self) -> None:
        """Send the NIC's events since the last call to those who have subscribed."""
        for event in self.nic.async_events():
            self._event_count += 1
            message = {"number": self._event_count, "type": _EVENT_TYPES[type(event)], "event": to_json(event)}
            if isinstance(event, PathEvent):
                message["ev_profile"] = self.programmed.event_of(event.qpn, event.new)
            self.recent_events.append(message)
            for session in self.sessions:
                session.send_event(event, message)


def listen(path: Path, group: int | None = None) -> socket.socket:
    """A listening SEQPACKET socket at `path` (``mrc_common.unix_sockets.listen``); raises our SocketError."""
    try:
        return unix_sockets.listen(path, socket.SOCK_SEQPACKET, group=group)
    except unix_sockets.SocketError as error:
        raise AgentSocketError(str(error)) from None
