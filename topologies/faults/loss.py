"""``loss``: frames of a link are lost at random."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.fault_entries import ppb
from topologies.faults.effect import Effect, lossy
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, share, towards


@kind()
@dataclass(frozen=True, slots=True)
class Loss(Fault):
    """Frames are lost at random."""

    link: str = link()
    probability: float = share("probability for a frame", "1%", "10%", "100%")
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """Table entries at the receiving ends."""
        return lossy(fabric, self.link, self.towards, loss=ppb(self.probability))
