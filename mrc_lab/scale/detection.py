"""How long a sender goes on using a path that has died, and what it loses by that.

As `mrc_host/transport/loss_detection.py` decides it, where packets go round steadily: the answer to a packet takes a
round trip and waits for the next SACK, and a packet that the path has lost is known as lost once

- one sent a reorder window later in the plane has been answered, if the path has not been used again by then; or else
- one sent a reorder window after the next on the path has been answered, or one sent a round trip after the lost one.

In a plane where no path works any more nothing is answered. It is *silent* once a packet of another plane has been
answered that was sent two round trips (a steady PTO) after the lost one.

Queue pairs take their paths in turn, in an order that changes: a path has a packet in each turn, at any time in it. So
the next packet on a path follows after between none and two turns, as the difference of two uniform times has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mrc_host.config import TransportSettings
from mrc_lab.scale.network import Booleans, Floats, Integers

_SILENCE: Final = 2.0  # round trips: a PTO where they do not vary (mrc_host/transport/round_trip.py)


class Sending(NamedTuple):
    """What senders send: packets a second on a path and in all, `payload` bytes each; their round trips in ns.

    `silent` says whether no path of the plane works any more.
    """

    per_path: Floats
    per_stream: Floats
    payload: Floats
    round_trip: Integers
    silent: Booleans


@dataclass(frozen=True, slots=True)
class Detection:
    """`reorder_percent` of a round trip is the reorder window, a SACK comes each `sack_bytes` or more."""

    reorder_percent: int
    sack_bytes: int

    @classmethod
    def of(cls, settings: TransportSettings) -> Detection:
        """That of NICs with these settings."""
        return cls(settings.reorder_fraction, settings.sack_threshold)

    def time(self, sending: Sending) -> Floats:
        """From the first packet lost until its sender knows, ns, on average."""
        unused = self._unused(sending)
        return unused + self._delayed(sending, unused)

    def packets(self, sending: Sending) -> Floats:
        """Packets that a path loses until its sender knows, on average."""
        per_path, unused = sending.per_path, self._unused(sending)
        second = _followed(per_path * unused / 1e9)
        with np.errstate(divide="ignore", invalid="ignore"):  # if a second packet is lost, it takes so many turns
            turns = per_path * np.where(second > 0, unused + self._delayed(sending, unused) / second, 0.0) / 1e9
        found: Floats = 1 + second + np.maximum(turns - 0.5 - _followed(turns), 0.0)
        return found

    def _window(self, sending: Sending) -> Floats:
        """How much later than a lost packet one was sent that shows its loss, ns, if no packet follows on the path."""
        share: Floats = np.where(sending.silent, _SILENCE, min(self.reorder_percent, 100) / 100)
        found: Floats = share * sending.round_trip
        return found

    def _unused(self, sending: Sending) -> Floats:
        """From the first packet lost until its sender knows, ns, if no packet follows on the path."""
        answers = np.maximum(1.0, np.ceil(self.sack_bytes / sending.payload))
        with np.errstate(divide="ignore"):
            waits = np.minimum(answers * 1e9 / sending.per_stream / 2, sending.round_trip)
        found: Floats = sending.round_trip + self._window(sending) + waits
        return found

    def _delayed(self, sending: Sending, unused: Floats) -> Floats:
        """How much longer (ns) it takes on average because a packet may follow on the path."""
        most = sending.round_trip - self._window(sending)
        followed = _followed(sending.per_path * unused / 1e9)
        found: Floats = np.where(sending.silent, 0.0, _mean_of_least(sending.per_path, most) - most * (1 - followed))
        return found


def first_use(per_path: Floats) -> Floats:
    """How long (ns) it takes on average until a queue pair uses a path, from any time on, at most a second.

    The mean square of the time between two packets, 7/6 of a turn's, divided by twice their mean.
    """
    return 7 / 12 * 1e9 / np.maximum(per_path, 1.0)


def _followed(turns: Floats) -> Floats:
    """The chance that a packet follows on the path within so many turns."""
    turns = np.minimum(turns, 2.0)
    found: Floats = np.where(turns < 1, turns**2 / 2, 1 - (2 - turns) ** 2 / 2)
    return found


def _mean_of_least(per_path: Floats, most: Floats) -> Floats:
    """Mean time (ns) until the next packet on the path, of which no more than `most` counts."""
    turns = np.minimum(per_path * most / 1e9, 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(turns < 1, 1 - turns**2 / 6, (1 - (2 - turns) ** 3 / 6) / turns)
        found: Floats = np.where(turns < 2, most * share, 1e9 / per_path)
    return found
