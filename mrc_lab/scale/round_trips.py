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
class TierRoundTrips:
    """By the tier where paths turn: round trips in ns, timers, and exponents of ACK timeouts."""

    times: Integers
    timers: tuple[PathTimers, ...]
    timeouts: tuple[int, ...]

    @classmethod
    def alike(cls, settings: TransportSettings, timing: FabricTiming) -> TierRoundTrips:
        """What the settings say, for all."""
        tiers = len(Tier)
        return cls(np.full(tiers, settings.base_rtt), (settings.path_timers,) * tiers, (timing.timeout,) * tiers)

    @classmethod
    def of(cls, fabric: Fabric, timing: FabricTiming, delay: int) -> TierRoundTrips:
        """Those of a fabric whose settings may have some of their own; links that do not say have `delay` ns."""
        settings = fabric.settings.transport
        if not fabric.t2_count or settings.base_rtt != timing.round_trip:
            return cls.alike(settings, timing)
        known = PathRoundTrips(fabric, delay)
        times = [settings.base_rtt if pair is None else known.of(*pair) for pair in example_pairs(fabric)]
        timers, timeouts = map(timing.timers_of(settings), times), map(timing.timeout_of, times)
        return cls(np.array(times, dtype=np.int64), tuple(timers), tuple(timeouts))
