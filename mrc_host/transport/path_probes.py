"""Probes of the paths to one peer: which bad paths work again, and what round trips take without queues.

A path that any queue pair considers bad is probed once for all of them (``bad_paths``), and a path whose base round
trip may have changed is measured (``base_round_trips``). A controller's endpoint probes are sent here, too
(``endpoint_probes``), as are those that search for reverse paths (``answer_paths``). On the wire all are EV probes.
"""

from __future__ import annotations

from mrc_host.config import Destination
from mrc_host.errors import ResourceExhaustedError
from mrc_host.transport.bad_paths import BadPaths, PathUser
from mrc_host.transport.base_round_trips import BaseRoundTrips
from mrc_host.transport.endpoint_probes import MAX_ENDPOINT_PROBES, EndpointProbes
from mrc_host.transport.ev_probes import EvProbes
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer_frames import CONTROL, NO_TRIM
from mrc_host.transport.peer_paths import PeerPaths
from mrc_host.transport.peer_planes import PeerPlanes
from mrc_host.transport.queue_pair_interfaces import PathMonitor, PeerSource
from mrc_host.wire import control
from mrc_host.wire.control import OP_EV_PROBE, EndpointRequest
from mrc_host.wire.headers import timestamp


class PathProbes(PathMonitor):
    """Bad paths, base round trips and probes; `source` sends what is queued here."""

    __slots__ = ("_base", "_endpoint_probes", "_nic", "_paths", "_planes", "_probes", "_source", "bad")

    def __init__(
        self,
        nic: NicContext,
        destination: Destination,
        paths: PeerPaths,
        planes: PeerPlanes,
        source: PeerSource,
        first_number: int,
    ) -> None:
        ports = len(paths.members)
        transport = nic.transport
        self._nic = nic
        self._paths = paths
        self._planes = planes
        self._source = source
        self._probes = EvProbes(first_number, ports)
        timers = destination.timers or transport.path_timers
        self.bad = BadPaths(nic, timers, self._probes, ports, NO_TRIM)
        self._base = BaseRoundTrips(
            self._probes, paths.members, [port.rate_bps or transport.assumed_rate for port in nic.config.ports],
            len(destination.template.plane_shifts),
            (transport.base_rtt and destination.base_rtt) or transport.base_rtt,
        )  # fmt: skip
        self._endpoint_probes = EndpointProbes(nic, destination.address)

    # ---- base round trips ---------------------------------------------------------------------------------------

    def answered(self, index: int, port: int, rtt: int, weight: int, now: int) -> tuple[int, int]:
        """A packet was answered: what this takes without queues, on its path and on average."""
        base, queued = self._base.sample(index, self._paths.plane_of[index], port, rtt, weight, now)
        if queued:
            self._source.offer()
        return base, self._base.mean

    def trimmed(self, index: int, rtt: int) -> tuple[int, int]:
        """A trim was reported: the same."""
        base, plane = self._base, self._paths.plane_of[index]
        base.shorter(index, plane, rtt)
        return base.of(index, plane), base.mean

    # ---- bad paths ----------------------------------------------------------------------------------------------

    def watch(self, user: PathUser, index: int, now: int) -> None:
        """`user` considers path `index` bad: probe it until it works."""
        self._source.arm(self.bad.watch(user, index, self._paths.plane_of[index], now))

    def plane_up(self, plane: int, now: int) -> None:
        """A plane is usable again. Losses just before its port went down were caused by the port, not the path."""
        self.bad.plane_up(plane, self._planes.down_since[plane] - self._nic.transport.flap_window, now)
        self._run(now)

    def all_bad(self) -> int:
        """Mask of planes whose paths are all bad or denied."""
        bad, denied = self.bad.of_plane, self._paths.denied.of_plane
        return sum(1 << p for p, members in enumerate(self._paths.members) if bad[p] + denied[p] == len(members))

    # ---- probes -------------------------------------------------------------------------------------------------

    def send(self, index: int) -> int:
        """Queue a probe on path `index`, in the class of answers; returns its request id."""
        request_id = self._probes.send(index, self._paths.plane_of[index], CONTROL)
        self._source.offer()
        return request_id

    def cancel(self, request_id: int) -> None:
        """The answer to this probe is no longer awaited."""
        self._probes.cancel(request_id)

    def ping(self, index: int, probe_id: int, timeout: int, now: int) -> None:
        """Send an endpoint probe on path `index`; its result, after `timeout` at the latest, is a ProbeEvent."""
        if len(self._endpoint_probes) >= MAX_ENDPOINT_PROBES:
            raise ResourceExhaustedError(
                f"{MAX_ENDPOINT_PROBES} probes to this NIC are in flight already; wait for some."
            )
        request_id, paths = self.send(index), self._paths
        self._endpoint_probes.add(request_id, probe_id, paths.evs[index], paths.plane_of[index], now + timeout)
        self._source.arm(now + timeout)

    def path_of(self, request_id: int) -> int:
        """An answer arrived: the path of its probe, -1 if none is awaited; nothing awaits it any more."""
        return self._probes.answered(request_id)

    def on_answer(self, request_id: int, index: int, port: int, service_time: int, now: int) -> None:
        """A probe on path `index` was answered at `port`; the peer reports that it took it `service_time` ns."""
        if self._base.probe_answered(request_id, self._paths.plane_of[index], port, service_time, now):
            self._source.offer()
        pinged = self._endpoint_probes.answered(request_id, port, service_time, now)
        if index in self.bad and not pinged and (due := self.bad.answered(index, request_id, now)):
            self._source.arm(due)

    def _run(self, now: int) -> None:
        if self.bad.run(self._planes.usable, now):
            self._source.offer()
        if due := self.bad.next_time():
            self._source.arm(due)

    def on_timer(self, now: int) -> None:
        """Send the probes that are due, and give up those that were not answered."""
        self._run(now)
        for request_id in self._endpoint_probes.expire(now):
            self._probes.cancel(request_id)

    def next_times(self) -> tuple[int, int]:
        """When to call ``on_timer``; 0 for never."""
        return self.bad.next_time(), self._endpoint_probes.next_deadline()

    # ---- sending ------------------------------------------------------------------------------------------------

    def ports(self) -> int:
        """Mask of ports that have probes to send."""
        return self._probes.ports()

    def take(self, port: int, only: int, now: int) -> tuple[int, int, bytes]:
        """Path, class and packet, from the BTH on, of the next probe to leave on `port`; the path is -1 for none.

        `only` is the class that it must have; -1: any.
        """
        request_id, path, kind = self._probes.take(port, only)
        if path < 0:
            return -1, kind, b""
        self._endpoint_probes.sent(request_id, now)
        self._base.probe_sent(request_id, port, now)
        request = EndpointRequest(OP_EV_PROBE, 0, timestamp(now))
        return path, kind, control.pack_endpoint_request(request_id, request)
