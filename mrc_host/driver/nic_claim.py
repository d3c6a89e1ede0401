"""Exclusive claim of a NIC's interfaces: one process at a time runs the NIC at them.

Raw sockets do not exclude one another: two NICs at one interface would both take every frame, and both answer. So a
process first claims each interface's name in its network namespace, by an abstract UNIX socket, which the kernel
releases when the process ends, however it does.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from mrc_host.driver.packet_port import NicDriverError

_PREFIX = "\0mrc-nic/"


class NicClaim:
    """Holds `interfaces` until :meth:`close`. NicDriverError if one of them is held already."""

    def __init__(self, interfaces: Iterable[str]) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for interface in interfaces:
                self._claim(interface)
        except BaseException:
            self.close()
            raise

    def _claim(self, interface: str) -> None:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sockets.append(claim)
        try:
            claim.bind(_PREFIX + interface)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise NicDriverError(f"Another process runs the NIC at {interface}: end it first.") from None

    def close(self) -> None:
        """Release them. Closing twice does nothing."""
        for claim in self._sockets:
            claim.close()
        self._sockets.clear()
