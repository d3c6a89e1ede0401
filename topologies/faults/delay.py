"""``delay``: frames of a link take longer."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.faults.effect import Effect, PortShaping, shaped
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, time, towards


@kind()
@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Frames take longer."""

    link: str = link()
    extra: int = time("how much longer", "5ms", "10ms")
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """A delay at the sending ends."""
        return shaped(fabric, self.link, self.towards, PortShaping(delay=self.extra))
