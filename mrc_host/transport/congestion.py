"""Congestion control: a window in bytes and the signals that move it (docs/protocol.md §4, docs/congestion.md).

A controller holds ``cwnd`` and ``inflight``. The requester sends while ``inflight < cwnd``, adds what it sends and
subtracts what is acknowledged or declared lost, so several queue pairs can share one controller. All signals arrive
through the ``on_*`` calls: round-trip time, ECN marks, trims, losses, and the responder's cumulative count of received
bytes. A rate-based controller also says when the next packet may leave. ``algorithms`` lists the controllers and says
how to add another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from mrc_host.verbs_types import DcqcnProfile, NsccProfile


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """What a controller is configured for: rate of the ports it sends on (bit/s), unloaded RTT (ns), MTU (bytes).

    `trimming` says whether switches trim and the peer answers trims; `nscc` replaces single constants of NSCC, `dcqcn`
    of DCQCN. `window` (bytes) is that of a fixed window; it also limits a controller that has no window of its own.
    `share` is the number of queue pairs that will share the link, as far as known, so that each starts with less.
    """

    rate_bps: int = 100_000_000_000
    base_rtt: int = 12_000
    mtu: int = 4096
    window: int = 262_144
    trimming: bool = True
    nscc: NsccProfile | None = None
    share: int = 1
    dcqcn: DcqcnProfile | None = None

    def packets(self) -> int:
        """Packets in its share of 1.5 bandwidth-delay products, or of `window` if the RTT is unknown."""
        window = self.rate_bps * self.base_rtt * 3 // 16_000_000_000 if self.base_rtt else self.window
        return max(window // (self.mtu * self.share), 1)


@mypyc_attr(allow_interpreted_subclasses=True)
class CongestionControl:
    """A controller that never changes its window; base class of all others."""

    __slots__ = ("cwnd", "inflight")

    def __init__(self, cwnd: int) -> None:
        self.cwnd = cwnd
        self.inflight = 0

    def on_ack(
        self,
        acked: int,
        received: int,
        rtt: int,
        marked: bool,
        now: int,
        penalty: int = 0,
        restore: bool = False,
    ) -> None:
        """A SACK acknowledged `acked` bytes, already subtracted from `inflight`.

        `received` is how many bytes the responder reports as newly arrived, `rtt` in ns (0 when this SACK gives none),
        `marked` whether the packet that it answers was ECN-marked. `penalty` (0..127) and `restore` are the SACK's
        rcv_cwnd_pen and restore_cwnd, which the queue pair obeys itself (``receiver_limit``).
        """

    def on_base_rtt(self, base: int, mean: int) -> None:
        """The packet that the next signal is about took a path of `base` ns without queues; all paths have `mean`."""

    def on_trim(self, size: int, now: int, rtt: int = 0) -> None:
        """A packet of `size` bytes arrived without its payload; `rtt` is the NACK's round-trip time, 0 if unknown."""

    def on_loss(self, size: int, now: int) -> None:
        """A packet of `size` bytes was declared lost."""

    def on_timeout(self, now: int, size: int | None = None) -> None:
        """Nothing was acknowledged for an ACK timeout, and `size` bytes were declared lost (None: not known)."""

    def on_send(self, size: int, now: int) -> None:
        """A packet of `size` bytes leaves."""

    def on_cnp(self, now: int) -> None:
        """The receiver sent a congestion notification packet."""

    def earliest_send(self, now: int) -> int:
        """When the next packet may leave, in ns; `now` or earlier means at once."""
        return 0


def paces(cc: CongestionControl) -> bool:
    """Whether a controller has a rate of its own, or counts what leaves; otherwise an MRC requester does not ask it."""
    kind, base = type(cc), CongestionControl
    return kind.earliest_send is not base.earliest_send or kind.on_send is not base.on_send


def measures_delay(cc: CongestionControl) -> bool:
    """Whether a controller takes round trips for delays, and has to know how long they are without queues."""
    return type(cc).on_base_rtt is not CongestionControl.on_base_rtt
