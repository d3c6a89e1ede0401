"""What all queue pairs to one NIC share: frames (``peer_frames``), usable planes, reverse paths, endpoint operations.

* **Planes.** A plane is usable when our port and the peer's port in it have a link. Peers notify each other by port
  status updates (``port_status``). When that leaves no plane at all, the peer's status is ignored, as it may be out of
  date. A port that is slower than the others, ours or the peer's, may be retired from sending data (``slow_ports``): it
  stays usable, nobody is notified, and it carries data when nothing else does. Each NIC judges what it sends itself.
* **Reverse paths.** Acknowledgements and other answers rotate over the planes suited for them, in a new order each
  time, so that a dead plane does not lose several in a row; each takes one of its plane's reverse paths
  (``reverse_paths``). If no plane is suited, they rotate over all planes with a path that is not denied; if there is
  none, they wait.
* **Probes.** A path that any queue pair considers bad is probed once for all of them (``bad_paths``).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Final

from mypy_extensions import trait

from mrc_host.config import Destination, EvFormat
from mrc_host.errors import ResourceExhaustedError
from mrc_host.transport.bad_paths import BadPaths, PathUser
from mrc_host.transport.base_round_trips import BaseRoundTrips
from mrc_host.transport.congestion import LinkParameters
from mrc_host.transport.denylist import Denylist
from mrc_host.transport.endpoint_answers import EndpointAnswers
from mrc_host.transport.endpoint_probes import MAX_ENDPOINT_PROBES, EndpointProbes
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.ev_probes import EvProbes
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer_frames import CONTROL, NO_TRIM, PeerFrames
from mrc_host.transport.plane_balance import NOBODY, UNKNOWN
from mrc_host.transport.port_status import PeerPorts, PortStatusUpdates
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, PathMonitor
from mrc_host.transport.refusals import Refusals
from mrc_host.transport.reordering import ReorderWindow
from mrc_host.transport.reverse_paths import ReversePaths
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.scheduler import PacketSource
from mrc_host.transport.slow_ports import SlowPorts, slowest
from mrc_host.transport.window import SharedWindows
from mrc_host.values import PortEvent, QpAttributes
from mrc_host.wire import control
from mrc_host.wire.control import OP_EV_PROBE, OP_PORT_STATUS_UPDATE, EndpointRequest, EndpointResponse
from mrc_host.wire.headers import timestamp

_SEARCHING: Final = 8  # probes per reverse_probe_interval while searching for paths


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


class Peer(PacketSource, AnswerPaths, PathMonitor):
    """One destination NIC."""

    __slots__ = (
        "_answer_port",
        "_answers",
        "_bad",
        "_base",
        "_connected_to",
        "_down_since",
        "_endpoint_probes",
        "_linked",
        "_nic",
        "_probes",
        "_refusals",
        "_remote",
        "_reverse",
        "_reverse_at",
        "_reverse_used",
        "_rng",
        "_status",
        "_unanswered",
        "address",
        "answerable",
        "denied",
        "destination",
        "evs",
        "frames",
        "index_of",
        "lost_by_plane",
        "members",
        "plane_of",
        "planes",
        "reordering",
        "retired",
        "round_trips",
        "slow_ports",
        "timers",
        "usable",
        "users",
        "values",
        "windows",
    )

    def __init__(self, nic: NicContext, destination: Destination, first: FirstNumbers) -> None:
        super().__init__()
        self._nic = nic
        self._rng = nic.rng
        self.address = destination.address
        self.destination = destination
        ports = len(nic.config.ports)
        planes = destination.planes()
        self.evs = [ev for ev, plane in zip(destination.evs, planes, strict=True) if plane < ports]
        self.plane_of = bytes([plane for plane in planes if plane < ports])
        self.index_of = {ev: index for index, ev in enumerate(self.evs)}
        self.members: list[list[int]] = [[] for _ in range(ports)]
        for index, plane in enumerate(self.plane_of):
            self.members[plane].append(index)
        self.planes = sum(1 << p for p, m in enumerate(self.members) if m)
        self.round_trips = [RoundTrip() for _ in range(ports)]
        self.reordering = [ReorderWindow() for _ in range(2 * ports)]  # by lane: twice the plane, plus the class
        # the peer's, and its planes of the fabric
        self.slow_ports = SlowPorts(ports, nic.emit, destination.address, nic.transport.slow_port_retry)
        self.slow_ports.when_retired = self.ports_retired
        self.retired = nic.slow_ports.retired  # planes without new data, as our port or the peer's is slow
        self.lost_by_plane = nic.lost_by_plane
        self.users: dict[PlaneUser, None] = {}
        self._connected_to: dict[int, dict[PlaneUser, None]] = {}  # the same, by remote QPN
        self.windows = SharedWindows()
        self.denied = Denylist(ports)
        self.values = EntropyValues.of(nic, destination, self.evs, self.index_of)
        self.frames = PeerFrames(nic, destination, self.values)
        self._remote = PeerPorts(nic.transport.packet_lifetime)
        self._down_since = [0] * ports
        self._linked = 0  # planes where our own port is up
        self.usable = 0
        self.answerable = 0  # usable planes with a path that is not denied
        self._answer_port = 0
        self._unanswered = 0  # planes that have not had their turn yet
        self._answers = EndpointAnswers(nic.settings)
        self._refusals = Refusals()
        self._probes = EvProbes(first.probe, ports)
        self.timers = destination.timers or nic.transport.path_timers
        self._bad = BadPaths(nic, self.timers, self._probes, ports, NO_TRIM)
        self._base = BaseRoundTrips(
            self._probes, self.members, self._port_rates(), len(destination.template.plane_shifts),
            (nic.transport.base_rtt and destination.base_rtt) or nic.transport.base_rtt,
        )  # fmt: skip
        self._reverse = ReversePaths(self._rng, self.members, self.timers.reverse_probe_interval)
        self._endpoint_probes = EndpointProbes(nic, destination.address)
        self._reverse_at = 0
        self._reverse_used = False
        self._status = PortStatusUpdates(nic, first.port_status)
        self._set_usable()

    @property
    def ports_up(self) -> int:
        """Mask of the peer's ports, as last reported; all bits set if it never reported them."""
        return self._remote.up

    def bad_paths(self, plane: int) -> int:
        """How many paths of `plane` some queue pair considers bad."""
        return self._bad.of_plane[plane]

    def add(self, ev: int) -> int:
        """Add a path with a new entropy value; -1 where values are fixed (SRv6), or if it is in no plane of ours."""
        plane = self.destination.template.plane(ev)
        widest = 16 if self._nic.settings.ev_format is EvFormat.UDP else 32
        if self._nic.srv6 or plane >= len(self.members) or ev >> widest:
            return -1
        index = len(self.evs)
        self.evs.append(ev)
        self.plane_of += bytes([plane])
        self.index_of[ev] = index
        self.members[plane].append(index)
        self.planes |= 1 << plane
        self._set_usable()
        return index

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """A whole frame without payload."""
        return self.frames.frame(index, kind, body)

    # ---- planes ----

    def _set_usable(self) -> None:
        self._linked = local = self._nic.local_up & self.planes
        self.usable = local & self._remote.up or local
        self.answerable = self.denied.open(self.usable, self.members)

    def local_ports_changed(self, now: int) -> None:
        """A port of ours went down or came up: update the usable planes and notify the peer."""
        self._planes_changed(now)
        if self.users:
            self.send_port_status(now)

    def own_planes(self) -> int:
        """Planes where our port has a link and a path is not denied, whatever the peer reported."""
        return self.denied.open(self._linked, self.members)

    def _planes_changed(self, now: int) -> None:
        before, linked = self.usable, self._linked
        self._set_usable()
        for plane in range(len(self.members)):
            was, is_ = before >> plane & 1, self.usable >> plane & 1
            if was and not is_:
                self._down_since[plane] = now
                self.slow_ports.forget(plane, now)
            elif is_ and not was:
                # Losses just before the port went down were caused by the port, not the path.
                cleared_since = self._down_since[plane] - self._nic.transport.flap_window
                self._bad.plane_up(plane, cleared_since, now)
                self._run_probes(now)
        self._set_retired()
        if before != self.usable or linked != self._linked:
            for user in self.users:
                user.planes_changed(now)
            self._offer()

    def _set_retired(self) -> None:
        self.retired = self._nic.slow_ports.retired | self.slow_ports.retired

    def ports_retired(self, now: int) -> None:
        """A port of ours, or the peer's, was retired for being slow, or is used again."""
        self._set_retired()
        for user in list(self.users):
            user.planes_changed(now)

    def cycle_ended(self, late: int, stopped: bool, now: int) -> None:
        """A queue pair has sent a burst on each plane; `late` is a mask of planes, NOBODY or UNKNOWN.

        `stopped` says that it did not send for much of that time (``PlaneBalance``).
        """
        nic = self._nic
        if late != UNKNOWN:
            nic.slow_ports.vote(late, now)
        far = slowest(self.round_trips, self.usable & ~self.retired)
        if far == NOBODY or stopped:
            self.slow_ports.vote(far, now)
        else:
            self.slow_ports.harmless(now)
        nic.slow_ports.try_retired(now)
        self.slow_ports.try_retired(now)

    def send_port_status(self, now: int) -> None:
        """Send the peer a port status update, repeated until it answers."""
        self._status.announce(now)
        self._offer()
        self._nic.scheduler.arm(self, self._status.next_time)

    def _port_status(self, request_id: int, mask: int, now: int) -> bool:
        """The peer reported which of its ports are usable; False when that must not be answered."""
        before, latest = self._remote.up, self._remote.latest
        if not self._remote.update(request_id, mask, now):
            return False
        changed = (before ^ self._remote.up) & self.planes
        for plane in range(len(self.members)):
            if changed >> plane & 1:
                self._nic.emit(PortEvent(now, plane, bool(mask >> plane & 1), False, self.address))
        if changed:
            self._planes_changed(now)
        elif latest != request_id:
            for user in self.users:
                user.peer_reported(now)
        return True

    def deny(self, index: int, denied: bool, now: int) -> None:
        """The controller denies a path or allows it again, for present and future queue pairs."""
        if denied == (index in self.denied):
            return
        plane = self.plane_of[index]
        self.denied.set(index, plane, denied)
        self.answerable = self.denied.open(self.usable, self.members)
        if denied:
            self._reverse.forget(index)
        else:
            self._reverse.allow(index, plane)
        for user in self.users:
            user.path_denied(index, denied, now)
        self._offer()

    # ---- users ----

    def join(self, user: PlaneUser, remote_qpn: int, now: int) -> None:
        """A queue pair was connected to this peer's `remote_qpn`."""
        self.users[user] = None
        self._connected_to.setdefault(remote_qpn, {})[user] = None
        for index in self.denied:
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
        self._bad.leave(user)
        if not self.users:
            self._status.stop()

    # ---- congestion control ----

    def _port_rates(self) -> list[int]:
        assumed = self._nic.transport.assumed_rate
        return [port.rate_bps or assumed for port in self._nic.config.ports]

    def answered(self, index: int, port: int, rtt: int, weight: int, now: int) -> tuple[int, int]:
        """A packet was answered: what this takes without queues, on its path and on average."""
        base, queued = self._base.sample(index, self.plane_of[index], port, rtt, weight, now)
        if queued:
            self._offer()
        return base, self._base.mean

    def trimmed(self, index: int, rtt: int) -> tuple[int, int]:
        """A trim was reported: the same."""
        base, plane = self._base, self.plane_of[index]
        base.shorter(index, plane, rtt)
        return base.of(index, plane), base.mean

    def link_parameters(self, attributes: QpAttributes) -> LinkParameters:
        """What a congestion controller for this peer is configured for: all our ports to it, combined.

        A port of rate 0 (unlimited or unknown) counts as `assumed_rate`.
        """
        transport = self._nic.transport
        window = attributes.congestion_window
        rate = sum(rate for plane, rate in enumerate(self._port_rates()) if self.planes >> plane & 1)
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

    # ---- reverse paths ----

    def works(self, index: int, now: int) -> None:
        """A packet on path `index` is known to have arrived: a good reverse path, or the best one of a bad plane."""
        self._answers.confirmed()
        plane = self.plane_of[index]
        bad = index in self._bad
        if index not in self.denied and not (bad and not self._all_bad() >> plane & 1):
            self._reverse.confirm(index, plane, now, bad)

    def _all_bad(self) -> int:
        """Mask of planes whose paths are all bad or denied."""
        bad, denied = self._bad.of_plane, self.denied.of_plane
        return sum(1 << p for p, members in enumerate(self.members) if bad[p] + denied[p] == len(members))

    def answer_port(self, anywhere: bool = False) -> int:
        """Mask of the one port that should carry the next answer; 0 when no plane can carry any.

        `anywhere`: it is one of many that carry the same information, and may try planes that lost earlier ones.
        """
        planes = self._reverse.planes(self.answerable, self._all_bad() if self._bad else 0, anywhere)
        planes = planes or self.answerable
        if planes & (planes - 1) == 0:
            return planes
        left = self._unanswered & planes or planes
        others = left
        for _ in range(int(self._rng.random() * left.bit_count())):
            others &= others - 1
        chosen = others & -others
        self._unanswered = left ^ chosen
        return chosen

    def acknowledging(self, now: int) -> None:
        """A SACK was sent: keep probing reverse paths while this goes on."""
        self._reverse_used = True
        if not self._reverse_at:
            self._reverse_at = now + self.timers.reverse_probe_interval
            self._nic.scheduler.arm(self, self._reverse_at)

    def doubt_reverse_paths(self, probed: bool = False) -> None:
        """The peer repeats packets or, with `probed`, probes for what was acknowledged: our SACKs may be lost."""
        now = self._nic.now
        self._expire_reverse_probes(now)
        trip = max((trip.smoothed for trip in self.round_trips if not trip.doubtful), default=0)
        for index in self._reverse.doubt(self.answerable, self._bad, self.denied, now, probed, trip):
            self._probe_reverse_path(index, now)
        self._search_soon(now)

    def reverse_path(self, plane: int, now: int) -> int:
        """Path for an answer on `plane`; -1 when all are denied."""
        return self._reverse.choose(plane, self._bad, self.denied, now)

    def random_path(self, plane: int) -> int:
        """A random path for an answer on `plane`, in case confirmed ones have failed; -1 when all are denied."""
        return self._reverse.random_path(plane, self._bad, self.denied)

    def _probe_reverse(self, now: int) -> None:
        """Once per interval while we acknowledge: probe a reverse path."""
        self._reverse_at = 0
        self._expire_reverse_probes(now)
        if self._reverse_used or self._reverse.searching:
            index = self._reverse.next_probe(self.answerable, self._bad, self.denied)
            if index >= 0:
                self._probe_reverse_path(index, now)
        if self._reverse_used:
            self.acknowledging(now)
            self._reverse_used = False
        self._search_soon(now)

    def _search_soon(self, now: int) -> None:
        """With no reverse path left, probe the next one soon, whether or not anything arrives."""
        soon = now + max(1, self.timers.reverse_probe_interval // _SEARCHING)
        if self._reverse.searching and (not self._reverse_at or self._reverse_at > soon):
            self._reverse_at = soon
            self._nic.scheduler.arm(self, soon)

    def _expire_reverse_probes(self, now: int) -> None:
        for request_id in self._reverse.expire(now):
            self._probes.cancel(request_id)

    def _probe_reverse_path(self, index: int, now: int) -> None:
        self._reverse.probe_sent(self._send_probe(index), index, self.plane_of[index], now)

    # ---- probes ----

    def watch(self, user: PlaneUser, index: int, now: int) -> None:
        """`user` considers path `index` bad: probe it until it works."""
        plane = self.plane_of[index]
        self._nic.scheduler.arm(self, self._bad.watch(user, index, plane, now))
        self._reverse.forget(index)

    def unwatch(self, user: PlaneUser, index: int) -> None:
        """`user` no longer watches path `index`."""
        self._bad.unwatch(user, index)

    def _run_probes(self, now: int) -> None:
        if self._bad.run(self.usable, now):
            self._offer()
        if due := self._bad.next_time():
            self._nic.scheduler.arm(self, due)

    def _send_probe(self, index: int) -> int:
        request_id = self._probes.send(index, self.plane_of[index], CONTROL)  # the class of answers
        self._offer()
        return request_id

    def ping(self, index: int, probe_id: int, timeout: int, now: int) -> None:
        """Send an endpoint probe on path `index`; its result, after `timeout` at the latest, is a ProbeEvent."""
        if len(self._endpoint_probes) >= MAX_ENDPOINT_PROBES:
            raise ResourceExhaustedError(
                f"{MAX_ENDPOINT_PROBES} probes to this NIC are in flight already; wait for some."
            )
        request_id = self._send_probe(index)
        self._endpoint_probes.add(request_id, probe_id, self.evs[index], self.plane_of[index], now + timeout)
        self._nic.scheduler.arm(self, now + timeout)

    # ---- endpoint operations ----

    def receive_request(self, request_id: int, request: EndpointRequest, port: int, now: int) -> None:
        """Act on an endpoint request of this peer, which arrived at `port`, and answer it."""
        if request.op == OP_PORT_STATUS_UPDATE and not self._port_status(request_id, request.port_mask, now):
            return
        if self._answers.add(request_id, request, port, now):
            self._offer()

    def refuse(self, body: bytes, now: int) -> None:
        """Notify the peer that a queue pair accepts nothing any more, unless it was notified too often recently."""
        if self._refusals.add(body, now):
            self._offer()

    def remote_gone(self, qpn: int, number: int, stamp: int, now: int) -> None:
        """The peer has no queue pair `qpn`; the queue pair that sent there will recognise its packet."""
        for user in list(self._connected_to.get(qpn, ())):
            user.remote_gone(number, stamp, now)

    def receive_response(self, request_id: int, response: EndpointResponse, port: int, now: int) -> bool:
        """Handle an answer that arrived at `port`; False when there was no such request."""
        if response.op == OP_PORT_STATUS_UPDATE:
            answered = self._status.answered(request_id)
            if answered:
                self._answers.confirmed()
            return answered
        index = self._probes.answered(request_id)
        if index < 0:
            return False
        self._reverse.probe_answered(request_id, now)
        if self._base.probe_answered(request_id, self.plane_of[index], port, response.service_time, now):
            self._offer()
        pinged = self._endpoint_probes.answered(request_id, port, response.service_time, now)
        if index in self._bad and not pinged:
            due = self._bad.answered(index, request_id, now)
            if due:
                self._nic.scheduler.arm(self, due)
        self.works(index, now)
        return True

    # ---- source ----

    def _wanted(self) -> int:
        mask = self._probes.ports()
        if self._answers.waiting or self._status.fresh or self._refusals.waiting:
            if not self._answer_port & self.answerable:
                asked = 1 << plane if (plane := self._answers.plane()) >= 0 else 0
                self._answer_port = asked & self.own_planes() or self.answer_port()
            mask |= self._answer_port
        if self._status.repeating:
            mask |= self._status.turn(self.own_planes())
        return mask

    def _offer(self) -> None:
        self._nic.scheduler.activate_control(self, self._wanted())

    def data_ports(self) -> int:
        """Peers send no data."""
        return 0

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Peers send no data."""
        return None

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Answers first, then our port status, then probes."""
        if self._answer_port >> port & 1:
            index = self.reverse_path(port, now)
            body = self._answer(port, now) if index >= 0 else b""
            if body:
                self._answer_port = 0
                self._offer()
                return self.frame(index, CONTROL, body)
        if self._status.port >> port & 1:
            index = self._reverse.any_path(port, self.denied)
            if index >= 0:
                return self.frame(index, CONTROL, self._status.take(port, now))
        request_id, path, kind = self._probes.take(port, CONTROL if self._nic.scheduler.holds(self, port) else -1)
        if path < 0:
            return None
        self._endpoint_probes.sent(request_id, now)
        self._base.probe_sent(request_id, port, now)
        request = EndpointRequest(OP_EV_PROBE, 0, timestamp(now))
        return self.frame(path, kind, control.pack_endpoint_request(request_id, request))

    def _answer(self, port: int, now: int) -> bytes:
        if self._answers.waiting:
            return self._answers.take(now)
        if self._status.fresh:
            return self._status.take(port, now)
        return self._refusals.waiting.popleft() if self._refusals.waiting else b""

    def on_timer(self, now: int) -> int:
        """Repeat the port status, send due probes, search for reverse paths; returns the next time, or 0."""
        if self._status.run(self.own_planes(), now):
            self._offer()
        if self._reverse_at and self._reverse_at <= now:
            self._probe_reverse(now)
        self._run_probes(now)
        for request_id in self._endpoint_probes.expire(now):
            self._probes.cancel(request_id)
        due = (self._status.next_time, self._reverse_at, self._bad.next_time(), self._endpoint_probes.next_deadline())
        times = [t for t in due if t]
        return min(times, default=0)
