"""What a responder grants to the datapath in C, and what comes back: one record for a run of packets.

A grant is the responder's state: which PSNs have arrived, which arrivals no bitmap has shown, how much has arrived
since the last SACK, and the messages whose place is known. While it lasts the datapath places packets that need no
decision (``datapath/placement.h``), and this state is out of date. So whoever reads or changes it settles first, which
ends the grant; after the next packet that takes the way through Python, or when an acknowledgement was built, there is
a new one. Most SACKs and transport ACKs are built from the granted state, without ending it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_host.transport.ack_generator import AckGenerator
from mrc_host.transport.message import Message
from mrc_host.transport.queue_pair_interfaces import Connection, GrantedArrivals, WideSack
from mrc_host.transport.received_packets import ReceivedPackets
from mrc_host.wire import control

if TYPE_CHECKING:
    from mrc_host.datapath import native


class ReceiveGrant(GrantedArrivals):
    """The grants of one responder."""

    __slots__ = ("_acks", "_carrier", "_datapath", "_granted", "_mtu", "_received", "_stats")

    def __init__(
        self, connection: Connection, source: bytes, reach: int, received: ReceivedPackets, acks: AckGenerator
    ) -> None:
        """`source` is the peer's address, `reach` how many PSNs from the expected one on are accepted."""
        datapath = connection.nic.datapath
        self._datapath = datapath
        self._mtu = connection.attributes.path_mtu
        self._stats = connection.stats
        self._received = received
        self._acks = acks
        self._granted = False  # though perhaps of nothing
        self._carrier: native.Carrier = datapath.carrier(
            connection.qpn, source, self._mtu, reach, connection.nic.transport.sack_threshold, acks.low, acks.high
        )

    def settle(self) -> None:
        """End the grant: the responder's state is up to date again."""
        if not self._granted:
            return
        self._granted = False
        run = self._carrier.take()
        if run is None:
            return
        arrived, out_of_order, units, next_psn, bitmap, max_psn, ack_requested, pending, held_up = run
        received, stats = self._received, self._stats
        received.next_psn = next_psn
        received.bitmap = bitmap
        received.max_psn = max_psn
        received.units += units
        received.out_of_order += out_of_order
        received.held_up = held_up
        self._acks.ack_requested = ack_requested
        self._acks.pending_bytes = pending
        stats.data_received += arrived
        stats.out_of_order_received += out_of_order

    def renew(self, next_msn: int) -> None:
        """Grant what has arrived so far, unless it is granted; messages before `next_msn` are complete."""
        if self._granted:
            return
        received, acks = self._received, self._acks
        self._granted = True
        self._carrier.grant(
            next_msn, received.next_psn, received.bitmap, received.max_psn, acks.ack_requested, acks.pending_bytes,
            received.held_up,
        )  # fmt: skip

    def sack(
        self, remote_qpn: int, flags: int, psn: int, probe_id: int, entropy: int, stamp: int, mpr: int, again: int
    ) -> bytes | WideSack | None:
        """A SACK for what is granted, as the datapath builds it; None if it cannot, or nothing is granted."""
        if not self._granted:
            return None
        received = self._received
        built: bytes | WideSack | None = self._carrier.sack(
            remote_qpn, flags, psn, probe_id, entropy, stamp, mpr, received.out_of_order & 0x7FFF,
            received.units & 0xFFFFFF, again,
        )  # fmt: skip
        return built

    def next_base(self, psn: int, everything: bool) -> int | None:
        """As `ReceivedPackets.next_base`, of what is granted; None if nothing is."""
        return self._carrier.next_base(psn, everything) if self._granted else None

    def sweep_sack(self, base: int, remote_qpn: int, mpr: int) -> bytes:
        """A SACK of a sweep, with a bitmap from `base` on, which `next_base` has just given."""
        received = self._received
        return self._carrier.sweep_sack(
            base, remote_qpn, control.NO_ENTROPY, mpr, received.out_of_order & 0x7FFF, received.units & 0xFFFFFF
        )

    def include(self, msn: int, message: Message) -> None:
        """Grant a message, too, whose start is known."""
        message.granted = True
        start = message.first * self._mtu
        self._carrier.message(
            msn, message.first, message.last, self._datapath.placed(message.region), message.offset + start,
            message.origin + start, message.rkey, message.length,
        )  # fmt: skip

    def close(self) -> None:
        """The responder receives no more."""
        self.settle()
        self._carrier.close()
