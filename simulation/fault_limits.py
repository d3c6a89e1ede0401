"""Limits of simulation on faults (:mod:`topologies.faults.limits`).

All switches of a simulated fabric run the P4 program, those that are the kernel's in emulation too.
"""

from __future__ import annotations

from typing import Final

from topologies.faults.kind import BackendKind
from topologies.faults.limits import FaultLimits

SIMULATION: Final = FaultLimits(
    BackendKind.SIMULATION,
    shortest_phase_ns=1_000,  # each change is an event for every link: below this a run makes no progress any more
)
