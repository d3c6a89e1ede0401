"""How many packets in a row a path must lose to be taken for dead, where dead and lossy paths must be told apart.

A path that is down to the floor stays in use while anything comes through on it (docs/protocol.md §3). Nothing came
through since the last few losses: is it dead, or was that chance? Chance explains k losses in a row with the k-th power
of the share of packets that get lost on paths that work. That share is measured: only losses count after which the same
path carried something. A path is dead when chance explains its losses once in a million packets at most: after three
where hardly anything is lost, five where 5 % is, nine at 20 %.
"""

from __future__ import annotations

from math import ceil, log
from typing import Final

_MIN_LOSSES: Final = 3  # losses in a row, whatever the share of losses
_MAX_LOSSES: Final = 16
_CHANCE: Final = log(1e-6)
_WINDOW: Final = 512  # transmissions that the share is taken from, at most
_BEGINNING: Final = 64  # the same, at least
_HALF: Final = 0.5  # no share of losses is believed to be greater


class ConsecutiveLosses:
    """Losses in a row by path. A *serial* numbers the transmissions of the queue pair."""

    __slots__ = ("_chance", "_since", "_streaks")

    def __init__(self) -> None:
        self._streaks: dict[int, tuple[int, int]] = {}  # by path: how many, and what had arrived at the last one
        self._chance = 0.0  # losses of paths that work, among the transmissions from serial `_since` on
        self._since = 0

    def carries(self, index: int, serial: int, arrived: int, newest: int) -> bool:
        """Whether path `index`, which lost transmission `serial`, carries others.

        `arrived` is the latest that is known to have come through on it, `newest` the latest that was sent on any path.
        """
        if arrived > serial:
            self._count(1, newest)
            return True
        losses, before = self._streaks.get(index, (0, -1))
        if arrived == before:
            losses += 1
        else:
            if 0 < losses < self._needed(newest):  # else it was dead for a while
                self._count(losses, newest)
            losses = 1
        self._streaks[index] = (losses, arrived)
        return losses < _MIN_LOSSES or losses < self._needed(newest)

    def _count(self, losses: int, newest: int) -> None:
        sent = newest - self._since
        if sent > _WINDOW:  # keep the share, as if it had been measured over half of the window
            self._chance *= _WINDOW / 2 / sent
            self._since = newest - _WINDOW // 2
        self._chance += losses

    def _needed(self, newest: int) -> int:
        """How many losses in a row show that a path is dead."""
        share = min(self._chance / max(newest - self._since, _BEGINNING), _HALF)
        if not share:
            return _MIN_LOSSES
        return min(max(ceil(_CHANCE / log(share)), _MIN_LOSSES), _MAX_LOSSES)
