"""The number of consecutive losses that show that a path is dead rather than lossy.

Once a plane is down to its minimum of active paths, a path stays in use as long as anything gets through on it
(docs/protocol.md §3). If its last few packets were all lost, is it dead, or was that chance? The probability that a
working path loses k packets in a row is the k-th power of its loss rate. That rate is measured from losses after which
the same path delivered something. A path is dead when the probability of its losses is at most one in a million: after
three where almost nothing is lost, five at 5 % loss, nine at 20 %.
"""

from __future__ import annotations

from math import ceil, log
from typing import Final

_MIN_LOSSES: Final = 3  # consecutive losses, whatever the loss rate
_MAX_LOSSES: Final = 16
_CHANCE: Final = log(1e-6)
_WINDOW: Final = 512  # transmissions over which the loss rate is measured, at most
_BEGINNING: Final = 64  # the same, at least
_HALF: Final = 0.5  # no loss rate is assumed to be higher


class ConsecutiveLosses:
    """Consecutive losses by path. A *serial* numbers the transmissions of the queue pair."""

    __slots__ = ("_chance", "_since", "_streaks")

    def __init__(self) -> None:
        self._streaks: dict[int, tuple[int, int]] = {}  # by path: how many, and the latest arrival at the last one
        self._chance = 0.0  # losses on working paths since serial `_since`
        self._since = 0

    def carries(self, index: int, serial: int, arrived: int, newest: int) -> bool:
        """Whether path `index`, which lost transmission `serial`, still carries others.

        `arrived` is the latest transmission known to have arrived on it, `newest` the latest sent on any path.
        """
        if arrived > serial:
            self._count(1, newest)
            return True
        losses, before = self._streaks.get(index, (0, -1))
        if arrived == before:
            losses += 1
        else:
            if 0 < losses < self._needed(newest):  # otherwise it was dead for a while
                self._count(losses, newest)
            losses = 1
        self._streaks[index] = (losses, arrived)
        return losses < _MIN_LOSSES or losses < self._needed(newest)

    def may_carry(self, index: int) -> bool:
        """Whether a path could carry others still if half of what arrives on it looked lost."""
        return self._streaks.get(index, (0, -1))[0] < _MAX_LOSSES

    def _count(self, losses: int, newest: int) -> None:
        sent = newest - self._since
        if sent > _WINDOW:  # keep the rate, as if measured over half of the window
            self._chance *= _WINDOW / 2 / sent
            self._since = newest - _WINDOW // 2
        self._chance += losses

    def _needed(self, newest: int) -> int:
        """How many consecutive losses show that a path is dead."""
        share = min(self._chance / max(newest - self._since, _BEGINNING), _HALF)
        if not share:
            return _MIN_LOSSES
        return min(max(ceil(_CHANCE / log(share)), _MIN_LOSSES), _MAX_LOSSES)
