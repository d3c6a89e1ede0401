"""One port of a driver: its interface, what it has sent and received, and whether it may send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrc_host.config import PortConfig
from mrc_host.driver.machine_delays import DelayCounter
from mrc_host.driver.packet_port import PacketPort

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing

_BITS_NS = 8 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port as the driver sees it: interface, usable or not, rate in bit/s, frame, byte and drop counters."""

    port: int
    interface: str
    up: bool
    rate_bps: int
    tx_frames: int
    tx_bytes: int
    rx_frames: int
    rx_bytes: int
    tx_dropped: int
    rx_dropped: int


class NicPort:
    """One port's socket and transmission state."""

    __slots__ = (
        "arrivals",
        "backlog",
        "blocked",
        "config",
        "departures",
        "enabled",
        "for_ring",
        "free_at",
        "has_link",
        "held",
        "idle",
        "index",
        "ns_per_byte",
        "number",
        "packet",
        "queried",
        "ring",
        "rx_bytes",
        "rx_dropped",
        "rx_frames",
        "tx_bytes",
        "tx_dropped",
        "tx_frames",
        "up",
    )  # fmt: skip

    def __init__(self, number: int, config: PortConfig) -> None:
        self.number = number
        self.config = config
        self.packet: PacketPort | None = None
        self.ring: FrameRing | None = None  # stays when the interface vanishes
        self.index = 0
        self.up = True  # the NIC's initial assumption
        self.enabled = True  # used when it has a link
        self.has_link = True
        self.free_at = 0.0
        self.backlog = False  # when the port became busy there may have been more to send
        self.held: bytes | None = None  # a frame for which there was no room
        self.blocked = False  # until there is room for it ...
        self.for_ring = False  # ... in the ring; otherwise in the socket
        self.ns_per_byte = _BITS_NS / config.rate_bps if config.rate_bps else 0.0
        self.queried = 0  # when netlink was last queried because a frame could not be sent
        self.tx_frames = self.tx_bytes = self.tx_dropped = 0
        self.rx_frames = self.rx_bytes = self.rx_dropped = 0
        self.arrivals, self.departures = DelayCounter(), DelayCounter()
        self.idle = 0.0  # ns without sending although there was more to send, while delays are measured

    def status(self) -> PortStatus:
        """State and counters."""
        if self.packet is not None:
            self.rx_dropped += self.packet.kernel_drops()
        return PortStatus(
            port=self.number,
            interface=self.config.interface,
            up=self.up and self.packet is not None,
            rate_bps=self.config.rate_bps,
            tx_frames=self.tx_frames,
            tx_bytes=self.tx_bytes,
            rx_frames=self.rx_frames,
            rx_bytes=self.rx_bytes,
            tx_dropped=self.tx_dropped,
            rx_dropped=self.rx_dropped,
        )
