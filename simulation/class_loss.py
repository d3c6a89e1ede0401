"""A fault that only simulation can make: links that lose one traffic class and carry the other.

A switch whose data queue is stuck still forwards what has priority, and the other way round. Not among the kinds that
experiment files name (``topologies.faults``).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mrc_host.config import Dscp
from topologies.errors import FabricError
from topologies.faults import Fault


class TrafficClass(enum.Enum):
    """The two classes (docs/protocol.md §1.10)."""

    DATA = "data"
    CONTROL = "control"

    def values(self, dscp: Dscp) -> tuple[int, ...]:
        """The DSCP values of this class."""
        if self is TrafficClass.DATA:
            return dscp.trimmable, dscp.no_trim, dscp.retransmit
        return dscp.trimmed, dscp.trimmed_lasthop, dscp.control


@dataclass(frozen=True, slots=True)
class ClassLoss(Fault):
    """Frames of one traffic class are lost at random, each with `probability`."""

    link: str
    traffic_class: TrafficClass
    probability: float = 1.0
    towards: str | None = None

    def check(self) -> None:
        """A probability."""
        if not 0 < self.probability <= 1:
            raise FabricError(f"a probability is above 0 and at most 1, not {self.probability}")
