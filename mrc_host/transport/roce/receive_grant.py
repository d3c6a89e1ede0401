"""What an RC responder grants to the datapath in C: packets in the middle of the message that it receives, and gaps.

While a grant lasts, the datapath places packets that come in order, or drops those behind a gap that was reported
(``datapath/rc_carrier.h``), and the responder's state is as many packets behind. So whoever reads or changes it takes
them first, which ends the grant; the next packet that takes the way through Python begins a new one. An
acknowledgement only needs to know how many were placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_host.transport.memory import Region
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.queue_pair_interfaces import Connection

if TYPE_CHECKING:
    from mrc_host.datapath import native


class RcReceiveGrant:
    """The grants of one RC responder."""

    __slots__ = ("_carrier", "_datapath")

    def __init__(self, connection: Connection, datapath: NativeDatapath, source: bytes) -> None:
        """`source` is the peer's address."""
        self._datapath = datapath
        self._carrier: native.RcCarrier = datapath.rc_carrier(connection.qpn, source, connection.attributes.path_mtu)

    def give(self, psn: int, region: Region, at: int, remaining: int) -> None:
        """The next packet of the message is `psn`, at offset `at` of its region; so many bytes are missing."""
        if self._datapath.carries:
            self._carrier.grant(psn, self._datapath.placed(region), at, remaining)

    def drop_behind(self, psn: int) -> None:
        """Packet `psn` is missing, and the peer knows: packets behind it are dropped until it arrives."""
        if self._datapath.carries:
            self._carrier.drop_behind(psn)

    def carried(self) -> int:
        """Packets placed since the grant, which goes on; 0 without one."""
        return self._carrier.carried()

    def take(self) -> int:
        """The same, and the grant ends."""
        return self._carrier.take()

    def take_dropped(self) -> int:
        """Packets dropped behind gaps since the last call."""
        return self._carrier.take_dropped()

    def close(self) -> None:
        """The responder receives no more."""
        self._carrier.close()
