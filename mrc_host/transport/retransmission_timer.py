"""How long a requester waits for a word of its peer: first for any, then for an acknowledgement, and when it gives up.

About two round-trip times after the last word, and after its own last packet, it should ask (``quiet_time``), each
time with twice the patience. The ACK timeout (1.024 us * 2**timeout, docs/protocol.md §2) is repeated, then doubled
(``retry_time``); it is never shorter than measured round-trip times call for, nor than packets were seen to wait for
their acknowledgement, which on a slow link is most of all the peer's waiting for more of them. It runs from when the
oldest packet on the way was sent; where none is, from the oldest question without an answer. Packets sent at different
times time out at different times: that is one retry as long as less than a whole interval has passed
(``may_go_on``). A peer that answers with NACKs alone for a whole interval has cost a retry too (``refused``), so
nobody is asked for ever to take what it has no room for.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.round_trip import RoundTrip

_FOR_EVER: Final = 255  # retry count
_LOOKS: Final = 16  # parts of a wait in doubt


class RetransmissionTimer:
    """Times of one requester. All are nanoseconds."""

    __slots__ = (
        "_backoff",
        "_counted_at",
        "_ended_at",
        "_limit",
        "_linear",
        "_max_backoff",
        "_refused_from",
        "_round_trips",
        "_waits",
        "asked",
        "hurries",
        "last_heard",
        "last_sent",
        "last_timeout",
        "progressed",
        "retries",
        "tail_min",
        "timeout",
        "unanswered",
    )

    def __init__(
        self, round_trips: list[RoundTrip], timeout: int, retry_count: int, linear: int, max_backoff: int, tail_min: int
    ) -> None:
        self._round_trips = round_trips
        self.timeout = 1024 << timeout  # the ACK timeout before any doubling
        self._limit = retry_count
        self._linear = linear
        self._max_backoff = max_backoff
        self.tail_min = tail_min  # least quiet time once round trips are known
        self.retries = 0  # intervals without progress
        self._counted_at = 0  # when the last of them was counted
        self._waits = RoundTrip()  # of the packet that waited longest for a SACK
        self._refused_from = 0  # start of the interval in which only NACKs came; 0 for none
        self.last_heard = 0
        self._ended_at = 0  # when a word last came after more than an ACK timeout without one
        self.last_sent = 0  # data
        self.last_timeout = 0
        self.progressed = 0  # when anything was last acknowledged, or sent after a pause
        self.asked = 0  # when the peer was last asked
        self.unanswered = 0  # when it was first asked since it was last heard, or a timeout passed; 0 for not at all
        self._backoff = 0  # doublings of the quiet time
        self.hurries = 0  # how often others were made to ask since data last left

    def patience(self) -> int:
        """Twice the longest round-trip time, or four deviations above it; 0 before the first measurement."""
        return max(trip.patience() for trip in self._believed())

    def _believed(self) -> list[RoundTrip]:
        """Round trips without those in doubt, once something newer on another plane did not wait.

        A plane may have died since, and then nothing corrects its own.
        """
        trips = self._round_trips
        for trip in trips:
            if trip.doubtful:
                newest = max((other.sampled for other in trips if not other.doubtful), default=0)
                return [other for other in trips if not other.doubtful or other.sampled >= newest]
        return trips

    def broken(self, now: int) -> None:
        """A word came."""
        if now > self.last_heard + self.timeout:
            self._ended_at = now

    def outlasted(self, sent: int, now: int) -> bool:
        """Whether the answer to what was sent at `sent` may have waited for a silence to end."""
        return sent < self._ended_at and now > sent + self.timeout

    def look_again(self, due: int, now: int) -> int:
        """When to look whether what is due at `due` still is: sooner while others may correct a round-trip time.

        Each look that finds it still in doubt comes a part of the time left before it is due: that is few looks.
        """
        if any(trip.doubtful for trip in self._believed()):
            return min(due, now + max(self.timeout, (due - now) // _LOOKS))
        return due

    def waited(self, time: int) -> None:
        """The first packet that a SACK acknowledges, sent once, had waited for so long."""
        self._waits.sample(time)

    def quiet_time(self) -> int:
        """How long to wait for a word before asking; once it was asked, no longer than the ACK timeout."""
        quiet = self.patience()
        quiet = max(quiet, self.tail_min) if quiet else self.timeout // 4
        return min(quiet << self._backoff, max(quiet, self.retry_time())) if self._backoff else quiet

    def hurry_time(self) -> int:
        """How long to wait for what others have on the way before they are made to ask."""
        quiet = self.quiet_time()
        return min(quiet << self.hurries, max(quiet, self.timeout << self._max_backoff))

    def hurry_less(self) -> None:
        """They were made to ask: next time wait twice as long, but no longer than retries may come to."""
        if 2 * self.hurry_time() <= self.timeout << self._max_backoff:
            self.hurries += 1

    def retry_time(self) -> int:
        """The ACK timeout now: the attribute's, but no less than measured times call for, doubled by retries.

        It ends where the attribute's would by itself: times that held an outage are not multiplied on top of that.
        """
        doublings = min(max(self.retries - self._linear, 0), self._max_backoff)
        once = max(self.timeout, self.patience(), self._waits.patience())
        return min(once << doublings, max(once, self.timeout << self._max_backoff))

    def ask(self, now: int) -> None:
        """The peer is asked."""
        self.asked = now
        if not self.unanswered:
            self.unanswered = now

    def ask_less(self) -> None:
        """It was asked: next time wait twice as long, but ask within the ACK timeout, so that an answer can stop it."""
        if 2 * self.quiet_time() <= self.retry_time():
            self._backoff += 1

    def heard(self, now: int, progress: bool) -> bool:
        """The peer was heard; whether with that `progress` retries have come to an end."""
        self.broken(now)
        self.last_heard = now
        self.unanswered = 0
        if not progress:
            return False
        self._backoff = 0
        self._refused_from = 0
        self.progressed = now
        if not self.retries:
            return False
        self.retries = 0
        return True

    def waits(self) -> None:
        """The peer has it all and says so, but does not complete it yet: that is no retry, and no progress either."""
        self.retries = 0
        self._refused_from = 0

    def may_go_on(self, now: int, retry: int) -> bool:
        """The ACK timeout, `retry`, has passed: count it; False when that is once too often."""
        self.last_timeout = now
        self.unanswered = 0
        return self._count(now, retry)

    def refused(self, now: int) -> bool:
        """A NACK came: False when there has been nothing else for one interval too many."""
        if not self._refused_from:
            self._refused_from = now
            return True
        retry = self.retry_time()
        if now < self._refused_from + retry:
            return True
        self._refused_from = now
        return self._count(now, retry)

    def _count(self, now: int, retry: int) -> bool:
        if self.retries and now < self._counted_at + retry:
            return True
        self.retries += 1
        self._counted_at = now
        return self._limit == _FOR_EVER or self.retries <= self._limit
