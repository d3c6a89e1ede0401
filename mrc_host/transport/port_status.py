"""Port status updates to one peer: the state of our ports, repeated until the peer answers (docs/protocol.md §3).

The first one takes the path of any other answer. Repetitions assume nothing: the peer's own port status may be out of
date because its newer update was lost, and so may our path states. So they rotate over all planes where our own port is
up and a path is not denied, on any such path. The wait before the next doubles, up to a limit, when each plane has had
its turn; repetition ends with the answer, or with the last queue pair.

An update *from* the peer with a number just below the newest one either was overtaken, or comes from a peer that has
restarted and numbers its updates afresh. So it is accepted only once no overtaken update can still be in flight; until
then it is not even answered, and a restarted peer will repeat it.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.rotation import next_plane
from mrc_host.wire import control
from mrc_host.wire.control import OP_PORT_STATUS_UPDATE, EndpointRequest
from mrc_host.wire.headers import timestamp

_OVERTAKEN: Final = 16  # updates in flight at a time, at most


class PortStatusUpdates:
    """The latest update to one peer. Ports and planes are masks, times ns."""

    __slots__ = ("_id", "_last", "_nic", "_tried", "_wait", "fresh", "next_time", "port", "repeating")

    def __init__(self, nic: NicContext, first_id: int) -> None:
        self._nic = nic
        self._id = first_id
        self._wait = 0
        self._tried = 0  # planes that had their turn since the wait last doubled
        self._last = 0  # the plane of the last turn
        self.next_time = 0  # of a repetition, 0 when the peer has answered
        self.fresh = False  # waits to be sent for the first time
        self.repeating = False  # waits to be repeated,
        self.port = 0  # on this port

    def announce(self, now: int) -> None:
        """Send a new update, repeated until it is answered."""
        self._id = (self._id + 1) & 0xFFFF
        self._wait = self._nic.transport.port_status_retry
        self._tried = 0
        self.next_time = now + self._wait
        self.fresh = True
        self.repeating = False
        self.port = 0

    def stop(self) -> None:
        """The peer has answered, or no queue pair is left."""
        self.next_time = 0
        self.fresh = self.repeating = False
        self.port = 0

    def answered(self, request_id: int) -> bool:
        """An answer arrived; False unless it is the first to the latest update."""
        if request_id != self._id or not self.next_time:
            return False
        self.stop()
        return True

    def run(self, planes: int, now: int) -> bool:
        """Whether a repetition is due, in one of the planes in mask `planes`."""
        if not self.next_time or self.next_time > now:
            return False
        if not planes & ~self._tried:
            self._tried = 0
            self._wait = min(self._wait * 2, self._nic.transport.port_status_max)
        self.next_time = now + self._wait
        self.fresh = False
        self.repeating = True
        self.port = 0
        return True

    def turn(self, planes: int) -> int:
        """Port of the waiting repetition, one of those in mask `planes`; the same one until it is sent."""
        if not self.port & planes:
            self.port = next_plane(planes & ~self._tried or planes, self._last)
            self._count(self.port)
        return self.port

    def take(self, port: int, now: int) -> bytes:
        """The update, which leaves on `port` (a number)."""
        self._count(1 << port)
        self.fresh = self.repeating = False
        self.port = 0
        request = EndpointRequest(OP_PORT_STATUS_UPDATE, self._nic.local_up, timestamp(now))
        return control.pack_endpoint_request(self._id, request)

    def _count(self, port: int) -> None:
        self._tried |= port
        self._last = port or self._last


class PeerPorts:
    """The latest port status from one peer: `up` is a mask, with every bit set until it reports otherwise."""

    __slots__ = ("_at", "_lifetime", "latest", "up")

    def __init__(self, lifetime: int) -> None:
        self.up = -1
        self._lifetime = lifetime  # of packets, ns
        self.latest = -1  # number of the newest update
        self._at = 0  # when it arrived

    def update(self, request_id: int, mask: int, now: int) -> bool:
        """Take an update; False for one that seems overtaken, and must not be answered."""
        if self.latest >= 0:
            age = (self.latest - request_id) & 0xFFFF
            if 0 < age < _OVERTAKEN and now < self._at + self._lifetime:
                return False
            if age == 0 and mask == self.up:
                return True
        self.latest = request_id
        self._at = now
        self.up = mask
        return True
