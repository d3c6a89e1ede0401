"""What NICs reckon with on their way to a peer: its round trip without queues, and timers that follow from it.

With three tiers paths differ so much that each destination has its own (`topologies/round_trip.py`), as NICs of the
packet simulation have it; here there is one for each tier where paths turn. Two tiers have one for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc_host.config import PathTimers, TransportSettings
from mrc_lab.scale.latency import example_pairs
from mrc_lab.scale.network import Integers
from simulation.transport_timers import FabricTiming
from topologies.fabric import Fabric
from topologies.parts import Tier
from topologies.round_trip import PathRoundTrips


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """By the tier where paths turn: round trips in ns, and timers."""

    times: Integers
    timers: tuple[PathTimers, ...]

    @classmethod
    def alike(cls, settings: TransportSettings) -> RoundTrips:
        """What the settings say, for all."""
        return cls(np.full(len(Tier), settings.base_rtt), (settings.path_timers,) * len(Tier))

    @classmethod
    def of(cls, fabric: Fabric, timing: FabricTiming, delay: int) -> RoundTrips:
        """Those of a fabric whose settings may have some of their own; links that do not say have `delay` ns."""
        settings = fabric.settings.transport
        if not fabric.t2_count or settings.base_rtt != timing.round_trip:
            return cls.alike(settings)
        known = PathRoundTrips(fabric, delay)
        times = [settings.base_rtt if pair is None else known.of(*pair) for pair in example_pairs(fabric)]
        return cls(np.array(times, dtype=np.int64), tuple(map(timing.timers_of(settings), times)))
