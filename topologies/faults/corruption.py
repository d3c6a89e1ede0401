"""``corruption``: frames of a link are corrupted at random."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.fault_entries import ppb
from topologies.faults.effect import Effect, lossy
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, share, towards


@kind(word="corrupt")
@dataclass(frozen=True, slots=True)
class Corruption(Fault):
    """One bit of a frame is flipped without the FCS detecting it."""

    link: str = link()
    probability: float = share("probability for a frame", "0.1%", "1%")
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """Table entries at the receiving ends."""
        return lossy(fabric, self.link, self.towards, corruption=ppb(self.probability))
