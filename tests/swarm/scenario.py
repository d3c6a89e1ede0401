"""What a seed becomes: a fabric, queue pairs, writes with their times, and everything that is to go wrong.

All of it is plain frozen values, so a plan can be printed, compared and cut down. Whatever makes the world harder (a
broken link, a denied path, a reset, an application that does not poll) stands among the faults, each with the time in
which it holds, so that one shrinker and one command line serve for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mrc_host.verbs_types import ALL_PLANES, QpAttributes, QpType
from p4runtime_shim.traffic_manager import QueueConfig
from simulation.transport_timers import FabricTiming
from topologies.fabric import Fabric
from topologies.faults import Fault

HORIZON: Final = 2_000_000  # ns in which writes are posted and faults begin
FOREVER: Final = 1 << 60  # end of a fault that is never cleared
Masks = tuple[int, int]  # of planes on which each end of a pair sends data and answers: the first end's, the second's
EVERY_PLANE: Final[Masks] = (ALL_PLANES, ALL_PLANES)


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write on queue pair number `pair`, by its first NIC or (`back`) its second, posted at `time` ns."""

    pair: int
    back: bool
    time: int
    length: int
    imm: bool


@dataclass(frozen=True, slots=True)
class ScenarioFault:
    """A fault and when it holds, in ns."""

    fault: Fault
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """Two connected queue pairs, one on each of two NICs, and what they are created with: `attributes`, but for planes.

    If they are `renewed`, each life is given other attributes besides, and first PSNs (``life_attributes``).
    """

    first: str
    second: str
    kind: QpType
    attributes: QpAttributes
    renewed: bool = False
    planes: Masks = EVERY_PLANE

    def created(self, back: bool) -> QpAttributes:
        """All that one end is created with, the second if `back`."""
        return replace(self.attributes, planes=self.planes[back])


@dataclass(frozen=True, slots=True)
class Scenario:
    """One plan; see the module. `fit` are the times that fit the fabric.

    The first ends of the pairs in `contest` sit on one NIC and have work without end there: their shares are compared.
    """

    seed: int
    fabric: Fabric
    delay: int
    queues: QueueConfig
    fit: FabricTiming
    pairs: tuple[PlannedPair, ...]
    writes: tuple[PlannedWrite, ...]
    faults: tuple[ScenarioFault, ...]
    contest: tuple[int, ...] = ()

    def only(self, *, faults: tuple[int, ...] | None = None, writes: tuple[int, ...] | None = None) -> Scenario:
        """The same plan with only those faults and writes, by position."""
        kept_faults = self.faults if faults is None else tuple(self.faults[i] for i in faults)
        kept_writes = self.writes if writes is None else tuple(self.writes[i] for i in writes)
        return replace(self, faults=kept_faults, writes=kept_writes)
