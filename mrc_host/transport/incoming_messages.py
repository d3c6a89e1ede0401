"""Messages of which some packets have arrived, and where each starts in the sequence of packets, as far as known.

A message's First, Only or Last packet says where it starts, or the message before it does; then it is also known where
the next one starts. PSNs and message numbers are unbounded integers here (see ``wire.psn``).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from mrc_host.transport.message import UNKNOWN, Message
from mrc_host.wire import opcodes

LOCATED: Final = -1
OVERLAP: Final = -2


class IncomingMessages:
    """The incomplete messages of one connection."""

    __slots__ = ("_known", "_mtu", "_starts", "next_msn", "open")

    def __init__(self, first_psn: int, mtu: int) -> None:
        self._mtu = mtu
        self.open: dict[int, Message] = {}
        self._starts: dict[int, int] = {0: first_psn}  # first PSN of each message, where known
        self._known = [0]  # the messages of which it is, in order
        self.next_msn = 0  # first incomplete message

    @property
    def known_starts(self) -> int:
        """For how many messages the start is known."""
        return len(self._starts)

    def beginning(self, kind: int, psn: int, msn: int, count: int) -> int:
        """First PSN of a message of `count` packets, if packet `psn` or the message before reveals it; -1 otherwise.

        `kind` is the packet's segment kind.
        """
        if kind == 0 or kind >= opcodes.ONLY:
            return psn
        if kind >= opcodes.LAST:
            return max(psn - count + 1, 0)
        return self._starts.get(msn, -1)

    def lowest_start(self, msn: int) -> int:
        """Message `msn` cannot start before this PSN: each message before it takes at least one."""
        before = self._known[bisect_right(self._known, msn) - 1]
        return self._starts[before] + msn - before

    def _highest_start(self, msn: int) -> int:
        """Nor after this one, as the same is true of those from it on."""
        place = bisect_right(self._known, msn)
        if place == len(self._known):
            return UNKNOWN
        behind = self._known[place]
        return self._starts[behind] + msn - behind

    def _start(self, msn: int, psn: int) -> None:
        if msn not in self._starts:
            insort(self._known, msn)
        self._starts[msn] = psn

    def locate(self, msn: int, message: Message, first: int) -> int:
        """The start of `message` is known: check the whole message, and continue with the next one.

        Returns LOCATED, OVERLAP when messages overlap, or the number of the first message that does not fit its region.
        The start of `message` may also determine that of messages after it; if one of those is wrong, this one is still
        valid.
        """
        messages, starts = self.open, self._starts
        while True:
            behind = first + message.count
            if (
                starts.get(msn, first) != first
                or first < self.lowest_start(msn)
                or message.lowest <= first
                or message.highest >= behind - 1
                or starts.get(msn + 1, behind) != behind
                or behind > self._highest_start(msn + 1)
            ):
                return OVERLAP
            if not message.fits(first, first, self._mtu):
                return msn
            message.first = first
            message.last = behind - 1
            messages[msn] = message
            self._start(msn, first)
            self._start(msn + 1, behind)
            later = messages.get(msn + 1)
            if later is None or later.first >= 0:
                return LOCATED
            msn, message, first = msn + 1, later, behind

    def complete(self) -> None:
        """The first incomplete message is complete."""
        del self.open[self.next_msn]
        del self._starts[self.next_msn], self._known[0]
        self.next_msn += 1

    def drop_from(self, msn: int) -> None:
        """Forget message `msn` and all after it."""
        for later in [number for number in self.open if number >= msn]:
            del self.open[later]
