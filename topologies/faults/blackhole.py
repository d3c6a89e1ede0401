"""``blackhole``: switches that look alive and forward nothing."""

from __future__ import annotations

from dataclasses import dataclass

from topologies import fault_entries
from topologies.fabric import Fabric
from topologies.faults.effect import Effect
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import switch


@kind(old=("switch_silent", "silent"))
@dataclass(frozen=True, slots=True)
class Blackhole(Fault):
    """A switch and its links look alive, but it forwards nothing, control traffic included."""

    switch: str = switch()

    def effect(self, fabric: Fabric) -> Effect:
        """A table entry that drops everything."""
        return Effect(tables=fault_entries.blackhole(fabric, self.switch))
