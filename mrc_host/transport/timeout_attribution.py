"""Attribution of timeouts: to the path of the packet, or to the reverse path of its acknowledgement.

A packet that timed out is retransmitted, and the path it took becomes suspected. Either of two things confirms it
(docs/protocol.md §10.1):

* a SACK that answers something sent much later, on any path, still shows the packet as missing;
* a SACK answers the retransmission, and then a SACK that covers everything in flight counts no more duplicates than
  were known when the packet timed out: so only the retransmission has arrived.

If there are more duplicates, acknowledgements were lost, and the suspected paths that wait for that count are cleared.
Packets that no SACK has covered stay undecided: a cumulative PSN that does not advance says nothing about arrivals
beyond the bitmap.

Until anything is acknowledged, no path is confirmed or cleared; meanwhile each path's timeouts are counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mrc_host.wire.control import SACK_BITS

_MAX_WAITING: Final = 256  # acknowledged packets that wait for the answer to their retransmission


class SuspectedPath(NamedTuple):
    """A suspected path, when the packet was sent on it (ns), and the peer's duplicates known when it timed out."""

    path: int
    sent: int
    duplicates: int


class TimeoutAttribution:
    """Suspected paths, until later acknowledgements confirm or clear them."""

    __slots__ = ("_acknowledged", "_missing", "_resent", "_timed_out")

    def __init__(self) -> None:
        self._missing: dict[int, SuspectedPath] = {}  # by PSN
        self._acknowledged: dict[int, SuspectedPath] = {}  # a transmission of them has arrived, not known which
        self._resent: list[SuspectedPath] = []  # their retransmission has arrived
        # Paths with timeouts since anything was acknowledged -> count, time of the latest
        self._timed_out: dict[int, tuple[int, int]] = {}

    def suspect(self, psn: int, index: int, sent: int, duplicates: int, now: int) -> None:
        """Packet `psn`, sent on path `index`, timed out; the path of its first timeout is the suspected one.

        Packets sent on a path before its previous timeout was noticed count as one timeout with it.
        """
        times, noticed = self._timed_out.get(index, (0, 0))
        if sent >= noticed:
            self._timed_out[index] = (times + 1, now)
        if psn not in self._missing:
            self._missing[psn] = SuspectedPath(index, sent, duplicates)

    def progress(self) -> None:
        """Something was acknowledged."""
        self._timed_out.clear()

    def all_timed_out(self, paths: tuple[int, ...]) -> bool:
        """Whether each of `paths` had two timeouts since anything was acknowledged."""
        timed_out = self._timed_out
        return all(index in timed_out and timed_out[index][0] > 1 for index in paths)

    def clear(self, psn: int) -> None:
        """An earlier transmission than the latest one has arrived: clear its path."""
        self._missing.pop(psn, None)
        self._acknowledged.pop(psn, None)

    def acknowledged(self, psn: int) -> None:
        """A transmission of `psn` has arrived; it is not known which."""
        suspect = self._missing.pop(psn, None)
        if suspect is not None:
            if len(self._acknowledged) >= _MAX_WAITING:
                del self._acknowledged[next(iter(self._acknowledged))]
            self._acknowledged[psn] = suspect

    def answered(self, psn: int) -> None:
        """The latest transmission of `psn` has arrived, perhaps as a duplicate."""
        suspect = self._missing.pop(psn, None) or self._acknowledged.pop(psn, None)
        if suspect is not None:
            self._resent.append(suspect)

    def shown(self, hole: int, base: int, bitmap: int, before: int) -> list[SuspectedPath]:
        """Paths confirmed by a SACK that shows as missing the PSN `hole` and the zeros of `bitmap`, from `base` on.

        Only packets sent at or before time `before` should have arrived when the SACK was made.
        """
        confirmed = []
        known = self._missing
        for psn in list(known) if len(known) <= SACK_BITS else (hole, *range(base, base + SACK_BITS)):
            suspect = known.get(psn)
            if suspect is None or suspect.sent > before:
                continue
            offset = psn - base
            if psn == hole or (0 <= offset < SACK_BITS and not bitmap >> offset & 1):
                confirmed.append(suspect)
                del known[psn]
        return confirmed

    def counted(self, duplicates: int) -> list[SuspectedPath]:
        """Paths confirmed by a SACK that covers everything in flight, with the peer's count of duplicates."""
        confirmed = [suspect for suspect in self._resent if duplicates <= suspect.duplicates]
        self._resent.clear()
        return confirmed

    def waiting(self) -> bool:
        """Whether any path is suspected that a SACK could confirm by showing a packet as missing."""
        return bool(self._missing)
