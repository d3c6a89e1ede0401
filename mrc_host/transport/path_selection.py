"""Path selection of one's own: which of a plane's paths carries the next packet (docs/extending.md).

The transport decides on which plane a packet goes and which paths are usable. Among these a :class:`PathSelection`
may choose; one object serves one queue pair. Without one, or where it has no choice, paths take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import mypyc_attr

HOLD: Final = -2
"""Chosen: no path of this plane."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PathSelection:
    """A selection that never chooses: paths take turns. Base class of all others.

    Paths are numbers, the same for the life of the queue pair; times are in ns. All calls come from the NIC, one at a
    time, and must return at once.
    """

    def choose(self, plane: int, paths: Sequence[int]) -> int:
        """The path for a new packet on `plane`, just before it leaves; -1 lets the paths take turns.

        `paths` is the plane's active set, in the order of turns, and must not be changed. A choice that is not usable
        now (it is out of use, or belongs to another plane) counts as -1. Retransmissions do not ask. With HOLD nothing
        leaves on this plane before the next acknowledgement.
        """
        return -1

    def on_ack(self, path: int, rtt: int, marked: bool) -> None:
        """A SACK answered a packet of `path`: after `rtt` ns, and whether that packet was ECN-marked."""

    def on_trim(self, path: int) -> None:
        """A packet of `path` arrived without its payload."""

    def on_loss(self, path: int) -> None:
        """A packet of `path` was declared lost, and not because it was trimmed."""

    def on_false_loss(self, path: int) -> None:
        """A packet of `path` that was declared lost has arrived after all."""

    def on_unusable(self, path: int) -> None:
        """The path is out of use: as bad, or denied by the controller. It may come back without a call."""
