"""Congestion control: a window in bytes and the signals that move it (docs/protocol.md §4, docs/congestion.md).

A controller holds ``cwnd`` and ``inflight``. The requester sends while ``inflight < cwnd``, adds what it sends and
takes off what was acknowledged or judged lost, so one controller may be shared by several queue pairs. Everything a
controller may want to know arrives through the ``on_*`` calls: round-trip time, ECN marks, trims, losses, and the
responder's cumulative count of received bytes. One that works by rate also says when the next packet may leave. New
controllers are added to ``make_congestion_control``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrc_host.errors import InvalidArgumentError

if TYPE_CHECKING:
    from mrc_host.transport.nscc import NsccProfile

_UNLIMITED: Final = 1 << 60
SHARED: Final = frozenset(("nscc",))  # one controller for all MRC queue pairs towards a destination
RC_ONLY: Final = frozenset(("dcqcn",))


@dataclass(frozen=True, slots=True)
class Line:
    """What a controller is fitted to: rate of the ports it sends on (bit/s), unloaded round trip (ns), MTU (bytes).

    `trimming` says whether switches trim; `nscc` replaces single constants of NSCC.
    """

    rate_bps: int = 100_000_000_000
    base_rtt: int = 12_000
    mtu: int = 4096
    trimming: bool = True
    nscc: NsccProfile | None = None


class CongestionControl:
    """A controller that never changes its window; base of all others."""

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
        """A SACK acknowledged `acked` bytes, already taken off `inflight`.

        `received` is how many bytes the responder reports newly arrived, `rtt` in ns (0 when this SACK gives none),
        `marked` that the packet it answers was ECN-marked. `penalty` (0..127) and `restore` are the SACK's
        rcv_cwnd_pen and restore_cwnd.
        """

    def on_trim(self, size: int, now: int, rtt: int = 0) -> None:
        """A packet of `size` bytes arrived without its payload; `rtt` is the NACK's round-trip time, 0 if unknown."""

    def on_loss(self, size: int, now: int) -> None:
        """A packet of `size` bytes was judged lost."""

    def on_timeout(self, now: int, size: int | None = None) -> None:
        """Nothing was acknowledged for an ACK timeout, and `size` bytes are given up (None: not known)."""

    def on_send(self, size: int, now: int) -> None:
        """A packet of `size` bytes leaves."""

    def on_cnp(self, now: int) -> None:
        """The receiver notified congestion."""

    def earliest_send(self, now: int) -> int:
        """When the next packet may leave, in ns; `now` or earlier means at once."""
        return 0


def make_congestion_control(name: str, window: int, line: Line | None = None) -> CongestionControl:
    """Controller by name: ``nscc``, ``dcqcn`` (RC only), ``fixed`` or ``none`` (no limit but the PSN window).

    `window` in bytes is that of ``fixed`` and bounds ``dcqcn``; `line` is what the other two are fitted to.
    InvalidArgumentError for an unknown name or a line that makes no sense.
    """
    # Imported here because these modules build on this one.
    from mrc_host.transport.dcqcn import Dcqcn, DcqcnParameters
    from mrc_host.transport.nscc import Nscc, NsccParameters

    given = line or Line()
    if name == "fixed":
        return CongestionControl(window)
    if name == "none":
        return CongestionControl(_UNLIMITED)
    if name == "nscc":
        return Nscc(NsccParameters.for_line(given.rate_bps, given.base_rtt, given.mtu, given.trimming, given.nscc))
    if name == "dcqcn":
        return Dcqcn(DcqcnParameters.for_line(given.rate_bps), window)
    raise InvalidArgumentError(f"Unknown congestion control {name!r}: use 'nscc', 'dcqcn', 'fixed' or 'none'.")
