"""Losses that may be trims whose NACK was lost (docs/protocol.md §3, R3.8).

A packet whose NACK is lost looks like one that was dropped, but nothing is wrong with its path. NACKs are lost where a
reverse path has died that the peer still uses. So while a plane trims, a hole is no evidence against a path that still
carries other packets. The peer takes up to four reverse paths (``reverse_paths``), and as long as one works, at most
three of four NACKs are lost. So each trim reported explains three holes of its plane, sent within two round trips, or
earlier on its own path: the queue that trims is full, and what waits there is late rather than lost.
Packets without a sign of life on their path in between can be so many as would make a path of which half are lost dead
(``consecutive_losses``).
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.round_trip import RoundTrip

_HOLES: Final = 3  # for each trim
_MOST: Final = 192  # holes that are explained by earlier trims
_WITHIN: Final = 2  # round trips between the packets


class LostNacks:
    """Trims reported, by plane. Times are ns."""

    __slots__ = ("_holes", "_latest", "_round_trips", "_serials")

    def __init__(self, round_trips: list[RoundTrip]) -> None:
        self._round_trips = round_trips
        self._holes = [0] * len(round_trips)  # how many more the trims explain
        self._latest = [0] * len(round_trips)  # when the latest packet known to be trimmed was sent
        self._serials: dict[int, int] = {}  # by path: the latest transmission known to be trimmed

    def trimmed(self, plane: int, index: int, serial: int, sent: int) -> None:
        """Transmission `serial`, sent on path `index` at time `sent`, was reported as trimmed."""
        self._serials[index] = max(self._serials.get(index, 0), serial)
        latest = self._latest[plane]
        if not self._near(plane, sent):
            self._holes[plane] = 0
        self._holes[plane] = min(self._holes[plane] + _HOLES, _MOST)
        self._latest[plane] = max(latest, sent)

    def carried(self, index: int) -> int:
        """The latest transmission of path `index` that is known to have arrived without its payload; 0 for none."""
        return self._serials.get(index, 0)

    def explain(self, plane: int, index: int, serial: int, sent: int) -> bool:
        """Whether transmission `serial`, sent on path `index` at time `sent` and found lost, may be no loss; counted.

        It may have been trimmed; or, where a later one of its path was, still wait in the full queue that trims.
        """
        if not self._holes[plane] or not (self._near(plane, sent) or self.carried(index) > serial):
            return False
        self._holes[plane] -= 1
        return True

    def _near(self, plane: int, sent: int) -> bool:
        return abs(sent - self._latest[plane]) <= _WITHIN * self._round_trips[plane].smoothed
