"""A destination NIC: the parts that all queue pairs to it share, and the endpoint operations between both NICs.

Its parts are its paths (``peer_paths``), the usable planes (``peer_planes``), probes (``path_probes``), and the routes
of acknowledgements (``answer_routes``). The peer itself sends what belongs to no queue pair: answers to endpoint
requests, port status updates and refusals, which take the routes of acknowledgements, and probes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from mypy_extensions import trait

from mrc_host.config import Destination
from mrc_host.transport.answer_routes import AnswerRoutes
from mrc_host.transport.bad_paths import PathUser
from mrc_host.transport.congestion import LinkParameters
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_probes import PathProbes
from mrc_host.transport.peer_frames import CONTROL, PeerFrames
from mrc_host.transport.peer_paths import PeerPaths
from mrc_host.transport.peer_planes import PeerPlanes
from mrc_host.transport.port_status import PortStatusUpdates
from mrc_host.transport.queue_pair_interfaces import PeerSource
from mrc_host.transport.refusals import Refusals
from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.scheduler import PacketSource
from mrc_host.transport.window import SharedWindows
from mrc_host.verbs_types import QpAttributes
from mrc_host.wire.control import OP_PORT_STATUS_UPDATE, EndpointRequest, EndpointResponse


@trait
class PlaneUser(PathUser):
    """A queue pair, as its peer sees it."""

    __slots__ = ()

    @abstractmethod
    def planes_changed(self, now: int) -> None:
        """The set of usable planes changed."""

    @abstractmethod
    def peer_reported(self, now: int) -> None:
        """The peer sent a new port status update that changes nothing: it may have been unreachable."""

    @abstractmethod
    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """The other end is no more; `number` is the low half of a PSN sent there, or a probe's number."""

    @abstractmethod
    def path_denied(self, index: int, denied: bool, now: int) -> None:
        """The controller denied a path or allowed it again."""


class FirstNumbers:
    """Where the numbers of probes and of port status updates start, 16 bits each; they should be random."""

    __slots__ = ("port_status", "probe")

    def __init__(self, probe: int, port_status: int) -> None:
        self.probe = probe
        self.port_status = port_status


class Peer(PacketSource, PeerSource):
    """One destination NIC, and what queue pairs to it measure: `round_trips`, `reordering`, `lost_by_plane`."""

    __slots__ = (
        "_answer_port",
        "_connected_to",
        "_nic",
        "_refusals",
        "_status",
        "address",
        "answers",
        "destination",
        "frames",
        "lost_by_plane",
        "paths",
        "planes",
        "probes",
        "reordering",
        "round_trips",
        "timers",
        "users",
        "windows",
    )

    def __init__(self, nic: NicContext, destination: Destination, first: FirstNumbers) -> None:
        super().__init__()
        self._nic = nic
        self.address = destination.address
        self.destination = destination
        self.timers = destination.timers or nic.transport.path_timers
        ports = len(nic.config.ports)
        self.round_trips = [RoundTrip() for _ in range(ports)]
        self.reordering = [ReorderWindow() for _ in range(2 * ports)]  # by lane: twice the plane, plus the class
        self.lost_by_plane = nic.lost_by_plane
        self.windows = SharedWindows()
        self.users: dict[PlaneUser, None] = {}
        self._connected_to: dict[int, dict[PlaneUser, None]] = {}  # the same, by remote QPN
        self.paths = PeerPaths(nic, destination)
        self.frames = PeerFrames(nic, destination, self.paths.values)
        self.planes = PeerPlanes(nic, destination.address, self.paths, self.round_trips, self.ports_retired)
        self.probes = PathProbes(nic, destination, self.paths, self.planes, self, first.probe)
        interval = self.timers.reverse_probe_interval
        self.answers = AnswerRoutes(
            nic, self.paths, self.planes, self.probes, self.frames, self.round_trips, self, interval
        )
        self._answer_port = 0  # mask of the port of the next answer, if that is chosen
        self._refusals = Refusals()
        self._status = PortStatusUpdates(nic, first.port_status)

    # ---- planes -------------------------------------------------------------------------------------------------

    def local_ports_changed(self, now: int) -> None:
        """A port of ours went down or came up: update the usable planes and notify the peer."""
        self._planes_changed(now)
        if self.users:
            self.send_port_status(now)

    def _planes_changed(self, now: int) -> None:
        planes, before = self.planes, self.planes.usable
        changed = planes.refresh()
        for plane in range(len(self.round_trips)):
            was, is_ = before >> plane & 1, planes.usable >> plane & 1
            if was and not is_:
                planes.went_down(plane, now)
            elif is_ and not was:
                self.probes.plane_up(plane, now)
        planes.refresh_retired()
        if changed:
            for user in self.users:
                user.planes_changed(now)
            self.offer()

    def ports_retired(self, now: int) -> None:
        """A port of ours, or the peer's, was retired for being slow, or is used again."""
        self.planes.refresh_retired()
        for user in list(self.users):
            user.planes_changed(now)

    def send_port_status(self, now: int) -> None:
        """Send the peer a port status update, repeated until it answers."""
        self._status.announce(now)
        self.offer()
        self.arm(self._status.next_time)

    def _port_status(self, request_id: int, ports: int, now: int) -> bool:
        """The peer reported which of its ports are usable; False when that must not be answered."""
        latest = self.planes.latest_report
        changed = self.planes.reported(request_id, ports, now)
        if changed > 0:
            self._planes_changed(now)
        elif changed == 0 and latest != request_id:
            for user in self.users:
                user.peer_reported(now)
        return changed >= 0

    # ---- paths --------------------------------------------------------------------------------------------------

    def deny(self, index: int, denied: bool, now: int) -> None:
        """The controller denies a path or allows it again, for present and future queue pairs."""
        paths = self.paths
        if denied == (index in paths.denied):
            return
        paths.denied.set(index, paths.plane_of[index], denied)
        self.planes.refresh()
        self.answers.deny(index, denied)
        for user in self.users:
            user.path_denied(index, denied, now)
        self.offer()

    def watch(self, user: PlaneUser, index: int, now: int) -> None:
        """`user` considers path `index` bad: probe it until it works, and send answers elsewhere."""
        self.probes.watch(user, index, now)
        self.answers.reverse.forget(index)

    # ---- users --------------------------------------------------------------------------------------------------

    def join(self, user: PlaneUser, remote_qpn: int, now: int) -> None:
        """A queue pair was connected to this peer's `remote_qpn`."""
        self.users[user] = None
        self._connected_to.setdefault(remote_qpn, {})[user] = None
        for index in self.paths.denied:
            user.path_denied(index, True, now)
        self.send_port_status(now)

    def leave(self, user: PlaneUser, remote_qpn: int) -> None:
        """A queue pair was disconnected from this peer's `remote_qpn`."""
        self.users.pop(user, None)
        connected = self._connected_to.get(remote_qpn)
        if connected is not None:
            connected.pop(user, None)
            if not connected:
                del self._connected_to[remote_qpn]
        self.probes.bad.leave(user)
        if not self.users:
            self._status.stop()

    def link_parameters(self, attributes: QpAttributes) -> LinkParameters:
        """What a congestion controller for this peer is configured for: all our ports to it that it may use, combined.

        A port of rate 0 (unlimited or unknown) counts as `assumed_rate`.
        """
        transport, ports = self._nic.transport, self._nic.config.ports
        window = attributes.congestion_window
        rates = [port.rate_bps or transport.assumed_rate for port in ports]
        planes = self.paths.planes & attributes.planes
        rate = sum([rate for plane, rate in enumerate(rates) if planes >> plane & 1])
        base_rtt, nscc = transport.base_rtt, transport.nscc
        if base_rtt and self.destination.base_rtt:
            base_rtt = self.destination.base_rtt
            if nscc.base_rtt_floor is not None and nscc.base_rtt is None:
                nscc = replace(nscc, base_rtt_floor=min(nscc.base_rtt_floor, base_rtt))
        return LinkParameters(
            rate,
            base_rtt,
            attributes.path_mtu,
            transport.default_window if window is None else window,
            transport.trimming and attributes.trim_nack_dest,
            nscc,
            max(attributes.num_send_peers, attributes.num_remote_recv_peers, 1),
        )

    # ---- endpoint operations ------------------------------------------------------------------------------------

    def receive_request(self, request_id: int, request: EndpointRequest, port: int, now: int) -> None:
        """Act on an endpoint request of this peer, which arrived at `port`, and answer it."""
        if request.op == OP_PORT_STATUS_UPDATE and not self._port_status(request_id, request.port_mask, now):
            return
        if self.answers.endpoint.add(request_id, request, port, now):
            self.offer()

    def receive_response(self, request_id: int, response: EndpointResponse, port: int, now: int) -> bool:
        """Handle an answer that arrived at `port`; False when there was no such request."""
        if response.op == OP_PORT_STATUS_UPDATE:
            answered = self._status.answered(request_id)
            if answered:
                self.answers.endpoint.confirmed()
            return answered
        index = self.probes.path_of(request_id)
        if index < 0:
            return False
        self.answers.reverse.probe_answered(request_id, now)
        self.probes.on_answer(request_id, index, port, response.service_time, now)
        self.answers.works(index, now)
        return True

    def refuse(self, body: bytes, now: int) -> None:
        """Notify the peer that a queue pair accepts nothing any more, unless it was notified too often recently."""
        if self._refusals.add(body, now):
            self.offer()

    def remote_gone(self, qpn: int, number: int, stamp: int, now: int) -> None:
        """The peer has no queue pair `qpn`; the queue pair that sent there will recognise its packet."""
        for user in list(self._connected_to.get(qpn, ())):
            user.remote_gone(number, stamp, now)

    # ---- source -------------------------------------------------------------------------------------------------

    def _wanted(self) -> int:
        mask, endpoint = self.probes.ports(), self.answers.endpoint
        if endpoint.waiting or self._status.fresh or self._refusals.waiting:
            if not self._answer_port & self.planes.answerable:
                asked = 1 << plane if (plane := endpoint.plane()) >= 0 else 0
                self._answer_port = asked & self.planes.own() or self.answers.port()
            mask |= self._answer_port
        if self._status.repeating:
            mask |= self._status.turn(self.planes.own())
        return mask

    def offer(self) -> None:
        """There may be something to send."""
        self._nic.scheduler.activate_control(self, self._wanted())

    def arm(self, when: int) -> None:
        """Call ``on_timer`` at `when`."""
        self._nic.scheduler.arm(self, when)

    def data_ports(self) -> int:
        """Peers send no data."""
        return 0

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Peers send no data."""
        return None

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Answers first, then our port status, then probes."""
        answers, frames = self.answers, self.frames
        if self._answer_port >> port & 1:
            index = answers.reverse_path(port, now)
            body = self._answer(port, now) if index >= 0 else b""
            if body:
                self._answer_port = 0
                self.offer()
                return frames.frame(index, CONTROL, body)
        if self._status.port >> port & 1:
            index = answers.any_path(port)
            if index >= 0:
                return frames.frame(index, CONTROL, self._status.take(port, now))
        only = CONTROL if self._nic.scheduler.holds(self, port) else -1
        index, kind, body = self.probes.take(port, only, now)
        return frames.frame(index, kind, body) if index >= 0 else None

    def _answer(self, port: int, now: int) -> bytes:
        endpoint = self.answers.endpoint
        if endpoint.waiting:
            return endpoint.take(now)
        if self._status.fresh:
            return self._status.take(port, now)
        return self._refusals.waiting.popleft() if self._refusals.waiting else b""

    def on_timer(self, now: int) -> int:
        """Repeat the port status, send due probes, search for reverse paths; returns the next time, or 0."""
        if self._status.run(self.planes.own(), now):
            self.offer()
        self.answers.on_timer(now)
        self.probes.on_timer(now)
        due = (self._status.next_time, self.answers.next_time(), *self.probes.next_times())
        return min([t for t in due if t], default=0)
