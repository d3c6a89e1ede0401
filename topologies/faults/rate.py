"""``rate``: links become slower."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.faults.effect import Effect, PortShaping, shaped
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, rate, towards


@kind()
@dataclass(frozen=True, slots=True)
class Rate(Fault):
    """A link becomes slower than its ends assume; a link that is slower already is not changed."""

    link: str = link()
    rate: int = rate("the lower rate", "2M", "10M")
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """A rate at the sending ends."""
        return shaped(fabric, self.link, self.towards, PortShaping(rate_bps=self.rate))
