"""What the requester remembers of packets on their way, and when it calls one lost (docs/protocol.md §2).

Order holds only within one path and class: paths of a plane differ in queueing, planes in delay, and retransmissions
overtake first transmissions in switches. So every transmission enters the *lane* of its plane and class, in sending
order, and the oldest packet of a lane is lost when

* a first transmission sent later on the same path has arrived; or
* a packet sent at least the *reorder window* later in the lane has arrived. ``Reordering`` measures that window as
  RACK does (RFC 8985): a share of the round-trip time, what that time varies by, and how late packets were really
  seen to come, retransmissions that proved needless included. A path that carries later packets of its own is given
  the wider window, because these will tell of a single loss; the window is there for paths that are dead. Slow paths
  are waited for as long as they took the last time, for up to two round trips of the plane.

What other planes deliver is taken for a sign of loss only where a plane has been silent for two round trips of its own
and more, and the packet is the oldest of all.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mrc_host.transport.work import Wqe

FREE: Final = 0
OUT: Final = 1
LOST: Final = 2

_MEMORY: Final = 1024  # round trips until reordering not seen again counts half
_FEW: Final = 8  # transmissions of one packet that are remembered
_FOREVER: Final = 1 << 62
_MOST: Final = 16  # round trips: the widest reorder window


class Sent:
    """One PSN on its way. Objects are reused: a lane entry is stale when its serial differs from `serial`."""

    __slots__ = (
        "attempts",
        "by_order",
        "followed",
        "index",
        "kind",
        "lane",
        "offset",
        "plane",
        "psn",
        "sent",
        "serial",
        "size",
        "stamp",
        "state",
        "timed",
        "tried",
        "weight",
        "wqe",
    )

    def __init__(self) -> None:
        self.state = FREE
        self.wqe: Wqe | None = None
        self.psn = 0
        self.offset = 0  # in the message
        self.size = 0  # payload
        self.weight = 0  # nominal size, rounded up as the peer counts it
        self.kind = 0  # segment kind
        self.plane = 0
        self.tried = 0  # planes that have lost it since all had
        self.lane = 0
        self.index = 0  # path
        self.serial = 0  # order of transmission on the queue pair
        self.sent = 0  # time of the latest transmission
        self.stamp = 0  # its 16-bit timestamp
        self.attempts = 0
        self.timed = False  # a SACK has told the round-trip time of the latest transmission
        self.followed = 0  # when the next first transmission on its path was sent, 0 for not yet
        self.by_order = False  # judged lost by the order on its path


class Lane:
    """Transmissions of one plane and class, oldest first."""

    __slots__ = ("acked", "queue")

    def __init__(self) -> None:
        self.queue: deque[tuple[Sent, int]] = deque()
        self.acked = 0  # latest sending time of a packet that arrived

    def head(self) -> Sent | None:
        """Oldest transmission still unanswered."""
        queue = self.queue
        while queue:
            record, serial = queue[0]
            if record.state == OUT and record.serial == serial:
                return record
            queue.popleft()
        return None


class RoundTrip:
    """Smoothed round-trip time of one plane (RFC 6298), in ns; 0 until the first sample.

    An answer with which a long silence ended may have waited for the end of an outage: what it says is all there is to
    go by where paths have become so slow, but counts no more once another did not wait.
    """

    __slots__ = ("bound", "doubtful", "least", "sampled", "smoothed", "variation")

    def __init__(self) -> None:
        self.smoothed = 0
        self.variation = 0
        self.least = 0
        self.doubtful = False  # what was measured last may have waited for the end of an outage
        self.sampled = 0  # when that was
        self.bound = 0  # until something was measured: it takes no longer than this; 0 when not even that is known

    def limit(self, waited: int) -> None:
        """A packet was acknowledged after `waited`, perhaps together with others long after it had arrived."""
        if not self.bound or waited < self.bound:
            self.bound = waited

    def patience(self) -> int:
        """Twice the smoothed time, or four deviations above it; 0 before the first sample."""
        return self.smoothed + max(self.smoothed, 4 * self.variation)

    def sample(self, rtt: int, late: bool = False, now: int = 0) -> None:
        """Take one measurement at time `now`, `late` when it may have waited for the end of an outage."""
        self.sampled = now
        if not self.smoothed or (self.doubtful and not late):
            self.least = min(rtt, self.least) if self.smoothed else rtt
            self.doubtful = late
            self.smoothed = rtt
            self.variation = rtt // 2
            return
        self.doubtful = late
        self.variation += (abs(rtt - self.smoothed) - self.variation) // 4
        self.smoothed += (rtt - self.smoothed) // 8
        self.least = min(rtt, self.least)


class Reordering:
    """How far packets of one lane overtake each other. Shared by all queue pairs towards one peer. Times are ns."""

    __slots__ = ("_since", "extent")

    def __init__(self) -> None:
        self.extent = 0  # how much earlier than a packet that had arrived a later arrival was sent
        self._since = 0

    def saw(self, extent: int, now: int) -> None:
        """A packet arrived although one sent `extent` later had arrived before."""
        if extent > self.extent:
            self.extent = extent
            self._since = now

    def windows(self, trip: RoundTrip, fraction: int, now: int) -> tuple[int, int]:
        """Reorder windows: for a path without later packets of its own, and for one that has some.

        `fraction` is the least share of the round-trip time, in percent. Where no overtaking is known both stay within
        one round trip and four variations, so that a dead path is noticed within three round trips. Before anything was
        measured the bound of the round-trip time serves for both.
        """
        smoothed, variation = trip.smoothed, trip.variation
        if not smoothed:
            bound = trip.bound or _FOREVER
            return bound, bound
        if self.extent and now - self._since > _MEMORY * smoothed:
            self.extent >>= 1
            self._since = now
        seen = min(self.extent * 5 // 4, _MOST * smoothed)
        most = smoothed + 4 * variation
        narrow = max(min(max(smoothed * fraction // 100, 2 * variation), most), seen)
        return max(narrow, 1), max(smoothed, 4 * variation, seen, 1)


class Repeat:
    """Transmissions of one packet before its latest one, the last few: timestamp, time, path and lane of each."""

    __slots__ = ("by_order", "counted", "history", "latest", "latest_lane", "latest_sent", "proved")

    def __init__(self, by_order: bool) -> None:
        self.history: list[tuple[int, int, int, int]] = []
        self.latest = -1  # timestamp, time and lane of the latest one
        self.latest_sent = 0
        self.latest_lane = 0
        self.by_order = by_order
        self.counted = 0  # how many are known to have been needless
        self.proved = _FEW  # the earliest that a SACK of its own has shown to have arrived

    def add(self, stamp: int, sent: int, index: int, lane: int) -> None:
        """It is about to be sent once more; this is how it was sent before."""
        self.history.append((stamp, sent, index, lane))
        if len(self.history) > _FEW:
            del self.history[0]
            self.by_order = False

    def again(self, record: Sent) -> None:
        """It was sent once more, as `record` says."""
        self.latest, self.latest_sent, self.latest_lane = record.stamp, record.sent, record.lane

    def earlier(self, stamp: int, since: int) -> int:
        """Which of them, sent after time `since`, has this timestamp; -1 for none."""
        for number in range(len(self.history) - 1, -1, -1):
            if self.history[number][0] == stamp and self.history[number][1] > since:
                return number
        return -1
