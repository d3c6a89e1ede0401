"""The traffic manager as Python sees it: settings of queues and flow control, counters of queues, ports and switch.

The traffic manager itself is in C (engine/queues/traffic_manager.c, engine/wire/priority_flow_control.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Strict priority queues (the highest number is served first) and their limits.

    `max_packets` and `max_bytes` limit each queue (0 = only the pool limits it); `buffer_packets` is the size of the
    switch's packet pool; `max_frame` is the longest frame in bytes.
    """

    queues: int = 8
    max_packets: int = 256
    max_bytes: int = 0
    buffer_packets: int = 896
    max_frame: int = 9216


@dataclass(frozen=True, slots=True)
class PortDelay:
    """How much longer (ns) than no time the wires of a port are: of what arrives there, and of what leaves."""

    arriving: int = 0
    leaving: int = 0


@dataclass(frozen=True, slots=True)
class PauseConfig:
    """Priority flow control of a port (IEEE 802.1Qbb; engine/wire/priority_flow_control.c).

    For each of `priorities` (queue numbers), the switch counts the bytes that arrived on the port and are still queued.
    Above `xoff` it sends PAUSE to the neighbour, at or below `xon` it cancels it; `headroom` more bytes are accepted
    meanwhile. `quanta` (1..65535) is the time in PAUSE frames, in units of 512 bits at `rate_bps`, the port's rate.
    Received PAUSE frames stop the same priorities here.
    """

    rate_bps: int
    xoff: int
    xon: int
    headroom: int
    priorities: frozenset[int] = frozenset((0,))
    quanta: int = 65535


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue of a port: its depth now, its peak depth, its limits (0 = none), and its drops.

    `drops` counts packets that found the queue at its limit.
    """

    packets: int
    bytes: int
    peak_packets: int
    peak_bytes: int
    max_packets: int
    max_bytes: int
    drops: int


@dataclass(frozen=True, slots=True)
class PortStats:
    """Counters of one port since the switch was created, and its queues now.

    `headroom_drops` counts frames from this port that exceeded the flow control headroom; `pauses_sent` and
    `pauses_received` count PAUSE frames.
    """

    up: bool
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queue_drops: int
    down_drops: int
    queued_packets: int
    queued_bytes: int
    headroom_drops: int = 0
    pauses_sent: int = 0
    pauses_received: int = 0


class PortSample(NamedTuple):
    """What waits in all queues of a port, in bytes, and how long its neighbour was kept silent by flow control.

    `peak_bytes` is the most since the sample before; `byte_ns`, `silenced_ns` (ns) and `silenced_times` only grow. The
    mean depth between two samples is the difference of `byte_ns` over that of their times. Each priority is silent by
    itself, from the PAUSE frame to the frame that ends it.
    """

    bytes: int
    peak_bytes: int
    byte_ns: int
    silenced_ns: int
    silenced_times: int


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """Counters of a switch; `drops` by reason (names as in engine/switch.h)."""

    drops: Mapping[str, int]
    ports: Mapping[int, PortStats] = field(default_factory=dict)
