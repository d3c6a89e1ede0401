"""DCQCN, the rate-based congestion control of RoCEv2 (Zhu et al., SIGCOMM 2015; docs/congestion.md).

Switches mark packets. The receiver (notification point, ``CnpGenerator``) answers marks of one flow with at most one
congestion notification packet (CNP) per interval. The sender (reaction point, ``Dcqcn``) starts at line rate. A CNP
makes the rate the target, cuts the rate by alpha/2 and raises alpha; without CNPs alpha decays. Recovery proceeds in
steps, one each time a timer expires and one each time a number of bytes was sent. The first few halve the distance to
the target; later ones also raise the target: additively, and by ever more once both timer and bytes have taken that
many.

A rate is not a window, so the controller also says *when* to send: the sender calls ``earliest_send(now)`` before each
packet, waits until then, and calls ``on_send``. Time is computed, not waited for: the decay of alpha and the timer's
steps are caught up whenever the controller is called, so nothing has to wake it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.congestion import CongestionControl
from mrc_host.verbs_types import DcqcnProfile

REFERENCE_RATE: Final = 40_000_000_000  # b/s: the network to which the published constants belong
_BYTE_NS: Final = 8_000_000_000  # bits in a byte times nanoseconds in a second
_MAX_STEPS: Final = 400_000  # additive steps from zero to line rate: bounds the work of catching up


@dataclass(frozen=True, slots=True)
class DcqcnParameters:
    """Constants of one flow. Rates in b/s, times in ns, sizes in bytes.

    The rate stays within `min_rate`..`line_rate`. `gain` (0..1) is g in the average alpha, which decays every
    `alpha_interval` without a CNP. Recovery takes a step per `increase_interval` and a step per `increase_bytes` sent;
    the first `fast_steps` of either are fast recovery, then each adds `additive_rate`, and `hyper_rate` times their
    number once both have passed. `cnp_interval` is the receiver's minimum interval between CNPs. `burst` is how many
    bytes may be ahead of the rate, so that a late wakeup costs nothing. With `keep_target` a CNP makes the rate the
    target only if the rate has grown since the last one, so that consecutive cuts are recovered from together. Raises
    InvalidArgumentError for a value out of range.
    """

    line_rate: int
    min_rate: int
    additive_rate: int
    hyper_rate: int
    increase_bytes: int
    increase_interval: int
    alpha_interval: int
    cnp_interval: int
    gain: float
    fast_steps: int
    keep_target: bool
    burst: int = 16_384

    def __post_init__(self) -> None:
        for name in (
            "min_rate", "additive_rate", "hyper_rate", "increase_bytes", "increase_interval", "alpha_interval",
            "cnp_interval", "fast_steps",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"DCQCN parameter {name} must be at least 1, not {getattr(self, name)}.")
        if self.line_rate < self.min_rate:
            raise InvalidArgumentError("DCQCN's line_rate must be at least its min_rate.")
        if self.line_rate > self.additive_rate * _MAX_STEPS:
            raise InvalidArgumentError(f"DCQCN's additive_rate must be at least line_rate / {_MAX_STEPS}.")
        if not 0 < self.gain <= 1:
            raise InvalidArgumentError(f"DCQCN parameter gain must be above 0 and at most 1, not {self.gain}.")
        if self.burst < 0:
            raise InvalidArgumentError(f"DCQCN parameter burst must not be negative, not {self.burst}.")

    @classmethod
    def for_line(cls, rate_bps: int, profile: DcqcnProfile | None = None) -> DcqcnParameters:
        """The constants that `profile` names, for a port of `rate_bps`; values given in it are taken as they are.

        Below 40 Gb/s rates are scaled down and times up, so that each covers as many packets as there. Above, the
        published rates and byte counter grow with the line rate; a vendor's are the same on all lines.
        """
        if rate_bps < 1:
            raise InvalidArgumentError("DCQCN needs a line rate of at least 1 b/s.")
        given = profile or DcqcnProfile()
        of = CONSTANTS.get(given.constants)
        if of is None:
            raise InvalidArgumentError(f"DCQCN has no constants {given.constants!r}, only {', '.join(CONSTANTS)}.")
        share = rate_bps / REFERENCE_RATE
        below, above = min(1.0, share), max(1.0, share) if of.with_line else 1.0
        return cls(
            line_rate=rate_bps,
            min_rate=_or(given.min_rate, of.min_rate * below * above),
            additive_rate=_or(given.additive_rate, of.additive_rate * below * above),
            hyper_rate=_or(given.hyper_rate, of.hyper_rate * below * above),
            increase_bytes=_or(given.increase_bytes, of.increase_bytes * above),
            increase_interval=_or(given.increase_interval, of.increase_interval / below),
            alpha_interval=_or(given.alpha_interval, of.alpha_interval / below),
            cnp_interval=_or(given.cnp_interval, of.cnp_interval / below),
            gain=of.gain if given.gain is None else given.gain,
            fast_steps=of.fast_steps if given.fast_steps is None else given.fast_steps,
            keep_target=of.keep_target if given.keep_target is None else given.keep_target,
        )


@dataclass(frozen=True, slots=True)
class _Constants:
    """A set of constants at 40 Gb/s, as in ``DcqcnParameters``; `with_line`: rates grow with the line rate."""

    min_rate: int
    additive_rate: int
    hyper_rate: int
    increase_bytes: int
    increase_interval: int
    alpha_interval: int
    cnp_interval: int
    gain: float
    fast_steps: int
    keep_target: bool
    with_line: bool


CONSTANTS: Final = {
    # defaults of ConnectX NICs: NVIDIA, "DCQCN CC Parameters" (docs/congestion.md)
    "connectx": _Constants(
        1_000_000, 5_000_000, 50_000_000, 32_767, 300_000, 1_000, 4_000, 5 / 1024, 1, keep_target=True, with_line=False
    ),
    # Zhu et al., SIGCOMM 2015; hyper_rate and min_rate are ours (docs/congestion.md)
    "sigcomm2015": _Constants(
        40_000_000, 40_000_000, 400_000_000, 10_000_000, 55_000, 55_000, 50_000, 1 / 256, 5, keep_target=False,
        with_line=True,
    ),
}  # fmt: skip


def _or(given: int | None, derived: float) -> int:
    return max(1, round(derived)) if given is None else given


class Dcqcn(CongestionControl):
    """Reaction point of one flow: a rate in addition to a fixed window.

    `rate` is the current rate and `target` the one that recovery aims at, in b/s; `alpha` (0..1) estimates congestion.
    """

    __slots__ = (
        "_ahead",
        "_alpha_at",
        "_byte_steps",
        "_bytes",
        "_drained_at",
        "_grown",
        "_p",
        "_timer_at",
        "_timer_steps",
        "alpha",
        "rate",
        "target",
    )

    def __init__(self, parameters: DcqcnParameters, window: int) -> None:
        super().__init__(window)
        self._p = parameters
        self.rate = parameters.line_rate
        self.target = parameters.line_rate
        self.alpha = 1.0
        self._alpha_at = -1  # when alpha was last updated; negative before the first CNP
        self._timer_at = 0  # when the step timer last expired
        self._timer_steps = 0
        self._bytes = 0  # sent since the byte counter last expired
        self._byte_steps = 0
        self._ahead = 0.0  # bytes sent ahead of the rate
        self._drained_at = 0
        self._grown = True  # the rate has grown since the last cut

    def earliest_send(self, now: int) -> int:
        """When the next packet may leave, in ns; `now` or earlier means at once."""
        p = self._p
        if self.rate >= p.line_rate:
            return 0
        self._catch_up(now)
        excess = self._ahead - p.burst
        if excess <= 0:
            return 0
        return now + int(excess * _BYTE_NS / self.rate) + 1

    def on_send(self, size: int, now: int) -> None:
        """A packet of `size` bytes leaves."""
        p = self._p
        if self.rate >= p.line_rate:
            return
        self._catch_up(now)
        self._ahead += size
        self._bytes += size
        while self._bytes >= p.increase_bytes and self.rate < p.line_rate:
            self._bytes -= p.increase_bytes
            self._byte_steps += 1
            self._step()

    def on_cnp(self, now: int) -> None:
        """The receiver sent a congestion notification packet."""
        p = self._p
        if self._alpha_at < 0:
            self._alpha_at = now
        self._catch_up(now)
        if self._grown or not p.keep_target:
            self.target = self.rate
        self._grown = False
        self.rate = max(p.min_rate, int(self.rate * (1 - self.alpha / 2)))
        self.alpha = (1 - p.gain) * self.alpha + p.gain
        self._alpha_at = self._timer_at = now
        self._timer_steps = self._byte_steps = self._bytes = 0

    def _catch_up(self, now: int) -> None:
        """Apply the time since the last call: drain bytes, decay alpha, take timer steps."""
        if now == self._drained_at:
            return
        p = self._p
        self._ahead = max(0.0, self._ahead - float(now - self._drained_at) * self.rate / _BYTE_NS)
        self._drained_at = now
        intervals = (now - self._alpha_at) // p.alpha_interval
        if intervals > 0:
            self.alpha *= (1 - p.gain) ** intervals
            self._alpha_at += intervals * p.alpha_interval
        while self.rate < p.line_rate and now - self._timer_at >= p.increase_interval:
            self._timer_at += p.increase_interval
            self._timer_steps += 1
            self._step()

    def _step(self) -> None:
        p = self._p
        both = min(self._timer_steps, self._byte_steps)
        if both > p.fast_steps:
            self.target += p.hyper_rate * (both - p.fast_steps)
        elif max(self._timer_steps, self._byte_steps) > p.fast_steps:
            self.target += p.additive_rate
        self.target = min(self.target, p.line_rate)
        self._grown = True
        # Rounded up, so that the target is reached.
        self.rate = (self.rate + self.target + 1) // 2


class CnpGenerator:
    """Notification point of one flow: decides which marked packets to answer with a CNP."""

    __slots__ = ("_interval", "_next")

    def __init__(self, interval: int) -> None:
        if interval < 1:
            raise InvalidArgumentError("The interval between CNPs must be at least 1 ns.")
        self._interval = interval
        self._next = -1

    def on_packet(self, marked: bool, now: int) -> bool:
        """A data packet arrived, `marked` if it carries ECN-CE. Returns whether to send a CNP now."""
        if not marked or now < self._next:
            return False
        self._next = now + self._interval
        return True
