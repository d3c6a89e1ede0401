"""The one path of an RC queue pair: a NIC port and a UDP source port, both fixed when it connects.

Both come from a hash of the two addresses and QPNs, sorted so that both ends choose alike: ECMP switches choose a path
by the source port, and the connection stays in one plane. A queue pair may be given a source port of its own. When its
NIC port loses its link the queue pair does not move; it waits and retries, as single-path RDMA does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mrc_host.checksum import crc32
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer import Peer
from mrc_host.verbs_types import ALL_PLANES
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import ECT0, ICRC_LENGTH

if TYPE_CHECKING:
    from mrc_host.datapath import native

_CNP_PADDING: Final = 16  # RoCEv2 annex (A17) of the IBTA specification
_BECN_BYTE: Final = 4  # of the BTH
_BECN: Final = 0x40
_FIRST_SPORT: Final = 0xC000  # RoCEv2 uses source ports 49152..65535


def path_hash(address_a: bytes, qpn_a: int, address_b: bytes, qpn_b: int) -> int:
    """32-bit hash of a connection, the same from either end."""
    ends = sorted((address_a + qpn_a.to_bytes(3, "big"), address_b + qpn_b.to_bytes(3, "big")))
    return crc32(ends[0] + ends[1])


def chosen_path(address_a: bytes, qpn_a: int, address_b: bytes, qpn_b: int, planes: Sequence[int]) -> tuple[int, int]:
    """The plane of a connection, of those that both ends have, and its UDP source port."""
    chosen = path_hash(address_a, qpn_a, address_b, qpn_b)
    return planes[chosen % len(planes)], _FIRST_SPORT | chosen >> 16 & 0x3FFF


class RcPath:
    """Path and frames of one RC queue pair."""

    __slots__ = ("_data_dscp", "_nic", "_peer", "_sport", "_templates", "port")

    def __init__(
        self,
        nic: NicContext,
        peer: Peer,
        qpn: int,
        remote_qpn: int,
        sport: int = 0,
        adaptive: bool = False,
        among: int = ALL_PLANES,
    ) -> None:
        """`sport`: the source port of what this end sends, 0 for that of the hash; `among`: a mask of planes.

        With `adaptive`, data has the traffic class for which switches choose a path packet by packet.
        """
        planes = [p for p in range(len(peer.paths.members)) if peer.paths.planes & among & 1 << p]
        self.port, drawn = chosen_path(nic.config.address, qpn, peer.address, remote_qpn, planes)
        self._sport = sport or drawn
        self._nic = nic
        self._peer = peer
        self._data_dscp = nic.settings.dscp.adaptive if adaptive else nic.settings.dscp.no_trim
        self._templates: dict[bool, native.Template] = {}  # by whether they are of the control class

    @property
    def rate_bps(self) -> int:
        """Line rate of the port, in bit/s."""
        return self._nic.config.ports[self.port].rate_bps or self._nic.transport.assumed_rate

    def up(self) -> bool:
        """Whether the port has a link."""
        return bool(self._nic.local_up >> self.port & 1)

    @property
    def entropy(self) -> int:
        """The UDP source port."""
        return self._sport

    def template(self, control: bool) -> native.Template:
        """What precedes the BTH of frames of the control class, or of data."""
        made = self._templates.get(control)
        if made is None:
            dscp = self._nic.settings.dscp.control if control else self._data_dscp
            made = self._templates[control] = self._nic.encapsulation.hashed(
                self.port, self._peer.address, self._sport, dscp, 0 if control else ECT0
            )
        return made

    def control_frame(self, body: bytes) -> bytes:
        """A frame without payload in the control class."""
        made: bytes = self._nic.datapath.frame(self.template(True), body)
        return made

    def notification(self, remote_qpn: int) -> bytes:
        """A congestion notification packet: BTH with BECN, which the ICRC does not cover, and 16 reserved bytes."""
        body = headers.bth.pack(opcodes.RC_CNP, 0, headers.PKEY, remote_qpn, 0)
        frame = bytearray(self.control_frame(body + bytes(_CNP_PADDING)))
        frame[-ICRC_LENGTH - _CNP_PADDING - headers.BTH_LENGTH + _BECN_BYTE] = _BECN
        return bytes(frame)
