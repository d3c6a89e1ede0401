"""What caused a timeout: the path of the packet, or the reverse path of its answer.

A packet that timed out is sent again, and the path it took becomes a suspect. Two things confirm it
(docs/protocol.md §10.1):

* a SACK that answers something sent much later, on whatever path, still shows the packet as missing;
* a SACK answers the retransmission, and then one that shows all that is on the way counts no more duplicates than were
  known when the packet timed out: so only the retransmission has arrived.

Where there are more duplicates, answers were lost, and suspects that wait for that count are cleared. What no SACK has
shown stays undecided: a cumulative PSN that stands still says nothing of what arrived beyond the bitmap.

Until anything is acknowledged nothing is confirmed or cleared; meanwhile the timeouts of each path are counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mrc_host.wire.control import SACK_BITS

_MAX_WAITING: Final = 256  # acknowledged packets whose retransmissions are waited for


class Suspect(NamedTuple):
    """A path, when the packet was sent on it (ns), and the peer's duplicates known when it timed out."""

    path: int
    sent: int
    duplicates: int


class TimeoutAttribution:
    """Paths of packets that timed out, until something tells whether these were lost."""

    __slots__ = ("_acknowledged", "_missing", "_resent", "_timed_out")

    def __init__(self) -> None:
        self._missing: dict[int, Suspect] = {}  # by PSN
        self._acknowledged: dict[int, Suspect] = {}  # some transmission of them has arrived
        self._resent: list[Suspect] = []  # the retransmission has arrived
        # Paths with timeouts since anything was acknowledged -> how many times, when last, when that packet was sent
        self._timed_out: dict[int, tuple[int, int, int]] = {}

    def suspect(self, psn: int, index: int, sent: int, duplicates: int, now: int) -> None:
        """Packet `psn`, sent on path `index`, timed out; the first of its paths is the one that is suspected.

        Of the path's packets sent before its last timeout was noticed one counts.
        """
        times, noticed, _ = self._timed_out.get(index, (0, 0, 0))
        self._timed_out[index] = (times + 1, now, sent) if sent >= noticed else (times, noticed, sent)
        if psn not in self._missing:
            self._missing[psn] = Suspect(index, sent, duplicates)

    def progress(self) -> None:
        """Something was acknowledged."""
        self._timed_out.clear()

    def last_timed_out(self, index: int) -> int:
        """When the latest packet was sent on path `index` that timed out since anything was acknowledged, or -1."""
        timed_out = self._timed_out.get(index)
        return -1 if timed_out is None else timed_out[2]

    def all_timed_out(self, paths: tuple[int, ...]) -> bool:
        """Whether each of `paths` lost packets to two timeouts since anything was acknowledged."""
        timed_out = self._timed_out
        return all(index in timed_out and timed_out[index][0] > 1 for index in paths)

    def clear(self, psn: int) -> None:
        """An earlier transmission than the latest has arrived."""
        self._missing.pop(psn, None)
        self._acknowledged.pop(psn, None)

    def acknowledged(self, psn: int) -> None:
        """Some transmission of `psn` has arrived."""
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

    def shown(self, hole: int, base: int, bitmap: int, before: int) -> list[Suspect]:
        """Those confirmed by a SACK: `hole` is missing, and the zeros of `bitmap` from `base` on.

        Only what was sent at or before time `before` should have arrived when the SACK was made.
        """
        confirmed = []
        for psn, suspect in list(self._missing.items()):
            offset = psn - base
            missing = psn == hole or (0 <= offset < SACK_BITS and not bitmap >> offset & 1)
            if missing and suspect.sent <= before:
                confirmed.append(suspect)
                del self._missing[psn]
        return confirmed

    def counted(self, duplicates: int) -> list[Suspect]:
        """Those confirmed by a SACK that shows all that is on the way, with the peer's count of duplicates."""
        confirmed = [suspect for suspect in self._resent if duplicates <= suspect.duplicates]
        self._resent.clear()
        return confirmed

    def waiting(self) -> bool:
        """Whether anything is suspected that a SACK could show as missing."""
        return bool(self._missing)
