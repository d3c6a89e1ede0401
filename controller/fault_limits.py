"""Limits of emulation on faults (:mod:`topologies.faults.limits`)."""

from __future__ import annotations

from typing import Final

from topologies.faults.kind import BackendKind
from topologies.faults.limits import FaultLimits

EMULATION: Final = FaultLimits(
    BackendKind.EMULATION,
    shortest_phase_ns=10_000_000,  # a change takes about a millisecond a link
    longest_ns=10 * 365 * 86_400 * 1_000_000_000,
    min_rate_bps=8_000,  # a frame a second and more, as for links (topologies.fabric)
    max_delay_ns=10_000_000_000,
    max_faults=1000,
    max_changes_per_s=1000,  # a change takes about a millisecond
    max_toggles=2000,
    kernel_switches=True,
)
