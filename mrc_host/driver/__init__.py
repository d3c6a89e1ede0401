"""Runs one NIC in real time: its ports are network interfaces, its clock is CLOCK_MONOTONIC.

:class:`Loop` waits and dispatches, :class:`PacketPort` is a raw socket, and :class:`NicDriver` connects them and a link
monitor to a NIC device. Nothing here knows the protocol.
"""

from mrc_host.driver.coalescing import DEFAULT_COALESCE_NS
from mrc_host.driver.loop import Loop
from mrc_host.driver.nic_driver import DEFAULT_BURST_NS, NicDriver
from mrc_host.driver.nic_port import PortStatus
from mrc_host.driver.packet_port import NicDriverError, PacketPort

__all__ = [
    "DEFAULT_BURST_NS",
    "DEFAULT_COALESCE_NS",
    "Loop",
    "NicDriver",
    "NicDriverError",
    "PacketPort",
    "PortStatus",
]
