"""Limits of the data that one queue pair has in flight: congestion window, receiver's limit, and range of PSNs.

The congestion window may be shared with other queue pairs (``window``). Others may then fill it without requesting an
acknowledgement of our packets, so each queue pair requests acknowledgements of its own share.
"""

from __future__ import annotations

from mrc_host.transport import algorithms
from mrc_host.transport.congestion import CongestionControl, LinkParameters, paces
from mrc_host.transport.queue_pair_interfaces import Connection
from mrc_host.transport.receiver_limit import UNLIMITED, ReceiverLimit
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.window import SharedWindow, SharedWindows, WindowUser
from mrc_host.wire.control import Sack


class SendWindow:
    """The limits of one queue pair."""

    __slots__ = (
        "_active",
        "_max_range",
        "_mtu",
        "_obedient",
        "_since_request",
        "_user",
        "cc",
        "limit",
        "paced",
        "psn_range",
        "shared",
    )

    def __init__(self, user: WindowUser, connection: Connection, link: LinkParameters, windows: SharedWindows) -> None:
        """`windows` are the shared windows to the peer; `link` describes all links to it."""
        attributes, nic = connection.attributes, connection.nic
        self._user = user
        self._mtu = attributes.path_mtu
        self.psn_range = attributes.mpr_dest * 128 - 1  # PSNs beyond the cumulative one that the peer accepts
        self._max_range = attributes.dynamic_mpr  # units of 128 PSNs; 0 when the peer may not change the range
        self.limit = ReceiverLimit(attributes.path_mtu)
        self._active = False  # counted as one of those with bytes in flight
        self._since_request = 0  # bytes sent since the last acknowledgement request
        name = algorithms.choose(attributes, nic.transport, True)
        algorithm = algorithms.find(nic.algorithms, name, True)
        self._obedient = algorithm.receiver_limit  # the congestion control obeys a slow receiver
        self.shared: SharedWindow | None = None
        if algorithm.shared:
            self.shared = windows.join(user, name, attributes.planes, algorithm, link)
            self.cc: CongestionControl = self.shared.cc
        else:
            self.cc = algorithm.make(link)
        self.paced = paces(self.cc)  # it says when the next packet may leave

    def used(self, weight: int) -> bool:
        """Count a packet of `weight` bytes that leaves; returns whether it should request an acknowledgement."""
        shared = self.shared
        if shared is None:
            return False
        if not self._active:
            self._active = True
            shared.active += 1
        self._since_request += weight
        if 4 * self._since_request * shared.active < self.cc.cwnd:
            return False
        self._since_request = 0
        return True

    def ack_requested(self) -> None:
        """The packet that leaves requests an acknowledgement."""
        self._since_request = 0

    def needs_ack_request(self) -> bool:
        """Whether packets were sent since the last acknowledgement request."""
        return self._since_request > 0

    def closing(self, sent: SentPackets) -> bool:
        """Whether the packet that leaves fills a limit, so that no other may follow it."""
        cc, mtu = self.cc, self._mtu
        return (
            cc.inflight + mtu > cc.cwnd
            or sent.in_flight + mtu > self.limit.limit
            or sent.next_psn - sent.una >= self.psn_range
        )

    def waiting(self) -> bool:
        """Whether this queue pair waits for room in a shared window."""
        return self.shared is not None and self.shared.waits(self._user)

    def left_to_others(self) -> bool:
        """Whether this queue pair timed out, and the room that there is has to be left to others."""
        shared = self.shared
        return (
            shared is not None
            and self._user in shared.timed_out
            and self.cc.cwnd - self.cc.inflight <= shared.reserve(self._mtu)
        )

    def release(self, in_flight: int) -> None:
        """Bytes were acknowledged or the window moved: let other queue pairs use the room."""
        shared = self.shared
        if shared is None:
            return
        if self._active and not in_flight:
            self._active = False
            self._since_request = 0
            shared.active -= 1
        if shared.waiting or shared.waiting_last:
            shared.open(self._mtu)

    def answered(self) -> None:
        """The peer has answered this queue pair: it does not wait behind others any more."""
        shared = self.shared
        if shared is not None and shared.timed_out:
            shared.answered(self._user)

    def offered(self, mpr: int) -> None:
        """The newest SACK offers a range of `mpr` units of 128 PSNs; 0 when it offers none."""
        if mpr and self._max_range:
            self.psn_range = min(mpr, self._max_range) * 128 - 1

    def limit_by(self, sack: Sack, received: int, in_flight: int) -> None:
        """Obey the newest SACK's penalty: `received` bytes arrived, and `in_flight` were in flight before it."""
        limit = self.limit
        if self._obedient and (sack.cwnd_penalty or limit.limit != UNLIMITED):
            limit.on_sack(sack.cwnd_penalty, sack.restore_cwnd, received, in_flight, self.cc.cwnd)
