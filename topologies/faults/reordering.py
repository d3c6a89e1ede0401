"""``reordering``: frames of a link overtake others."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.faults.effect import Effect, PortShaping, shaped
from topologies.faults.kind import BackendKind, Fault, kind
from topologies.faults.parameters import link, share, time, towards


@kind(word="reorder", backends=(BackendKind.SIMULATION,))
@dataclass(frozen=True, slots=True)
class Reordering(Fault):
    """Frames are held back at random, so that later ones overtake them."""

    link: str = link()
    probability: float = share("probability for a frame", "10%")
    hold: int = time("how long at most", "3us")
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """Frames held back at the sending ends."""
        shape = PortShaping(reorder=self.probability, hold=self.hold)
        return shaped(fabric, self.link, self.towards, shape)
