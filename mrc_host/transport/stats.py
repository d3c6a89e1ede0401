"""Counters of a queue pair while it works, and how they are read (names and meanings: ``mrc_host.counters``).

The hot path increments slots; everything that can be derived is derived on reading. Statistics of destroyed queue pairs
are added to one object that the NIC keeps, so that its totals need only one pass over the existing queue pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.counters import COUNTED, NACK_SLOTS, RTT_BUCKETS, rtt_name
from mrc_host.wire.control import NACK_NAMES

if TYPE_CHECKING:
    from mrc_host.datapath import native

WINDOW: Final = 0  # reasons why data is kept from leaving
PEER: Final = 1
PATHS: Final = 2
_LAST_BUCKET: Final = RTT_BUCKETS - 1
_SOURCES: Final = tuple((info.name, info.source) for info in COUNTED)
_SUMMED: Final = (*(source for _, source in _SOURCES), "acks_sent", "acks_received", "bytes_completed")
_LISTS: Final = ("nacks_sent", "nacks_received", "stalled_ns", "round_trips")
_RTT_NAMES: Final = tuple(rtt_name(bucket) for bucket in range(RTT_BUCKETS))
_STALLS: Final = ("tx_stalled_window_ns", "tx_stalled_peer_ns", "tx_stalled_paths_ns")


class NicPortStats:
    """What a port counts: frames, their bytes, and how often its link went down and came up."""

    __slots__ = ("downed", "recovered", "rx_bytes", "rx_frames", "tx_bytes", "tx_frames")

    def __init__(self) -> None:
        self.rx_frames = 0
        self.rx_bytes = 0
        self.tx_frames = 0
        self.tx_bytes = 0
        self.downed = 0
        self.recovered = 0


class QpStats:
    """Counters of one queue pair. `acks_sent` and `acks_received` count SACKs, NACKs and transport ACKs together."""

    __slots__ = (
        "access_refused",
        "acks_received",
        "acks_sent",
        "bytes_completed",
        "cnps_received",
        "cnps_sent",
        "cq_full_events",
        "cq_full_ns",
        "data_received",
        "data_sent",
        "duplicates_received",
        "lasthop_trims_received",
        "late",
        "local_protection_errors",
        "lost",
        "marks_received",
        "marks_reported",
        "nacks_received",
        "nacks_sent",
        "operation_refused",
        "out_of_order_received",
        "probes_received",
        "probes_sent",
        "remote_access_errors",
        "remote_operation_errors",
        "retransmitted",
        "retry_exceeded",
        "rnr_received",
        "round_trips",
        "rtt_sum",
        "sacks_received",
        "sacks_sent",
        "sequence_errors",
        "spurious_retransmitted",
        "stalled_ns",
        "timeouts",
        "trims_received",
        "write_requests",
    )

    def __init__(self) -> None:
        self.data_sent = 0
        self.retransmitted = 0
        self.spurious_retransmitted = 0
        self.lost = 0
        self.late = 0
        self.timeouts = 0
        self.data_received = 0
        self.duplicates_received = 0
        self.out_of_order_received = 0
        self.acks_sent = 0
        self.acks_received = 0
        self.probes_sent = 0
        self.probes_received = 0
        self.write_requests = 0
        self.bytes_completed = 0
        self.sequence_errors = 0
        self.retry_exceeded = 0
        self.rnr_received = 0
        self.remote_access_errors = 0
        self.remote_operation_errors = 0
        self.local_protection_errors = 0
        self.access_refused = 0
        self.operation_refused = 0
        self.marks_received = 0
        self.marks_reported = 0
        self.cnps_sent = 0
        self.cnps_received = 0
        self.trims_received = 0
        self.lasthop_trims_received = 0
        self.sacks_sent = 0
        self.sacks_received = 0
        self.nacks_sent: list[int] = []  # by reason; empty until the first
        self.nacks_received: list[int] = []
        self.cq_full_ns = 0
        self.cq_full_events = 0
        self.stalled_ns = [0, 0, 0]  # by reason: window, peer, paths
        self.rtt_sum = 0
        self.round_trips: list[int] = []  # by powers of two of microseconds; empty until the first measurement

    def round_trip(self, rtt: int) -> None:
        """A packet's round trip took `rtt` ns."""
        self.rtt_sum += rtt
        bucket = (rtt // 1000).bit_length()
        _count(self.round_trips, bucket if bucket < _LAST_BUCKET else _LAST_BUCKET, RTT_BUCKETS)

    def nack_sent(self, reason: int) -> None:
        """A NACK was sent."""
        _count(self.nacks_sent, reason & NACK_SLOTS - 1, NACK_SLOTS)

    def nack_received(self, reason: int) -> None:
        """A NACK was received."""
        _count(self.nacks_received, reason & NACK_SLOTS - 1, NACK_SLOTS)

    def add(self, other: QpStats) -> None:
        """Add everything that `other` has counted."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _LISTS:
            ours: list[int] = getattr(self, name)
            theirs: list[int] = getattr(other, name)
            ours.extend([0] * (len(theirs) - len(ours)))
            for place, count in enumerate(theirs):
                ours[place] += count

    def read(self) -> dict[str, int]:
        """All counters by name (``mrc_host.counters``)."""
        counters: dict[str, int] = {name: getattr(self, source) for name, source in _SOURCES}
        counters["bytes_completed"] = self.bytes_completed
        sent, received = sum(self.nacks_sent), sum(self.nacks_received)
        counters["tx_acks"] = self.acks_sent - self.sacks_sent - sent
        counters["rx_acks"] = self.acks_received - self.sacks_received - received
        for way, total, nacks in (("tx", sent, self.nacks_sent), ("rx", received, self.nacks_received)):
            counters[f"{way}_nacks"] = total
            for reason, name in NACK_NAMES.items():
                counters[f"{way}_nack_{name}"] = nacks[reason] if nacks else 0
        counters.update(zip(_STALLS, self.stalled_ns, strict=True))
        counters["rtt_samples"] = sum(self.round_trips)
        counters.update(zip(_RTT_NAMES, self.round_trips or [0] * RTT_BUCKETS, strict=True))
        return counters


class ArrivalCounts:
    """What the receive state counts in one life of a queue pair, added to what its statistics show of earlier lives."""

    __slots__ = ("_data", "_out_of_order", "_received", "_stats")

    def __init__(self, stats: QpStats, received: native.ReceiveState | native.RcReceiveState) -> None:
        self._stats = stats
        self._received = received
        self._data = stats.data_received
        self._out_of_order = stats.out_of_order_received

    def collect(self) -> None:
        """Have the statistics show what has arrived."""
        self._stats.data_received = self._data + self._received.arrived
        self._stats.out_of_order_received = self._out_of_order + self._received.out_of_order


def _count(counters: list[int], place: int, length: int) -> None:
    """Increment `counters` at `place`; the first time, extend the list to its `length`."""
    if not counters:
        counters.extend([0] * length)
    counters[place] = counters[place] + 1
