"""How long a sender goes on using a path that has died, and what it loses by that.

As `mrc_host/transport/loss_detection.py` decides it, where packets go round steadily: the first packet that the path
loses is known as lost once the next one on the path is overdue by the reorder window, too, or one sent a round trip
later in the plane has arrived; and the answer that says so is on its way for a round trip, and waits for the next SACK.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc_host.config import TransportSettings
from mrc_lab.scale.network import Floats


@dataclass(frozen=True, slots=True)
class Detection:
    """`round_trip` in ns, `reorder_percent` of it is the reorder window, a SACK comes each `sack_bytes` or more."""

    round_trip: int
    reorder_percent: int
    sack_bytes: int

    @classmethod
    def of(cls, settings: TransportSettings) -> Detection:
        """That of NICs with these settings."""
        return cls(settings.base_rtt, settings.reorder_fraction, settings.sack_threshold)

    def time(self, per_path: Floats, per_stream: Floats, payload: Floats) -> Floats:
        """From the first packet lost until its sender knows, ns.

        `per_path` and `per_stream` are packets a second of `payload` bytes each.
        """
        trip = float(self.round_trip)
        with np.errstate(divide="ignore"):
            gap, every = 1e9 / per_path, 1e9 / per_stream
        answers = np.maximum(1.0, np.ceil(self.sack_bytes / payload))
        overdue = np.minimum(gap + trip * self.reorder_percent / 100, trip)
        waits = np.minimum(answers * every / 2, trip)
        found: Floats = trip + overdue + waits
        return found

    @staticmethod
    def packets(per_path: Floats, lasts: Floats) -> Floats:
        """Packets that a path loses in a time (ns) from its first loss on, that one included; on average.

        Queue pairs take their paths in turn, in an order that changes: a packet of each turn, at any time in it.
        """
        turns = per_path * lasts / 1e9
        found: Floats = np.where(turns < 1, 1 + turns**2 / 2, turns + 0.5)
        return found
