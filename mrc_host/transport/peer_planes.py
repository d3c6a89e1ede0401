"""The planes that may be used to reach one peer. All sets of planes are bit masks.

A plane is *usable* when our port and the peer's port in it have a link; peers notify each other by port status updates
(``port_status``). When that leaves no plane at all, the peer's status is ignored, as it may be out of date. Answers
need a usable plane with a path that is not denied. A plane whose port is slower than the others, ours or the peer's,
may be *retired* from sending data (``slow_ports``): it stays usable, nobody is notified, and it carries data when
nothing else does. Each NIC judges what it sends itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer_paths import PeerPaths
from mrc_host.transport.plane_balance import NOBODY, UNKNOWN
from mrc_host.transport.port_status import PeerPorts
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.slow_ports import SlowPorts, slowest
from mrc_host.verbs_types import PortEvent


class PeerPlanes:
    """`down_since` has the time since which a plane is not usable, and stays when it is usable again."""

    __slots__ = (
        "_address", "_linked", "_nic", "_paths", "_remote", "_round_trips", "answerable", "down_since", "retired",
        "slow_ports", "usable",
    )  # fmt: skip

    def __init__(
        self,
        nic: NicContext,
        address: bytes,
        paths: PeerPaths,
        round_trips: Sequence[RoundTrip],
        when_retired: Callable[[int], None],
    ) -> None:
        """`round_trips` are by plane; `when_retired` is called with the time when `retired` may have changed."""
        ports = len(paths.members)
        self._nic = nic
        self._address = address
        self._paths = paths
        self._round_trips = round_trips
        self._remote = PeerPorts(nic.transport.packet_lifetime)
        # the peer's ports, and its planes of the fabric
        self.slow_ports = SlowPorts(ports, nic.emit, address, nic.transport.slow_port_retry)
        self.slow_ports.when_retired = when_retired
        self.down_since = [0] * ports
        self._linked = 0  # planes where our own port is up
        self.usable = 0
        self.answerable = 0  # usable planes with a path that is not denied
        self.retired = nic.slow_ports.retired  # planes without new data, as our port or the peer's is slow
        self.refresh()

    @property
    def ports_up(self) -> int:
        """The peer's ports with a link, as last reported; all bits set if it never reported them."""
        return self._remote.up

    def own(self) -> int:
        """Planes where our port has a link and a path is not denied, whatever the peer reported."""
        return self._paths.allowed(self._linked)

    # ---- links --------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Links, paths or denied paths may have changed; whether a plane became usable, or ceased to be, or a link."""
        before, linked = self.usable, self._linked
        self._linked = local = self._nic.local_up & self._paths.planes
        self.usable = local & self._remote.up or local
        self.answerable = self._paths.allowed(self.usable)
        return before != self.usable or linked != self._linked

    def went_down(self, plane: int, now: int) -> None:
        """A plane is not usable any more."""
        self.down_since[plane] = now
        self.slow_ports.forget(plane, now)

    def reported(self, request_id: int, ports: int, now: int) -> int:
        """The peer reported which of its `ports`, a mask, have a link: those that changed; -1: do not answer."""
        before = self._remote.up
        if not self._remote.update(request_id, ports, now):
            return -1
        changed = (before ^ self._remote.up) & self._paths.planes
        for plane in range(len(self.down_since)):
            if changed >> plane & 1:
                self._nic.emit(PortEvent(now, plane, bool(ports >> plane & 1), False, self._address))
        return changed

    @property
    def latest_report(self) -> int:
        """The number of the peer's newest port status update; -1 before the first."""
        return self._remote.latest

    # ---- slow ports ---------------------------------------------------------------------------------------------

    def refresh_retired(self) -> None:
        """A port, ours or the peer's, was retired for being slow, or is used again."""
        self.retired = self._nic.slow_ports.retired | self.slow_ports.retired

    def cycle_ended(self, late: int, stopped: bool, now: int) -> None:
        """A queue pair has sent a burst on each plane; `late` is a mask of planes, NOBODY or UNKNOWN.

        `stopped` says that it did not send for much of that time (``PlaneBalance``).
        """
        own = self._nic.slow_ports
        if late != UNKNOWN:
            own.vote(late, now)
        far = slowest(self._round_trips, self.usable & ~self.retired)
        if far == NOBODY or stopped:
            self.slow_ports.vote(far, now)
        else:
            self.slow_ports.harmless(now)
        own.try_retired(now)
        self.slow_ports.try_retired(now)
