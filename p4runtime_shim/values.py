"""The values that cross the switch's upper edge: table entries, groups, meters, figures.

All are frozen, all numbers are plain ints (fields of any width), all names are those of the BMv2 JSON, which are also
the P4Info names. `Entry.match` lists the key fields in the table's order. Priorities have P4Runtime's sense: the
larger wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exact:
    """Match of every bit."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Match of the upper `prefix_len` bits; 0 matches all."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """Match of the bits set in `mask`; mask 0 matches all."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Match of low <= key <= high."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Optional:
    """Match of every bit, or of anything when `value` is None."""

    value: int | None


Match = Exact | Lpm | Ternary | Range | Optional


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its arguments in order."""

    name: str
    args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A member of the table's action profile or selector."""

    id: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A group of the table's action selector."""

    id: int


Target = ActionCall | MemberRef | GroupRef


@dataclass(frozen=True, slots=True)
class Entry:
    """One table entry. `priority` is > 0 for tables with ternary, range or optional keys, 0 for the others."""

    match: tuple[Match, ...]
    target: Target
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CounterValue:
    """Value of a counter cell."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """A two-rate three-color meter: rates in bytes/s or packets/s, bursts in bytes or packets, as it is declared.

    Packets beyond the peak rate are red, beyond the committed rate yellow, else green (RFC 2698, color-blind).
    """

    cir: int
    cburst: int
    pir: int
    pburst: int


@dataclass(frozen=True, slots=True)
class MeterColors:
    """What a meter has colored so far."""

    green: CounterValue = CounterValue()
    yellow: CounterValue = CounterValue()
    red: CounterValue = CounterValue()


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a multicast or cloned packet; `instance` becomes egress_rid.

    While the port is down, the first of `backups` whose port is up takes its place (they have none of their own).
    """

    port: int
    instance: int = 0
    backups: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where clones go. `max_length` > 0 cuts the copies to so many bytes."""

    replicas: tuple[Replica, ...]
    max_length: int = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """One digest message: name of the digest (its list), the field values in order, time of the packet in ns."""

    name: str
    values: tuple[int, ...]
    time: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of log_msg(), of a failed assertion, or of the trace; time in ns."""

    time: int
    text: str


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Traffic manager: strict priorities (the highest number first) and limits.

    `max_packets` and `max_bytes` bound each queue (0 = no bound but the pool); `buffer_packets` is the pool of the
    switch; `max_frame` the longest frame in bytes.
    """

    queues: int = 8
    max_packets: int = 256
    max_bytes: int = 0
    buffer_packets: int = 896
    max_frame: int = 9216


@dataclass(frozen=True, slots=True)
class PauseConfig:
    """Priority flow control of a port (IEEE 802.1Qbb; engine/pause.c).

    Of each of `priorities` (queue numbers) the bytes that arrived on the port and wait in the switch are counted:
    beyond `xoff` the neighbour is told to stop, at or below `xon` to go on, and `headroom` more are taken meanwhile.
    `quanta` (1..65535) is the time in PAUSE frames, in units of 512 bits at `rate_bps`, the port's rate. PAUSE frames
    that arrive stop the same priorities here.
    """

    rate_bps: int
    xoff: int
    xon: int
    headroom: int
    priorities: frozenset[int] = frozenset((0,))
    quanta: int = 65535


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue of a port: what waits now, the most that ever waited, its limits (0 = none), what it has dropped.

    `drops` are packets that found the queue at a limit.
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
    """Figures of one port since the switch was created, and its queues now.

    `headroom_drops` are frames from this port that flow control could not hold off in time; `pauses_sent` and
    `pauses_received` are PAUSE frames.
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


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """Figures of a switch; `drops` by reason (names as in engine/switch.h)."""

    drops: Mapping[str, int]
    ports: Mapping[int, PortStats] = field(default_factory=dict)
