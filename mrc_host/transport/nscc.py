"""NSCC, the window-based congestion control of Ultra Ethernet that MRC uses (docs/protocol.md §4, docs/congestion.md).

One controller serves all traffic to one destination, over all paths. Each SACK gives newly received bytes, a delay
(round-trip time less the shortest one seen) and an ECN mark. Mark and delay together select one of four reactions:

* no mark, delay below target: grow in proportion to the distance from the target, and exponentially once the delay has
  been zero for a whole window;
* no mark, delay at or above target: the queue is draining; grow by the same amount as every other sender (fair);
* mark, delay at or above target: shrink by how far the *average* delay exceeds the target, once per round trip;
* mark, delay below target: leave the window alone, since the load balancer is about to avoid the path.

Growth is accumulated and applied every few packets. Trims and losses subtract their bytes from the window. Once per
period (base RTT plus target delay), if there were trims or losses or the delay is extreme, and little of the window
arrived, *quick adaptation* sets the window to what did arrive, and ignores marks from before that. The fair increase
halves with each period of trims or losses, where there are marks only with many: nothing marks at the last hop, so only
this keeps an incast of many from overflowing it each round trip. A SACK from a receiver that asks for
less causes no growth; ``receiver_limit`` decides how much less its queue pair gets.

``NsccParameters.for_line`` derives every constant from line rate, base RTT and MTU; an ``NsccProfile`` replaces single
ones. Time is an argument, and nothing here is random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.congestion import CongestionControl
from mrc_host.verbs_types import NsccProfile

REFERENCE_BDP: Final = 150_000  # bytes: the network the published constants are tuned for, 100 Gb/s ...
REFERENCE_RTT: Final = 12_000  # ... times 12 us
_NEVER: Final = (1 << 62) - 1  # no more, or compiled code would need an object for it
_MAX_GIVEN_UP: Final = 0.25  # of what arrives: where marks bound the queue, this much may be trimmed or lost
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class NsccParameters:
    """All constants of one controller. Times in ns, sizes in bytes, `alpha` in bytes per ns.

    `max_cwnd` is also the initial window; base RTTs count as no longer than `max_base_rtt`. Per round trip the window
    grows by `fi` bytes in the fair case, and by
    `alpha` bytes per ns below target in the proportional one. `fi_scale` is the fast increase in bytes per byte
    received. `gamma` weighs the excess delay in a decrease, and `max_md_jump` is the smallest factor that one decrease
    applies. `eta` is added once per `adjust_period_threshold`. Quick adaptation requires that fewer than cwnd >>
    `qa_gate` bytes arrived, and a trim, a loss or a delay above `qa_threshold`. Raises InvalidArgumentError for a value
    out of range.
    """

    mtu: int
    base_rtt: int
    target_delay: int
    max_cwnd: int
    alpha: float
    fi: float
    fi_scale: float
    eta: float
    adjust_bytes_threshold: int
    adjust_period_threshold: int
    qa_threshold: int
    clear_delay: int
    base_rtt_floor: int = 1
    max_base_rtt: int = _NEVER
    gamma: float = 0.8
    max_md_jump: float = 0.5
    qa_gate: int = 3
    disable_qa: bool = False

    def __post_init__(self) -> None:
        for name in ("mtu", "base_rtt", "target_delay", "base_rtt_floor"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"NSCC parameter {name} must be at least 1, not {getattr(self, name)}.")
        for name in (
            "alpha", "fi", "fi_scale", "eta", "adjust_bytes_threshold", "adjust_period_threshold", "qa_threshold",
            "clear_delay", "qa_gate",
        ):  # fmt: skip
            if not 0 <= getattr(self, name) < float("inf"):
                raise InvalidArgumentError(f"NSCC parameter {name} must not be negative, not {getattr(self, name)}.")
        for name in ("gamma", "max_md_jump"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidArgumentError(f"NSCC parameter {name} must be in 0..1, not {getattr(self, name)}.")
        if self.max_cwnd < self.mtu:
            raise InvalidArgumentError(f"NSCC's max_cwnd of {self.max_cwnd} bytes does not hold one packet.")
        if self.base_rtt_floor > self.base_rtt:
            raise InvalidArgumentError("NSCC's base_rtt_floor must not exceed base_rtt.")

    @classmethod
    def for_line(
        cls,
        rate_bps: int,
        base_rtt_ns: int,
        mtu: int,
        trimming: bool,
        profile: NsccProfile | None = None,
    ) -> NsccParameters:
        """Parameters for a NIC of `rate_bps` (all its ports) and a base RTT (longest path, one full packet, no queue).

        `trimming` says whether switches trim; without it, delay alone has to trigger quick adaptation. These are the
        published formulas, with one addition: the reference RTT is never shorter than the base RTT.
        """
        given = profile or NsccProfile()
        base_rtt = _or(given.base_rtt, base_rtt_ns)
        if rate_bps < 1 or base_rtt < 1 or mtu < 1:
            raise InvalidArgumentError("NSCC needs a line rate, a base RTT and an MTU of at least 1.")
        bdp = rate_bps * base_rtt / 8e9
        scale = bdp / REFERENCE_BDP
        target = _or(given.target_delay, max(1, base_rtt * 3 // 4 if trimming else base_rtt))
        reference_rtt = _or(given.reference_rtt, max(REFERENCE_RTT, base_rtt))
        if target < 1 or reference_rtt < 1:
            raise InvalidArgumentError("NSCC's target delay and reference RTT must be at least 1 ns.")
        stretch = target / reference_rtt
        return cls(
            mtu=mtu,
            base_rtt=base_rtt,
            target_delay=target,
            max_cwnd=_or(given.max_cwnd, max(mtu, int(1.5 * bdp))),
            alpha=_or(given.alpha, 4 * scale * stretch * mtu / target),
            fi=_or(given.fi, 5 * mtu * scale),
            fi_scale=_or(given.fi_scale, 0.25 * scale),
            eta=_or(given.eta, 0.15 * mtu * scale),
            adjust_bytes_threshold=_or(given.adjust_bytes_threshold, 8 * mtu),
            adjust_period_threshold=_or(given.adjust_period_threshold, base_rtt),
            qa_threshold=_or(given.qa_threshold, _NEVER if trimming else 4 * target),
            clear_delay=_or(given.clear_delay, 1000 * reference_rtt // REFERENCE_RTT),
            base_rtt_floor=_or(given.base_rtt_floor, 1),
            max_base_rtt=_NEVER if given.base_rtt is None and given.max_cwnd is None else base_rtt,
            gamma=_or(given.gamma, 0.8),
            max_md_jump=_or(given.max_md_jump, 0.5),
            qa_gate=_or(given.qa_gate, 3),
            disable_qa=given.disable_qa,
        )


def _or(given: _Number | None, derived: _Number) -> _Number:
    return derived if given is None else given


class Nscc(CongestionControl):
    """The controller of one destination.

    `cwnd` stays between one MTU and `max_window`. `base_rtt` is the unloaded round trip in ns, the mean of all paths.
    """

    __slots__ = (
        "_achieved",
        "_adjusted_at",
        "_average_at",
        "_average_delay",
        "_base",
        "_clear",
        "_decreased_at",
        "_fair_increase",
        "_fast",
        "_gathered",
        "_given_up",
        "_ignored",
        "_increase",
        "_marked",
        "_mean",
        "_p",
        "_period",
        "_period_start",
        "_to_ignore",
        "base_rtt",
        "max_window",
    )

    def __init__(self, parameters: NsccParameters) -> None:
        super().__init__(parameters.max_cwnd)
        self._p = parameters
        self.base_rtt = parameters.base_rtt
        self._base = parameters.base_rtt  # of the path that the next signal is about
        self.max_window = parameters.max_cwnd
        self._mean = 0  # as last given
        # growth not applied yet
        self._increase = 0.0  # bytes times window
        self._gathered = 0  # bytes received since growth was last applied
        self._adjusted_at = 0
        self._clear = 0  # bytes received in a row without delay
        self._fast = False
        # decrease
        self._average_delay = 0.0
        self._average_at = 0
        self._decreased_at = -_NEVER
        self._fair_increase = parameters.fi  # bytes a round trip
        # quick adaptation
        self._period = parameters.base_rtt + parameters.target_delay
        self._period_start = -_NEVER
        self._achieved = 0  # bytes received in this period
        self._given_up = 0  # bytes trimmed, lost or timed out in this period
        self._marked = False  # a mark arrived in this period
        self._to_ignore = 0  # bytes in flight when the window was last adapted
        self._ignored = 0  # bytes of them that have been acknowledged or lost since

    @property
    def average_delay(self) -> float:
        """Queueing delay in ns, averaged over about one round trip."""
        return self._average_delay

    # ---- signals ------------------------------------------------------------------------------------------------

    def on_base_rtt(self, base: int, mean: int) -> None:
        """The next signal is about a path of `base` ns without queues; the mean of all paths is `mean`."""
        p = self._p
        self._base = max(p.base_rtt_floor, min(base, p.max_base_rtt))
        if mean != self._mean:
            self._mean = mean
            self._measure_against(max(p.base_rtt_floor, min(mean, p.max_base_rtt)))

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
        """Process a SACK whose bytes are already subtracted from `inflight`.

        `penalty` (0..127) and `restore` are the SACK's rcv_cwnd_pen and restore_cwnd; a SACK with a penalty causes no
        growth.
        """
        self._achieved += received
        self._ignored += received
        self._gathered += received
        if not rtt:
            return
        self._marked |= marked
        delay = rtt - self._base
        if delay < 0:
            self._lower_base_rtt(rtt)
            delay = 0
        self._average(delay, received, now)
        p = self._p
        if self._quick_adapt(marked, delay > p.qa_threshold, now):
            return
        if marked:
            self._leave_fast()
            if delay >= p.target_delay:
                self._decrease(now)
        elif penalty:
            return
        elif delay >= p.target_delay:
            self._leave_fast()
            self._increase += self._fair_increase * received
        elif not self._fast_increase(received, delay):
            self._increase += p.alpha * received * (p.target_delay - delay)
        if self._gathered > p.adjust_bytes_threshold or now - self._adjusted_at >= p.adjust_period_threshold:
            self._adjust(now)

    def on_trim(self, size: int, now: int, rtt: int = 0) -> None:
        """A packet was trimmed; `rtt` is the NACK's round-trip time in ns, 0 when unknown.

        MRC has no receiver credit, so a trim at the last hop counts like any other.
        """
        if 0 < rtt < self._base:
            self._lower_base_rtt(rtt)
        self._average(self._p.base_rtt, size, now)  # stands for the delay of the full queue
        self._leave_fast()
        self._ignored += size
        self._given_up += size
        if not self._quick_adapt(True, False, now):
            self._shrink(size)

    def on_loss(self, size: int, now: int) -> None:
        """A packet of `size` bytes was declared lost."""
        self._leave_fast()
        self._ignored += size
        self._given_up += size
        self._shrink(size)

    def on_timeout(self, now: int, size: int | None = None) -> None:
        """Nothing was acknowledged for an ACK timeout, and `size` bytes were declared lost; None when not known."""
        self._leave_fast()
        self._increase = 0.0
        self._given_up += size or self.cwnd
        if size is None:
            self._shrink(self.cwnd - int(self.cwnd * self._p.max_md_jump))
        else:
            self._ignored += size
            self._shrink(size)

    # ---- reactions ----------------------------------------------------------------------------------------------

    def _lower_base_rtt(self, rtt: int) -> None:
        """A round trip was shorter than any before it; what is known of all paths is for `on_base_rtt` to say."""
        if not self._mean:
            self._base = max(rtt, self._p.base_rtt_floor)
            if self._base < self.base_rtt:
                self._measure_against(self._base)

    def _measure_against(self, base_rtt: int) -> None:
        p = self._p
        if base_rtt > self.base_rtt:  # the paths have become longer: the same rate needs a larger window
            self.cwnd = self.cwnd * base_rtt // self.base_rtt
        self.base_rtt = base_rtt
        self.max_window = max(p.mtu, p.max_cwnd * base_rtt // p.base_rtt)
        self.cwnd = min(self.cwnd, self.max_window)
        self._period = base_rtt + p.target_delay

    def _average(self, delay: int, size: int, now: int) -> None:
        # A window of bytes or a base RTT of time, whichever comes first, replaces the old average.
        weight = max(size / self.cwnd, (now - self._average_at) / self.base_rtt)
        self._average_at = now
        if weight < 1.0:
            self._average_delay += weight * (delay - self._average_delay)
        else:
            self._average_delay = float(delay)

    def _quick_adapt(self, marked: bool, late: bool, now: int) -> bool:
        """Whether the window was just adapted to what arrived, or the mark is from before the last adaptation."""
        p = self._p
        ignored = marked and self._ignored < self._to_ignore
        if not ignored:
            elapsed = now - self._period_start
            if elapsed < self._period:
                return False
            # After a pause the bytes achieved mean nothing: start measuring again.
            lasting = elapsed < 2 * self._period
            adapt = (
                not p.disable_qa
                and lasting
                and (late or self._given_up > 0)
                and self._achieved < self.cwnd >> p.qa_gate
            )
            if adapt:
                self.cwnd = max(self._achieved, p.mtu)
                self._to_ignore = self.inflight
                self._ignored = 0
            self._fit_fair_increase(lasting)
            self._period_start = now
            self._achieved = 0
            self._given_up = 0
            self._marked = False
            if not adapt:
                return False
        self._increase = 0.0
        self._gathered = 0
        return True

    def _fit_fair_increase(self, lasting: bool) -> None:
        """Halve the fair increase after a period with trims or losses (with marks: with many), else double it."""
        p = self._p
        if not lasting:
            self._fair_increase = p.fi
        elif self._given_up > (self._achieved * _MAX_GIVEN_UP if self._marked else 0):
            self._fair_increase = max(self._fair_increase / 2, min(p.eta, p.fi))
        else:
            self._fair_increase = min(self._fair_increase * 2, p.fi)

    def _decrease(self, now: int) -> None:
        p = self._p
        excess = self._average_delay - p.target_delay
        if excess <= 0 or now - self._decreased_at <= self.base_rtt:
            return
        factor = max(1.0 - p.gamma * excess / self._average_delay, p.max_md_jump)
        self.cwnd = max(int(self.cwnd * factor), p.mtu)
        self._decreased_at = now

    def _leave_fast(self) -> None:
        self._clear = 0
        self._fast = False

    def _fast_increase(self, received: int, delay: int) -> bool:
        """Grow exponentially once a whole window has met no queue; returns whether it does."""
        p = self._p
        if delay >= p.clear_delay:
            self._leave_fast()
            return False
        if not self._fast:
            self._clear += received
            if self._clear <= self.cwnd:
                return False
            self._fast = True
        # For a small window the proportional increase is faster.
        rate = max(p.fi_scale, p.alpha * (p.target_delay - delay) / self.cwnd)
        self.cwnd = min(self.cwnd + int(received * rate), self.max_window)
        return True

    def _adjust(self, now: int) -> None:
        p = self._p
        grown = self._increase / self.cwnd
        if now - self._adjusted_at >= p.adjust_period_threshold:
            self._adjusted_at = now
            grown += p.eta
        self._increase = 0.0
        self._gathered = 0
        self.cwnd = min(self.cwnd + int(grown), self.max_window)

    def _shrink(self, size: int) -> None:
        self.cwnd = max(self.cwnd - size, self._p.mtu)
