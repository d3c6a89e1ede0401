"""``path_loss``: frames of one path are lost at random.

A path is an entropy value, or the plane and the T0 uplink that it stands for; one over a T2 is named by its value.
"""

from __future__ import annotations

from dataclasses import dataclass

from topologies.addressing import entropy_value
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.fault_entries import path_fault, ppb
from topologies.faults.effect import Effect
from topologies.faults.kind import Fault, Spelling, kind
from topologies.faults.parameters import host, share, whole


@dataclass(frozen=True, slots=True)
class _Path:
    plane: int = whole("plane of the path", "1", high=7)
    uplink: int = whole("T0 uplink, that is T1 number, of the path", "2", high=1023)


@kind(word="path", spelling=Spelling(_Path, ("ev",), lambda path: {"ev": entropy_value(path.plane, path.uplink)}))
@dataclass(frozen=True, slots=True)
class PathLoss(Fault):
    """Frames on the path of one entropy value are lost at random, optionally only those between given hosts."""

    ev: int = whole("entropy value of the path", "0x402", high=(1 << 32) - 1)
    probability: float = share("probability for a frame", "100%", "10%", default=1.0)
    source: str = host("only frames of this host, or pattern")
    destination: str = host("only frames to this host, or pattern")

    def effect(self, fabric: Fabric) -> Effect:
        """Table entries at the first switch of the path."""
        tables = path_fault(fabric, self.ev, ppb(self.probability), self.source, self.destination)
        if not tables.paths:
            raise FabricError(self.without_path(fabric))
        return Effect(tables=tables)

    def without_path(self, fabric: Fabric) -> str:
        """Why it can do nothing in a fabric in which no path has its entropy value, and where the values are listed."""
        hint = " Paths over T2s are not named by plane and uplink." if fabric.t2_count else ""
        return (
            f"No path from {self.source} to {self.destination} in fabric {fabric.name} has entropy value {self.ev:#x}."
            f"{hint} 'evs' at the prompt lists the values of a host's paths."
        )
