"""Timers of an MRC requester: the probe timeout, the retransmission timeout, and how many retries are left.

**Probe timeout (PTO).** About two round-trip times after the peer last answered, and after the requester's own last
packet, the requester sends reliability probes (``pto``; compare RFC 8985 and RFC 9002), and as long after these on all
planes. Each further probe doubles the wait.

**Retransmission timeout (RTO).** The ACK timeout of the queue pair (1.024 us * 2**timeout, docs/protocol.md §2) is
repeated ``linear_retries`` times, then doubled (``rto``). It is never shorter than the measured round trips require,
nor than packets were seen to wait for their acknowledgement: on a slow link most of that wait is the peer collecting
packets to acknowledge together. The RTO runs from when the oldest packet in flight was sent or, with nothing in flight,
from the oldest unanswered probe.

**Retries.** Packets sent at different times also time out at different times. All timeouts within one RTO count as one
retry (``on_timeout``). An RTO in which the peer answered only with NACKs is a retry too (``on_nack``), so that a
requester does not send for ever what the peer has no room for. While other queue pairs fill the window, so is an RTO in
which a probe is not answered (``on_silence``); any answer forgives these. An RTO counts once, as one or the other.

**Hopeless.** After two retries without progress or NACKs, what is known of planes and paths may all be wrong: requester
and probes then try everything that is not denied (docs/protocol.md §3).
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip

_HOPELESS: Final = 2  # timeouts without progress
_SINGLE_PTOS: Final = 2  # waits for an answer before they double: to probes of some planes, and then to those of all
_RECHECKS: Final = 16  # parts into which a wait is divided while round-trip times are doubtful


class RetransmissionTimer:
    """Timers of one requester, in ns."""

    __slots__ = (
        "_ack_times",
        "_base_rtt",
        "_blocked_pto_count",
        "_counted_rto",
        "_nacks_since",
        "_policy",
        "_pto_count",
        "_retry_counted",
        "_round_trips",
        "_silence_ended",
        "ack_timeout",
        "blocked_until",
        "deferred",
        "last_answer",
        "last_probe",
        "last_progress",
        "last_sent",
        "last_timeout",
        "least_pto",
        "min_pto",
        "probing_since",
        "retries",
        "silences",
    )

    def __init__(self, round_trips: list[RoundTrip], policy: RetryPolicy, min_pto: int, base_rtt: int = 0) -> None:
        """`round_trips` are those of all planes; `min_pto` is the shortest probe timeout once these are measured.

        `base_rtt` is the unloaded round trip to the peer on its longest path; 0: not known.
        """
        self._round_trips = round_trips
        self._base_rtt = base_rtt
        self._policy = policy
        self.ack_timeout = policy.ack_timeout  # before any doubling
        self.min_pto = min_pto
        self.least_pto = min(min_pto, policy.ack_timeout // 4)  # ``first_pto`` is never shorter
        self.retries = 0  # timeouts without progress
        self.silences = 0  # RTOs without an answer, while others kept this queue pair from sending
        self._retry_counted = 0  # when the last retry or silence was counted
        self._counted_rto = 0  # the RTO that had passed then
        self._ack_times = RoundTrip()  # of the packet that waited longest for a SACK
        self._nacks_since = 0  # start of the interval in which only NACKs arrived; 0 for none
        self.last_answer = 0
        self._silence_ended = 0  # when the peer last ended a silence of more than an ACK timeout
        self.last_sent = 0  # when data was last sent
        self.deferred = False  # the next look waits for a turn to send: what leaves then needs one a PTO later
        self.last_timeout = 0
        self.last_progress = 0  # when anything was last acknowledged, or sent after a pause
        self.last_probe = 0  # when probes were last requested
        self.probing_since = 0  # first probe since the peer last answered or the last timeout; 0 for none
        self._pto_count = 0  # probes without progress
        self._blocked_pto_count = 0  # doublings of the blocked PTO since data last left
        self.blocked_until = 0  # when those that timed out are made to probe again

    def base_pto(self) -> int:
        """The longest probe timeout that round trips require, without minimum or backoff; 0 before the first sample."""
        longest = 0
        for trip in self._trusted():
            pto = trip.pto()
            if pto > longest:
                longest = pto
        return longest

    def _trusted(self) -> list[RoundTrip]:
        """Round-trip times, without doubtful ones once another plane has a newer sample that is not doubtful.

        The plane of the doubtful sample may have failed since, and then no new sample would ever correct it.
        """
        trips = self._round_trips
        for trip in trips:
            if trip.doubtful:
                newest = max((other.sampled for other in trips if not other.doubtful), default=0)
                return [other for other in trips if not other.doubtful or other.sampled >= newest]
        return trips

    def end_silence(self, now: int) -> None:
        """The peer answered; remember the time if that ends a long silence."""
        if now > self.last_answer + self.ack_timeout:
            self._silence_ended = now

    def delayed_by_silence(self, sent: int, now: int) -> bool:
        """Whether the answer to what was sent at `sent` may have been delayed until a silence ended."""
        return sent < self._silence_ended and now > sent + self.ack_timeout

    def recheck_at(self, due: int, now: int) -> int:
        """When to check a timer that expires at `due`: earlier while a doubtful round trip may yet be corrected.

        Each check that finds it still doubtful comes after a fixed part of the time left, so there are few checks.
        """
        for trip in self._trusted():
            if trip.doubtful:
                return min(due, now + max(self.ack_timeout, (due - now) // _RECHECKS))
        return due

    def sample_ack_time(self, time: int) -> None:
        """The first packet that a SACK acknowledges, if it was sent only once, was acknowledged after `time`."""
        self._ack_times.sample(time)

    def pto(self) -> int:
        """Probe timeout, doubled for each probe without progress after the first, but then at most the RTO.

        Half of that while all seems lost: the peer may answer again in the middle of a long RTO, and the last one.
        """
        base = self.first_pto()
        if self._pto_count < _SINGLE_PTOS:
            return base
        doublings = self._pto_count - _SINGLE_PTOS + 1
        return min(base << doublings, max(base, self.rto() >> self.hopeless()))

    def first_pto(self) -> int:
        """Probe timeout before any doubling; until a round trip is measured, two unloaded ones if these are known."""
        base = self.base_pto() or 2 * self._base_rtt
        return max(base, self.min_pto) if base else self.ack_timeout // 4

    def unmeasured_pto(self) -> int:
        """How long nothing need arrive on a plane whose round trip was never measured: others may differ by far.

        Where not even the unloaded round trip on the longest path is known, an ACK timeout, without its doublings:
        these are meant for a silent peer.
        """
        return max(self.first_pto(), 2 * self._base_rtt) if self._base_rtt else self.ack_timeout

    def blocked_pto(self) -> int:
        """How long to wait while others fill the shared window, before those that timed out are made to probe."""
        first = self.first_pto()
        return min(first << self._blocked_pto_count, max(first, self._policy.longest()))

    def back_off_blocked_pto(self, now: int) -> None:
        """They were made to probe: wait twice as long until the next time, but at most the longest RTO."""
        if 2 * self.blocked_pto() <= self._policy.longest():
            self._blocked_pto_count += 1
        self.blocked_until = now + self.blocked_pto()

    def end_blocked(self) -> None:
        """Data leaves."""
        self._blocked_pto_count = self.blocked_until = 0

    def rto(self) -> int:
        """Retransmission timeout: the ACK timeout, or what measured times require, doubled by retries.

        The upper bound depends on the ACK timeout alone: times that include an outage are not multiplied beyond it.
        """
        base = max(self.ack_timeout, max(self.base_pto(), self._ack_times.pto()))
        count = self.retries + self.silences
        if not count:
            return base
        policy = self._policy
        return min(base << policy.doublings(count), max(base, policy.longest()))

    def left_before(self, sent: int) -> bool:
        """Whether what left at `sent` had left when the last retry was counted, without an answer since."""
        return self.unanswered() and sent < self._retry_counted

    def rto_of(self, sent: int) -> int:
        """Retransmission timeout of what left at `sent`, not doubled by a retry that was counted meanwhile."""
        return self._counted_rto if self.left_before(sent) else self.rto()

    def timed_out_before(self, now: int) -> int:
        """Of what had left when the last retry was counted, what left by this time has timed out."""
        return min(now - self._counted_rto, self._retry_counted - 1)

    def unanswered(self) -> bool:
        """Whether timeouts have passed without progress, or without an answer."""
        return self.retries > 0 or self.silences > 0

    def hopeless(self) -> bool:
        """Whether so many timeouts have passed without progress that what is known of the paths may all be wrong.

        Not where NACKs arrive: these show that paths work.
        """
        return self.retries >= _HOPELESS and not self._nacks_since

    def on_probe(self, now: int) -> None:
        """Probes were requested."""
        self.last_probe = now
        if not self.probing_since:
            self.probing_since = now

    def back_off_pto(self) -> None:
        """Probes were requested, not for the first time: wait twice as long for the next, but at most the RTO."""
        if self._pto_count < _SINGLE_PTOS or 2 * self.pto() <= self.rto():
            self._pto_count += 1

    def on_answer(self, now: int, progress: bool) -> bool:
        """The peer answered; returns whether this `progress` ends waits that had doubled: the next may be due."""
        self.end_silence(now)
        self.last_answer = now
        self.probing_since = self.silences = 0
        if not progress:
            return False
        doubled = bool(self._pto_count >= _SINGLE_PTOS or self.retries)
        self._pto_count = 0
        self._nacks_since = 0
        self.last_progress = now
        self.retries = 0
        return doubled

    def reset_retries(self) -> None:
        """The peer has received everything, but does not complete it yet: this is neither a retry nor progress."""
        self.retries = 0
        self._nacks_since = 0

    def on_timeout(self, now: int, rto: int) -> bool:
        """The retransmission timeout, `rto`, has passed: count a retry; False when none is left."""
        self.last_timeout = now
        self.probing_since = 0
        return self._count_retry(now, rto)

    def on_silence(self, now: int) -> bool:
        """An RTO has passed without an answer to a probe, and data could not be sent: False when no retry is left."""
        self._counted_rto = self.rto()
        self.silences += 1
        self.probing_since = self._retry_counted = now
        return self._policy.allows(self.retries + self.silences)

    def on_nack(self, now: int) -> bool:
        """A NACK arrived: False when an RTO with nothing but NACKs was one retry too many."""
        if not self._nacks_since:
            self._nacks_since = now
            return True
        rto = self.rto()
        if now < self._nacks_since + rto:
            return True
        self._nacks_since = now
        return self._count_retry(now, rto)

    def silent_until(self) -> int:
        """When an RTO will have passed without an answer since the first probe and since anything was last counted."""
        return max(self.probing_since, self._retry_counted if self.unanswered() else 0) + self.rto()

    def _count_retry(self, now: int, rto: int) -> bool:
        if self.unanswered() and now < self._retry_counted + rto:
            return True
        self.retries += 1
        self._retry_counted, self._counted_rto = now, rto
        return self._policy.allows(self.retries + self.silences)
