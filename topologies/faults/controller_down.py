"""``controller_down``: the controller is away."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.faults.effect import Effect
from topologies.faults.kind import BackendKind, Fault, kind


@kind(old=("controller_gone",), backends=(BackendKind.SIMULATION,))
@dataclass(frozen=True, slots=True)
class ControllerDown(Fault):
    """No client can write tables. Entries stay, so traffic is not affected; nor do switches take other routes."""

    def effect(self, fabric: Fabric) -> Effect:
        """Nothing but that."""
        return Effect(controller_down=True)
