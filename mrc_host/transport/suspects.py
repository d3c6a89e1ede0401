"""Who is to blame for a timeout: the path of the packet, or the way that its answer took.

A packet that timed out is sent again, and the path it took becomes a suspect. Two things convict it
(docs/protocol.md §10.1):

* a SACK that answers something sent much later, on whatever path, still shows the packet as missing;
* a SACK answers the retransmission, and then one that shows all that is on the way counts no more duplicates than were
  known when the packet timed out: so only the retransmission has arrived.

Where there are more duplicates, answers were lost, and who waits for that verdict goes free. What no SACK has shown
stays undecided: a cumulative PSN that stands still says nothing of what arrived beyond the bitmap.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mrc_host.wire.control import SACK_BITS

_MOST: Final = 256  # acknowledged packets whose retransmissions are waited for


class Suspect(NamedTuple):
    """A path, when the packet was sent on it (ns), and the peer's duplicates known when it timed out."""

    path: int
    sent: int
    duplicates: int


class Suspects:
    """Paths of packets that timed out, until something tells whether these were lost."""

    __slots__ = ("_acknowledged", "_missing", "_resent")

    def __init__(self) -> None:
        self._missing: dict[int, Suspect] = {}  # by PSN
        self._acknowledged: dict[int, Suspect] = {}  # some transmission of them has arrived
        self._resent: list[Suspect] = []  # the retransmission has arrived

    def accuse(self, psn: int, index: int, sent: int, duplicates: int) -> None:
        """Packet `psn`, sent on path `index`, timed out; only the first time counts."""
        if psn not in self._missing:
            self._missing[psn] = Suspect(index, sent, duplicates)

    def acquit(self, psn: int) -> None:
        """An earlier transmission than the latest has arrived."""
        self._missing.pop(psn, None)
        self._acknowledged.pop(psn, None)

    def acknowledged(self, psn: int) -> None:
        """Some transmission of `psn` has arrived."""
        suspect = self._missing.pop(psn, None)
        if suspect is not None:
            if len(self._acknowledged) >= _MOST:
                del self._acknowledged[next(iter(self._acknowledged))]
            self._acknowledged[psn] = suspect

    def answered(self, psn: int) -> None:
        """The latest transmission of `psn` has arrived, perhaps as a duplicate."""
        suspect = self._missing.pop(psn, None) or self._acknowledged.pop(psn, None)
        if suspect is not None:
            self._resent.append(suspect)

    def shown(self, hole: int, base: int, bitmap: int, before: int) -> list[Suspect]:
        """Those convicted by a SACK: `hole` is missing, and the zeros of `bitmap` from `base` on.

        Only what was sent at or before time `before` should have arrived when the SACK was made.
        """
        convicted = []
        for psn, suspect in list(self._missing.items()):
            offset = psn - base
            missing = psn == hole or (0 <= offset < SACK_BITS and not bitmap >> offset & 1)
            if missing and suspect.sent <= before:
                convicted.append(suspect)
                del self._missing[psn]
        return convicted

    def counted(self, duplicates: int) -> list[Suspect]:
        """Those convicted by a SACK that shows all that is on the way, with the peer's count of duplicates."""
        convicted = [suspect for suspect in self._resent if duplicates <= suspect.duplicates]
        self._resent.clear()
        return convicted

    def __bool__(self) -> bool:
        return bool(self._missing)
