"""``power_off``: switches lose power."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.fault_targets import links_of_switches
from topologies.faults.effect import Effect, links_down
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import switch


@kind(old=("switch_dead", "dead"))
@dataclass(frozen=True, slots=True)
class PowerOff(Fault):
    """All links of a switch lose their carrier.

    When it comes back its tables are as before, its queues empty.
    """

    switch: str = switch()

    def effect(self, fabric: Fabric) -> Effect:
        """None of the switches' links has a carrier."""
        return links_down(links_of_switches(fabric, self.switch))
